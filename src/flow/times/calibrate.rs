//! How many operations make a loop of a useful length.

use crate::engine::{Stop, host::Host};
use crate::flow::error::Error;
use crate::model::{Failure, RunsOn, TimesPlan, Workload};
use crate::plan::{has_own_ops, with_ops};
use crate::run::run_natively;

/// Long enough for the clock, and for a tick or two to be in every loop; short enough for
/// hundreds of loops.
const LOOP_NS: u64 = 20_000_000;
/// A loop this long says what an operation takes.
const ENOUGH_NS: u64 = 2_000_000;

/// The Plan with operations for loops of about [`LOOP_NS`] on this machine. A row whose name says
/// how many it wants keeps them, a program of guests runs once in each loop, and what cannot run is
/// left for the run to say so.
pub(super) fn calibrated(mut plan: TimesPlan, host: &Host) -> Result<TimesPlan, Error> {
    for row in plan.headline.iter_mut().chain(&mut plan.secondary) {
        let is_of_guests = row.is_users() && plan.runs_on == RunsOn::Guests;
        if has_own_ops(row) || is_of_guests {
            continue;
        }
        match ops(row, host)? {
            Ok(ops) => *row = with_ops(row, ops)?,
            Err(Stop::Cancelled) => return Err(Error::Cancelled),
            Err(Stop::Failed(..)) => {}
        }
    }
    Ok(plan)
}

fn ops(row: &Workload, host: &Host) -> Result<Result<u64, Stop>, Error> {
    let mut ops = 1;
    loop {
        let Some(mut ran) = run_natively(host, &with_ops(row, ops)?, 1, false, &|| {}) else {
            return Ok(Err(Stop::Cancelled));
        };
        let ns = ran.samples.pop().and_then(|sample| sample.values.get("nanoseconds").copied());
        let Some(ns) = ns else {
            let failure = ran.failure.unwrap_or(Failure::Garbled { reason: "no time".into() });
            return Ok(Err(Stop::from(failure)));
        };
        let wanted = LOOP_NS as f64 / ns.max(1) as f64 * ops as f64;
        if ns >= ENOUGH_NS {
            return Ok(Ok(two_digits(wanted).max(1)));
        }
        // A first operation takes longer than those after it.
        ops = (ops * 32).min(two_digits(wanted)).max(ops + 1);
    }
}

/// Rounded to two digits, so that two machines that are alike get the same number.
fn two_digits(value: f64) -> u64 {
    let unit = 10_u64.pow((value.max(1.0).log10().floor() as u32).saturating_sub(1));
    (value / unit as f64).round() as u64 * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_kept() {
        for (value, rounded) in [
            (0.3, 0),
            (1.0, 1),
            (9.6, 10),
            (99.6, 100),
            (123_456.0, 120_000),
            (1.0e15, 10_u64.pow(15)),
        ] {
            assert_eq!(two_digits(value), rounded, "{value}");
        }
    }
}
