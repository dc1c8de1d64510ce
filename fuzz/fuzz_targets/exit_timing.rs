//! Files of debugfs and recordings: any bytes are tables or an error, and what is a table prints in
//! every format.
#![no_main]

use ktax::exits::{TableScope, files};
use ktax::model::{ExitPair, ExitTable};
use ktax::report::{self, ClassicColumns, ExitDiff, ExitTables, FORMATS, TextOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for text in [text.to_string(), format!("type\tcount\tmin\tmax\tsum\tsum_squared\n{text}")] {
        let tables = files::read(&text, TableScope::Vm).unwrap_or_default();
        for table in &tables {
            report::exits_classic(table, ClassicColumns::Short);
        }
        let pair = |(table, totals): (&ExitTable, bool)| ExitPair {
            base: table.clone(),
            change: table.clone(),
            totals,
        };
        let each = tables.iter().flat_map(|table| [(table, false), (table, true)]);
        let pairs: Vec<ExitPair> = each.map(pair).collect();
        let diffs: Vec<ExitDiff> = pairs.iter().map(ExitDiff).collect();
        let all = ExitTables(&tables);
        let reports = diffs.iter().map(|diff| diff as &dyn report::Report);
        for report in reports.chain([&all as &dyn report::Report]) {
            for format in FORMATS {
                let options = TextOptions { width: 80, ..TextOptions::default() };
                drop(report::render(report, *format, options));
            }
        }
    }
});
