//! Files of debugfs and recordings: any bytes are tables or an error, and what is a table prints.
#![no_main]

use ktax::exits::{Per, files};
use ktax::report::{self, Classic, TextOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for text in [text.to_string(), format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{text}")] {
        for table in files::read(&text, Per::Vm).unwrap_or_default() {
            report::exits(&table, TextOptions { width: 80, colour: false });
            report::exits_classic(&table, Classic::Short);
            report::exits_diff(&table, &table, TextOptions { width: 80, colour: false });
        }
    }
});
