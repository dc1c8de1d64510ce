use super::*;

/// Twenty pairs around an effect: ±0.1, ±0.2 … ±1 %.
fn pairs(effect: f64) -> Vec<f64> {
    let one = |step: u32| f64::from(step + 1) * 0.001;
    (0..10).flat_map(|step| [effect + one(step), effect - one(step)]).collect()
}

fn judged(pairs: &[f64], controls: &[f64]) -> TrialRow {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 1);
    trial.judge(&[Pairs { pairs, controls }], &[]).headline[0]
}

fn verdict_of(effect: f64) -> Detection {
    judged(&pairs(effect), &pairs(0.0)).verdict
}

#[test]
fn certain_and_large_enough() {
    assert_eq!(verdict_of(0.05), Detection::Up);
    assert_eq!(verdict_of(-0.05), Detection::Down);
    // ln 1.01 = 0.00995.
    assert_eq!(verdict_of(0.0099), Detection::Small);
    assert_eq!(verdict_of(0.0100), Detection::Up);
    assert_eq!(verdict_of(-0.0099), Detection::Small);
    assert_eq!(verdict_of(-0.0100), Detection::Down);
    assert_eq!(verdict_of(0.0), Detection::NotDetected);
    let ratio = judged(&pairs(0.05), &pairs(0.0)).ratio();
    assert!((ratio.estimate - 0.05f64.exp()).abs() < 1e-9 && ratio.low < ratio.high);
}

#[test]
fn why_there_is_no_answer() {
    let (far, same) = (pairs(0.05), pairs(0.0));
    let why = |pairs: &[f64], controls: &[f64]| match judged(pairs, controls).verdict {
        Detection::Inconclusive(why) => Some(why),
        _ => None,
    };
    assert_eq!(why(&far, &same), None);
    assert_eq!(why(&far[..9], &same), Some(Why::TooFewPairs));
    assert_eq!(why(&[], &[]), Some(Why::TooFewPairs));
    assert_eq!(why(&far, &same[..7]), Some(Why::TooFewControls));
    assert_eq!(why(&far, &[]), Some(Why::TooFewControls));
    assert_eq!(why(&far, &pairs(0.02)), Some(Why::ControlOff));
    let wide: Vec<f64> = same.iter().map(|value| value * 50.0).collect();
    assert_eq!(why(&far, &wide), Some(Why::ControlWide));
    assert_eq!(why(&[f64::NAN; 20], &same), Some(Why::NotFinite));
    assert_eq!(why(&far, &[f64::INFINITY; 20]), Some(Why::NotFinite));
}

#[test]
fn ten_of_a_thousand_pairs_exclude_nothing() {
    let trial = Trial::new(Rules { pairs: Some(1000), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.05), pairs(0.0));
    let row = trial.judge(&[Pairs { pairs: &far[..10], controls: &same }], &[]).headline[0];
    assert_eq!(row.verdict, Detection::Inconclusive(Why::TooFewPairs));
    assert_eq!((row.log.low, row.detectable), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn equal_pairs_are_not_detected_and_would_have_been() {
    let row = judged(&[0.0; 20], &[0.0; 8]);
    assert_eq!((row.verdict, row.p, row.detectable), (Detection::NotDetected, 1.0, 1.0));
}

#[test]
fn each_family_has_its_correction() {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 3);
    let (same, data) = (pairs(0.0), [pairs(0.05), pairs(0.0035), pairs(0.0025)]);
    let rows: Vec<Pairs> = data.iter().map(|pairs| Pairs { pairs, controls: &same }).collect();
    let found = trial.judge(&rows, &rows);
    let p: Vec<f64> = found.headline.iter().map(|row| row.p).collect();
    let adjusted = |rows: &[TrialRow]| rows.iter().map(|row| row.adjusted).collect::<Vec<_>>();
    assert_eq!(adjusted(&found.headline), holm(&p));
    assert_eq!(adjusted(&found.secondary), benjamini_hochberg(&p));
    assert!(found.headline.iter().chain(&found.secondary).all(|row| row.family == 3));
    // By itself the second would be certain; as one of three it is not among the headlines.
    assert!(p[1] < 0.05 && found.headline[1].adjusted > 0.05, "{p:?}");
    assert_eq!(found.headline[1].verdict, Detection::NotDetected);
    // More rows want a larger effect.
    let alone = judged(&data[2], &same);
    assert!(found.headline[2].detectable > alone.detectable);
}

#[test]
fn the_pilot_sets_a_cap_and_the_looks_are_at_fifths() {
    let trial = Trial::new(Rules { threshold: 0.005, ..Rules::default() }, 1);
    let (pairs, controls) = (pairs(0.002).repeat(20), pairs(0.0).repeat(20));
    let row = |count: usize| Pairs { pairs: &pairs[..count], controls: &controls };
    assert_eq!(trial.next(&[row(9)]), Next::GoOn { cap: None });
    let cap = trial.cap(&[row(10)]).unwrap();
    assert!(cap % 5 == 0 && (20..=200).contains(&cap), "{cap}");
    assert_eq!(trial.next(&[row(cap - 1)]), Next::GoOn { cap: Some(cap) });
    assert_eq!(trial.next(&[row(cap)]), Next::Exhausted);
    // Pairs after the pilot leave the cap alone, and so does the effect.
    assert_eq!(trial.cap(&[row(cap)]), Some(cap));
    // The row that spreads most decides, and the largest cap is a bound.
    let wild: Vec<f64> = controls.iter().map(|value| value * 10.0).collect();
    let wild = Pairs { pairs: &pairs[..10], controls: &wild };
    assert_eq!(trial.cap(&[row(10), wild]), Some(200));
    // A large effect ends it at the first look that there is, and not before.
    let far: Vec<f64> = pairs.iter().map(|value| value + 0.2).collect();
    let ends = |count: &usize| {
        let row = Pairs { pairs: &far[..*count], controls: &controls };
        trial.next(&[row]) == Next::Settled
    };
    let first = (1..cap).find(ends).unwrap();
    assert!(first >= 10 && (1..5).any(|look| first == look * cap / 5), "{first} of {cap}");
    // Not while another row is open.
    let rows = [Pairs { pairs: &far[..first], controls: &controls }, row(first)];
    assert_eq!(trial.next(&rows), Next::GoOn { cap: Some(cap) });
}

#[test]
fn a_fixed_number_of_pairs_is_one_look() {
    let trial = Trial::new(Rules { pairs: Some(30), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.3).repeat(2), pairs(0.0));
    for count in 0..30 {
        let row = Pairs { pairs: &far[..count], controls: &same };
        assert_eq!(trial.next(&[row]), Next::GoOn { cap: Some(30) });
    }
    let row = Pairs { pairs: &far[..30], controls: &same };
    assert_eq!(trial.next(&[row]), Next::Exhausted);
    // One look at all of it is the test itself.
    let found = trial.judge(&[row], &[]).headline[0];
    let plain = SignedRank::new(&far[..30]);
    assert!((found.p - plain.p_value()).abs() < 1e-12);
    assert_eq!(Some(found.log), plain.interval(0.05));
}

const P: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.55, 0.04, 0.2];

fn are_near(some: &[f64], others: &[f64]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(one, other)| (one - other).abs() < 1e-12)
}

#[test]
fn adjusted_p_values_are_those_of_statsmodels_and_scipy() {
    // tests/statistics/reference.py: multipletests and false_discovery_control.
    assert!(are_near(&holm(&P), &[0.06, 0.16, 0.15, 0.035, 0.55, 0.16, 0.4]));
    let wanted = [0.035, 0.056, 0.056, 0.035, 0.55, 0.056, 0.23333333333333336];
    assert!(are_near(&benjamini_hochberg(&P), &wanted));
}

#[test]
fn a_family_of_one_and_of_none() {
    assert_eq!((holm(&[0.03]), benjamini_hochberg(&[0.03])), (vec![0.03], vec![0.03]));
    assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    assert_eq!(holm(&[1.0, 0.9]), [1.0, 1.0]);
}
