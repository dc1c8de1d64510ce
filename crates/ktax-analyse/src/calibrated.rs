//! Fits the cycles of a machine to rows that it ran, and compares estimates with times.

use std::collections::{BTreeMap, BTreeSet};

use ktax_model::{
    Calibration, CalibrationFit, CalibrationRow, Comparison, Costly, Effect, Error, Estimate,
    Fitted, LowHigh, NativeRow, NativeSample, NativeTable, Ratio, Row, Share, Side, ValidatedRow,
    Validation, Verdict, Workload, fact, hull,
};
use ktax_stats::constants::{
    Constants, MAX_MEDIAN_ERROR, MIN_OBSERVATIONS, NoConstants, Observation, constants,
};
use ktax_stats::tables::median;
use ktax_stats::tables::spearman;

/// Rows that were both counted and timed on the machine. Cycles follow from times. Rows of one
/// program are a group. Several tables of a row are merged.
pub fn calibration_rows(
    counted: &Comparison,
    timed: &[NativeTable],
    cycles_per_ns: f64,
) -> Vec<CalibrationRow> {
    let things = things(counted);
    let mut rows: BTreeMap<&str, (&Workload, Vec<f64>)> = BTreeMap::new();
    let ran = timed.iter().flat_map(|table| &table.rows).filter(|row| row.failure.is_none());
    for NativeRow { workload, samples, .. } in ran {
        let (_, ns) = rows.entry(&workload.row).or_insert((workload, Vec::new()));
        // The time on a CPU excludes other tasks.
        let value = |sample: &NativeSample| {
            sample.values.get("task-clock-ns").or_else(|| sample.values.get("nanoseconds")).copied()
        };
        let each = samples.iter().filter_map(value);
        ns.extend(each.map(|ns| ns as f64 / workload.ops as f64));
    }
    let both = rows.into_values().filter_map(|(workload, ns)| {
        let row = counted.rows.iter().find(|row| row.row == workload.row)?;
        let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
        // A region that is too short for the last cache cannot be fitted.
        let mut metrics = things.iter().flat_map(|thing| thing.metrics());
        let has_all = is_measured && metrics.all(|metric| row.effect(metric).is_some());
        let cycles = median(&ns)? * cycles_per_ns;
        (has_all && cycles > 0.0).then(|| CalibrationRow {
            row: row.row.clone(),
            group: workload.program.clone(),
            cycles,
            counts: things.iter().map(|thing| (*thing, count(row, *thing))).collect(),
            costly: costly(row),
            rep_iterations: row.effect("rep-iterations").map_or(0.0, |effect| effect.base),
            predicted: None,
        })
    });
    both.collect()
}

/// Costs that can be told apart; without the counters of a model only that of an instruction.
fn things(counted: &Comparison) -> &'static [Fitted] {
    let is_model = |effect: &Effect| effect.metric.starts_with("model-");
    let is_modelled = |row: &Row| row.effects().iter().any(is_model);
    match counted.rows.iter().any(is_modelled) {
        true => &Fitted::ALL,
        false => &[Fitted::Instruction],
    }
}

fn count(row: &Row, thing: Fitted) -> f64 {
    thing.metrics().iter().filter_map(|name| row.effect(name)).map(|effect| effect.base).sum()
}

fn costly(row: &Row) -> BTreeMap<Costly, f64> {
    let base_count = |kind: Costly| Some((kind, row.effect(kind.name())?.base));
    Costly::ALL.into_iter().filter_map(base_count).filter(|(_, count)| *count > 0.0).collect()
}

/// Fits the cycles of each thing to the rows, and stores in each row what the fit predicts for it.
/// The costs of costly instructions are taken from the Calibration. An error says why there is no
/// fit and what to do about it.
pub fn fit(
    rows: &mut [CalibrationRow],
    calibration: &Calibration,
) -> Result<CalibrationFit, String> {
    let is_modelled = rows.iter().any(|row| row.counts.len() > 1);
    match is_modelled {
        true => fit_things(rows, Fitted::ALL, calibration),
        false => fit_things(rows, [Fitted::Instruction], calibration),
    }
}

fn fit_things<const N: usize>(
    rows: &mut [CalibrationRow],
    things: [Fitted; N],
    calibration: &Calibration,
) -> Result<CalibrationFit, String> {
    let groups: BTreeSet<&String> = rows.iter().map(|row| &row.group).collect();
    let group_index =
        |group: &String| groups.iter().position(|known| *known == group).unwrap_or_default();
    let middle = |cost: Option<&LowHigh>| cost.map_or(0.0, |[low, high]| (low + high) / 2.0);
    let fixed = |row: &CalibrationRow| {
        let costly =
            row.costly.iter().map(|(kind, count)| middle(calibration.operations.get(kind)) * count);
        costly.sum::<f64>() + cycles_of_iterations(row, calibration)
    };
    let observation = |row: &CalibrationRow| Observation {
        group: group_index(&row.group),
        counts: things.map(|thing| row.counts.get(&thing).copied().unwrap_or(0.0)),
        fixed: fixed(row),
        measured: row.cycles,
    };
    let observations: Vec<_> = rows.iter().map(observation).collect();
    let Constants { values, bounds, error: (low, high), groups, predicted, .. } =
        constants(&observations).map_err(why)?;
    for (row, predicted) in rows.iter_mut().zip(predicted) {
        row.predicted = Some([predicted * low, predicted * high]);
    }
    let cycles = things.into_iter().zip(values).collect();
    let bounds = bounds.map(|(low, high)| [low, high]);
    let bounds = things.into_iter().zip(bounds).collect();
    Ok(CalibrationFit { rows: rows.len(), groups, error: [low, high], cycles, bounds })
}

/// Cycles of the row's string iterations in the first cache. Their misses are left to the fit, or
/// to its error.
fn cycles_of_iterations(row: &CalibrationRow, calibration: &Calibration) -> f64 {
    let has = |kind: &&Costly| row.costly.contains_key(*kind);
    let known = |kind: &Costly| calibration.iterations.get(kind).copied();
    let there = hull(Costly::STRINGS.iter().filter(has).filter_map(known));
    let any = || hull(calibration.iterations.values().copied());
    let cost = there.or_else(any).or(calibration.rep_iteration).unwrap_or_default();
    cost[0] * row.rep_iterations
}

fn why(reason: NoConstants) -> String {
    match reason {
        NoConstants::TooFew(rows) => format!(
            "{rows} rows were both counted and timed, all or beside those of one program; a fit \
             needs {MIN_OBSERVATIONS}, so count and time more rows"
        ),
        NoConstants::OneGroup => "all rows are of one program, and a fit needs others to be \
                                  tried on; count and time more rows"
            .to_owned(),
        NoConstants::TooWrong(error) => format!(
            "half of the rows are predicted wrong by more than {:.0} % if their program is left \
             out, and at most {:.0} % is of use; time them again on a quiet machine, with a model \
             that is more like it",
            error * 100.0,
            MAX_MEDIAN_ERROR * 100.0
        ),
    }
}

/// Smallest change whose sign is clear, in percent.
const CLEAR_PERCENT: f64 = 5.0;

/// Compares the estimates of rows with their measured times. It fails if no row has both, or if the
/// estimates have no fit.
pub fn validate(counted: &Comparison, timed: &Comparison) -> ktax_model::Result<Validation> {
    let estimated = |row: &'_ Row| row.counts()?.estimate.clone();
    let first = counted.rows.iter().find_map(estimated);
    let first = first.filter(|estimate| estimate.percent.is_some()).ok_or_else(|| {
        Error::user(
            "the counts have no estimates in percent, which need a machine with fitted rows",
        )
        .next("add --model FILE, as `ktax calibrate --counts … --times …` writes it")
    })?;
    let ratio =
        |row: &str| timed.rows.iter().find(|timed_row| timed_row.row == row)?.times()?.ratio;
    let both = counted.rows.iter().filter_map(|row| {
        let Estimate { percent, left_out, .. } = estimated(row)?;
        let joined = joined(&row.row, percent?, ratio(&row.row)?);
        Some(ValidatedRow { uncosted_metrics: left_out, ..joined })
    });
    let mut rows: Vec<ValidatedRow> = both.collect();
    if rows.is_empty() {
        let error = Error::user("no row was both estimated and timed");
        return Err(error.next("count and time the same rows"));
    }
    rows.sort_by(|a, b| beyond(b).total_cmp(&beyond(a)));
    let pairs: Vec<_> = rows.iter().map(|row| (row.predicted(), row.measured_percent)).collect();
    let errors: Vec<f64> = rows.iter().map(error_percent).collect();
    Ok(Validation {
        title: counted.title.clone(),
        machine: first.machine,
        cpu: first.cpu,
        timed_cpu: cpu(timed),
        covered: share(&rows, |_| true, |row| row.is_covered),
        signs: signs(&rows),
        rank_correlation: spearman(&pairs),
        median_error_percent: median(&errors).unwrap_or_default(),
        unfit: timed.times().and_then(|times| times.unfit.clone()),
        left_out: left_out(&rows, [counted, timed]),
        differences: differences(counted, timed),
        rows,
    })
}

fn share(
    rows: &[ValidatedRow],
    is_of_all: impl Fn(&ValidatedRow) -> bool,
    is_of_them: impl Fn(&ValidatedRow) -> bool,
) -> Share {
    let members: Vec<&ValidatedRow> = rows.iter().filter(|row| is_of_all(row)).collect();
    Share { part: members.iter().filter(|row| is_of_them(row)).count(), total: members.len() }
}

/// Share of rows with the right sign, among rows that clearly have one.
fn signs(rows: &[ValidatedRow]) -> Share {
    let is_clear = |row: &ValidatedRow| row.measured_percent.abs() >= CLEAR_PERCENT;
    share(rows, is_clear, |row| row.predicted() * row.measured_percent > 0.0)
}

fn joined(row: &str, predicted: [f64; 2], ratio: Ratio) -> ValidatedRow {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let measured = percent(ratio.estimate);
    ValidatedRow {
        row: row.to_owned(),
        predicted_percent: predicted,
        measured_percent: measured,
        measured_interval: [Some(percent(ratio.low)), ratio.high.map(percent)],
        is_covered: predicted[0] <= measured && measured <= predicted[1],
        uncosted_metrics: BTreeMap::new(),
    }
}

/// Distance of the measurement from the predicted interval, percent; below 0 inside of it, nearer
/// to 0 the farther it is from the middle.
fn beyond(row: &ValidatedRow) -> f64 {
    let [low, high] = row.predicted_percent;
    let outside = (low - row.measured_percent).max(row.measured_percent - high);
    if outside > 0.0 { outside } else { -1.0 / (1.0 + error_percent(row)) }
}

/// Error of the predicted ratio of change to base, percent.
fn error_percent(row: &ValidatedRow) -> f64 {
    let ratio = |percent: f64| (1.0 + percent / 100.0).max(1e-3);
    (ratio(row.predicted()) / ratio(row.measured_percent)).ln().abs().exp_m1() * 100.0
}

/// Differences between the counted and the timed kernels and boot lines of each Side.
fn differences(counted: &Comparison, timed: &Comparison) -> Vec<String> {
    let (Some(counts), Some(times)) = (counted.counts(), timed.times()) else { return Vec::new() };
    let compared_names = |side: Side| {
        let (counted, timed) =
            (counts.asked.subjects.get(side), times.plan.asked.subjects.get(side));
        let name = timed.kernel.as_deref().and_then(|name| times.plan.kernels.get(name));
        let here = || times.facts.get(side).get(fact::KERNEL).cloned();
        let kernel = name.map(|kernel| kernel.name().to_owned()).or_else(here).unwrap_or_default();
        let line = &timed.boot_line;
        [
            ("kernel", counts.kernels.get(side).name().to_owned(), kernel),
            ("boot line", counted.boot_line.clone(), line.clone()),
        ]
        .map(|(what, counted, timed)| (side, what, counted, timed))
    };
    let names = Side::BOTH.into_iter().flat_map(compared_names);
    let differing = names.filter(|(_, _, counted, timed)| counted != timed);
    let sentences = differing.map(|(side, what, counted, timed)| {
        format!("the {}'s {what}: {counted:?} was counted, {timed:?} was timed", side.name())
    });
    sentences.collect()
}

fn cpu(timed: &Comparison) -> String {
    timed.times().and_then(|times| times.facts.base.get(fact::CPU).cloned()).unwrap_or_default()
}

/// Rows that only one of the comparisons has.
fn left_out(both: &[ValidatedRow], comparisons: [&Comparison; 2]) -> Vec<String> {
    let rows = comparisons.into_iter().flat_map(|comparison| &comparison.rows).map(|row| &row.row);
    let rows: BTreeSet<&String> = rows.collect();
    let is_one = |row: &&String| both.iter().all(|known| known.row != **row);
    rows.into_iter().filter(is_one).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_stats::random::Random;

    /// Costs of a made-up machine in cycles: of the fitted things, and of a load of CR3.
    const COSTS: [f64; 6] = [0.4, 9.0, 28.0, 160.0, 35.0, 18.0];
    const CR3: f64 = 180.0;

    fn rows(seed: u64, count: usize, deviation: f64) -> Vec<CalibrationRow> {
        let mut random = Random::new(seed);
        let made_up_row = |row: usize| {
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
        (0..count).map(made_up_row).collect()
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

    /// Counts without a model give the cost of an instruction with all its misses. Iterations cost
    /// a twentieth of a cycle each, as in the first cache.
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
        assert!(
            rows.iter().all(|row| row.predicted.unwrap().iter().all(|bound| is_near(row, *bound)))
        );
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
        // Two of the 60 lie beyond each end, so that one in ten new rows does.
        assert_eq!(inside * 60, all * 56);
    }

    #[test]
    fn without_what_costs_most_there_is_no_fit() {
        // Half of each row's cost is not counted.
        let mut rows = rows(3, 48, 0.0);
        for (index, row) in rows.iter_mut().enumerate() {
            row.cycles *= if index % 2 == 0 { 1.0 } else { 6.0 };
        }
        let error = fit(&mut rows, &calibration()).unwrap_err();
        assert!(error.contains("predicted wrong") && error.contains("time them again"), "{error}");
        let error = fit(&mut rows[..20], &calibration()).unwrap_err();
        assert!(error.starts_with("20 rows were") && error.ends_with("time more rows"), "{error}");
    }

    fn row(predicted: [f64; 2], estimate: f64) -> ValidatedRow {
        joined("row", predicted, Ratio { estimate, low: estimate - 0.01, high: None })
    }

    #[test]
    fn a_row_is_covered_by_the_interval_with_its_ends() {
        let is_covered_at = |estimate| row([0.0, 50.0], estimate).is_covered;
        assert!(
            is_covered_at(1.0)
                && is_covered_at(1.5)
                && is_covered_at(1.25)
                && !is_covered_at(0.99)
                && !is_covered_at(1.51)
        );
        assert_eq!(row([0.0, 50.0], 1.25).measured_interval[1], None);
    }

    #[test]
    fn what_lies_outside_comes_first_and_the_farthest_before_all() {
        let mut rows = [
            row([10.0, 20.0], 1.15),
            row([10.0, 20.0], 1.19),
            row([10.0, 20.0], 1.25),
            row([10.0, 20.0], 0.5),
        ];
        rows.sort_by(|one, other| beyond(other).total_cmp(&beyond(one)));
        let measured = rows.map(|row| row.measured_percent.round());
        assert_eq!(measured, [-50.0, 25.0, 19.0, 15.0]);
    }

    #[test]
    fn only_rows_that_changed_clearly_have_a_sign_that_can_be_right() {
        let rows = [
            row([10.0, 20.0], 1.30),
            row([-20.0, 10.0], 1.06),
            row([-9.0, -3.0], 0.95),
            row([-9.0, -3.0], 0.92),
            // This change may be noise.
            row([10.0, 20.0], 0.96),
        ];
        assert_eq!(signs(&rows), Share { part: 3, total: 4 });
        let covered = share(&rows, |_| true, |row| row.is_covered);
        assert_eq!(covered, Share { part: 3, total: 5 });
    }

    #[test]
    fn an_error_is_of_ratios() {
        // Twice as much as predicted, and half as much.
        assert!((error_percent(&row([0.0, 0.0], 2.0)) - 100.0).abs() < 1e-9);
        assert!((error_percent(&row([100.0, 100.0], 1.0)) - 100.0).abs() < 1e-9);
    }
}
