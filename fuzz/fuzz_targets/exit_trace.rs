//! Text of perf script, trace-cmd and ftrace: time is never lost or counted twice.
#![no_main]

use ktax::exits::{TableScope, files};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for table in files::read(&text, TableScope::Both).unwrap_or_default() {
        let Some(account) = &table.account else { continue };
        let open_ns = account.open.iter().map(|open| open.ns).fold(0, u64::saturating_add);
        assert!(table.sum_ns().saturating_add(open_ns) >= account.wall_ns);
    }
});
