//! Guests of a KVM host: one feature against none, and a guest beside its host.

use ktax::model::{
    Comparison, ComparisonMethod, EXITS, Effect, Evidence, ExitRun, Failure, GUEST_TIME, GuestRow,
    GuestSide, GuestSubject, GuestWork, GuestsComparison, GuestsEvidence, GuestsPlan, HostKind,
    Key, Layout, Row, RowFailure, Side, Sides, Subject, TIME, Verdict,
};
use ktax::report::{TEXT, TextOptions, render};

use super::exits::plain;
use super::fixtures::{kernel, key};

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

fn row(name: &str, verdict: Verdict, evidence: GuestsEvidence) -> Row {
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
    let table = plain("", is_change);
    Some(ExitRun { row: name.to_owned(), table, guest_ns: None, native_ns: None })
}

fn side(without: &[&str]) -> GuestSide {
    let subject = GuestSubject {
        kernel: Some(Subject::new("debian:cloud-amd64", "nopti")),
        without: without.iter().map(|name| (*name).to_owned()).collect(),
        cpus: 1,
        memory_mib: 256,
    };
    GuestSide { subject, kernel: Some(kernel()) }
}

fn comparison(title: &str, change: Option<GuestSide>, rows: Vec<Row>) -> Comparison {
    let guest_row = |row: &Row| GuestRow { row: row.row.clone(), work: GuestWork::Boot };
    let plan = GuestsPlan {
        host: HostKind::Kvm,
        key: Key { machine_type: "kvm".to_owned(), ..key() },
        host_subject: Subject::new("debian:cloud-amd64", ""),
        host_kernel: kernel(),
        base: side(&["kvmclock", "kvm-steal-time", "kvm-pv-eoi"]),
        change,
        rows: rows.iter().map(guest_row).collect(),
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
pub fn compared() -> Comparison {
    let of = |name: &str, time: [u64; 2], moves, [verdict, exits]: [Verdict; 2]| {
        let effects =
            vec![effect(TIME, time, moves, verdict), effect(EXITS, [47_244, 30_705], 3, exits)];
        let runs = Sides { base: run(name, false), change: run(name, true) };
        let times_ns = Sides { base: vec![time[0]; 5], change: vec![time[1]; 5] };
        row(name, verdict, GuestsEvidence { effects, runs, times_ns })
    };
    let mut different = of("pipe", [48_354_000, 49_549_000], 900, [Verdict::DifferentWork; 2]);
    different.reason = Some("calls 400 in base, 401 in change".to_owned());
    let mut failed = row("high-systime", Verdict::Failed, GuestsEvidence::default());
    failed.failures = vec![RowFailure {
        boot: "003-change".to_owned(),
        side: Side::Change,
        boots: 1,
        failure: Failure::Panic { message: "no init\u{1b}[2J".to_owned() },
    }];
    let rows = vec![
        of("boot", [1_543_372_000, 1_497_325_000], 120_000, [Verdict::Faster; 2]),
        of("context-switch:kib=0,processes=2", [25_007_000, 24_999_000], 9_000, {
            [Verdict::NoDetectedChange, Verdict::Faster]
        }),
        different,
        failed,
    ];
    comparison("What do KVM's paravirtual features save?", Some(side(&[])), rows)
}

/// One side: a boot, and a program that the host itself ran too.
pub fn alone() -> Comparison {
    let of = |name: &str, effects: Vec<Effect>, verdict| {
        let sum = plain("", false).sum_ns();
        let times_ns =
            Sides { base: (0..5).map(|at| sum - at * 1_000_000).collect(), change: vec![] };
        let runs = Sides { base: run(name, false), change: None };
        row(name, verdict, GuestsEvidence { effects, runs, times_ns })
    };
    let slower = effect(GUEST_TIME, [11_800, 12_731], 12, Verdict::Slower);
    let rows = vec![
        of("boot", vec![], Verdict::OneSide),
        of("pipe", vec![slower], Verdict::Slower),
        row("messaging", Verdict::Failed, GuestsEvidence::default()),
    ];
    comparison("Where does a guest's time go?", None, rows)
}

#[test]
fn what_no_row_has_is_no_column() {
    let show = |comparison: &Comparison| render(comparison, TEXT, TextOptions::default()).unwrap();
    let (with, mut without) = (alone(), alone());
    without.rows.retain(|row| row.effects().is_empty());
    assert!(show(&with).contains("guest     bare"), "{}", show(&with));
    for absent in ["host ns", "guest ns", "bare", "metal %"] {
        assert!(!show(&without).contains(absent), "{absent}: {}", show(&without));
    }
}

#[test]
fn raw_guests_alone_boot_no_kernel_and_ignore_the_machine() {
    let mut comparison = alone();
    let ComparisonMethod::Guests(guests) = &mut comparison.method else { panic!("{comparison:?}") };
    let raw = GuestWork::Raw { kind: "out".to_owned(), count: 9 };
    guests.plan.rows.iter_mut().for_each(|row| row.work = raw.clone());
    let shown = super::text(&comparison, 100);
    assert!(shown.contains("base  a guest without a kernel\n"), "{shown}");
    assert!(!shown.contains("256 MiB") && !shown.contains("kvmclock"), "{shown}");
    // One row that boots is enough.
    let ComparisonMethod::Guests(guests) = &mut comparison.method else { panic!("{comparison:?}") };
    guests.plan.rows[0].work = GuestWork::Boot;
    assert!(super::text(&comparison, 100).contains("1 vCPU, 256 MiB"));
}
