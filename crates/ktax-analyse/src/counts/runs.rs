//! Runs of a plan: read from a run directory or the store, paired by Layout, and scaled to the same
//! number of operations.

use crate::effect;
use ktax_host::text::shell_path;
use ktax_model::{
    Boot, CountedOperations, Counts, CountsPlan, Error, Failure, Outcome, Path, Plan, Profile,
    ProfileLine, Result, RowFailure, Run, Sample, Side, Sides, Step, Workload,
};
use ktax_run::rundir::RunDir;

/// A source of the Runs of a Plan: a run directory, or the store. Each gives the same Comparison.
pub trait CountsRuns {
    fn plan(&self) -> &Plan<CountsPlan>;

    /// Location of the Runs, for messages.
    fn place(&self) -> String;

    /// Outcome of a Boot; `None` if it was not made yet.
    fn boot(&self, step: &Step) -> Result<Option<Boot>, ktax_model::Error>;

    /// A Run; `None` if it was not made yet.
    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, ktax_model::Error>;

    fn profile(&self, step: &Step, row: &str) -> Result<Profile, ktax_model::Error>;
}

impl CountsRuns for RunDir<CountsPlan> {
    fn plan(&self) -> &Plan<CountsPlan> {
        RunDir::plan(self)
    }

    fn place(&self) -> String {
        self.root().display().to_string()
    }

    fn boot(&self, step: &Step) -> Result<Option<Boot>, ktax_model::Error> {
        RunDir::boot(self, step)
    }

    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, ktax_model::Error> {
        RunDir::run(self, step, row)
    }

    fn profile(&self, step: &Step, row: &str) -> Result<Profile, ktax_model::Error> {
        RunDir::profile(self, step, row)
    }
}

/// A Sample, or why there is none.
type Attempt = Result<Sample, Failure>;

/// Both Sides of one Layout.
pub(super) struct Pair<'a> {
    /// Index into [`CountsPlan::layouts`].
    pub layout: usize,
    pub steps: Sides<&'a Step>,
    /// Samples of both Sides, scaled to the same number of operations.
    pub samples: Sides<Sample>,
    /// Samples of both Sides as they were measured.
    pub measured: Sides<Sample>,
    /// Scales from measured to scaled counts.
    pub scales: Sides<Scale>,
}

/// All Runs of one Workload.
pub(super) enum Gathered<'a> {
    /// One pair for each Layout, in the Plan's order.
    Measured(Vec<Pair<'a>>),
    /// At least one Run has no Sample.
    Failed(Vec<RowFailure>),
}

/// The Boots of a Plan that was carried out.
pub(super) struct PairedBoots<'a> {
    runs: &'a dyn CountsRuns,
    pairs: Vec<Sides<(&'a Step, Boot)>>,
}

impl<'a> PairedBoots<'a> {
    /// Reads all Boots. It fails if one is missing.
    pub fn read(runs: &'a dyn CountsRuns) -> Result<Self> {
        let plan = &runs.plan().method;
        check(plan)?;
        let read = |step| -> Result<_> { Ok(runs.boot(step)?.map(|boot| (step, boot))) };
        let boots = plan.steps.iter().map(read).collect::<Result<Vec<_>>>()?;
        let made: Vec<(&Step, Boot)> = boots.into_iter().flatten().collect();
        if made.len() < plan.steps.len() {
            return Err(boots_missing(made.len(), plan.steps.len(), &runs.place()));
        }
        let pair = |layout| Sides::try_from_fn(|side| find(&made, layout, side));
        let pairs = (0..plan.layouts.len()).map(pair).collect::<Result<_>>()?;
        Ok(PairedBoots { runs, pairs })
    }

    /// Every Boot, by Layout.
    pub fn made(&self) -> impl Iterator<Item = (&Step, &Boot)> + Clone {
        let pairs = self.pairs.iter().flat_map(|pair| pair.each());
        pairs.map(|(step, boot)| (*step, boot))
    }

    /// Boot parameters of one Side that its kernel does not know.
    pub fn ignored(&self, side: Side) -> Vec<String> {
        let boots = self.pairs.iter().flat_map(|pair| pair.get(side).1.ignored.iter());
        let distinct: std::collections::BTreeSet<&String> = boots.collect();
        distinct.into_iter().cloned().collect()
    }

    pub fn gather(&self, workload: &Workload) -> Result<Gathered<'a>> {
        let (mut pairs, mut failures) = (Vec::new(), Vec::new());
        for (layout, boots) in self.pairs.iter().enumerate() {
            let base = self.attempt(workload, &boots.base)?;
            let change = self.attempt(workload, &boots.change)?;
            let steps = Sides { base: boots.base.0, change: boots.change.0 };
            match (base, change) {
                (Ok(base), Ok(change)) => {
                    let measured = Sides { base, change };
                    let samples = measured.clone();
                    let scales = Sides::from_fn(|_| Scale { from: 1, to: 1 });
                    pairs.push(Pair { layout, steps, samples, measured, scales });
                }
                (base, change) => {
                    failures.extend(base.err().map(|failure| row_failure(steps.base, failure)));
                    failures.extend(change.err().map(|failure| row_failure(steps.change, failure)));
                }
            }
        }
        failures.sort_by(|a, b| a.boot.cmp(&b.boot));
        Ok(if failures.is_empty() { Gathered::Measured(pairs) } else { Gathered::Failed(failures) })
    }

    fn attempt(&self, workload: &Workload, (step, boot): &(&Step, Boot)) -> Result<Attempt> {
        if let Some(failure) = &boot.failure {
            return Ok(Err(failure.clone()));
        }
        let run = self.runs.run(step, &workload.row)?;
        let run = run.ok_or_else(|| run_missing(&workload.row, step, &self.runs.place()))?;
        let attempt = sample_or_failure(run.outcome, workload);
        match attempt.as_ref().map(|sample| (sum(sample), sample.total)) {
            Ok((sum, total)) if sum != total => {
                let sums = format!("add up to {sum}, and the total beside them is {total}");
                let reason = format!("{sums}: the file was changed");
                let error =
                    format!("the counts of {} in boot {} {reason}", workload.row, step.name());
                Err(Error::host(error).next("measure again into a new directory"))
            }
            _ => Ok(attempt),
        }
    }
}

/// Sum of the counts of all Contexts.
fn sum(sample: &Sample) -> u64 {
    let counts = sample.counts.values();
    counts.fold(0, |sum, counts| sum.saturating_add(counts.executed()))
}

/// Refuses a plan that lacks what pairing relies on.
fn check(plan: &CountsPlan) -> Result<()> {
    let idle = plan.workloads.iter().find(|workload| workload.ops == 0);
    let reason = if let Some(workload) = idle {
        format!("has a workload without operations ({})", workload.row)
    } else if plan.layouts.is_empty() {
        "has no layouts".to_owned()
    } else if plan.steps.len() != 2 * plan.layouts.len() {
        format!("has {} steps for {} layouts", plan.steps.len(), plan.layouts.len())
    } else {
        return Ok(());
    };
    Err(wrong_plan(&reason))
}

fn find<'a>(made: &[(&'a Step, Boot)], layout: usize, side: Side) -> Result<(&'a Step, Boot)> {
    let found = made.iter().find(|(step, _)| step.layout == layout && step.side == side);
    found.cloned().ok_or_else(|| no_step(layout, side))
}

pub(super) fn no_step(layout: usize, side: Side) -> Error {
    wrong_plan(&format!("has no step for layout {layout} of {}", side.name()))
}

/// Error of a plan that ktax does not make.
pub(crate) fn wrong_plan(reason: &str) -> Error {
    Error::user(format!("plan.json {reason}")).next("plan again in a new directory")
}

/// Error of a plan that was not carried out to its end.
pub(crate) fn boots_missing(made: usize, planned: usize, dir: &str) -> Error {
    let message = format!("{} of {planned} boots are not made yet", planned - made);
    Error::user(message).next(format!("resume with `ktax run {}`", shell_path(dir)))
}

/// Error of a Boot without all Runs.
pub(crate) fn run_missing(row: &str, step: &Step, dir: &str) -> Error {
    let message = format!("{row} was not run yet in boot {}", step.name());
    Error::user(message).next(format!("resume with `ktax run {}`", shell_path(dir)))
}

fn row_failure(step: &Step, failure: Failure) -> RowFailure {
    RowFailure { boot: step.name(), side: step.side, boots: 1, failure }
}

/// Sample of a Run, or why there is none.
fn sample_or_failure(outcome: Outcome, workload: &Workload) -> Attempt {
    match outcome {
        Outcome::Measured(sample) => match workload.ops_of(&sample.signature) {
            ops if ops == sample.ops && ops > 0 => Ok(sample),
            ops => Err(effect::wrong_ops(sample.ops, ops)),
        },
        Outcome::Failed(failure) => Err(failure),
    }
}

/// Scales counts of `from` operations to counts of `to` operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    pub from: u64,
    pub to: u64,
}

impl Scale {
    fn count(self, count: u64) -> u64 {
        if self.from == self.to {
            return count;
        }
        let (from, to) = (u128::from(self.from.max(1)), u128::from(self.to));
        u64::try_from((u128::from(count) * to + from / 2) / from).unwrap_or(u64::MAX)
    }

    fn counts(self, counts: &Counts) -> Counts {
        counts.map(|count| self.count(count))
    }

    /// Scales the counts of a profile.
    pub fn profile(self, profile: Profile) -> Profile {
        if self.from == self.to {
            return profile;
        }
        let line = |line: ProfileLine| ProfileLine { counts: self.counts(&line.counts), ..line };
        let path = |path: Path| Path {
            calls: self.count(path.calls),
            counts: self.counts(&path.counts),
            ..path
        };
        Profile {
            lines: profile.lines.into_iter().map(line).collect(),
            paths: profile.paths.into_iter().map(path).collect(),
            ..profile
        }
    }

    /// Scales the counts of a Sample.
    pub fn sample(self, sample: &Sample) -> Sample {
        let scaled = sample.counts.iter().map(|(context, counts)| (*context, self.counts(counts)));
        Sample { counts: scaled.collect(), ..sample.clone() }
    }
}

/// Scale of one Side's profile of a row.
pub(super) fn scale_of(operations: Option<&CountedOperations>, side: Side, to: u64) -> Scale {
    let from = operations.map_or(to, |operations| *operations.count.get(side));
    Scale { from, to }
}
