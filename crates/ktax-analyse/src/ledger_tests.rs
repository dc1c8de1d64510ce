use super::*;
use crate::effect::{Values, effect};
use ktax_model::{Calibration, CalibrationFit, CountsEvidence, Evidence, Fitted};

const BASE: [u64; 5] = [10_000, 10_002, 10_001, 10_000, 10_003];

/// A row of which one operation costs so much more, under each Layout.
fn row(instructions: [i64; 5], rep: [i64; 5]) -> Row {
    let effect = |metric: &str, base: [u64; 5], by: [i64; 5]| {
        let change = base.iter().zip(by).map(|(base, by)| base.strict_add_signed(by)).collect();
        let samples = Sides { base: base.into(), change };
        let layouts = (0..5).collect();
        effect(Values { metric, samples, layouts, ops: 1 }, |_| 10.0).unwrap()
    };
    let effects =
        vec![effect(METRICS[0].name, BASE, instructions), effect(METRICS[1].name, [500; 5], rep)];
    let verdict = effects[0].verdict;
    Row {
        row: "stat".into(),
        title: String::new(),
        operation: String::new(),
        ops: 1,
        params: Default::default(),
        headline: true,
        verdict,
        reason: None,
        failures: Vec::new(),
        evidence: Evidence::Counts(CountsEvidence { effects, ..CountsEvidence::default() }),
    }
}

fn beyond(parts: &[Row], together: &Row) -> Vec<(f64, Verdict)> {
    let parts: Vec<&Row> = parts.iter().collect();
    let found = interactions(&parts, together, 0.1).unwrap();
    assert!(found.iter().zip(&METRICS).all(|(one, metric)| one.metric == metric.name));
    found.iter().map(|one| (one.beyond.delta, one.beyond.verdict)).collect()
}

/// What eleven options cost one call of stat: +1255 by themselves, +1280 together.
#[test]
fn parts_that_do_not_add_up_are_found_however_many_they_are() {
    let parts = [731, 223, 184, 49, 46, 22, 0, 0, 0, 0, 0].map(|cost| row([cost; 5], [0; 5]));
    let found = beyond(&parts, &row([1280; 5], [0; 5]));
    assert_eq!(found, [(25.0, Verdict::Slower), (0.0, Verdict::NoDetectedChange)]);
    let found = beyond(&parts, &row([1255; 5], [0; 5]));
    assert_eq!(found[0], (0.0, Verdict::NoDetectedChange));
    // Less than 0.1 % of 10 000.
    assert_eq!(beyond(&parts, &row([1264; 5], [0; 5]))[0].1, Verdict::BelowThreshold);
    assert_eq!(beyond(&parts, &row([1200; 5], [0; 5]))[0], (-55.0, Verdict::Faster));
}

#[test]
fn rep_iterations_add_up_by_themselves() {
    let parts = [row([0; 5], [400; 5]), row([0; 5], [100; 5])];
    let found = beyond(&parts, &row([0; 5], [800; 5]));
    assert_eq!(found[1], (300.0, Verdict::Slower));
    // 8 of 10 500 is less than 0.1 %, though 1.6 % of the iterations.
    assert_eq!(beyond(&parts, &row([0; 5], [508; 5]))[1].1, Verdict::BelowThreshold);
}

/// Layouts move a part by 200: 150 beyond the sum are within what they do.
#[test]
fn noise_of_a_part_is_noise_of_the_sum() {
    let noisy = row([500, 600, 700, 550, 650], [0; 5]);
    let quiet = row([300; 5], [0; 5]);
    let found = beyond(&[noisy.clone(), quiet.clone()], &row([1050; 5], [0; 5]));
    assert_eq!(found[0].1, Verdict::NoDetectedChange);
    let found = beyond(&[noisy, quiet], &row([1300; 5], [0; 5]));
    assert_eq!(found[0].1, Verdict::Slower);
}

#[test]
fn what_failed_has_no_sum() {
    let failed = Row { verdict: Verdict::Failed, ..row([0; 5], [0; 5]) };
    let good = row([5; 5], [0; 5]);
    assert_eq!(interactions(&[&good, &failed], &good, 0.1), None);
    assert_eq!(interactions(&[&good], &failed, 0.1), None);
}

/// Clearing memory: 23 instructions fewer and 4096 iterations more. Iterations are no instructions:
/// without an estimate they are not in the rank, with one they are as many cycles as they take.
#[test]
fn iterations_are_never_counted_as_instructions() {
    let (clearing, calling) = (row([-23; 5], [4096; 5]), row([80; 5], [0; 5]));
    let ranked = |rows: [&Row; 2]| {
        let mut all = [entry("calling", rows[0]), entry("clearing", rows[1])];
        all.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        all
    };
    let all = ranked([&calling, &clearing]);
    assert_eq!(all[0].name, "calling");
    let costs = all[1].costs.as_ref().unwrap();
    assert_eq!((costs.all.delta, costs.all.verdict), (-23.0, Verdict::Faster));
    assert_eq!(costs.metric("rep-iterations").unwrap().delta, 4096.0);
    let mut rows = [calling, clearing];
    crate::estimate(&mut rows, "made-up", &calibration());
    let all = ranked([&rows[0], &rows[1]]);
    assert_eq!(all[0].name, "clearing");
    // -23 + 4096 / 16 to 4096 / 8 of 10 000 instructions and 500 iterations.
    let [low, high] = all[0].costs.as_ref().unwrap().estimated_percent().unwrap();
    let [least, most] = [233.0, 489.0].map(|cycles| cycles / 10_047.0 * 100.0);
    assert!((low - least).abs() < 0.01 && (high - most).abs() < 0.01, "{low} {high}");
}

fn calibration() -> Calibration {
    Calibration {
        cpu: "a".to_owned(),
        cycles_per_ns: 1.0,
        rep_iteration: Some([1.0 / 16.0, 1.0 / 8.0]),
        fit: Some(CalibrationFit {
            rows: 30,
            groups: 2,
            error: [1.0, 1.0],
            cycles: [(Fitted::Instruction, 1.0)].into(),
            bounds: [(Fitted::Instruction, [1.0, 1.0])].into(),
        }),
        ..Calibration::default()
    }
}

#[test]
fn an_addition_that_changes_nothing_is_asked_about() {
    let named = |row: Row| {
        let rows = vec![Row { verdict: row.effects()[0].verdict, ..row }];
        without_change(&rows).map(|warning| warning.fact)
    };
    let asked = "no row changed: no row executes it, or it is already on, or this kernel does not \
                 know it"
        .to_owned();
    assert_eq!(named(row([0; 5], [0; 5])), Some(asked));
    assert_eq!(named(row([80; 5], [0; 5])), None);
    assert_eq!(named(row([0; 5], [4096; 5])), None);
}
