//! Runs of a plan: read from a run directory or the store, paired by Layout, and scaled to the same
//! number of operations.
//!
//! Programs of two sizes: a run of size `n` is assumed to execute `start + n × operation`. Two
//! sizes give the cost of the start and of an operation under each Layout, so the computed rows
//! have ranges and minimum detectable effects like any other row.

use super::{decide, effects, functions, pair_of_effect, row_metrics};
use crate::effect;
use ktax_host::text::{shell_line, shell_path};
use ktax_model::{
    Boot, CountedOperations, Counts, CountsEvidence, CountsPlan, Error, Evidence, Failure, METRICS,
    Outcome, Path, Plan, Profile, ProfileLine, Result, Row, RowFailure, Run, Sample, Side, Sides,
    SizePair, Step, UserProgram, Verdict, Warning, Workload,
};
use ktax_run::rundir::RunDir;

/// A source of the Runs of a Plan: a run directory or the store.
pub trait CountsRuns {
    fn plan(&self) -> &Plan<CountsPlan>;

    /// Location of the Runs, for messages.
    fn location(&self) -> String;

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

    fn location(&self) -> String {
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

/// Sample of a Run, or the Run's failure.
type SampleOrFailure = Result<Sample, Failure>;

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

/// Runs of one Workload under all Layouts.
pub(super) enum WorkloadRuns<'a> {
    /// One pair for each Layout, in the Plan's order.
    Measured(Vec<Pair<'a>>),
    /// Failures, if at least one Run has no Sample.
    Failed(Vec<RowFailure>),
}

/// Boots of a finished run, paired by Layout.
pub(super) struct PairedBoots<'a> {
    runs: &'a dyn CountsRuns,
    pairs: Vec<Sides<(&'a Step, Boot)>>,
}

impl<'a> PairedBoots<'a> {
    /// Reads all Boots; an error if one is missing.
    pub fn read(runs: &'a dyn CountsRuns) -> Result<Self> {
        let plan = &runs.plan().method;
        check_plan(plan)?;
        let read = |step| -> Result<_> { Ok(runs.boot(step)?.map(|boot| (step, boot))) };
        let boots = plan.steps.iter().map(read).collect::<Result<Vec<_>>>()?;
        let boots: Vec<(&Step, Boot)> = boots.into_iter().flatten().collect();
        if boots.len() < plan.steps.len() {
            return Err(boots_missing(boots.len(), plan.steps.len(), &runs.location()));
        }
        let pair = |layout| Sides::try_from_fn(|side| find_boot(&boots, layout, side));
        let pairs = (0..plan.layouts.len()).map(pair).collect::<Result<_>>()?;
        Ok(PairedBoots { runs, pairs })
    }

    /// All Boots, in the order of their Layouts.
    pub fn boots(&self) -> impl Iterator<Item = (&Step, &Boot)> + Clone {
        let pairs = self.pairs.iter().flat_map(|pair| pair.both());
        pairs.map(|(step, boot)| (*step, boot))
    }

    /// Boot parameters that the kernel of a Side does not know, each once.
    pub fn ignored_parameters(&self, side: Side) -> Vec<String> {
        let boots = self.pairs.iter().flat_map(|pair| pair.get(side).1.ignored.iter());
        let distinct: std::collections::BTreeSet<&String> = boots.collect();
        distinct.into_iter().cloned().collect()
    }

    /// Runs of a Workload under all Layouts.
    pub fn workload_runs(&self, workload: &Workload) -> Result<WorkloadRuns<'a>> {
        let (mut pairs, mut failures) = (Vec::new(), Vec::new());
        for (layout, boots) in self.pairs.iter().enumerate() {
            let base = self.sample(workload, &boots.base)?;
            let change = self.sample(workload, &boots.change)?;
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
        Ok(match failures.is_empty() {
            true => WorkloadRuns::Measured(pairs),
            false => WorkloadRuns::Failed(failures),
        })
    }

    /// Sample of a Workload in one Boot, or its failure. The counts of a Sample must add up.
    fn sample(&self, workload: &Workload, (step, boot): &(&Step, Boot)) -> Result<SampleOrFailure> {
        if let Some(failure) = &boot.failure {
            return Ok(Err(failure.clone()));
        }
        let run = self.runs.run(step, &workload.row)?;
        let run = run.ok_or_else(|| run_missing(&workload.row, step, &self.runs.location()))?;
        let outcome = sample_or_failure(run.outcome, workload);
        match outcome.as_ref().map(|sample| (sum_of_counts(sample), sample.total)) {
            Ok((sum, total)) if sum != total => {
                let sums = format!("add up to {sum}, but the file gives a total of {total}");
                let reason = format!("{sums}: the file was changed");
                let error =
                    format!("the counts of {} in boot {} {reason}", workload.row, step.name());
                Err(Error::host(error).next("measure again into a new directory"))
            }
            _ => Ok(outcome),
        }
    }
}

/// Sum of the counts of all Contexts.
fn sum_of_counts(sample: &Sample) -> u64 {
    let counts = sample.counts.values();
    counts.fold(0, |sum, counts| sum.saturating_add(counts.executed()))
}

/// Refuses a plan that ktax does not make: one without operations, Layouts, Steps or ascending
/// sizes.
fn check_plan(plan: &CountsPlan) -> Result<()> {
    let idle = plan.workloads.iter().find(|workload| workload.ops == 0);
    let reason = if let Some(workload) = idle {
        format!("has a workload without operations ({})", workload.row)
    } else if plan.layouts.is_empty() {
        "has no layouts".to_owned()
    } else if plan.steps.len() != 2 * plan.layouts.len() {
        format!("has {} steps for {} layouts", plan.steps.len(), plan.layouts.len())
    } else {
        return check_sizes(&plan.asked.guest.programs);
    };
    Err(wrong_plan(&reason))
}

/// Refuses sizes of a program that do not ascend: costs are divided by the difference of two sizes.
fn check_sizes(programs: &[UserProgram]) -> Result<()> {
    let is_ascending = |sizes: &[u64]| sizes.windows(2).all(|pair| pair[0] < pair[1]);
    let has_wrong_sizes = |program: &&UserProgram| {
        program.size.as_ref().is_some_and(|size| !is_ascending(&size.sizes))
    };
    match programs.iter().find(has_wrong_sizes) {
        None => Ok(()),
        Some(program) => {
            Err(wrong_plan(&format!("has sizes of {} that do not ascend", program.row())))
        }
    }
}

fn find_boot<'a>(
    boots: &[(&'a Step, Boot)],
    layout: usize,
    side: Side,
) -> Result<(&'a Step, Boot)> {
    let boot = boots.iter().find(|(step, _)| step.layout == layout && step.side == side);
    boot.cloned().ok_or_else(|| missing_step(layout, side))
}

pub(super) fn missing_step(layout: usize, side: Side) -> Error {
    wrong_plan(&format!("has no step for layout {layout} of {}", side.name()))
}

/// Error about a plan that ktax does not make.
pub(crate) fn wrong_plan(reason: &str) -> Error {
    Error::user(format!("plan.json {reason}")).next("plan again in a new directory")
}

/// Error about a run that is not finished.
pub(crate) fn boots_missing(made: usize, planned: usize, dir: &str) -> Error {
    let message = format!("{} of {planned} boots are not made yet", planned - made);
    Error::user(message).next(format!("resume with `ktax run {}`", shell_path(dir)))
}

/// Error about a Boot that lacks a Run.
pub(crate) fn run_missing(row: &str, step: &Step, dir: &str) -> Error {
    let message = format!("{row} was not run yet in boot {}", step.name());
    Error::user(message).next(format!("resume with `ktax run {}`", shell_path(dir)))
}

fn row_failure(step: &Step, failure: Failure) -> RowFailure {
    RowFailure { boot: step.name(), side: step.side, boots: 1, failure }
}

/// Sample of a Run, or the failure; a Sample with a wrong number of operations is a failure.
fn sample_or_failure(outcome: Outcome, workload: &Workload) -> SampleOrFailure {
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
pub(super) fn side_scale(operations: Option<&CountedOperations>, side: Side, to: u64) -> Scale {
    let from = operations.map_or(to, |operations| *operations.count.get(side));
    Scale { from, to }
}

/// Share of a run's instructions above which the start hides the cost of an operation.
const MAX_START_SHARE: f64 = 0.5;

/// Rows and warnings computed from programs of two sizes.
#[derive(Default)]
pub(super) struct ComputedRows {
    /// Two rows for each program: an operation, and the start.
    pub rows: Vec<Row>,
    /// Warnings about programs whose runs are mostly their start.
    pub warnings: Vec<Warning>,
}

/// Computes the rows of all programs of two sizes from the measured rows.
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
        // The store may have only one of the sizes.
        let found = sizes_of_program.filter_map(|program| {
            let workload = plan.workloads.iter().find(|workload| workload.row == program.row())?;
            Some((workload, measured.iter().find(|row| row.row == workload.row)?))
        });
        let found: Vec<(&Workload, &Row)> = found.collect();
        let ([small, large], &[from, to]) = (&found[..], &size.sizes[..]) else { continue };
        let sizes =
            SizePair { rows: [small.0.row.clone(), large.0.row.clone()], sizes: [from, to] };
        let sized_program = SizedProgram { runs, sizes, program: &size.program, workload: small.0 };
        let failed_row = [small.1, large.1].into_iter().find(|row| has_no_answer(row));
        let runs_of_sizes = (boots.workload_runs(small.0)?, boots.workload_runs(large.0)?);
        match (failed_row, runs_of_sizes) {
            (None, (WorkloadRuns::Measured(small), WorkloadRuns::Measured(large))) => {
                let rows = sized_program.rows(&small, &large)?;
                let has_answers = !rows.iter().any(has_no_answer);
                let warning =
                    has_answers.then(|| sized_program.start_warning(&small[0], &large[0]));
                computed.warnings.extend(warning.flatten());
                computed.rows.extend(rows);
            }
            (Some(row), _) => {
                let reason = row.reason.as_ref().map(|reason| format!("{}: {reason}", row.row));
                let failures = &row.failures;
                computed.rows.extend(sized_program.rows_without_answer(
                    row.verdict,
                    reason,
                    failures,
                ));
            }
            _ => {}
        }
    }
    Ok(computed)
}

fn has_no_answer(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Failed | Verdict::DifferentWork)
}

/// A program of two sizes.
struct SizedProgram<'a> {
    runs: &'a dyn CountsRuns,
    sizes: SizePair,
    /// The program as the user wrote it.
    program: &'a UserProgram,
    /// Workload of the smaller size.
    workload: &'a Workload,
}

impl SizedProgram<'_> {
    /// Rows of an operation and of the start, from the pairs of both sizes.
    fn rows(&self, small: &[Pair<'_>], large: &[Pair<'_>]) -> Result<Vec<Row>> {
        let [from, to] = self.sizes.sizes;
        let total = |pair: &Pair<'_>, side| METRICS[0].raw_count(pair.samples.get(side));
        let grows = |(small, large): (&Pair<'_>, &Pair<'_>)| {
            Side::BOTH.into_iter().all(|side| total(large, side) > total(small, side))
        };
        if !small.iter().zip(large).all(grows) {
            let reason = format!(
                "the program does not execute more at size {to} than at {from}; write {{size}} \
                 where the size belongs in the command, or --sizes that differ more"
            );
            return Ok(self.rows_without_answer(Verdict::Failed, Some(reason), &[]).into());
        }
        let operations = combined_pairs(small, large, |small, large| large.saturating_sub(small));
        let starts =
            combined_pairs(small, large, |small, large| count_of_start([small, large], [from, to]));
        let [operation, start] = self.workloads();
        Ok(vec![self.row(&operation, &operations, true)?, self.row(&start, &starts, false)?])
    }

    /// Workloads of the computed rows: an operation, which is one more of the size, and the start.
    fn workloads(&self) -> [Workload; 2] {
        let [from, to] = self.sizes.sizes;
        let title = shell_line(self.program.command.iter().map(String::as_str));
        let computed = |row, operation, ops| {
            let title = title.clone();
            Workload { row, title, operation, ops, ..self.workload.clone() }
        };
        let operation = format!("one more of its size, between {from} and {to}");
        let start = "one run, without what grows with its size".to_owned();
        [
            computed(self.program.row(), operation, to - from),
            computed(self.program.start_row(), start, 1),
        ]
    }

    fn rows_without_answer(
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
        let metrics = row_metrics(pairs);
        let mut effects = effects(&metrics, workload, pairs, self.runs.plan().threshold_percent);
        let (verdict, decided_by) = decide(&effects);
        for (effect, metric) in effects.iter_mut().zip(metrics) {
            if effect.verdict.is_change() && metric.has_function_counts() && has_functions {
                let (pair, rows) = (pair_of_effect(effect, pairs), &self.sizes.rows);
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

    /// Warns if the start is more than [`MAX_START_SHARE`] of the larger size's instructions.
    fn start_warning(&self, small: &Pair<'_>, large: &Pair<'_>) -> Option<Warning> {
        let total = |pair: &Pair<'_>| METRICS[0].raw_count(&pair.samples.base) as f64;
        let [from, to] = self.sizes.sizes.map(|size| size as f64);
        let per_op = (total(large) - total(small)) / (to - from);
        let start_share = 1.0 - per_op * to / total(large);
        let (percent, row) = (start_share * 100.0, &self.sizes.rows[1]);
        (start_share > MAX_START_SHARE).then(|| Warning {
            fact: format!("{percent:.1} % of the instructions of {row} are its start"),
            next_step: format!(
                "read {} for what an operation costs, or write larger --sizes",
                self.program.row()
            ),
        })
    }
}

/// Count at size 0 of a straight line through the counts at two sizes; at least 0.
fn count_of_start([small, large]: [u64; 2], [from, to]: [u64; 2]) -> u64 {
    let [small, large, from, to] = [small, large, from, to].map(u128::from);
    let start = (to * small).saturating_sub(from * large) / (to - from);
    u64::try_from(start).unwrap_or(u64::MAX)
}

/// Pairs whose counts are computed from the counts of both sizes.
fn combined_pairs<'a>(
    small: &[Pair<'a>],
    large: &[Pair<'a>],
    combine: impl Fn(u64, u64) -> u64,
) -> Vec<Pair<'a>> {
    let sample = |small: &Sample, large: &Sample| {
        let contexts = small.counts.keys().chain(large.counts.keys());
        let counts = contexts.map(|context| {
            let [small, large] = [small, large]
                .map(|sample| sample.counts.get(context).copied().unwrap_or_default());
            (*context, small.zip_with(&large, &combine))
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
    use ktax_model::ProgramSize;

    #[test]
    fn the_start_is_the_count_of_a_line_at_size_0() {
        assert_eq!(count_of_start([1100, 2100], [100, 1100]), 1000);
        assert_eq!(count_of_start([700, 700], [100, 200]), 700);
        // The line is below 0 at size 0.
        assert_eq!(count_of_start([100, 3000], [100, 200]), 0);
        assert_eq!(count_of_start([u64::MAX, u64::MAX], [1, u64::MAX]), u64::MAX);
    }

    #[test]
    fn sizes_that_do_not_ascend_are_refused() {
        let check = |sizes: &[u64]| {
            let program = UserProgram { name: "fio".to_owned(), ..UserProgram::default() };
            let size = ProgramSize { size: 0, sizes: sizes.to_vec(), program: program.clone() };
            check_sizes(&[UserProgram { size: Some(Box::new(size)), ..program }])
        };
        assert!(check(&[100, 1100]).is_ok());
        for sizes in [[100, 100], [1100, 100]] {
            let error = check(&sizes).unwrap_err().to_string();
            assert!(error.starts_with("plan.json has sizes of program:fio"), "{error}");
        }
    }
}
