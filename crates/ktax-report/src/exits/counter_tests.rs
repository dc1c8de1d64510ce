//! What is printed of KVM's statistics, which have times of halts at most.

use super::tests::{line, text};
use super::{Classic, ExitDiff, ExitTables, exits_classic};
use ktax_model::{ExitCounter, ExitPair, ExitRow, ExitTable};

/// KVM's statistics: all exits, a reason, what is no exit, and halts with their time.
fn counted(counts: &[(&str, u64, Option<ExitCounter>, u64)]) -> ExitTable {
    let row = |(reason, count, counter, sum_ns): &(&str, u64, Option<ExitCounter>, u64)| ExitRow {
        reason: (*reason).to_owned(),
        count: *count,
        counter: *counter,
        sum_ns: Some(*sum_ns),
        ..ExitRow::default()
    };
    ExitTable {
        of: "vm".into(),
        source: "KVM's statistics".into(),
        rows: counts.iter().map(row).collect(),
        elapsed_ns: Some(1_000_000_000),
        ..ExitTable::default()
    }
}

const ALL: Option<ExitCounter> = Some(ExitCounter::AllExits);
const OTHER: Option<ExitCounter> = Some(ExitCounter::Other);

#[test]
fn shares_are_of_the_exits_that_kvm_counted() {
    let emulated = ("insn_emulation", 122_440, OTHER, 0);
    let io = ("io_exits", 30_000, None, 0);
    let table = counted(&[("exits", 40_000, ALL, 0), emulated, io, ("halt_wait", 7, OTHER, 9_000)]);
    let shown = text(&ExitTables(std::slice::from_ref(&table)));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = shown.lines().map(words).collect();
    for line in [
        "40 000 exits/s in 1.000 s: 75.00 % io_exits",
        "io_exits 30 000 75.00 30 000",
        "exits 40 000 40 000",
        "insn_emulation 122 440 122 440",
        "halt_wait 100.00 9 7 7.000 1.286",
    ] {
        assert!(lines.iter().any(|said| said == line), "{line}\n{shown}");
    }
    assert!(lines.join(" ").contains("A row without count % is a counter of KVM"), "{shown}");
    // Without one reason or one time there are no columns for them.
    let shown = text(&ExitTables(&[counted(&[("exits", 40_000, ALL, 0), emulated])]));
    assert!(shown.contains("40 000 exits/s in 1.000 s\n"), "{shown}");
    assert_eq!(line(&shown, "reason"), ["reason", "count", "/s"], "{shown}");
}

/// Neither 0 nor NaN stands for a time that nobody took.
#[test]
fn what_was_not_measured_is_left_out() {
    let emulated = ("insn_emulation", 122_440, OTHER, 0);
    let table = counted(&[("exits", 40_000, ALL, 0), emulated]);
    let long = exits_classic(&table, Classic::Long);
    let words: Vec<&str> = long.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words, ["insn_emulation:", "122440", "-", "-", "-", "-", "-", "-"], "{long}");
    assert!(long.starts_with("sum of time -\n"), "{long}");
    let short = exits_classic(&table, Classic::Short);
    assert!(short.starts_with("sum of time -\n") && short.ends_with("-\n"), "{short}");

    let change = counted(&[("exits", 10_000, ALL, 0), ("io_exits", 9_000, None, 0), emulated]);
    let shown = text(&ExitDiff(&ExitPair { base: table, change, totals: false }));
    assert!(shown.contains("\nexits -75.00 % (40 000 → 10 000 /s)\n"), "{shown}");
    assert!(shown.contains("largest change in count first"), "{shown}");
    assert_eq!(line(&shown, "all"), ["all", "40", "000", "10", "000", "-75.00"], "{shown}");
    assert_eq!(line(&shown, "insn"), ["insn_emulation", "122", "440", "122", "440", "0"]);

    let halts = [("exits", 40_000, ALL, 0), ("halt_wait", 7, OTHER, 9_000)];
    let pair = ExitPair { base: counted(&halts), change: counted(&halts), totals: false };
    let shown = text(&ExitDiff(&pair));
    let halted = ["halt_wait", "9.000", "9.000", "0", "7.000", "7.000", "0"];
    assert_eq!(line(&shown, "halt_wait"), halted, "{shown}");
    assert_eq!(line(&shown, "exits  "), ["exits", "40", "000", "40", "000", "0"], "{shown}");
}
