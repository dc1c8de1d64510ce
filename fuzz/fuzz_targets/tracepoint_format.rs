//! The kernel's descriptions of its tracepoints: offsets, sizes and names of numbers.
#![no_main]

use ktax::exits::Reason;
use ktax::exits::live::{EventFormat, ReasonNames};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let print = match EventFormat::parse(&text) {
        Some(format) => {
            let field = format.field("exit_reason");
            assert!(field.is_none_or(|field| matches!(field.size, 1 | 2 | 4 | 8)));
            format.print
        }
        None => text.to_string(),
    };
    let names = ReasonNames::new(&print, "exit_reason", Some("isa"));
    for code in [0, 12, 0x78, 0x8000_0021, u64::MAX] {
        names.name(Reason { code, detail: 1 });
    }
});
