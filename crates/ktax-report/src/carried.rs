//! The kind of count by which functions explain an effect, and the function that explains most.

use std::collections::BTreeSet;

use crate::verdict;
use ktax_model::{
    Effect, FunctionDelta, MAKESPAN, METRICS, Own, PathDelta, Row, SPIN_WAIT, Sides, TRANSFERS,
};
use ktax_stats::tables::share_percent;

/// Kind of count by which functions carry an Effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountKind {
    /// Instructions that a function executes.
    Instructions,
    /// Repeats of string instructions.
    Rep,
    /// Instructions for which CPUs wait in a function.
    Wait,
    /// Cache lines that a function gets from another CPU, by the model of coherence.
    Transfers,
}

impl CountKind {
    /// Returns the kind that explains an Effect.
    pub fn from_effect(effect: &Effect) -> CountKind {
        CountKind::from_metric(&effect.metric)
    }

    /// Returns the kind that explains a Metric.
    pub fn from_metric(metric: &str) -> CountKind {
        match metric {
            verdict::REP => CountKind::Rep,
            SPIN_WAIT => CountKind::Wait,
            TRANSFERS => CountKind::Transfers,
            _ => CountKind::Instructions,
        }
    }

    /// Returns a function's count in the Region, for each side.
    pub fn counts(self, function: &FunctionDelta) -> &Sides<u64> {
        match self {
            CountKind::Instructions => &function.instructions,
            CountKind::Rep => &function.rep_iterations,
            CountKind::Wait => &function.wait,
            CountKind::Transfers => &function.transfers,
        }
    }

    /// Returns a path's count with all below it; `None` of what paths do not have.
    pub fn path_counts(self, path: &PathDelta) -> Option<&Sides<u64>> {
        match self {
            CountKind::Instructions => Some(&path.instructions),
            CountKind::Rep => Some(&path.rep_iterations),
            CountKind::Wait => Some(&path.wait),
            CountKind::Transfers => None,
        }
    }

    /// Returns the count of a path itself, without those below it. Paths have no transfers: for
    /// these it returns instructions.
    pub fn own_counts(self, own: &Own) -> &Sides<u64> {
        match self {
            CountKind::Rep => &own.rep_iterations,
            CountKind::Wait => &own.wait,
            CountKind::Instructions | CountKind::Transfers => &own.instructions,
        }
    }

    /// Returns a function's count per operation, change minus base.
    pub fn delta(self, function: &FunctionDelta, row: &Row) -> f64 {
        let Sides { base, change } = self.counts(function);
        (*change as f64 - *base as f64) / row.ops.max(1) as f64
    }

    /// Returns the kind that is shown beside this one.
    pub fn other(self) -> CountKind {
        match self {
            CountKind::Instructions => CountKind::Rep,
            _ => CountKind::Instructions,
        }
    }

    /// Names the kind in a sentence.
    pub fn unit(self) -> &'static str {
        match self {
            CountKind::Instructions => "instructions",
            CountKind::Rep => "REP iterations",
            CountKind::Wait => "instructions of spin-wait",
            CountKind::Transfers => "model transfers",
        }
    }

    /// Names the kind in the head of a column.
    pub fn head(self) -> &'static str {
        match self {
            CountKind::Instructions => "insn",
            other => other.short(),
        }
    }

    /// Names the kind where there is little room.
    pub fn short(self) -> &'static str {
        match self {
            CountKind::Instructions => "instructions",
            CountKind::Rep => "REP",
            CountKind::Wait => "spin-wait",
            CountKind::Transfers => "transfers",
        }
    }

    /// Mark behind the name of a function: ` (REP)`; empty for instructions.
    pub fn mark(self) -> String {
        match self {
            CountKind::Instructions => String::new(),
            other => format!(" ({})", other.short()),
        }
    }
}

/// Returns the Effect whose functions explain the row's verdict. No function carries a makespan:
/// there it is the largest change of executed instructions and spin-wait.
pub fn carrying(row: &Row) -> Option<&Effect> {
    let deciding = row.deciding()?;
    if deciding.metric != MAKESPAN {
        return Some(deciding);
    }
    let is_of_cpus = |effect: &&Effect| [METRICS[0].name, SPIN_WAIT].contains(&&*effect.metric);
    let changed = row.effects().iter().filter(|effect| !effect.functions.is_empty());
    let changed = changed.filter(|effect| deciding.verdict.is_change() && is_of_cpus(effect));
    changed.max_by(|one, other| one.delta.abs().total_cmp(&other.delta.abs()))
}

/// Share in percent below which a function does not explain the deciding Effect.
const LITTLE_PERCENT: f64 = 1.0;

/// Names the function that carries most of the deciding Effect, and its share: `security_task_alloc
/// 35 %`. It is `lack of FSRM` where nothing but a missing CPU feature carries it.
pub fn carried_most(row: &Row) -> Option<String> {
    let effect = carrying(row)?;
    let first = effect.functions.first()?;
    let features = missing_features(row, effect);
    match features.is_empty() {
        true => Some(format!("{} {:.0} %", first.function, effect_share(row, effect, first))),
        false => Some(format!("lack of {}", Vec::from_iter(features).join(", "))),
    }
}

/// Returns the features that the CPU lacks, if their lack alone carries the Effect; else none.
pub fn missing_features(row: &Row, effect: &Effect) -> BTreeSet<&'static str> {
    let explains = |function: &FunctionDelta| {
        effect.lacking(&function.function).is_none()
            && effect_share(row, effect, function).abs() >= LITTLE_PERCENT
    };
    match effect.functions.iter().any(explains) {
        true => BTreeSet::new(),
        false => effect.fallbacks().map(|way| way.feature).collect(),
    }
}

/// Returns the share of an Effect's delta that a function carries, in percent.
fn effect_share(row: &Row, effect: &Effect, function: &FunctionDelta) -> f64 {
    share_percent(CountKind::from_effect(effect).delta(function, row), effect.delta)
}
