use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counts::{CountsComparison, CountsEvidence};
use super::effect::Effect;
use super::guests::{GuestsComparison, GuestsEvidence};
use super::times::{TimesComparison, TimesEvidence};
use super::{ExitTable, Failure, Side, Verdict, Warning, Workload};

/// Boots of a row that have no measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFailure {
    /// The first such Boot: its directory's name, or its pair's number.
    pub boot: String,
    /// Which Side.
    pub side: Side,
    /// How many Boots of that Side failed this way.
    pub boots: usize,
    /// Why.
    pub failure: Failure,
}

/// One Workload, compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The Workload's row name.
    pub row: String,
    /// One line for people.
    pub title: String,
    /// What one operation is.
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, u64>,
    /// Whether the row counts for the exit status; secondary rows do not.
    pub headline: bool,
    /// What follows.
    pub verdict: Verdict,
    /// Why there is no answer, or how the work differed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The Boots without a measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<RowFailure>,
    /// What the Verdict rests on.
    pub evidence: Evidence,
}

/// What a Verdict rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
// There are few of them at a time: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum Evidence {
    /// Instructions, counted exactly.
    Counts(CountsEvidence),
    /// Times of pairs.
    Times(TimesEvidence),
    /// Exits of guests of a KVM host.
    Guests(GuestsEvidence),
}

impl Row {
    /// A row without evidence yet.
    pub fn of(workload: &Workload, verdict: Verdict, evidence: Evidence) -> Row {
        Row {
            row: workload.row.clone(),
            title: workload.title.clone(),
            operation: workload.operation.clone(),
            ops: workload.ops,
            params: workload.params.clone(),
            headline: true,
            verdict,
            reason: None,
            failures: Vec::new(),
            evidence,
        }
    }

    /// The rows that it is computed from; `None` where it was measured itself.
    pub fn computed_from(&self) -> Option<&[String; 2]> {
        Some(&self.counts()?.sizes.as_ref()?.rows)
    }

    /// What was counted; `None` of other methods.
    pub fn counts(&self) -> Option<&CountsEvidence> {
        match &self.evidence {
            Evidence::Counts(counts) => Some(counts),
            _ => None,
        }
    }

    /// What was timed; `None` of other methods.
    pub fn times(&self) -> Option<&TimesEvidence> {
        match &self.evidence {
            Evidence::Times(times) => Some(times),
            _ => None,
        }
    }

    /// What was recorded of guests; `None` of other methods.
    pub fn guests(&self) -> Option<&GuestsEvidence> {
        match &self.evidence {
            Evidence::Guests(guests) => Some(guests),
            _ => None,
        }
    }

    /// The Metrics of a row whose Layouts are compared, the headline first; empty where the row
    /// failed, and of times.
    pub fn effects(&self) -> &[Effect] {
        match &self.evidence {
            Evidence::Counts(counts) => &counts.effects,
            Evidence::Guests(guests) => &guests.effects,
            Evidence::Times(_) => &[],
        }
    }

    /// What a Side costs, per operation: its times, else the first Metric.
    pub fn cost(&self, side: Side) -> Option<f64> {
        if let Some(times) = self.times() {
            return *times.ns.get(side);
        }
        let first = self.effects().first()?;
        Some(if side == Side::Base { first.base } else { first.change })
    }

    /// How many Boots have no measurement.
    pub fn failed_boots(&self) -> usize {
        self.failures.iter().map(|failed| failed.boots).sum()
    }

    /// The Effect of a Metric, if it was measured.
    pub fn effect(&self, metric: &str) -> Option<&Effect> {
        self.effects().iter().find(|effect| effect.metric == metric)
    }

    /// The Effect that decided the Verdict.
    pub fn deciding(&self) -> Option<&Effect> {
        let decided_by = match &self.evidence {
            Evidence::Counts(counts) => &counts.decided_by,
            Evidence::Guests(_) | Evidence::Times(_) => return self.effects().first(),
        };
        self.effect(decided_by)
    }
}

/// All rows of a run directory: `comparison.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// One line for people.
    pub title: String,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// What the method says of all rows together.
    pub method: ComparisonMethod,
    /// One for each Workload, in the Plan's order.
    pub rows: Vec<Row>,
    /// Facts to know.
    pub warnings: Vec<Warning>,
}

/// What a method says of all rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
// There are few of them at a time: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum ComparisonMethod {
    /// Instructions, counted exactly.
    Counts(CountsComparison),
    /// Times of pairs.
    Times(TimesComparison),
    /// Exits of guests of a KVM host.
    Guests(GuestsComparison),
}

impl Comparison {
    /// The exit tables of all rows of guests, in the layout that each row shows.
    pub fn exit_tables(&self) -> Vec<ExitTable> {
        let guests = self.rows.iter().filter_map(|row| Some((row, row.guests()?)));
        guests.flat_map(|(row, guests)| guests.exit_tables(&row.row)).collect()
    }

    /// What was counted; `None` of other methods.
    pub fn counts(&self) -> Option<&CountsComparison> {
        match &self.method {
            ComparisonMethod::Counts(counts) => Some(counts),
            _ => None,
        }
    }

    /// What was timed; `None` of other methods.
    pub fn times(&self) -> Option<&TimesComparison> {
        match &self.method {
            ComparisonMethod::Times(times) => Some(times),
            _ => None,
        }
    }
}
