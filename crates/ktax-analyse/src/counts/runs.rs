//! Runs of a plan: read from a run directory or the store, paired by Layout, and scaled to the same
//! number of operations.
//!
//! Programs of two sizes: a run of size `n` is taken to execute `start + n × operation`. Two sizes
//! give both, under each Layout by itself, so their ranges and minimum detectable effects are
//! those of any other row.

use super::{decide, effects, functions, metrics_of, pair_of};
use crate::effect;
use ktax_host::text::{shell_line, shell_path};
use ktax_model::{
    Boot, CountedOperations, Counts, CountsEvidence, CountsPlan, Error, Evidence, Failure, METRICS,
    Outcome, Path, Plan, Profile, ProfileLine, Result, Row, RowFailure, Run, Sample, Side, Sides,
    SizePair, Step, UserProgram, Verdict, Warning, Workload,
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
        let pairs = self.pairs.iter().flat_map(|pair| pair.both());
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

/// If the start takes more than this part of a run, it hides the cost of an operation.
const DOMINANT: f64 = 0.5;

/// Rows and warnings computed from programs of two sizes.
#[derive(Default)]
pub(super) struct ComputedRows {
    /// For each program one row for an operation and one for the start.
    pub rows: Vec<Row>,
    /// Warnings about programs that mostly start.
    pub warnings: Vec<Warning>,
}

/// Rows of all programs of two sizes; `measured` are those of the Plan's Workloads.
pub(super) fn computed_rows(
    runs: &dyn CountsRuns,
    boots: &PairedBoots<'_>,
    measured: &[Row],
) -> Result<ComputedRows> {
    let plan = &runs.plan().method;
    let mut computed = ComputedRows::default();
    for program in &plan.asked.guest.programs {
        let Some(size) = program.size.as_ref().filter(|size| size.is_smallest()) else { continue };
        let sizes_of_program =
            plan.asked.guest.programs.iter().filter(|other| {
                other.size.as_ref().is_some_and(|other| other.program == size.program)
            });
        // A store may have only one of the sizes.
        let found = sizes_of_program.filter_map(|program| {
            let workload = plan.workloads.iter().find(|workload| workload.row == program.row())?;
            Some((workload, measured.iter().find(|row| row.row == workload.row)?))
        });
        let found: Vec<(&Workload, &Row)> = found.collect();
        let ([small, large], &[from, to]) = (&found[..], &size.sizes[..]) else { continue };
        let sizes =
            SizePair { rows: [small.0.row.clone(), large.0.row.clone()], sizes: [from, to] };
        let family = ProgramSizes { runs, sizes, program: &size.program, workload: small.0 };
        let wrong = [small.1, large.1].into_iter().find(|row| has_no_answer(row));
        let gathered = (boots.gather(small.0)?, boots.gather(large.0)?);
        match (wrong, gathered) {
            (None, (Gathered::Measured(small), Gathered::Measured(large))) => {
                let rows = family.rows(&small, &large)?;
                let is_known = !rows.iter().any(has_no_answer);
                let warning = is_known.then(|| family.start_dominates(&small[0], &large[0]));
                computed.warnings.extend(warning.flatten());
                computed.rows.extend(rows);
            }
            (Some(row), _) => {
                let reason = row.reason.as_ref().map(|reason| format!("{}: {reason}", row.row));
                let failures = &row.failures;
                computed.rows.extend(family.without_answer(row.verdict, reason, failures));
            }
            _ => {}
        }
    }
    Ok(computed)
}

fn has_no_answer(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Failed | Verdict::DifferentWork)
}

/// One program of two sizes.
struct ProgramSizes<'a> {
    runs: &'a dyn CountsRuns,
    sizes: SizePair,
    /// The program as the user wrote it.
    program: &'a UserProgram,
    /// Workload of the smaller size.
    workload: &'a Workload,
}

impl ProgramSizes<'_> {
    fn rows(&self, small: &[Pair<'_>], large: &[Pair<'_>]) -> Result<Vec<Row>> {
        let [from, to] = self.sizes.sizes;
        let total = |pair: &Pair<'_>, side| METRICS[0].raw_count(pair.samples.get(side));
        let grows = |(small, large): (&Pair<'_>, &Pair<'_>)| {
            Side::BOTH.into_iter().all(|side| total(large, side) > total(small, side))
        };
        if !small.iter().zip(large).all(grows) {
            let reason = format!(
                "it does not execute more at size {to} than at {from}; write {{size}} where its \
                 work depends on it, or --sizes that differ more"
            );
            return Ok(self.without_answer(Verdict::Failed, Some(reason), &[]).into());
        }
        let operations = combined(small, large, |small, large| large.saturating_sub(small));
        let starts = combined(small, large, |small, large| start([small, large], [from, to]));
        let [operation, start] = self.workloads();
        Ok(vec![self.row(&operation, &operations, true)?, self.row(&start, &starts, false)?])
    }

    /// Workloads of one more of the size, and of the start.
    fn workloads(&self) -> [Workload; 2] {
        let [from, to] = self.sizes.sizes;
        let title = shell_line(self.program.command.iter().map(String::as_str));
        let computed = |row, operation, ops| {
            let title = title.clone();
            Workload { row, title, operation, ops, ..self.workload.clone() }
        };
        let operation = format!("one more of its size, between {from} and {to}");
        let without = "one run, without what grows with its size".to_owned();
        [
            computed(self.program.row(), operation, to - from),
            computed(self.program.start_row(), without, 1),
        ]
    }

    fn without_answer(
        &self,
        verdict: Verdict,
        reason: Option<String>,
        failures: &[RowFailure],
    ) -> [Row; 2] {
        self.workloads().map(|workload| Row {
            reason: reason.clone(),
            failures: failures.to_vec(),
            ..Row::new(&workload, verdict, Evidence::Counts(CountsEvidence::default()))
        })
    }

    fn row(&self, workload: &Workload, pairs: &[Pair<'_>], has_functions: bool) -> Result<Row> {
        let metrics = metrics_of(pairs);
        let mut effects = effects(&metrics, workload, pairs, self.runs.plan().threshold_percent);
        let (verdict, decided_by) = decide(&effects);
        for (effect, metric) in effects.iter_mut().zip(metrics) {
            if effect.verdict.is_change() && metric.has_function_counts() && has_functions {
                let (pair, rows) = (pair_of(effect, pairs), &self.sizes.rows);
                effect.functions = functions::functions_at_larger_size(
                    self.runs,
                    rows,
                    pair,
                    workload.ops,
                    metric,
                )?;
            }
        }
        let sizes = Some(self.sizes.clone());
        let evidence = CountsEvidence { decided_by, effects, sizes, ..CountsEvidence::default() };
        Ok(Row::new(workload, verdict, Evidence::Counts(evidence)))
    }

    fn start_dominates(&self, small: &Pair<'_>, large: &Pair<'_>) -> Option<Warning> {
        let total = |pair: &Pair<'_>| METRICS[0].raw_count(&pair.samples.base) as f64;
        let [from, to] = self.sizes.sizes.map(|size| size as f64);
        let per_op = (total(large) - total(small)) / (to - from);
        let part = 1.0 - per_op * to / total(large);
        let (of_start, row) = (part * 100.0, &self.sizes.rows[1]);
        (part > DOMINANT).then(|| Warning {
            fact: format!("{of_start:.1} % of the instructions of {row} are its start"),
            next_step: format!(
                "read {} for what an operation costs, or write larger --sizes",
                self.program.row()
            ),
        })
    }
}

/// Value at size 0 of a straight line through two counts, at least 0.
fn start([small, large]: [u64; 2], [from, to]: [u64; 2]) -> u64 {
    let [small, large, from, to] = [small, large, from, to].map(u128::from);
    let start = (to * small).saturating_sub(from * large) / (to - from);
    u64::try_from(start).unwrap_or(u64::MAX)
}

/// Pairs whose counts are computed from those of both sizes.
fn combined<'a>(
    small: &[Pair<'a>],
    large: &[Pair<'a>],
    make: impl Fn(u64, u64) -> u64,
) -> Vec<Pair<'a>> {
    let sample = |small: &Sample, large: &Sample| {
        let contexts = small.counts.keys().chain(large.counts.keys());
        let counts = contexts.map(|context| {
            let [small, large] = [small, large]
                .map(|sample| sample.counts.get(context).copied().unwrap_or_default());
            (*context, small.zip_with(&large, &make))
        });
        Sample { counts: counts.collect(), parallel: None, ..large.clone() }
    };
    let pair = |(small, large): (&Pair<'a>, &Pair<'a>)| Pair {
        layout: large.layout,
        steps: Sides { base: large.steps.base, change: large.steps.change },
        samples: Sides::from_fn(|side| sample(small.samples.get(side), large.samples.get(side))),
        measured: large.measured.clone(),
        scales: Sides { base: large.scales.base, change: large.scales.change },
    };
    small.iter().zip(large).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_what_a_line_leaves_at_size_0() {
        assert_eq!(start([1100, 2100], [100, 1100]), 1000);
        assert_eq!(start([700, 700], [100, 200]), 700);
        // The second hundred cost more than the first: the start would be negative, and is 0.
        assert_eq!(start([100, 3000], [100, 200]), 0);
        assert_eq!(start([u64::MAX, u64::MAX], [1, u64::MAX]), u64::MAX);
    }
}
