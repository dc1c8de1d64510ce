//! What the pairs on disk come to, and what to do next.

use super::blocks;
use super::judged::judged;
use crate::analyse::{AnalyseError, in_blocks, times};
use crate::flow::error::Error;
use crate::flow::options::Options;
use crate::model::{Comparison, TimesPlan};
use crate::rundir::RunDir;
use crate::text::shell_path;

/// Judges what is on disk.
pub(in crate::flow) fn analyse(
    dir: &RunDir<TimesPlan>,
    options: Options,
) -> Result<Comparison, Error> {
    let plan = &judged(dir, options.allow_differences);
    let (comparison, next) = match plan.method.is_in_blocks() {
        true => {
            let blocks = dir.blocks()?;
            (in_blocks(plan, &blocks), blocks::next(dir, &blocks))
        }
        false => (
            times(plan, &dir.pairs()?),
            format!("measure with `ktax run {}`", shell_path(dir.root())),
        ),
    };
    if comparison.times().is_none_or(|times| times.pairs + times.controls == 0) {
        let dir = dir.root().display().to_string();
        return Err(AnalyseError::NoPair { dir, next }.into());
    }
    Ok(comparison)
}

/// What to do with a directory that has nothing but its Plan.
pub(in crate::flow) fn planned(dir: &RunDir<TimesPlan>) -> String {
    match dir.plan().method.is_in_blocks() {
        true => format!("planned blocks; {}", blocks::how(dir)),
        false => {
            format!("planned timed pairs; run them with `ktax run {}`", shell_path(dir.root()))
        }
    }
}
