//! Fits a machine's cycles of instructions and misses to timed rows, and compares estimates with
//! times.

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

/// Rows that were both counted, and timed on the machine; the times are converted to cycles. The
/// rows of a program are a group. A row that several tables have is merged.
pub fn calibration_rows(
    counted: &Comparison,
    timed: &[NativeTable],
    cycles_per_ns: f64,
) -> Vec<CalibrationRow> {
    let fitted = fitted_terms(counted);
    let mut rows: BTreeMap<&str, (&Workload, Vec<f64>)> = BTreeMap::new();
    let timed_rows = timed.iter().flat_map(|table| &table.rows).filter(|row| row.failure.is_none());
    for NativeRow { workload, samples, .. } in timed_rows {
        let (_, ns) = rows.entry(&workload.row).or_insert((workload, Vec::new()));
        // Time on a CPU does not include the time of other tasks.
        let value = |sample: &NativeSample| {
            sample.values.get("task-clock-ns").or_else(|| sample.values.get("nanoseconds")).copied()
        };
        let times = samples.iter().filter_map(value);
        ns.extend(times.map(|ns| ns as f64 / workload.ops as f64));
    }
    let both = rows.into_values().filter_map(|(workload, ns)| {
        let row = counted.rows.iter().find(|row| row.row == workload.row)?;
        let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
        // A region that is too short for a count of the last cache cannot be fitted.
        let mut metrics = fitted.iter().flat_map(|term| term.metrics());
        let has_all_metrics = is_measured && metrics.all(|metric| row.effect(metric).is_some());
        let cycles = median(&ns)? * cycles_per_ns;
        (has_all_metrics && cycles > 0.0).then(|| CalibrationRow {
            row: row.row.clone(),
            group: workload.program.clone(),
            cycles,
            counts: fitted.iter().map(|term| (*term, base_count(row, *term))).collect(),
            costly: base_costly(row),
            rep_iterations: row.effect("rep-iterations").map_or(0.0, |effect| effect.base),
            predicted: None,
        })
    });
    both.collect()
}

/// Terms whose costs can be fitted separately; without the counters of a model only instructions.
fn fitted_terms(counted: &Comparison) -> &'static [Fitted] {
    let is_model = |effect: &Effect| effect.metric.starts_with("model-");
    let is_modelled = |row: &Row| row.effects().iter().any(is_model);
    match counted.rows.iter().any(is_modelled) {
        true => &Fitted::ALL,
        false => &[Fitted::Instruction],
    }
}

/// Count of a term in the base.
fn base_count(row: &Row, term: Fitted) -> f64 {
    term.metrics().iter().filter_map(|name| row.effect(name)).map(|effect| effect.base).sum()
}

/// Counts of costly instructions in the base, without those with a count of 0.
fn base_costly(row: &Row) -> BTreeMap<Costly, f64> {
    let base_count = |kind: Costly| Some((kind, row.effect(kind.name())?.base));
    Costly::ALL.into_iter().filter_map(base_count).filter(|(_, count)| *count > 0.0).collect()
}

/// Fits the cycles of each term to the rows, and stores the predicted cycles in each row. The costs
/// of costly instructions are taken from the Calibration.
///
/// # Errors
///
/// The reason why there is no fit, with the next step.
pub fn fit(
    rows: &mut [CalibrationRow],
    calibration: &Calibration,
) -> Result<CalibrationFit, String> {
    let is_modelled = rows.iter().any(|row| row.counts.len() > 1);
    match is_modelled {
        true => fit_terms(rows, Fitted::ALL, calibration),
        false => fit_terms(rows, [Fitted::Instruction], calibration),
    }
}

fn fit_terms<const N: usize>(
    rows: &mut [CalibrationRow],
    terms: [Fitted; N],
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
        counts: terms.map(|term| row.counts.get(&term).copied().unwrap_or(0.0)),
        fixed: fixed(row),
        measured: row.cycles,
    };
    let observations: Vec<_> = rows.iter().map(observation).collect();
    let Constants { values, bounds, error: (low, high), groups, predicted, .. } =
        constants(&observations).map_err(no_fit_reason)?;
    for (row, predicted) in rows.iter_mut().zip(predicted) {
        row.predicted = Some([predicted * low, predicted * high]);
    }
    let cycles = terms.into_iter().zip(values).collect();
    let bounds = bounds.map(|(low, high)| [low, high]);
    let bounds = terms.into_iter().zip(bounds).collect();
    Ok(CalibrationFit { rows: rows.len(), groups, error: [low, high], cycles, bounds })
}

/// Cycles of the row's REP iterations if all their data is in the first cache. The cycles of their
/// misses are part of the fit or of its error.
fn cycles_of_iterations(row: &CalibrationRow, calibration: &Calibration) -> f64 {
    let is_in_row = |kind: &&Costly| row.costly.contains_key(*kind);
    let cost_of_kind = |kind: &Costly| calibration.iterations.get(kind).copied();
    let cost_in_row = hull(Costly::STRINGS.iter().filter(is_in_row).filter_map(cost_of_kind));
    let cost_of_any = || hull(calibration.iterations.values().copied());
    let cost = cost_in_row.or_else(cost_of_any).or(calibration.rep_iteration).unwrap_or_default();
    cost[0] * row.rep_iterations
}

/// Sentence why there is no fit, with the next step.
fn no_fit_reason(reason: NoConstants) -> String {
    match reason {
        NoConstants::TooFew(rows) => format!(
            "{rows} rows were both counted and timed, in all or without those of one program; a \
             fit needs {MIN_OBSERVATIONS}, so count and time more rows"
        ),
        NoConstants::OneGroup => "all rows are of one program, and a fit is tested on rows of \
                                  other programs; count and time more rows"
            .to_owned(),
        NoConstants::TooWrong(error) => format!(
            "half of the rows are predicted wrong by more than {:.0} % if their program is left \
             out of the fit, and at most {:.0} % is tolerated; time them again on a quiet machine, \
             or use a model that is more like the machine",
            error * 100.0,
            MAX_MEDIAN_ERROR * 100.0
        ),
    }
}

/// Smallest measured change whose sign is compared with that of the estimate, in percent.
const MIN_SIGNED_PERCENT: f64 = 5.0;

/// Compares the estimates of rows with their measured times.
///
/// # Errors
///
/// No row has both an estimate and a time, or the estimates are without a fit.
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
        let validated = validated_row(&row.row, percent?, ratio(&row.row)?);
        Some(ValidatedRow { uncosted_metrics: left_out, ..validated })
    });
    let mut rows: Vec<ValidatedRow> = both.collect();
    if rows.is_empty() {
        let error = Error::user("no row was both estimated and timed");
        return Err(error.next("count and time the same rows"));
    }
    rows.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let pairs: Vec<_> = rows.iter().map(|row| (row.predicted(), row.measured_percent)).collect();
    let errors: Vec<f64> = rows.iter().map(error_percent).collect();
    Ok(Validation {
        title: counted.title.clone(),
        machine: first.machine,
        cpu: first.cpu,
        timed_cpu: cpu_name(timed),
        covered: share(&rows, |_| true, |row| row.is_covered),
        signs: right_signs(&rows),
        rank_correlation: spearman(&pairs),
        median_error_percent: median(&errors).unwrap_or_default(),
        unfit: timed.times().and_then(|times| times.unfit.clone()),
        left_out: unpaired_rows(&rows, [counted, timed]),
        differences: differences(counted, timed),
        rows,
    })
}

/// Number of members among the rows, and of the members that are counted.
fn share(
    rows: &[ValidatedRow],
    is_member: impl Fn(&ValidatedRow) -> bool,
    is_counted: impl Fn(&ValidatedRow) -> bool,
) -> Share {
    let members: Vec<&ValidatedRow> = rows.iter().filter(|row| is_member(row)).collect();
    Share { part: members.iter().filter(|row| is_counted(row)).count(), total: members.len() }
}

/// Share of rows whose estimate has the sign of the measured change, among rows with a change of at
/// least [`MIN_SIGNED_PERCENT`].
fn right_signs(rows: &[ValidatedRow]) -> Share {
    let has_clear_sign = |row: &ValidatedRow| row.measured_percent.abs() >= MIN_SIGNED_PERCENT;
    share(rows, has_clear_sign, |row| row.predicted() * row.measured_percent > 0.0)
}

/// Row of a validation: the predicted interval and the measured ratio.
fn validated_row(row: &str, predicted: [f64; 2], ratio: Ratio) -> ValidatedRow {
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

/// Sort key that ranks the worst prediction highest. Outside the predicted interval, the distance
/// of the measurement from the interval in percent; inside, a value from -1 to 0 that grows with
/// the error.
fn rank(row: &ValidatedRow) -> f64 {
    let [low, high] = row.predicted_percent;
    let outside = (low - row.measured_percent).max(row.measured_percent - high);
    if outside > 0.0 { outside } else { -1.0 / (1.0 + error_percent(row)) }
}

/// Error of the predicted ratio of change to base, in percent.
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
        let identity = timed.kernel.as_deref().and_then(|name| times.plan.kernels.get(name));
        let running = || times.facts.get(side).get(fact::KERNEL).cloned();
        let kernel =
            identity.map(|kernel| kernel.name().to_owned()).or_else(running).unwrap_or_default();
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

/// CPU on which the rows were timed.
fn cpu_name(timed: &Comparison) -> String {
    timed.times().and_then(|times| times.facts.base.get(fact::CPU).cloned()).unwrap_or_default()
}

/// Names of rows that only one of the comparisons has.
fn unpaired_rows(validated: &[ValidatedRow], comparisons: [&Comparison; 2]) -> Vec<String> {
    let rows = comparisons.into_iter().flat_map(|comparison| &comparison.rows).map(|row| &row.row);
    let rows: BTreeSet<&String> = rows.collect();
    let is_unpaired = |row: &&String| validated.iter().all(|known| known.row != **row);
    rows.into_iter().filter(is_unpaired).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_stats::random::Random;

    /// Costs of the fitted terms on a made-up machine, in cycles.
    const COSTS: [f64; 6] = [0.4, 9.0, 28.0, 160.0, 35.0, 18.0];

    /// Cost of a load of CR3 on that machine, in cycles.
    const CR3: f64 = 180.0;

    fn rows(seed: u64, count: usize, deviation: f64) -> Vec<CalibrationRow> {
        let mut random = Random::new(seed);
        let made_up_row = |row: usize| {
            let instructions = 100.0 * 10f64.powf(4.0 * random.unit());
            let mut share = |max: f64| instructions * max * random.unit().powi(3);
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

    /// Without a model, the cost of an instruction includes that of its misses. REP iterations cost
    /// a twentieth of a cycle each, as with data in the first cache.
    #[test]
    fn without_a_model_only_the_cost_of_instructions_is_fitted() {
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
    fn the_constants_of_a_made_up_machine_are_found() {
        let mut rows = rows(7, 48, 0.0);
        let fit = fit(&mut rows, &calibration()).unwrap();
        for (term, cost) in Fitted::ALL.into_iter().zip(COSTS) {
            assert!((fit.cycles[&term] / cost - 1.0).abs() < 1e-6, "{fit:?}");
        }
        assert_eq!((fit.rows, fit.groups), (48, 6));
        let is_near = |row: &CalibrationRow, cycles: f64| (cycles / row.cycles - 1.0).abs() < 1e-6;
        assert!(
            rows.iter().all(|row| row.predicted.unwrap().iter().all(|bound| is_near(row, *bound)))
        );
    }

    #[test]
    fn intervals_cover_the_rows_of_a_group_that_was_left_out() {
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
    fn rows_with_a_large_uncounted_cost_have_no_fit() {
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
        validated_row("row", predicted, Ratio { estimate, low: estimate - 0.01, high: None })
    }

    #[test]
    fn the_ends_of_the_interval_cover_a_row() {
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
    fn rows_far_outside_their_interval_rank_first() {
        let mut rows = [
            row([10.0, 20.0], 1.15),
            row([10.0, 20.0], 1.19),
            row([10.0, 20.0], 1.25),
            row([10.0, 20.0], 0.5),
        ];
        rows.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        let measured = rows.map(|row| row.measured_percent.round());
        assert_eq!(measured, [-50.0, 25.0, 19.0, 15.0]);
    }

    #[test]
    fn signs_are_compared_only_for_clear_changes() {
        let rows = [
            row([10.0, 20.0], 1.30),
            row([-20.0, 10.0], 1.06),
            row([-9.0, -3.0], 0.95),
            row([-9.0, -3.0], 0.92),
            // This change may be noise.
            row([10.0, 20.0], 0.96),
        ];
        assert_eq!(right_signs(&rows), Share { part: 3, total: 4 });
        let covered = share(&rows, |_| true, |row| row.is_covered);
        assert_eq!(covered, Share { part: 3, total: 5 });
    }

    #[test]
    fn errors_are_those_of_ratios() {
        // Twice as much as predicted, and half as much.
        assert!((error_percent(&row([0.0, 0.0], 2.0)) - 100.0).abs() < 1e-9);
        assert!((error_percent(&row([100.0, 100.0], 1.0)) - 100.0).abs() < 1e-9);
    }
}
