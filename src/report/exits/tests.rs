//! What is printed of an exit table.

use super::{ExitDiff, ExitTables};
use crate::model::{ExitAccount, ExitParts, ExitRow, ExitTable, OpenExit, RecorderCost};
use crate::report::view::Report;
use crate::report::{TEXT, TextOptions, render};

fn text(report: &dyn Report) -> String {
    render(report, TEXT, TextOptions::default()).unwrap()
}

#[test]
fn where_it_went_what_was_lost_and_what_it_cost_is_printed() {
    let row = |reason: &str, is_guest, count, parts: [u64; 4]| {
        let [kernel_ns, user_ns, halted_ns, preempted_ns] = parts.map(|us| us * 1000);
        ExitRow {
            reason: reason.into(),
            is_guest,
            count,
            sum_ns: parts.iter().sum::<u64>() * 1000,
            parts: Some(ExitParts { kernel_ns, user_ns, halted_ns, preempted_ns }),
            ..ExitRow::default()
        }
    };
    let rows = vec![
        row("HLT", false, 90, [10, 20, 300, 40]),
        row("IO", false, 10, [1, 2, 0, 0]),
        row("TIMEINGUEST", true, 100, [500, 0, 0, 60]),
    ];
    let recorder = Some(RecorderCost { exits_ns: 26_000, switches_ns: 5_000 });
    let account = ExitAccount {
        wall_ns: 1_000_000,
        open: vec![OpenExit { reason: "TIMEINGUEST".into(), ns: 57_000 }],
        lost: 3,
        unpaired: 0,
        missed_switches: 2,
        recorder,
    };
    let (of, source) = (String::new(), "a test".to_owned());
    let account = Some(account);
    let table = ExitTable { of, source, rows, warnings: vec![], account };
    let text = text(&ExitTables(&[table]));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    for line in [
        "guest kernel VMM halted preempted",
        "reason µs µs µs µs µs",
        "HLT 10 20 300 40",
        "IO 1 2",
        "TIMEINGUEST 500 60",
        "all 500 11 22 300 100",
    ] {
        assert!(lines.iter().any(|said| said == line), "{line}\n{text}");
    }
    for said in [
        "vCPU wall time 1 000 = rows 933 + 57 in open exits (TIMEINGUEST) + 10 missing (1.00 %).",
        "Events lost: 3.",
        "ktax missed 2 task switches or wakeups of this machine.",
        "The recorder took 260 ns for each exit, and 5 µs at task switches.",
    ] {
        assert!(lines.join(" ").contains(said), "{said}\n{text}");
    }
}

/// Files come from anywhere: what is too large stands at the largest number.
#[test]
fn numbers_too_large_to_be_added_are_printed() {
    let most = u64::MAX;
    let part = ExitParts { kernel_ns: most, user_ns: most, halted_ns: most, preempted_ns: most };
    let row = |reason: &str| ExitRow {
        reason: reason.into(),
        count: most,
        sum_ns: most,
        parts: Some(part.clone()),
        ..ExitRow::default()
    };
    let open = || OpenExit { reason: "HLT".into(), ns: most };
    let recorder = Some(RecorderCost { exits_ns: most, switches_ns: most });
    let account = ExitAccount {
        wall_ns: most,
        open: vec![open(), open()],
        lost: 0,
        unpaired: 0,
        missed_switches: 0,
        recorder,
    };
    let (of, source) = (String::new(), "a test".to_owned());
    let rows = vec![row("HLT"), row("IO")];
    let table = ExitTable { of, source, rows, warnings: vec![], account: Some(account) };
    let shown = text(&ExitTables(std::slice::from_ref(&table)));
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains("in open exits (HLT)"), "{shown}");
    let _ = text(&ExitDiff { base: &table, change: &table });
}
