//! What the Boots of a Side say of a row.

use ktax_model::{Side, TimedBoot, TimedPair};
use ktax_stats::timed::median;

/// The share of a Side's Boots that may fail, of the host's weather as it were: those that are slow
/// enough to reach a limit are missing, and the others look faster than they are.
const MOST_FAILED: f64 = 0.05;

/// The loops of a row, if none of them failed.
pub(super) fn times<'a>(boot: &'a TimedBoot, row: &str) -> Option<&'a [f64]> {
    let run = boot.runs.get(row).filter(|run| run.failure.is_none())?;
    Some(&run.loops_ns)
}

pub(super) fn value(boot: &TimedBoot, row: &str) -> Option<f64> {
    median(times(boot, row)?)
}

/// The Boots of a Side; of an A/A pair both are the base's.
pub(super) fn of_side(pairs: &[TimedPair], side: Side) -> impl Iterator<Item = &TimedBoot> {
    let of_pair = move |pair: &'_ TimedPair| match (side, pair.is_control) {
        (Side::Base, true) => vec![Side::Base, Side::Change],
        (Side::Change, true) => Vec::new(),
        (side, false) => vec![side],
    };
    pairs.iter().flat_map(move |pair| of_pair(pair).into_iter().map(|place| pair.boots.get(place)))
}

/// Whether so many failed that the others are no fair sample.
pub(super) fn is_too_many(failed: usize, of: usize) -> bool {
    failed as f64 > MOST_FAILED * of as f64
}
