//! The pairs that are still missing.

use std::cell::Cell;

use super::blocks;
use super::drive::drive;
use super::error::BlockError;
use super::judged::judged;
use super::rates::rates;
use crate::analyse::{estimates, noise, progress, wants_more};
use crate::flow::error::Error;
use crate::flow::options::Options;
use crate::flow::session::Session;
use crate::model::{TimedPair, TimesPlan, Warning};
use crate::run::Ended;
use crate::rundir::RunDir;

/// Runs the pairs that are still missing.
pub(in crate::flow) fn run(
    dir: &RunDir<TimesPlan>,
    options: Options,
    session: &Session<'_>,
) -> Result<Ended, Error> {
    if dir.plan().method.is_in_blocks() {
        return Err(BlockError::Booted { next: blocks::how(dir) }.into());
    }
    let plan = judged(dir, options.allow_differences);
    let said = Cell::new(false);
    let ask = |pairs: &[TimedPair]| {
        // Nobody waits for all pairs to hear of a mistyped parameter.
        if !pairs.is_empty() && !said.replace(true) {
            for Warning { fact, next_step } in noise::ignored_parameters(&plan.method, pairs) {
                session.observer.note(&format!("{fact}; {next_step}"));
            }
        }
        let known = options.peek.then(|| estimates(&plan, pairs));
        session.observer.pairs(&progress(&plan, pairs), known.as_deref());
        wants_more(&plan, pairs)
    };
    // Those that are there may be of another machine.
    let there = dir.pairs()?.len();
    let ended = drive(dir, session, &ask, |driver| driver.run());
    session.observer.status("");
    if let Some(rates) = rates(&plan.method, dir.pairs()?.get(there..).unwrap_or_default()) {
        session.observer.learned(&rates);
    }
    ended
}
