//! The text of exit tables: their numbers, KVM's statistics, pages of every width.

use crate::exits::ExitTables;
use crate::exits::tables::ExitDiff;
use crate::exits::tables::{ClassicColumns, exits_classic};
use crate::formats::{TEXT, TextOptions, render};
use crate::view::Report;
use ktax_model::{
    ExitAccount, ExitCounter, ExitPair, ExitParts, ExitRow, ExitTable, OpenExit, RecorderCost,
    Warning,
};

fn text(report: &dyn Report) -> String {
    render(report, TEXT, TextOptions::default()).unwrap()
}

#[test]
fn times_lost_events_and_the_cost_of_the_recorder_are_printed() {
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
        assert!(lines.iter().any(|shown| shown == line), "{line}\n{text}");
    }
    for sentence in [
        "vCPU wall time 1 000 µs = rows 933 + 57 in open exits (TIMEINGUEST) + 10 missing \
         (1.00 %).",
        "Events lost: 3.",
        "ktax missed 2 task switches or wakeups of this machine.",
        "The recorder took 260 ns for each exit, and 50 ns for each task switch or wakeup of this \
         machine. The times include this cost, and the kernel's cost of calling the recorder.",
        "exits took 3.54 % of the vCPU time: 3.22 % HLT, 0.32 % IO; 53.59 % in the guest, 32.15 % \
         halted, 10.72 % preempted; 100 exits",
    ] {
        assert!(lines.join(" ").contains(sentence), "{sentence}\n{text}");
    }
}

/// Files may have any numbers: sums saturate.
#[test]
fn sums_of_too_large_numbers_saturate() {
    let max = u64::MAX;
    let part = ExitParts {
        kernel_ns: max,
        user_ns: max,
        halted_ns: Some(max),
        preempted_ns: Some(max),
        unknown_ns: max,
    };
    let row = |reason: &str| ExitRow {
        reason: reason.into(),
        count: max,
        sum_ns: Some(max),
        parts: Some(part.clone()),
        ..ExitRow::default()
    };
    let open = || OpenExit { reason: "HLT".into(), ns: max };
    let recorder = Some(RecorderCost { exit_ns: max, switch_ns: max });
    let account = ExitAccount {
        wall_ns: max,
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

fn recorded(name: &str, exits: u64, elapsed_s: u64) -> ExitTable {
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
        name: name.into(),
        source: "a test".into(),
        rows: vec![row("HLT", false), row("TIMEINGUEST", true)],
        warnings: vec![warning],
        elapsed_ns: Some(elapsed_s * 1_000_000_000),
        account: Some(account),
        ..ExitTable::default()
    }
}

fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().collect()
}

/// Three tables of one recording: of a VM, a busy vCPU and an idle vCPU.
#[test]
fn remarks_on_a_recording_are_printed_once() {
    let names = [("vm", 90_010), ("vCPU 0 of vm", 90_000), ("vCPU 1 of vm", 10)];
    let tables = names.map(|(name, exits)| recorded(name, exits, 10));
    let shown = text(&ExitTables(&tables));
    for once in ["The recorder took 411 ns", "Events lost: 0.", "a fact", "Times are in"] {
        assert_eq!(shown.matches(once).count(), 1, "{once}\n{shown}");
    }
    // The VM's exits include those of its vCPUs.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("9 001 exits/s in 10.00 s"), "{shown}");
}

#[test]
fn counts_have_rates_and_shares() {
    let shown = text(&ExitTables(&[recorded("vm", 1_000, 10)]));
    assert_eq!(
        line(&shown, "HLT"),
        ["HLT", "50.00", "5", "000", "000", "1", "000", "100.00", "100.0", "5", "000"]
    );
}

/// Records one guest for 10 s and for 30 s.
#[test]
fn recordings_of_unequal_length_are_compared_per_second() {
    let (base, change) = (recorded("vm", 1_000, 10), recorded("vm", 3_000, 30));
    let pair = |totals| ExitPair { base: base.clone(), change: change.clone(), totals };
    let diff = |totals| text(&ExitDiff(&pair(totals)));
    let shown = diff(false);
    let same = ["500", "000", "500", "000", "0", "100.0", "100.0", "0"];
    assert_eq!(line(&shown, "HLT")[1..], same, "{shown}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["are normalised: they are", "10.00 s, and the change has 30.00 s"] {
        assert!(words.contains(part), "{part}\n{shown}");
    }
    assert!(words.contains("exits 0 % (100 → 100 /s)"), "{shown}");
    assert!(line(&diff(true), "HLT").ends_with(&["1", "000", "3", "000", "+200.00"]));
    // Without the length of a recording, counts and times cannot be normalised.
    let unknown =
        ExitPair { change: ExitTable { elapsed_ns: None, ..change.clone() }, ..pair(false) };
    let shown = text(&ExitDiff(&unknown));
    assert!(line(&shown, "HLT").ends_with(&["+200.00"]), "{shown}");
    assert!(shown.contains("does not say how long"), "{shown}");
}

/// A headline names halted and preempted time, or says that the time in exits includes halts.
#[test]
fn times_in_the_headline_of_a_diff_add_up_to_its_table() {
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
    let headline = shown(with(true), with(true));
    for part in [
        "time in exits 0 % (200 000 → 200 000 µs/s)",
        "in the guest 0 % (200 000 → 200 000 µs/s)",
        "halted 0 % (500 000 → 500 000 µs/s)",
        "preempted 0 % (100 000 → 100 000 µs/s)",
    ] {
        assert!(headline.contains(part), "{part}\n{headline}");
    }
    for base in [true, false] {
        let headline = shown(with(base), with(false));
        let part = "time in exits, halts included, 0 % (500 000 → 500 000 µs/s), in the guest 0 %";
        assert!(headline.contains(part), "{part}\n{headline}");
        assert!(!headline.contains("halted"), "{headline}");
    }
}

#[test]
fn the_legend_explains_the_guests_time_in_kvm_run() {
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

/// Table of KVM's statistics with these rows: name, count, kind of counter, time.
fn counted(counts: &[(&str, u64, Option<ExitCounter>, u64)]) -> ExitTable {
    let row = |(reason, count, counter, sum_ns): &(&str, u64, Option<ExitCounter>, u64)| ExitRow {
        reason: (*reason).to_owned(),
        count: *count,
        counter: *counter,
        sum_ns: Some(*sum_ns),
        ..ExitRow::default()
    };
    ExitTable {
        name: "vm".into(),
        source: "KVM's statistics".into(),
        rows: counts.iter().map(row).collect(),
        elapsed_ns: Some(1_000_000_000),
        ..ExitTable::default()
    }
}

const ALL: Option<ExitCounter> = Some(ExitCounter::AllExits);
const OTHER: Option<ExitCounter> = Some(ExitCounter::Other);

#[test]
fn shares_are_in_percent_of_all_exits_that_kvm_counted() {
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
        assert!(lines.iter().any(|printed| printed == line), "{line}\n{shown}");
    }
    assert!(lines.join(" ").contains("A row without count % is a counter of KVM, not"), "{shown}");
    // Without reasons and times, the table has no columns for them.
    let shown = text(&ExitTables(&[counted(&[("exits", 40_000, ALL, 0), emulated])]));
    assert!(shown.contains("40 000 exits/s in 1.000 s\n"), "{shown}");
    assert_eq!(line(&shown, "reason"), ["reason", "count", "/s"], "{shown}");
}

/// A time that was not measured is neither 0 nor NaN.
#[test]
fn unmeasured_times_are_left_out() {
    let emulated = ("insn_emulation", 122_440, OTHER, 0);
    let table = counted(&[("exits", 40_000, ALL, 0), emulated]);
    let long = exits_classic(&table, ClassicColumns::Long);
    let words: Vec<&str> = long.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words, ["insn_emulation:", "122440", "-", "-", "-", "-", "-", "-"], "{long}");
    assert!(long.starts_with("sum of time -\n"), "{long}");
    let short = exits_classic(&table, ClassicColumns::Short);
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

/// The longest reasons of VMX, SVM, KVM_RUN and riscv.
const LONG_REASONS: [&str; 5] = [
    "EXTERNAL_INTERRUPT",
    "TPR_BELOW_THRESHOLD",
    "avic_unaccelerated_access",
    "KVM_EXIT_INTERNAL_ERROR",
    "environment call from VS-mode",
];

/// Table of a minute of four vCPUs.
fn table(reasons: &[&str], has_quantiles: bool) -> ExitTable {
    let row = |reason: &str, number: u64| {
        let quantile = |ns| has_quantiles.then_some(ns);
        let part = |share: u64| 1_234_567_000 * share * number;
        ExitRow {
            reason: reason.to_owned(),
            is_guest: reason == "TIMEINGUEST",
            count: 1_000_585 * number,
            least_ns: Some(1_240),
            most_ns: Some(264_827_000),
            sum_ns: Some(part(10)),
            squares_ns2: Some(1 << 80),
            p50_ns: quantile(2_694),
            p99_ns: quantile(2_115_000),
            parts: Some(ExitParts {
                kernel_ns: part(4),
                user_ns: part(3),
                halted_ns: Some(part(2)),
                preempted_ns: Some(part(1)),
                unknown_ns: 0,
            }),
            counter: None,
        }
    };
    let rows =
        reasons.iter().chain(&["TIMEINGUEST"]).zip(1..).map(|(name, number)| row(name, number));
    let (source, rows) = ("a test".to_owned(), rows.collect());
    let elapsed_ns = Some(60_000_000_000);
    ExitTable { source, rows, elapsed_ns, ..ExitTable::default() }
}

fn text_of_width(report: &dyn Report, width: u16) -> String {
    render(report, TEXT, TextOptions { width, ..TextOptions::default() }).unwrap()
}

fn exits(table: &ExitTable, width: u16) -> String {
    text_of_width(&ExitTables(std::slice::from_ref(table)), width)
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn a_reason_is_on_one_line_at_any_width() {
    for width in 60..=100 {
        for reason in LONG_REASONS {
            let table = table(&[reason], true);
            let pair = ExitPair { base: table.clone(), change: table.clone(), totals: false };
            for text in [exits(&table, width), text_of_width(&ExitDiff(&pair), width)] {
                let line = format!("\n{reason}  ");
                let lines = text.matches(&line).count();
                assert_eq!(lines, text.matches("\nTIMEINGUEST  ").count(), "{width}\n{text}");
                assert!(lines > 0, "{width}\n{text}");
                assert!(width < 80 || widest(&text) <= width.into(), "{width}\n{text}");
            }
        }
    }
}

#[test]
fn columns_are_left_out_in_order_and_listed() {
    for has_quantiles in [true, false] {
        let all = ["stddev", "min", "p50", "max", "avg"];
        let is_in_source = |name: &&&str| has_quantiles || **name != "p50";
        let drop_order: Vec<&str> = all.iter().filter(is_in_source).copied().collect();
        let mut seen = Vec::new();
        for width in 60..=100 {
            let text = exits(&table(&LONG_REASONS[2..3], has_quantiles), width);
            // Units stand on the lower of two lines.
            let (header, _) = text.split_once("\nreason").unwrap();
            let header = header.lines().next_back().unwrap();
            let is_shown = |name: &&&str| header.contains(**name);
            let hidden: Vec<&str> =
                drop_order.iter().filter(|name| !is_shown(name)).copied().collect();
            assert_eq!(hidden, drop_order[..hidden.len()], "{width}\n{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            let notes = words.join(" ");
            let note = format!("Omitted to fit {width} columns: ");
            let first = notes.split_once(&note).map(|(_, rest)| rest.split_once(';').unwrap().0);
            assert_eq!(first.is_some(), !hidden.is_empty() || !text.contains(" guest "), "{text}");
            for name in &hidden {
                assert!(first.is_some_and(|note| note.contains(name)), "{width} {name}\n{text}");
            }
            assert_eq!(notes.matches("--json has all.").count(), notes.matches(&note).count());
            seen.push(hidden.len());
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 2, "{seen:?}");
    }
}

#[test]
fn a_table_that_fits_has_all_columns() {
    let text = exits(&table(&["npf"], true), 120);
    assert!(!text.contains("Omitted") && text.contains(" p50 "), "{text}");
}

/// Files may have names of any length: a line is at most twice as wide as the page.
#[test]
fn a_very_long_name_wraps() {
    let endless = "x".repeat(10_000);
    let text = exits(&table(&[&endless], true), 80);
    assert!(widest(&text) <= 160, "{}", widest(&text));
}
