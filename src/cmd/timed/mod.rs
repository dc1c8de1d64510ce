//! Comparisons of times: plan, run, analyse and report, as the exact engine's.

mod args;
mod blocks;
mod calibrate;
mod cpus;
mod engine;
mod progress;
mod resolve;
mod run;
mod sweep;

use std::path::Path;

use anyhow::Context;

use super::analyse::kept;
use super::args::{HostArgs, first_free};
use super::exit::{Exit, UsageError};
use super::output::{OutputArgs, write_stdout};
use crate::analyse::{in_blocks, timed, why_ended};
use crate::engine::noise;
use crate::model::{Side, TimedComparison, TimedPlan, TimedVerdict};
use crate::plan::TimedExperiment;
use crate::report;
use crate::run::Ended;
use crate::rundir::{TimedDir, check_free};
use crate::text::escape;

pub use args::TimedArgs;
use resolve::resolve;
pub use run::Run;
use run::{drive, run};

/// Plan, run, analyse and report; of swept settings once for each of their values.
pub fn compare(
    experiment: &TimedExperiment,
    out: Option<&Path>,
    peek: bool,
    output: &OutputArgs,
    host: &HostArgs,
) -> anyhow::Result<Exit> {
    let out = out.map_or_else(first_free, Path::to_owned);
    let (points, mut comparisons) = (experiment.of_settings()?, Vec::new());
    if points.len() > 1 && output.is_csv() {
        let text = "several runs are no single table; leave --format csv out: the directory of \
                    each run has its report.csv";
        return Err(UsageError::Text(text.into()).into());
    }
    for (_, experiment) in &points {
        cpus::check(&experiment.machine)?;
        refuse_blocks(experiment)?;
    }
    // All of them are there before the first is measured: what is wrong with the last is said at
    // once, and each can be gone on with.
    let paths = sweep::directories(&out, points.iter().map(|(name, _)| name.as_str()));
    paths.iter().try_for_each(|path| check_free(path))?;
    let mut plans = Vec::new();
    for (_, experiment) in &points {
        let Some(plan) = resolve(experiment, host)? else { return Ok(Exit::Cancelled) };
        plans.push(plan);
    }
    let dirs = paths.iter().zip(plans).map(|(path, plan)| TimedDir::create(path, plan));
    let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
    for (at, dir) in dirs.iter().enumerate() {
        match measure(dir, peek, host) {
            Ok(Some(comparison)) => comparisons.push(comparison),
            ended => return stopped(&dirs, at, ended.map(drop)),
        }
    }
    match comparisons.as_slice() {
        all @ [_, _, ..] if output.is_json() => write_stdout(&report::json(&all)?)?,
        all => {
            for ((name, _), comparison) in points.iter().zip(all) {
                if !name.is_empty() {
                    write_stdout(&format!("{}\n\n", escape(name)))?;
                }
                print(comparison, output)?;
            }
        }
    }
    note!("ktax: everything is in {}", out.display());
    Ok(Exit::of_all(comparisons.iter().map(exit)))
}

/// Runs and judges; `None` where the user stopped that.
fn measure(dir: &TimedDir, peek: bool, host: &HostArgs) -> anyhow::Result<Option<TimedComparison>> {
    let _lock = dir.lock()?;
    match run(dir, Run { peek, allow_differences: false }, host)? {
        Ended::Cancelled => Ok(None),
        _ => analyse_and_keep(dir, false).map(Some),
    }
}

/// Says what there is of the runs of which one did not come to its end.
fn stopped(dirs: &[TimedDir], at: usize, ended: anyhow::Result<()>) -> anyhow::Result<Exit> {
    if let ([dir], Ok(())) = (dirs, &ended) {
        return Ok(cancelled(dir, None));
    }
    if dirs.len() > 1 {
        note!("ktax: stopped in run {} of {}", at + 1, dirs.len());
        let paths: Vec<&Path> = dirs.iter().map(TimedDir::root).collect();
        sweep::left(&paths, at).iter().for_each(|line| note!("ktax: {line}"));
    }
    ended.map(|()| Exit::Cancelled)
}

/// One command cannot boot another kernel in the middle.
fn refuse_blocks(experiment: &TimedExperiment) -> anyhow::Result<()> {
    match experiment.plan()?.is_in_blocks() {
        false => Ok(()),
        true => Err(UsageError::Text(
            "these sides are kernels that you boot; make a run directory with `ktax plan --out \
             DIR`, and then `ktax run DIR --side base`"
                .into(),
        )
        .into()),
    }
}

/// Prints a Plan, or makes a run directory of it.
pub fn plan(
    experiment: &TimedExperiment,
    out: Option<&Path>,
    host: &HostArgs,
) -> anyhow::Result<Exit> {
    let points = experiment.of_settings()?;
    let [(_, experiment)] = points.as_slice() else {
        let text = "several runs cannot be one plan; sweep settings with `ktax compare`";
        return Err(UsageError::Text(text.into()).into());
    };
    cpus::check(&experiment.machine)?;
    let Some(plan) = resolve(experiment, host)? else { return Ok(Exit::Cancelled) };
    match out {
        Some(out) => {
            let dir = TimedDir::create(out, plan)?;
            match dir.plan().is_in_blocks() {
                true => note!("ktax: planned blocks; {}", blocks::how(dir.plan(), &dir)),
                false => {
                    let path = dir.root().display();
                    note!("ktax: planned timed pairs; `ktax run {path}` runs them");
                }
            }
        }
        None => write_stdout(&report::json(&plan)?)?,
    }
    Ok(Exit::Ok)
}

/// Goes on with a run directory, and says what comes next. Of Sides that the user boots, `side` is
/// the one that this machine is now.
pub fn go_on(
    dir: &TimedDir,
    side: Option<Side>,
    how: Run,
    host: &HostArgs,
) -> anyhow::Result<Exit> {
    let side = blocks::side(dir, side)?;
    if side.is_some() && (how.peek || how.allow_differences) {
        let text = "a block has no pairs to look at; leave --peek out, and --allow-differences to \
                    `ktax analyse`";
        return Err(UsageError::Text(text.into()).into());
    }
    let _lock = dir.lock()?;
    let ended = match side {
        Some(side) => {
            let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .context("cannot tell one boot from another; mount /proc")?;
            blocks::check(&dir.blocks()?, side, boot_id.trim(), &noise::facts())?;
            drive(dir, host, &|_| true, |driver| {
                driver.block(side, boot_id.trim().to_owned(), blocks::BOOTS)
            })?
        }
        None => run(dir, how, host)?,
    };
    if ended == Ended::Cancelled {
        return Ok(cancelled(dir, side));
    }
    let path = dir.root().display();
    match side {
        Some(_) => note!("ktax: the block is there; {}", blocks::next(dir, &dir.blocks()?)),
        None => match why_ended(dir.plan(), &dir.pairs()?) {
            Some(why) => note!("ktax: ended before its end: {why}. `ktax analyse {path}` has more"),
            None => note!("ktax: every pair is there; compare them with `ktax analyse {path}`"),
        },
    }
    Ok(Exit::Ok)
}

/// What the times are judged by: the Plan on disk stays what it is.
fn judged(dir: &TimedDir, allow_differences: bool) -> TimedPlan {
    let allow_differences = allow_differences || dir.plan().allow_differences;
    TimedPlan { allow_differences, ..dir.plan().clone() }
}

/// Judges what is on disk, keeps it and prints it.
pub fn analyse(
    dir: &TimedDir,
    allow_differences: bool,
    output: &OutputArgs,
) -> anyhow::Result<Exit> {
    let _lock = dir.lock()?;
    let comparison = analyse_and_keep(dir, allow_differences)?;
    print(&comparison, output)?;
    Ok(exit(&comparison))
}

/// Judges what is on disk and keeps that beside it, in every format.
fn analyse_and_keep(dir: &TimedDir, allow_differences: bool) -> anyhow::Result<TimedComparison> {
    let (plan, path) = (&judged(dir, allow_differences), dir.root().display());
    let (comparison, next) = match plan.is_in_blocks() {
        true => {
            let blocks = dir.blocks()?;
            (in_blocks(plan, &blocks), blocks::next(dir, &blocks))
        }
        false => (timed(plan, &dir.pairs()?), format!("measure with `ktax run {path}`")),
    };
    if comparison.pairs + comparison.controls == 0 {
        return Err(UsageError::Text(format!("{path} has no pair yet; {next}")).into());
    }
    dir.write_comparison(&comparison)?;
    for (name, format) in kept() {
        dir.write_report(name, &report::timed(&comparison, &format)?)?;
    }
    Ok(comparison)
}

/// Prints a Comparison.
pub fn print(comparison: &TimedComparison, output: &OutputArgs) -> anyhow::Result<()> {
    Ok(write_stdout(&report::timed(comparison, &output.format())?)?)
}

/// Says how to go on.
fn cancelled(dir: &TimedDir, side: Option<Side>) -> Exit {
    let side = side.map(|side| format!(" --side {}", side.name())).unwrap_or_default();
    note!("ktax: stopped; resume with `ktax run {}{side}`", dir.root().display());
    Exit::Cancelled
}

/// What a Comparison says as a whole; only the rows that decide are asked.
pub fn exit(comparison: &TimedComparison) -> Exit {
    let headline = comparison.rows.iter().filter(|row| row.headline);
    Exit::of_all(headline.map(|row| match row.verdict {
        TimedVerdict::Slower => Exit::Slower,
        TimedVerdict::Failed => Exit::NotRun,
        TimedVerdict::Inconclusive | TimedVerdict::DifferentWork => Exit::Inconclusive,
        _ => Exit::Ok,
    }))
}
