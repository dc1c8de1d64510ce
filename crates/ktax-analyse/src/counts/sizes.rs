//! Programs of two sizes: the cost of one more of the size, and the cost of the start.
//!
//! A run of size `n` is taken to execute `start + n × operation`. Two sizes give both, under each
//! Layout by itself, so their ranges and smallest detectable changes are those of any other row.

use super::runs::{CountsRuns, Gathered, Pair, PairedBoots};
use super::{decide, effects, functions, metrics_of, pair_of};
use ktax_host::text::shell_line;
use ktax_model::{
    CountsEvidence, Evidence, METRICS, OfSizes, Result, Row, RowFailure, Sample, Side, Sides,
    UserProgram, Verdict, Warning, Workload,
};

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
        let sizes = OfSizes { rows: [small.0.row.clone(), large.0.row.clone()], sizes: [from, to] };
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
    sizes: OfSizes,
    /// The program as the user wrote it.
    program: &'a UserProgram,
    /// Workload of the smaller size.
    workload: &'a Workload,
}

impl ProgramSizes<'_> {
    fn rows(&self, small: &[Pair<'_>], large: &[Pair<'_>]) -> Result<Vec<Row>> {
        let [from, to] = self.sizes.sizes;
        let total = |pair: &Pair<'_>, side| METRICS[0].raw(pair.samples.get(side));
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
            computed(self.program.row_of_start(), without, 1),
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
            if effect.verdict.is_change() && metric.is_of_functions() && has_functions {
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
        let total = |pair: &Pair<'_>| METRICS[0].raw(&pair.samples.base) as f64;
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
            (*context, small.with(&large, &make))
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
