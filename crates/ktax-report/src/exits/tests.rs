//! What is printed of an exit table.

use super::{ExitDiff, ExitTables};
use crate::view::Report;
use crate::{TEXT, TextOptions, render};
use ktax_model::{
    ExitAccount, ExitPair, ExitParts, ExitRow, ExitTable, OpenExit, RecorderCost, Warning,
};

pub(super) fn text(report: &dyn Report) -> String {
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
            sum_ns: Some(parts.iter().sum::<u64>() * 1000),
            parts: Some(ExitParts {
                kernel_ns,
                user_ns,
                halted_ns: Some(halted_ns),
                preempted_ns: Some(preempted_ns),
                unknown_ns: 0,
            }),
            ..ExitRow::default()
        }
    };
    let rows = vec![
        row("HLT", false, 90, [10, 20, 300, 40]),
        row("IO", false, 10, [1, 2, 0, 0]),
        row("TIMEINGUEST", true, 100, [500, 0, 0, 60]),
    ];
    let recorder = Some(RecorderCost { exit_ns: 260, switch_ns: 50 });
    let account = ExitAccount {
        wall_ns: 1_000_000,
        open: vec![OpenExit { reason: "TIMEINGUEST".into(), ns: 57_000 }],
        lost: 3,
        unpaired: 0,
        missed_switches: 2,
        recorder,
    };
    let table = ExitTable { rows, account: Some(account), ..ExitTable::default() };
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
        "vCPU wall time 1 000 µs = rows 933 + 57 in open exits (TIMEINGUEST) + 10 missing \
         (1.00 %).",
        "Events lost: 3.",
        "ktax missed 2 task switches or wakeups of this machine.",
        "The recorder took 260 ns for each exit, and 50 ns for each task switch or wakeup of this \
         machine. The times include this, and what the kernel takes to call the recorder.",
        "exits took 3.54 % of the vCPU time: 3.22 % HLT, 0.32 % IO; 53.59 % in the guest, 32.15 % \
         halted, 10.72 % preempted; 100 exits",
    ] {
        assert!(lines.join(" ").contains(said), "{said}\n{text}");
    }
}

/// Files come from anywhere: what is too large stands at the largest number.
#[test]
fn numbers_too_large_to_be_added_are_printed() {
    let most = u64::MAX;
    let part = ExitParts {
        kernel_ns: most,
        user_ns: most,
        halted_ns: Some(most),
        preempted_ns: Some(most),
        unknown_ns: most,
    };
    let row = |reason: &str| ExitRow {
        reason: reason.into(),
        count: most,
        sum_ns: Some(most),
        parts: Some(part.clone()),
        ..ExitRow::default()
    };
    let open = || OpenExit { reason: "HLT".into(), ns: most };
    let recorder = Some(RecorderCost { exit_ns: most, switch_ns: most });
    let account = ExitAccount {
        wall_ns: most,
        open: vec![open(), open()],
        lost: 0,
        unpaired: 0,
        missed_switches: 0,
        recorder,
    };
    let rows = vec![row("HLT"), row("IO")];
    let (elapsed_ns, account) = (Some(1), Some(account));
    let table = ExitTable { rows, elapsed_ns, account, ..ExitTable::default() };
    let shown = text(&ExitTables(std::slice::from_ref(&table)));
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(words.join(" ").contains("in open exits (HLT)"), "{shown}");
    let _ = text(&ExitDiff(&ExitPair { base: table.clone(), change: table, totals: false }));
}

fn recorded(of: &str, exits: u64, elapsed_s: u64) -> ExitTable {
    let row = |reason: &str, is_guest| ExitRow {
        reason: reason.into(),
        is_guest,
        count: exits,
        sum_ns: Some(elapsed_s * 500_000_000),
        ..ExitRow::default()
    };
    let account = ExitAccount {
        wall_ns: elapsed_s * 1_000_000_000,
        open: vec![],
        lost: 0,
        unpaired: 0,
        missed_switches: 0,
        recorder: Some(RecorderCost { exit_ns: 411, switch_ns: 96 }),
    };
    let warning = Warning { fact: "a fact".into(), next_step: "do something".into() };
    ExitTable {
        of: of.into(),
        source: "a test".into(),
        rows: vec![row("HLT", false), row("TIMEINGUEST", true)],
        warnings: vec![warning],
        elapsed_ns: Some(elapsed_s * 1_000_000_000),
        account: Some(account),
        ..ExitTable::default()
    }
}

pub(super) fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().collect()
}

/// One vCPU was busy and one idle: the recorder's cost is that of an exit in each table.
#[test]
fn what_holds_for_all_vcpus_stands_once() {
    let of = [("vm", 90_010), ("vCPU 0 of vm", 90_000), ("vCPU 1 of vm", 10)];
    let tables = of.map(|(of, exits)| recorded(of, exits, 10));
    let shown = text(&ExitTables(&tables));
    for once in ["The recorder took 411 ns", "Events lost: 0.", "a fact", "Times are in"] {
        assert_eq!(shown.matches(once).count(), 1, "{once}\n{shown}");
    }
    // The vCPUs' exits are those of the VM, and are not added to them.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("9 001 exits/s in 10.00 s"), "{shown}");
}

#[test]
fn a_count_has_its_rate_and_its_share() {
    let shown = text(&ExitTables(&[recorded("vm", 1_000, 10)]));
    assert_eq!(
        line(&shown, "HLT"),
        ["HLT", "50.00", "5", "000", "000", "1", "000", "100.00", "100.0", "5", "000"]
    );
}

/// The same guest, recorded for 10 s and for 30 s.
#[test]
fn recordings_of_unequal_length_are_compared_by_the_second() {
    let (base, change) = (recorded("vm", 1_000, 10), recorded("vm", 3_000, 30));
    let pair = |totals| ExitPair { base: base.clone(), change: change.clone(), totals };
    let diff = |totals| text(&ExitDiff(&pair(totals)));
    let shown = diff(false);
    let same = ["500", "000", "500", "000", "0", "100.0", "100.0", "0"];
    assert_eq!(line(&shown, "HLT")[1..], same, "{shown}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["are normalised: they are", "10.00 s, and the change has 30.00 s"] {
        assert!(words.contains(said), "{said}\n{shown}");
    }
    assert!(words.contains("exits 0 % (100 → 100 /s)"), "{shown}");
    assert!(line(&diff(true), "HLT").ends_with(&["1", "000", "3", "000", "+200.00"]));
    // Where one does not say how long it is, nothing can be normalised.
    let unknown =
        ExitPair { change: ExitTable { elapsed_ns: None, ..change.clone() }, ..pair(false) };
    let shown = text(&ExitDiff(&unknown));
    assert!(line(&shown, "HLT").ends_with(&["+200.00"]), "{shown}");
    assert!(shown.contains("does not say how long"), "{shown}");
}

/// A headline adds up with its table: what was halted or preempted is named, or is said to be in.
#[test]
fn the_times_of_a_diffs_headline_add_up_with_its_table() {
    let with = |has_parts: bool| {
        let mut table = recorded("vm", 1_000, 10);
        for row in table.rows.iter_mut().filter(|_| has_parts) {
            let [halted_ns, preempted_ns] = [row.time_ns() / 2, row.time_ns() / 10];
            row.parts = Some(ExitParts {
                kernel_ns: row.time_ns() - halted_ns - preempted_ns,
                halted_ns: Some(halted_ns),
                preempted_ns: Some(preempted_ns),
                ..ExitParts::default()
            });
        }
        table
    };
    let shown = |base, change| {
        let shown = text(&ExitDiff(&ExitPair { base, change, totals: false }));
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = shown(with(true), with(true));
    for part in [
        "time in exits 0 % (200 000 → 200 000 µs/s)",
        "in the guest 0 % (200 000 → 200 000 µs/s)",
        "halted 0 % (500 000 → 500 000 µs/s)",
        "preempted 0 % (100 000 → 100 000 µs/s)",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    for base in [true, false] {
        let said = shown(with(base), with(false));
        let part = "time in exits, halts included, 0 % (500 000 → 500 000 µs/s), in the guest 0 %";
        assert!(said.contains(part), "{part}\n{said}");
        assert!(!said.contains("halted"), "{said}");
    }
}

#[test]
fn a_legend_says_whose_time_kvm_run_has() {
    let mut table = recorded("vm", 1_000, 10);
    let parts = ExitParts { kernel_ns: 9, ..ExitParts::default() };
    table.rows.iter_mut().for_each(|row| row.parts = Some(parts.clone()));
    let legend = |table: &ExitTable| {
        let shown = text(&ExitTables(std::slice::from_ref(table)));
        shown.lines().rfind(|line| line.starts_with("guest  ")).unwrap().to_owned()
    };
    assert!(legend(&table).ends_with(" in the guest"));
    table.rows[1].reason = "KVM_RUN".into();
    assert!(legend(&table).ends_with(" the guest, and the kernel for it"), "{}", legend(&table));
}
