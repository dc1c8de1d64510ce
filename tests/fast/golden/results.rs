//! Results that are no comparison of counts or times: exits of guests, guests of a KVM host,
//! workloads on the running kernel, `ktax stat`, and histories.

use ktax::analyse::{self, PointCounts, anchor_differences, derive_columns, previous_differences};
use ktax::model::{
    AskedGuests, Comparison, ComparisonMethod, EXITS, Effect, Evidence, ExitAccount, ExitParts,
    ExitRow, ExitRun, ExitTable, Failure, GUEST_TIME, GuestRow, GuestSide, GuestSubject, GuestWork,
    GuestsComparison, GuestsEvidence, GuestsPlan, History, HistoryAsked, HistoryLine, HistoryPoint,
    HostKind, Key, Layout, METRICS, Machine, NativeRow, NativeSample, NativeTable, OpenExit,
    RecorderCost, Row, RowFailure, Side, Sides, Signature, StatCommand, StatCount, StatCounts,
    StatTable, StepFunction, Subject, TIME, Verdict, Warning, Workload,
};
use ktax::report::{PageEntry, Report, StatPage, TEXT, TextOptions, render, site_index};

use super::cases::{kernel, key};
use super::{check, rendered};
use crate::common::made;

// Exit tables: of a recording with quantiles, parts and an account, and of the same later.

/// Reason, count, µs in the kernel, in the VMM, halted and preempted.
type Exits = (&'static str, u64, [u64; 4]);

const BASE: [Exits; 5] = [
    ("HLT", 2_115, [2_440, 0, 18_702_113, 13_207]),
    ("EXTERNAL_INTERRUPT", 4_203, [9_120, 0, 0, 801]),
    ("IO_INSTRUCTION", 17_053, [11_830, 15_750, 0, 6]),
    ("EPT_VIOLATION", 23_873, [86_807, 0, 0, 0]),
    ("TIMEINGUEST", 47_244, [1_423_187, 0, 0, 99_102]),
];

const CHANGE: [Exits; 5] = [
    ("HLT", 2_090, [2_300, 0, 18_690_020, 11_007]),
    ("EXTERNAL_INTERRUPT", 4_190, [9_001, 0, 0, 702]),
    ("IO_INSTRUCTION", 552, [930, 1_607, 0, 0]),
    ("EPT_VIOLATION", 23_873, [86_874, 0, 0, 0]),
    ("TIMEINGUEST", 30_705, [1_402_071, 0, 0, 98_015]),
];

fn row(&(reason, count, us): &Exits) -> ExitRow {
    let [kernel_ns, user_ns, halted_ns, preempted_ns] = us.map(|us| us * 1000);
    let sum_ns = us.iter().sum::<u64>() * 1000;
    let mean = sum_ns / count;
    ExitRow {
        reason: reason.to_owned(),
        is_guest: reason == "TIMEINGUEST",
        count,
        least_ns: Some(mean / 3),
        most_ns: Some(mean * 40),
        sum_ns: Some(sum_ns),
        squares_ns2: Some(u128::from(mean) * u128::from(mean) * u128::from(count) * 2),
        p50_ns: Some(mean * 7 / 8),
        p99_ns: Some(mean * 9),
        parts: Some(ExitParts {
            kernel_ns,
            user_ns,
            halted_ns: Some(halted_ns),
            preempted_ns: Some(preempted_ns),
            unknown_ns: 0,
        }),
        counter: None,
    }
}

fn table(title: &str, rows: &[Exits]) -> ExitTable {
    let rows: Vec<ExitRow> = rows.iter().map(row).collect();
    let wall_ns = rows.iter().map(ExitRow::time_ns).sum::<u64>() + 61_000;
    ExitTable {
        name: title.to_owned(),
        source: "kvm_exit and kvm_entry, added up in the kernel".to_owned(),
        rows,
        elapsed_ns: Some(wall_ns),
        account: Some(ExitAccount {
            wall_ns,
            open: vec![OpenExit { reason: "HLT".to_owned(), ns: 57_000 }],
            lost: 0,
            unpaired: 0,
            missed_switches: 0,
            recorder: Some(RecorderCost { exit_ns: 411, switch_ns: 96 }),
        }),
        ..ExitTable::default()
    }
}

pub fn exits_base() -> ExitTable {
    let mut table = table("qemu-system-x86 (PID 4711)", &BASE);
    table.warnings.push(Warning {
        fact: "3 vCPUs were there before the recording\u{1b}[2J".to_owned(),
        next_step: "start the recording before the VM".to_owned(),
    });
    table
}

pub fn exits_change() -> ExitTable {
    table("qemu-system-x86 (PID 4742)", &CHANGE)
}

/// Table of a timing file of 2008: sums and extremes, without an account.
pub fn plain_exits(title: &str, is_change: bool) -> ExitTable {
    let mut table = table(title, if is_change { &CHANGE } else { &BASE });
    (table.source, table.account) = ("e500 timing".to_owned(), None);
    table.elapsed_ns = None;
    for row in &mut table.rows {
        (row.p50_ns, row.p99_ns, row.parts) = (None, None, None);
    }
    table
}

// Guests of a KVM host: one feature against none, and a guest beside its host.

/// A Metric in five layouts, of which the third has the median delta.
fn effect(metric: &str, [base, change]: [u64; 2], moves: u64, verdict: Verdict) -> Effect {
    let by_layout = |value: u64| (0..5).map(|layout| value + moves * layout).collect::<Vec<u64>>();
    let samples = Sides { base: vec![base; 5], change: by_layout(change - 2 * moves) };
    let delta = change as f64 - base as f64;
    let far = 2.0 * moves as f64;
    Effect {
        metric: metric.to_owned(),
        base: base as f64,
        change: change as f64,
        delta,
        percent: Some(delta / base as f64 * 100.0),
        layout: 2,
        delta_range: (delta - far, delta + far),
        spread: 2.0 * far,
        detectable: Some(4.0 * far + base as f64 / 1000.0),
        samples,
        verdict,
        functions: Vec::new(),
        paths: Vec::new(),
    }
}

fn row_of_guests(name: &str, verdict: Verdict, evidence: GuestsEvidence) -> Row {
    Row {
        row: name.to_owned(),
        title: format!("{name}, modelled"),
        operation: "one of them".to_owned(),
        ops: 1,
        params: Default::default(),
        headline: true,
        verdict,
        reason: None,
        failures: Vec::new(),
        evidence: Evidence::Guests(evidence),
    }
}

fn run(name: &str, is_change: bool) -> Option<ExitRun> {
    let table = plain_exits("", is_change);
    Some(ExitRun { row: name.to_owned(), table, guest_ns: None, native_ns: None })
}

fn side(without: &[&str]) -> GuestSide {
    let subject = GuestSubject {
        kernel: Some(Subject::new("debian:cloud-amd64", "nopti")),
        hidden_features: without.iter().map(|name| (*name).to_owned()).collect(),
        cpus: 1,
        memory_mib: 256,
    };
    GuestSide { subject, kernel: Some(kernel()) }
}

fn comparison(title: &str, change: Option<GuestSide>, rows: Vec<Row>) -> Comparison {
    let guest_row = |row: &Row| GuestRow { row: row.row.clone(), work: GuestWork::Boot };
    let plan = GuestsPlan {
        asked: AskedGuests {
            host: HostKind::Kvm,
            host_subject: Subject::new("debian:cloud-amd64", ""),
            base: side(&["kvmclock", "kvm-steal-time", "kvm-pv-eoi"]),
            change,
            rows: rows.iter().map(guest_row).collect(),
        },
        key: Key { machine_type: "kvm".to_owned(), ..key() },
        host_kernel: kernel(),
        layouts: (0..5).map(|seed| Layout { seed, padding: 0, phase: 0 }).collect(),
        steps: Vec::new(),
    };
    Comparison {
        title: title.to_owned(),
        threshold_percent: 0.1,
        method: ComparisonMethod::Guests(GuestsComparison { plan }),
        rows,
        warnings: Vec::new(),
    }
}

/// Both sides: faster, within the layouts, of different work, and failed.
pub fn guests_compared() -> Comparison {
    let guests_row = |name: &str, time: [u64; 2], moves, [verdict, exits]: [Verdict; 2]| {
        let effects =
            vec![effect(TIME, time, moves, verdict), effect(EXITS, [47_244, 30_705], 3, exits)];
        let runs = Sides { base: run(name, false), change: run(name, true) };
        let times_ns = Sides { base: vec![time[0]; 5], change: vec![time[1]; 5] };
        row_of_guests(name, verdict, GuestsEvidence { effects, runs, times_ns })
    };
    let mut different =
        guests_row("pipe", [48_354_000, 49_549_000], 900, [Verdict::DifferentWork; 2]);
    different.reason = Some("calls 400 in base, 401 in change".to_owned());
    let mut failed = row_of_guests("high-systime", Verdict::Failed, GuestsEvidence::default());
    failed.failures = vec![RowFailure {
        boot: "003-change".to_owned(),
        side: Side::Change,
        boots: 1,
        failure: Failure::Panic { message: "no init\u{1b}[2J".to_owned() },
    }];
    let rows = vec![
        guests_row("boot", [1_543_372_000, 1_497_325_000], 120_000, [Verdict::Faster; 2]),
        guests_row("context-switch:kib=0,processes=2", [25_007_000, 24_999_000], 9_000, {
            [Verdict::NoDetectedChange, Verdict::Faster]
        }),
        different,
        failed,
    ];
    comparison("What do KVM's paravirtual features save?", Some(side(&[])), rows)
}

/// One side: a boot, and a program that the host itself ran too.
pub fn guests_alone() -> Comparison {
    let guests_row = |name: &str, effects: Vec<Effect>, verdict| {
        let sum = plain_exits("", false).sum_ns();
        let times_ns =
            Sides { base: (0..5).map(|index| sum - index * 1_000_000).collect(), change: vec![] };
        let runs = Sides { base: run(name, false), change: None };
        row_of_guests(name, verdict, GuestsEvidence { effects, runs, times_ns })
    };
    let slower = effect(GUEST_TIME, [11_800, 12_731], 12, Verdict::Slower);
    let rows = vec![
        guests_row("boot", vec![], Verdict::OneSide),
        guests_row("pipe", vec![slower], Verdict::Slower),
        row_of_guests("messaging", Verdict::Failed, GuestsEvidence::default()),
    ];
    comparison("Where does a guest's time go?", None, rows)
}

#[test]
fn columns_without_a_value_are_left_out() {
    let show = |comparison: &Comparison| render(comparison, TEXT, TextOptions::default()).unwrap();
    let (with, mut without) = (guests_alone(), guests_alone());
    without.rows.retain(|row| row.effects().is_empty());
    assert!(show(&with).contains("guest     bare"), "{}", show(&with));
    for absent in ["host ns", "guest ns", "bare", "metal %"] {
        assert!(!show(&without).contains(absent), "{absent}: {}", show(&without));
    }
}

#[test]
fn raw_guests_alone_boot_no_kernel_and_ignore_the_machine() {
    let mut comparison = guests_alone();
    let ComparisonMethod::Guests(guests) = &mut comparison.method else { panic!("{comparison:?}") };
    let raw = GuestWork::Raw { kind: "out".to_owned(), count: 9 };
    guests.plan.asked.rows.iter_mut().for_each(|row| row.work = raw.clone());
    let shown = super::text(&comparison, 100);
    assert!(shown.contains("base  a guest without a kernel\n"), "{shown}");
    assert!(!shown.contains("256 MiB") && !shown.contains("kvmclock"), "{shown}");
    // One row that boots is enough.
    let ComparisonMethod::Guests(guests) = &mut comparison.method else { panic!("{comparison:?}") };
    guests.plan.asked.rows[0].work = GuestWork::Boot;
    assert!(super::text(&comparison, 100).contains("1 vCPU, 256 MiB"));
}

// A workload on the running kernel: one row, and several that grow with a size, of which one fails.

fn native_row(name: &str, ns: &[u64]) -> NativeRow {
    let pages = name.split("pages=").nth(1).and_then(|pages| pages.parse().ok());
    let workload = Workload {
        title: "fork, modelled".to_owned(),
        operation: "one fork with its exit and wait".to_owned(),
        params: pages.map(|pages: u64| ("pages".to_owned(), pages)).into_iter().collect(),
        program: "fork-pages".to_owned(),
        ..made::workload(name, 100)
    };
    let sample = |ns: &u64| NativeSample {
        signature: Signature::new(),
        values: [("nanoseconds".to_owned(), *ns), ("page-faults".to_owned(), 17)].into(),
    };
    let samples = ns.iter().map(sample).collect();
    NativeRow { workload, samples, failure: None, uncounted: Default::default(), cells: vec![] }
}

fn native_table(rows: Vec<NativeRow>) -> NativeTable {
    let mut table = NativeTable {
        workload: "fork-pages".to_owned(),
        title: "Fork of a process with pages\u{1b}[2J".to_owned(),
        operation: "one fork with its exit and wait".to_owned(),
        original: Some("Process fork+exit".to_owned()),
        release: "6.1.0".to_owned(),
        cpu: String::new(),
        cpus: 2,
        columns: Vec::new(),
        rows,
        growth: Vec::new(),
    };
    derive_columns(&mut table, &["time".to_owned()]);
    table
}

pub fn native_one() -> NativeTable {
    let mut row = native_row("fork-pages:pages=16", &[8_123_456, 8_101_222, 8_202_019, 9_404_001]);
    let refused = "not permitted: run ktax as root".to_owned();
    row.uncounted = [("cycles".to_owned(), refused)].into();
    native_table(vec![row])
}

pub fn native_many() -> NativeTable {
    let sized = |pages: u64| {
        let ns = 6_000_000 + pages * 31_000;
        native_row(&format!("fork-pages:backing=thp,pages={pages}"), &[ns, ns + 9_000, ns + 4_000])
    };
    let mut failed = native_row("fork-pages:backing=hugetlb,pages=1", &[]);
    failed.failure = Some(Failure::Refused { message: "no huge pages are free".to_owned() });
    let sizes = [0, 16, 64, 256, 1024, 4096, 16384];
    native_table(sizes.into_iter().map(sized).chain([failed]).collect())
}

// `ktax stat` of the mail of 2009: its two columns, its ten runs, and what another machine may make
// of them: parts that may not be counted, no TLB counter, a cache counter that is shared.

/// Native kernel and paravirt_ops.
const PUBLISHED: [(&str, [f64; 2]); 9] = [
    ("task-clock", [1_311_554_526.0, 1_360_624_932.0]),
    ("cpu-migrations", [1.0, 1.0]),
    ("context-switches", [91.0, 79.0]),
    ("page-faults", [55945.0, 55943.0]),
    ("cycles", [3_781_392_474.0, 3_918_777_174.0]),
    ("instructions", [1_957_153_827.0, 2_161_280_486.0]),
    ("cache-references", [50_234_816.0, 51_303_520.0]),
    ("cache-misses", [5_428_258.0, 5_583_728.0]),
    ("elapsed", [1_314_782_469.0, 1_363_694_447.0]),
];

/// Sorted, as the mail has them; the run that its table shows is the eighth.
const CYCLES: [f64; 10] = [
    3_906_920_196.0,
    3_907_556_124.0,
    3_907_902_335.0,
    3_914_423_870.0,
    3_915_642_464.0,
    3_916_134_988.0,
    3_916_840_093.0,
    3_918_777_174.0,
    3_918_993_251.0,
    3_919_907_192.0,
];

fn counted(side: usize, cycles: f64) -> StatCounts {
    let seen = |value, counted_percent| StatCount::Measured { value, counted_percent };
    let mut counted: StatCounts =
        PUBLISHED.iter().map(|(name, values)| (*name, seen(values[side], 100.0))).collect();
    counted.insert("cycles", seen(cycles, 100.0));
    counted.insert("cache-misses", seen(PUBLISHED[7].1[side], 74.26));
    for (name, value) in [("minor-faults", 55000.0), ("major-faults", 0.0)] {
        counted.insert(name, seen(value, 100.0));
    }
    let refused = "not permitted: kernel.perf_event_paranoid is 2; run ktax as root";
    for name in ["cycles-user", "cycles-kernel", "instructions-user", "instructions-kernel"] {
        counted.insert(name, StatCount::Missing(refused.to_owned()));
    }
    counted.insert("dtlb-misses", StatCount::Missing("no PMU\u{1b}[2J; use another".to_owned()));
    counted
}

fn stat_table(commands: &[&[&str]], runs: &[Vec<StatCounts>]) -> StatTable {
    let command = |words: &&[&str]| StatCommand {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        failures: Vec::new(),
    };
    StatTable {
        release: "2.6.29".to_owned(),
        cpus: 2,
        commands: commands.iter().map(command).collect(),
        runs: runs[0].len(),
        seed: (commands.len() == 2).then_some(1),
        rows: analyse::counters(runs),
    }
}

/// Ten runs of one command, two of which failed.
fn stat_one() -> StatTable {
    let ten = CYCLES.map(|cycles| counted(1, cycles)).to_vec();
    let mut table = stat_table(&[&["taskset", "2", "./mmap-perf", "1"]], &[ten]);
    table.commands[0].failures = vec!["exit status 1".to_owned(), "signal 9".to_owned()];
    table
}

/// One pair, as the mail has it.
pub fn stat_two() -> StatTable {
    let [base, change] = [0, 1].map(|side| vec![counted(side, PUBLISHED[4].1[side])]);
    stat_table(&[&["./mmap-perf", "a b"], &["./mmap-perf", "\u{1b}[2J"]], &[base, change])
}

/// Six pairs that drift with both, as a machine does that gets slower: the pairs' ratios are closer
/// together.
pub fn stat_pairs() -> StatTable {
    let drifting = |side: usize, cycles: f64| {
        let run =
            |n: u32| counted(side, cycles * (1.0 + f64::from(n * n + n * side as u32 / 3) / 100.0));
        (0..6).map(run).collect::<Vec<_>>()
    };
    let pairs = [drifting(0, PUBLISHED[4].1[0]), drifting(1, PUBLISHED[4].1[1])];
    stat_table(&[&["./before"], &["./after"]], &pairs)
}

#[test]
fn all_values_stand_below_the_table() {
    let shown = |table: &StatTable, width: u16| {
        let shown = rendered(&StatPage { table, values: true }, width, false);
        let is_wide = |line: &&str| line.chars().count() > usize::from(width);
        assert_eq!(shown.lines().find(is_wide), None, "{shown}");
        shown
    };
    let mut text = shown(&stat_one(), 100);
    text.retain(|c| !c.is_whitespace());
    let cycles: String = CYCLES.iter().map(f64::to_string).collect();
    assert!(text.contains(&format!("CPUcycles:{cycles};spread0.33%")), "{text}");
    check("stat-pairs-values.80.txt", &shown(&stat_pairs(), 80));
}

/// The mail's own last column; its cache references are cut, not rounded.
#[test]
fn changes_are_those_that_were_published() {
    let shown = rendered(&stat_two(), 100, false);
    for published in ["+3.74", "+3.63", "+10.43", "+2.13", "+2.86", "+3.72"] {
        assert!(shown.contains(published), "{published}: {shown}");
    }
}

/// Equal commands, whose means differ by one slow run: the answer is that of the pairs, and says
/// that it is none.
#[test]
fn the_answer_has_its_interval_and_no_means_that_contradict_it() {
    let mut table = stat_pairs();
    let row = table.rows.iter_mut().find(|row| row.counter == "elapsed").unwrap();
    let change = row.change.as_mut().unwrap();
    (change.percent, change.interval_percent) = (-0.85, Some([-60.0, 40.0]));
    let headline = table.saved().headline;
    let sentence =
        "time elapsed -0.85 % (interval -60.0…+40.0: no change detected), task clock +3.74";
    assert!(headline.starts_with(sentence), "{headline}");
}

// Rows over kernels: one whose QEMU changed on the way, and several.

/// A line from this place of the lineage on.
fn line(row: &str, measured: &str, first: usize, costs: &[u64]) -> HistoryLine {
    let ops = 400;
    let point = |cost: &u64| {
        let raw: Vec<u64> = (0..5).map(|layout| cost * ops + layout).collect();
        PointCounts { whole: raw.clone(), raw, signature: String::new() }
    };
    let points: Vec<PointCounts> = costs.iter().map(point).collect();
    let against = anchor_differences(&points, ops, 0.1);
    let before = previous_differences(&points, ops, 0.1);
    let compared = against.into_iter().zip(before);
    let points = points.into_iter().zip(compared).enumerate().map(|(index, (point, compared))| {
        let (against, before) = compared;
        let is_step = against.as_ref().is_some_and(|against| against.is_step());
        let carried = |&(function, delta): &(&str, f64)| StepFunction {
            function: function.to_owned(),
            delta,
        };
        let functions = [("vfs_open", 60.0), ("</td>\u{1b}[2J", -2.5)].iter().map(carried);
        let kernel = format!("6.1.{}-cloud-amd64", first + index);
        HistoryPoint {
            position: first + index,
            name: kernel.clone(),
            package: (index != 2).then(|| format!("debian:linux-image-{kernel}=6.1.{index}-1")),
            boot_line: if row == "stat" { "lsm=capability".into() } else { String::new() },
            kernel,
            tags: if index == 1 { vec!["before".into(), "\u{1b}[2J".into()] } else { vec![] },
            values: point.raw,
            anchor_difference: against,
            previous_difference: before,
            functions: functions.filter(|_| is_step).collect(),
        }
    });
    HistoryLine {
        row: row.into(),
        operation: "one call".into(),
        ops,
        lineage: "cloud-amd64".into(),
        measured: measured.into(),
        asked: Some(HistoryAsked { machine: Machine::default(), layouts: 5, seed: 1 }),
        points: points.collect(),
    }
}

fn history(lines: Vec<HistoryLine>) -> History {
    let metric = METRICS[0].name.into();
    History { metric, function: None, threshold_percent: 0.1, lines }
}

pub fn history_one() -> History {
    let old = "QEMU 7.2.22, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    let new = "QEMU 10.0.2, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    history(vec![
        line("fork-exit", old, 0, &[100_000, 100_060, 100_120, 108_000, 108_000]),
        line("fork-exit", new, 4, &[90_000, 90_000, 88_000]),
    ])
}

pub fn history_many() -> History {
    let measured = "QEMU 7.2.22, guest 59c92e380b82, 512 MiB, CPU max, 5 layouts";
    let costs: [(&str, Vec<u64>); 8] = [
        ("fork-pages:bytes=10240,pages=16", (0..50).map(|index| 10_000 + index).collect()),
        ("getppid", vec![300; 5]),
        ("pipe", vec![1_000, 900, 900]),
        ("stat", vec![700, 700, 770]),
        ("one</td>", vec![5]),
        ("open-close", vec![5_000, 5_100]),
        ("read-1", vec![500, 501]),
        ("write-1", vec![500, 620]),
    ];
    history(costs.iter().map(|(row, costs)| line(row, measured, 0, costs)).collect())
}

/// The first page of a site.
pub fn site() -> String {
    let listed = |file: &str, title: &str, answer: &str, detail: &str| PageEntry {
        file: file.into(),
        title: title.into(),
        answer: answer.into(),
        detail: detail.into(),
    };
    site_index(
        &[listed("results/0.html", "What does audit cost?", "1 of 2 rows slower", "2026-01-31")],
        &[listed("history/getppid.html", "getppid", "getppid over 2 kernels: no step", "▁▁")],
    )
}
