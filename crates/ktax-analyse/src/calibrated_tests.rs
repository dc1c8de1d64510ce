use super::*;
use ktax_stats::random::Random;

/// A machine that is made up: cycles of what is fitted, and of a load of CR3.
const COSTS: [f64; 6] = [0.4, 9.0, 28.0, 160.0, 35.0, 18.0];
const CR3: f64 = 180.0;

fn rows(seed: u64, count: usize, deviation: f64) -> Vec<CalibrationRow> {
    let mut random = Random::new(seed);
    let of = |row: usize| {
        let instructions = 100.0 * 10f64.powf(4.0 * random.unit());
        let mut share = |most: f64| instructions * most * random.unit().powi(3);
        let rest = [share(0.2), share(0.05), share(0.02), share(0.02), share(0.05)];
        let counts: Vec<f64> = [instructions].into_iter().chain(rest).collect();
        let loads = random.below(3) as f64;
        let noise = deviation * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0);
        let cost: f64 = counts.iter().zip(COSTS).map(|(count, cost)| count * cost).sum();
        CalibrationRow {
            row: format!("row-{row}"),
            group: format!("group-{}", row % 6),
            cycles: (cost + loads * CR3) * noise.exp(),
            counts: Fitted::ALL.into_iter().zip(counts).collect(),
            costly: [(Costly::Cr3Write, loads)].into(),
            rep_iterations: 0.0,
            predicted: None,
        }
    };
    (0..count).map(of).collect()
}

fn calibration() -> Calibration {
    Calibration {
        cpu: "a".to_owned(),
        cycles_per_ns: 1.0,
        operations: [(Costly::Cr3Write, [CR3 - 10.0, CR3 + 10.0])].into(),
        iterations: [(Costly::RepStosb, [0.05, 0.15])].into(),
        ..Calibration::default()
    }
}

/// Counts without a model say what an instruction takes, with all that it misses. Iterations take
/// what they take in the first cache, a twentieth of a cycle each.
#[test]
fn without_a_model_instructions_and_what_is_known_are_all() {
    let mut rows = rows(7, 48, 0.0);
    for row in &mut rows {
        let instructions = row.counts[&Fitted::Instruction];
        row.counts = [(Fitted::Instruction, instructions)].into();
        row.costly.insert(Costly::RepStosb, 1.0);
        row.rep_iterations = 4096.0;
        row.cycles = 0.8 * instructions + row.costly[&Costly::Cr3Write] * CR3 + 204.8;
    }
    let fit = fit(&mut rows, &calibration()).unwrap();
    assert!((fit.cycles[&Fitted::Instruction] - 0.8).abs() < 1e-6, "{fit:?}");
    assert_eq!((fit.cycles.len(), fit.needs_model()), (1, false));
    assert_eq!(Calibration { fit: Some(fit), ..calibration() }.check(), Ok(()));
}

#[test]
fn a_machine_of_known_constants_is_found() {
    let mut rows = rows(7, 48, 0.0);
    let fit = fit(&mut rows, &calibration()).unwrap();
    for (thing, cost) in Fitted::ALL.into_iter().zip(COSTS) {
        assert!((fit.cycles[&thing] / cost - 1.0).abs() < 1e-6, "{fit:?}");
    }
    assert_eq!((fit.rows, fit.groups), (48, 6));
    let is_near = |row: &CalibrationRow, cycles: f64| (cycles / row.cycles - 1.0).abs() < 1e-6;
    assert!(rows.iter().all(|row| row.predicted.unwrap().iter().all(|it| is_near(row, *it))));
}

#[test]
fn nine_of_ten_rows_of_a_group_that_was_left_out_lie_in_the_interval() {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..20 {
        let mut rows = rows(seed, 60, 0.15);
        fit(&mut rows, &calibration()).unwrap();
        let is_inside = |row: &&CalibrationRow| {
            let [low, high] = row.predicted.unwrap();
            (low..=high).contains(&row.cycles)
        };
        inside += rows.iter().filter(is_inside).count();
        all += rows.len();
    }
    // Two of the 60 lie beyond each end, so that one of ten that are new does.
    assert_eq!(inside * 60, all * 56);
}

#[test]
fn without_what_costs_most_there_is_no_fit() {
    // Half of what each row takes is in nothing that is counted.
    let mut rows = rows(3, 48, 0.0);
    for (at, row) in rows.iter_mut().enumerate() {
        row.cycles *= if at % 2 == 0 { 1.0 } else { 6.0 };
    }
    let error = fit(&mut rows, &calibration()).unwrap_err();
    assert!(error.contains("predicted wrong") && error.contains("time them again"), "{error}");
    let error = fit(&mut rows[..20], &calibration()).unwrap_err();
    assert!(error.starts_with("20 rows were") && error.ends_with("time more rows"), "{error}");
}
