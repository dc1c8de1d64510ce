//! Files of debugfs and recordings: any bytes are tables or an error, and what is a table prints in
//! every format.
#![no_main]

use ktax::exits::{Per, files};
use ktax::report::{self, Classic, ExitDiff, ExitTables, FORMATS, TextOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for text in [text.to_string(), format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{text}")] {
        let tables = files::read(&text, Per::Vm).unwrap_or_default();
        for table in &tables {
            report::exits_classic(table, Classic::Short);
        }
        let diffs = tables.iter().map(|table| ExitDiff { base: table, change: table });
        let diffs: Vec<ExitDiff> = diffs.collect();
        let all = ExitTables(&tables);
        let reports = diffs.iter().map(|diff| diff as &dyn report::Report);
        for report in reports.chain([&all as &dyn report::Report]) {
            for format in FORMATS {
                drop(report::render(report, *format, TextOptions { width: 80, colour: false }));
            }
        }
    }
});
