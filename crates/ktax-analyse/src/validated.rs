//! Joins estimates of rows with times of the same rows.

use std::collections::{BTreeMap, BTreeSet};

use super::error::AnalyseError;
use ktax_model::{Comparison, Estimate, Ratio, Row, Share, Side, ValidatedRow, Validation, fact};
use ktax_stats::ranks::spearman;
use ktax_stats::tables::median;

/// A change that is smaller may have either sign.
const CLEAR_PERCENT: f64 = 5.0;

/// Whether what was estimated of rows is what was timed.
///
/// # Errors
/// No row has both, or the estimates have no fit.
pub fn validate(counted: &Comparison, timed: &Comparison) -> Result<Validation, AnalyseError> {
    let estimated = |row: &'_ Row| row.counts()?.estimate.clone();
    let first = counted.rows.iter().find_map(estimated);
    let first = first.filter(|it| it.percent.is_some()).ok_or(AnalyseError::NoEstimate)?;
    let ratio = |row: &str| timed.rows.iter().find(|it| it.row == row)?.times()?.ratio;
    let both = counted.rows.iter().filter_map(|row| {
        let Estimate { percent, left_out, .. } = estimated(row)?;
        let joined = joined(&row.row, percent?, ratio(&row.row)?);
        Some(ValidatedRow { without: left_out, ..joined })
    });
    let mut rows: Vec<ValidatedRow> = both.collect();
    if rows.is_empty() {
        return Err(AnalyseError::NothingToValidate);
    }
    rows.sort_by(|one, other| beyond(other).total_cmp(&beyond(one)));
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
    let all: Vec<&ValidatedRow> = rows.iter().filter(|row| is_of_all(row)).collect();
    Share { of_them: all.iter().filter(|row| is_of_them(row)).count(), all: all.len() }
}

/// Rows whose sign was right, of those that clearly have one.
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
        without: BTreeMap::new(),
    }
}

/// How far what was measured lies outside; below 0 inside, by how far its middle is missed.
fn beyond(row: &ValidatedRow) -> f64 {
    let [low, high] = row.predicted_percent;
    let outside = (low - row.measured_percent).max(row.measured_percent - high);
    if outside > 0.0 { outside } else { -1.0 / (1.0 + error_percent(row)) }
}

/// How far the ratios of change to base lie apart.
fn error_percent(row: &ValidatedRow) -> f64 {
    let ratio = |percent: f64| (1.0 + percent / 100.0).max(1e-3);
    (ratio(row.predicted()) / ratio(row.measured_percent)).ln().abs().exp_m1() * 100.0
}

/// In what the Subjects differ that were counted and timed: of each Side the kernel and what it
/// was booted with.
fn differences(counted: &Comparison, timed: &Comparison) -> Vec<String> {
    let (Some(counts), Some(times)) = (counted.counts(), timed.times()) else { return Vec::new() };
    let of_side = |side: Side| {
        let (counted, timed) = (counts.subjects.get(side), times.plan.subjects.get(side));
        let name = timed.kernel.as_deref().and_then(|name| times.plan.kernels.get(name));
        let here = || times.facts.get(side).get(fact::KERNEL).cloned();
        let kernel = name.map(|it| it.name().to_owned()).or_else(here).unwrap_or_default();
        let line = &timed.boot_line;
        [
            ("kernel", counted.kernel.name().to_owned(), kernel),
            ("boot line", counted.subject.boot_line.clone(), line.clone()),
        ]
        .map(|(what, counted, timed)| (side, what, counted, timed))
    };
    let all = Side::BOTH.into_iter().flat_map(of_side);
    let differing = all.filter(|(_, _, counted, timed)| counted != timed);
    let said = differing.map(|(side, what, counted, timed)| {
        format!("the {}'s {what}: {counted:?} was counted, {timed:?} was timed", side.name())
    });
    said.collect()
}

fn cpu(timed: &Comparison) -> String {
    timed.times().and_then(|times| times.facts.base.get(fact::CPU).cloned()).unwrap_or_default()
}

/// The rows that only one of both has.
fn left_out(both: &[ValidatedRow], of: [&Comparison; 2]) -> Vec<String> {
    let all = of.into_iter().flat_map(|it| &it.rows).map(|row| &row.row);
    let all: BTreeSet<&String> = all.collect();
    let is_one = |row: &&String| both.iter().all(|known| known.row != **row);
    all.into_iter().filter(is_one).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(predicted: [f64; 2], estimate: f64) -> ValidatedRow {
        joined("row", predicted, Ratio { estimate, low: estimate - 0.01, high: None })
    }

    #[test]
    fn a_row_is_covered_by_the_interval_with_its_ends() {
        let of = |estimate| row([0.0, 50.0], estimate).is_covered;
        assert!(of(1.0) && of(1.5) && of(1.25) && !of(0.99) && !of(1.51));
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
            // One that may be noise.
            row([10.0, 20.0], 0.96),
        ];
        assert_eq!(signs(&rows), Share { of_them: 3, all: 4 });
        let covered = share(&rows, |_| true, |row| row.is_covered);
        assert_eq!(covered, Share { of_them: 3, all: 5 });
    }

    #[test]
    fn an_error_is_of_ratios() {
        // Twice as much as predicted, and half as much.
        assert!((error_percent(&row([0.0, 0.0], 2.0)) - 100.0).abs() < 1e-9);
        assert!((error_percent(&row([100.0, 100.0], 1.0)) - 100.0).abs() < 1e-9);
    }
}
