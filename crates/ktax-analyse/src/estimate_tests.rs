use super::*;
use ktax_model::{CountsEvidence, Sides};

fn effect(metric: &str, base: &[u64], change: &[u64]) -> Effect {
    let samples = Sides { base: base.to_vec(), change: change.to_vec() };
    let per_op = |counts: &[u64]| counts[0] as f64 / 10.0;
    let (base, change) = (per_op(base), per_op(change));
    let verdict = if base == change { Verdict::NoDetectedChange } else { Verdict::Slower };
    Effect {
        metric: metric.to_owned(),
        base,
        change,
        delta: change - base,
        percent: None,
        layout: 0,
        delta_range: (0.0, 0.0),
        spread: 0.0,
        detectable: None,
        samples,
        verdict,
        functions: Vec::new(),
        paths: Vec::new(),
    }
}

fn row(effects: Vec<Effect>) -> Row {
    Row {
        row: "getppid".to_owned(),
        title: String::new(),
        operation: String::new(),
        ops: 10,
        params: BTreeMap::new(),
        headline: true,
        verdict: Verdict::Slower,
        reason: None,
        failures: Vec::new(),
        evidence: Evidence::Counts(CountsEvidence { effects, ..CountsEvidence::default() }),
    }
}

fn calibration(fit: Option<CalibrationFit>) -> Calibration {
    Calibration {
        cpu: "AMD EPYC".to_owned(),
        cycles_per_ns: 2.5,
        operations: [(Costly::Cr3Write, [100.0, 120.0]), (Costly::Locked, [4.0, 5.0])].into(),
        fit,
        ..Calibration::default()
    }
}

fn of(effects: Vec<Effect>, fit: Option<CalibrationFit>) -> Estimate {
    let mut rows = [row(effects)];
    estimate(&mut rows, "here.toml", &calibration(fit));
    rows[0].counts().unwrap().estimate.clone().unwrap()
}

fn fit(cycles: &[(Fitted, f64)]) -> Option<CalibrationFit> {
    let bounds = cycles.iter().map(|(thing, cycles)| (*thing, [*cycles, *cycles])).collect();
    let cycles = cycles.iter().copied().collect();
    Some(CalibrationFit { rows: 40, groups: 5, error: [0.5, 2.0], cycles, bounds })
}

#[test]
fn costly_instructions_alone_have_the_ends_of_their_intervals() {
    let found = of(
        vec![
            effect("instructions", &[1000, 1000], &[1080, 1080]),
            effect("cr3-write", &[0, 0], &[20, 20]),
            // Ten fewer: the most that is saved is 5 each.
            effect("locked", &[30, 30], &[20, 20]),
            effect("verw", &[0, 0], &[10, 10]),
        ],
        None,
    );
    assert_eq!(found.delta, [2.0 * 100.0 - 5.0, 2.0 * 120.0 - 4.0]);
    assert_eq!((found.base, found.percent), (None, None));
    assert_eq!(found.left_out, [("verw".to_owned(), 1.0)].into());
    assert_eq!((found.machine.as_str(), found.cpu.as_str()), ("here.toml", "AMD EPYC"));
}

#[test]
fn an_interval_has_every_layout() {
    let found = of(
        vec![
            effect("instructions", &[1000, 1000], &[1000, 1000]),
            effect("locked", &[0, 10], &[10, 40]),
        ],
        None,
    );
    assert_eq!(found.delta, [4.0, 15.0]);
}

#[test]
fn a_fit_is_wrong_by_a_ratio_of_all_that_a_row_has() {
    let effects = || {
        vec![
            effect("instructions", &[1000], &[1100]),
            effect("cr3-write", &[0], &[20]),
            effect("model-page-walks", &[10], &[0]),
        ]
    };
    let found = of(effects(), fit(&[(Fitted::Instruction, 0.4), (Fitted::PageWalk, 30.0)]));
    assert_eq!(found.base, Some([70.0 * 0.5, 70.0 * 2.0]));
    let least = 4.0 * 0.5 + 200.0 * 0.5 - 30.0 * 2.0;
    let most = 4.0 * 2.0 + 240.0 * 2.0 - 30.0 * 0.5;
    assert_eq!(found.delta, [least, most]);
    assert_eq!(found.percent, Some([least / 140.0 * 100.0, most / 35.0 * 100.0]));
}

#[test]
fn misses_that_could_not_be_counted_may_be_none_or_all() {
    let effects = vec![
        effect("instructions", &[1000], &[1000]),
        effect("model-cache-references", &[10], &[30]),
    ];
    let found = of(effects, fit(&[(Fitted::CacheMiss, 100.0)]));
    assert_eq!(found.delta, [0.0, 2.0 * 200.0]);
    // Of a base of nothing there is no percent.
    assert_eq!((found.base, found.percent), (Some([0.0, 200.0]), None));
}

#[test]
fn what_the_rows_do_not_tell_apart_may_cost_all_or_nothing() {
    let mut fit = fit(&[(Fitted::Instruction, 1.0), (Fitted::PageWalk, 0.0)]);
    fit.as_mut().unwrap().bounds.insert(Fitted::PageWalk, [0.0, 40.0]);
    let effects =
        vec![effect("instructions", &[1000], &[1000]), effect("model-page-walks", &[0], &[10])];
    assert_eq!(of(effects, fit).delta, [0.0, 80.0]);
}

#[test]
fn iterations_have_a_cost_or_are_left_out() {
    let effects =
        || vec![effect("instructions", &[1000], &[1000]), effect("rep-iterations", &[0], &[5120])];
    let found = of(effects(), None);
    assert_eq!(found.left_out, [("rep-iterations".to_owned(), 512.0)].into());
    let known = Calibration { rep_iteration: Some([0.0625, 0.5]), ..calibration(None) };
    let mut rows = [row(effects())];
    estimate(&mut rows, "here.toml", &known);
    let found = rows[0].counts().unwrap().estimate.clone().unwrap();
    assert_eq!((found.delta, found.left_out.len()), ([32.0, 256.0], 0));
}

#[test]
fn with_too_few_layouts_for_a_verdict_what_changed_under_each_is_left_out() {
    let of_layouts = |base: &[u64], change: &[u64]| {
        let verdict = Verdict::NoDetectedChange;
        let effects = vec![
            effect("instructions", &vec![1000; base.len()], &vec![1000; base.len()]),
            Effect { verdict, ..effect("verw", base, change) },
        ];
        of(effects, None).left_out
    };
    assert_eq!(of_layouts(&[0, 0], &[20, 30]), [("verw".to_owned(), 2.0)].into());
    assert!(of_layouts(&[0, 30], &[20, 20]).is_empty());
    // With enough of them the verdict says it.
    assert!(of_layouts(&[0; 5], &[20; 5]).is_empty());
}

#[test]
fn what_a_fit_knows_by_its_branches_is_not_left_out() {
    let effects =
        || vec![effect("instructions", &[1000], &[1000]), effect("return-thunk", &[10], &[30])];
    assert_eq!(of(effects(), None).left_out, [("return-thunk".to_owned(), 2.0)].into());
    assert!(of(effects(), fit(&[(Fitted::BranchMiss, 15.0)])).left_out.is_empty());
}

#[test]
fn what_did_other_work_and_several_cpus_have_none() {
    let mut other = row(vec![effect("instructions", &[1], &[2])]);
    other.verdict = Verdict::DifferentWork;
    let mut several = row(vec![effect("makespan", &[1], &[2])]);
    if let Evidence::Counts(counts) = &mut several.evidence {
        counts.waits = Some(Sides::default());
    }
    let mut rows = [other, several];
    estimate(&mut rows, "here.toml", &calibration(None));
    assert!(rows.iter().all(|row| row.counts().unwrap().estimate.is_none()));
}

/// Clearing is much cheaper by the byte than copying by words: what changed is what iterates.
#[test]
fn an_iteration_costs_what_the_string_instruction_costs_that_changed() {
    let of_strings = |stosb: [u64; 2], movs: [u64; 2]| {
        let known = [(Costly::RepStosb, [0.02, 0.08]), (Costly::RepMovs, [0.5, 1.0])];
        let known = Calibration { iterations: known.into(), ..calibration(None) };
        let mut rows = [row(vec![
            effect("instructions", &[1000], &[1000]),
            effect("rep-iterations", &[100], &[40_100]),
            effect("rep-stosb", &stosb[..1], &stosb[1..]),
            effect("rep-movs", &movs[..1], &movs[1..]),
        ])];
        estimate(&mut rows, "here.toml", &known);
        let found = rows[0].counts().unwrap().estimate.clone().unwrap();
        assert!(found.left_out.is_empty(), "{found:?}");
        found.delta
    };
    assert_eq!(of_strings([0, 10], [50, 50]), [80.0, 320.0]);
    assert_eq!(of_strings([10, 10], [50, 60]), [2000.0, 4000.0]);
    // A layout moves a start in a hundred.
    assert_eq!(of_strings([0, 1000], [50, 60]), [80.0, 320.0]);
    // Longer ones of both kinds, or of either: all that it may be.
    assert_eq!(of_strings([10, 20], [50, 60]), [80.0, 4000.0]);
    assert_eq!(of_strings([10, 10], [0, 0]), [80.0, 320.0]);
}

/// If all instructions take twice as long as predicted, so do those that the change adds.
#[test]
fn of_a_fit_to_instructions_alone_base_and_change_are_wrong_together() {
    let effects = || {
        vec![
            effect("instructions", &[1000, 1000], &[1100, 1100]),
            effect("cr3-write", &[0, 0], &[20, 20]),
        ]
    };
    let plain = fit(&[(Fitted::Instruction, 0.8)]);
    let found = of(effects()[..1].to_vec(), plain.clone());
    assert_eq!(found.base, Some([40.0, 160.0]));
    let [low, high] = found.percent.unwrap();
    assert!((low - 10.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9, "{low} {high}");
    // A load of CR3 was timed: it costs the same in a row that takes longer.
    let [low, high] = of(effects(), plain).percent.unwrap();
    assert!((low - (10.0 + 200.0 / 1.6)).abs() < 1e-9, "{low}");
    assert!((high - (10.0 + 240.0 / 0.4)).abs() < 1e-9, "{high}");
}
