//! A program of two sizes: what one more of the size costs, and what its start does.
//!
//! A run of size `n` is taken to execute `start + n × operation`. Two sizes tell both, under each
//! Layout by itself, so their ranges and smallest detectable changes are those of any other row.

use std::collections::BTreeMap;

use super::effects::{decide, effects, metrics_of, pair_of};
use super::functions;
use super::gather::{Boots, Gathered, Pair};
use super::source::CountsRuns;
use crate::analyse::error::Result;
use crate::model::{
    Context, Counts, CountsEvidence, CountsPlan, Evidence, METRICS, Metric, OfSizes, ProgramSize,
    Row, Sample, Side, Sides, UserProgram, Verdict, Warning, Workload,
};

/// A start that takes more than this part of a run hides what an operation costs.
const DOMINANT: f64 = 0.5;

/// What was found out about the programs of two sizes.
#[derive(Default)]
pub(super) struct OfAllSizes {
    /// Of each program one row for an operation and one for the start.
    pub rows: Vec<Row>,
    /// Programs that mostly start.
    pub warnings: Vec<Warning>,
}

/// The rows of all programs of two sizes; `rows` are those of the Plan's Workloads.
///
/// # Errors
/// A Run or a profile cannot be read.
pub(super) fn of_sizes(
    runs: &dyn CountsRuns,
    boots: &Boots<'_>,
    rows: &[Row],
) -> Result<OfAllSizes> {
    let plan = &runs.plan().method;
    let mut found = OfAllSizes::default();
    for [small, large] in programs(plan) {
        let (Some(size), Some(large_size)) = (&small.size, &large.size) else { continue };
        let sizes = [size.size, large_size.size];
        let of_sizes = OfSizes { rows: [small.row(), large.row()], sizes };
        let wanted = |name: &String| rows.iter().find(|row| row.row == *name);
        let [Some(small), Some(large)] = [wanted(&of_sizes.rows[0]), wanted(&of_sizes.rows[1])]
        else {
            continue;
        };
        let family = Family { runs, boots, of_sizes: &of_sizes, program: &size.program };
        let (new, warning) = family.rows([small, large])?;
        found.rows.extend(new);
        found.warnings.extend(warning);
    }
    Ok(found)
}

/// The two sizes of each program that has them, the smaller one first.
fn programs(plan: &CountsPlan) -> impl Iterator<Item = [&UserProgram; 2]> {
    plan.programs.iter().filter_map(|small| {
        let ProgramSize { size, program, .. } = &**small.size.as_ref()?;
        let is_larger = |other: &&UserProgram| {
            other.size.as_ref().is_some_and(|of| of.program == *program && of.size > *size)
        };
        Some([small, plan.programs.iter().find(is_larger)?])
    })
}

/// One program of two sizes.
struct Family<'a> {
    runs: &'a dyn CountsRuns,
    boots: &'a Boots<'a>,
    of_sizes: &'a OfSizes,
    program: &'a UserProgram,
}

impl Family<'_> {
    fn rows(&self, measured: [&Row; 2]) -> Result<(Vec<Row>, Option<Warning>)> {
        let workloads = [self.operation(), self.start()];
        let is_wrong =
            |row: &&&Row| matches!(row.verdict, Verdict::Failed | Verdict::DifferentWork);
        if let Some(wrong) = measured.iter().find(is_wrong) {
            return Ok((self.unknown(wrong.verdict, &wrong.row, wrong), None));
        }
        let (Some(small), Some(large)) = (self.pairs(0)?, self.pairs(1)?) else {
            return Ok((Vec::new(), None));
        };
        let total = |sample: &Sample| METRICS[0].raw(sample);
        let grows = |(small, large): (&Pair<'_>, &Pair<'_>)| {
            let is_larger = |side| total(large.samples.get(side)) > total(small.samples.get(side));
            Side::BOTH.into_iter().all(is_larger)
        };
        if !small.iter().zip(&large).all(grows) {
            let [from, to] = self.of_sizes.sizes;
            let reason = format!(
                "it does not execute more at size {to} than at {from}; write {{size}} where its \
                 work depends on it, or --sizes that differ more"
            );
            let failed = |workload| Row {
                reason: Some(reason.clone()),
                ..Row::of(&workload, Verdict::Failed, Evidence::Counts(CountsEvidence::default()))
            };
            return Ok((workloads.map(failed).into(), None));
        }
        let warning = self.start_dominates(&small[0].samples.base, &large[0].samples.base);
        let [operation, start] = workloads;
        let pairs = pairs(small.iter().zip(&large), |small, large| Sample {
            ops: operation.ops,
            ..differences(small, large)
        });
        let operation = self.row(&operation, &pairs, true)?;
        let sizes = self.of_sizes.sizes;
        let pairs = pairs_of_starts(&small, &large, sizes);
        Ok((vec![operation, self.row(&start, &pairs, false)?], warning))
    }

    fn pairs(&self, which: usize) -> Result<Option<Vec<Pair<'_>>>> {
        let workloads = &self.runs.plan().method.workloads;
        let workload = workloads.iter().find(|one| one.row == self.of_sizes.rows[which]);
        Ok(match workload.map(|workload| self.boots.gather(workload)).transpose()? {
            Some(Gathered::Measured(pairs)) => Some(pairs),
            _ => None,
        })
    }

    /// What one more of the size is.
    fn operation(&self) -> Workload {
        let [from, to] = self.of_sizes.sizes;
        let operation = format!("one more of its size, between {from} and {to}");
        let (row, ops) = (self.program.row(), to - from);
        Workload { row, operation, ops, ..self.workload() }
    }

    fn start(&self) -> Workload {
        let row = format!("{}{}", self.program.row(), UserProgram::START);
        let operation = "one run, without what grows with its size".to_owned();
        Workload { row, operation, ops: 1, ..self.workload() }
    }

    fn workload(&self) -> Workload {
        let workloads = &self.runs.plan().method.workloads;
        let own = workloads.iter().find(|workload| workload.row == self.of_sizes.rows[0]);
        let title = crate::text::shell_line(self.program.command.iter().map(String::as_str));
        Workload { title, ..own.expect("it was measured").clone() }
    }

    /// Both rows of a program of which one size has no answer.
    fn unknown(&self, verdict: Verdict, name: &str, wrong: &Row) -> Vec<Row> {
        let reason = wrong.reason.as_ref().map(|reason| format!("{name}: {reason}"));
        let row = |workload: Workload| Row {
            reason: reason.clone(),
            failures: wrong.failures.clone(),
            ..Row::of(&workload, verdict, Evidence::Counts(CountsEvidence::default()))
        };
        vec![row(self.operation()), row(self.start())]
    }

    fn row(&self, workload: &Workload, pairs: &[Pair<'_>], has_functions: bool) -> Result<Row> {
        let is_there = |metric: &&Metric| {
            let mut samples =
                pairs.iter().flat_map(|pair| [&pair.samples.base, &pair.samples.change]);
            samples.any(|sample| metric.raw(sample) > 0)
        };
        let metrics: Vec<&Metric> = metrics_of(&pairs[0].samples.base).filter(is_there).collect();
        let mut effects = effects(&metrics, workload, pairs, self.runs.plan().threshold_percent);
        let (verdict, decided_by) = decide(&effects);
        for (effect, metric) in effects.iter_mut().zip(metrics) {
            if effect.verdict.is_change() && metric.is_of_functions() && has_functions {
                let pair = pair_of(effect, pairs);
                let rows = &self.of_sizes.rows;
                effect.functions =
                    functions::of_sizes(self.runs, rows, pair, workload.ops, metric)?;
            }
        }
        let sizes = Some(self.of_sizes.clone());
        let evidence = CountsEvidence { decided_by, effects, sizes, ..CountsEvidence::default() };
        Ok(Row::of(workload, verdict, Evidence::Counts(evidence)))
    }

    fn start_dominates(&self, small: &Sample, large: &Sample) -> Option<Warning> {
        let total = |sample: &Sample| METRICS[0].raw(sample) as f64;
        let [from, to] = self.of_sizes.sizes.map(|size| size as f64);
        let per_op = (total(large) - total(small)) / (to - from);
        let part = 1.0 - per_op * to / total(large);
        let row = self.program.row();
        (part > DOMINANT).then(|| Warning {
            fact: format!(
                "{:.1} % of the instructions of {} are its start",
                part * 100.0,
                self.of_sizes.rows[1]
            ),
            next_step: format!("read {row} for what an operation costs, or write larger --sizes"),
        })
    }
}

/// Pairs with what a function makes of the Samples of both sizes.
fn pairs<'a>(
    both: impl Iterator<Item = (&'a Pair<'a>, &'a Pair<'a>)>,
    sample: impl Fn(&Sample, &Sample) -> Sample,
) -> Vec<Pair<'a>> {
    let pair = |(small, large): (&Pair<'a>, &Pair<'a>)| {
        let samples = Sides::of(|side| sample(small.samples.get(side), large.samples.get(side)));
        let Pair { layout, ref steps, ref measured, ref scales, .. } = *large;
        let (steps, measured) =
            (Sides { base: steps.base, change: steps.change }, measured.clone());
        Pair { layout, steps, samples, measured, scales: Sides::of(|side| *scales.get(side)) }
    };
    both.map(pair).collect()
}

fn pairs_of_starts<'a>(
    small: &'a [Pair<'a>],
    large: &'a [Pair<'a>],
    [from, to]: [u64; 2],
) -> Vec<Pair<'a>> {
    let start = |small: u64, large: u64| {
        let (small, large) = (i128::from(small), i128::from(large));
        let (from, to) = (i128::from(from), i128::from(to));
        let start = (to * small - from * large) / (to - from);
        u64::try_from(start.max(0)).unwrap_or(u64::MAX)
    };
    pairs(small.iter().zip(large), |small, large| Sample {
        ops: 1,
        ..combined(small, large, |small, large| small.with(large, start))
    })
}

fn differences(small: &Sample, large: &Sample) -> Sample {
    combined(small, large, |small, large| {
        let mut counts = *large;
        counts -= *small;
        counts
    })
}

/// A Sample whose counts are made of those of two, by Context.
fn combined(
    small: &Sample,
    large: &Sample,
    combine: impl Fn(&Counts, &Counts) -> Counts,
) -> Sample {
    let none = Counts::default();
    let of_context =
        |sample: &Sample, context: Context| sample.counts.get(&context).copied().unwrap_or(none);
    let contexts = small.counts.keys().chain(large.counts.keys());
    let counts: BTreeMap<Context, Counts> = contexts
        .map(|&context| {
            (context, combine(&of_context(small, context), &of_context(large, context)))
        })
        .collect();
    Sample { counts, parallel: None, ..large.clone() }
}
