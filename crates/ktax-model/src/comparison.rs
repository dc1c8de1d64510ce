//! Comparisons: rows with verdicts and evidence.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ByMethod, CountsComparison, CountsEvidence, Effect, ExitTable, Failure, GuestsComparison,
    GuestsEvidence, Side, TimesComparison, TimesEvidence, Workload,
};

/// Failed Boots of one row on one Side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowFailure {
    /// First failed Boot: its directory name, or the number of its pair.
    pub boot: String,
    pub side: Side,
    /// Number of failed Boots of this Side.
    pub boots: usize,
    pub failure: Failure,
}

/// Comparison of one Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub row: String,
    /// One line for people.
    pub title: String,
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, u64>,
    /// False for secondary rows, which do not affect the exit status.
    pub headline: bool,
    pub verdict: Verdict,
    /// Reason for a Verdict without an answer, or a description of the different work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<RowFailure>,
    pub evidence: Evidence,
}

/// Measurements that a Verdict rests on.
pub type Evidence = ByMethod<CountsEvidence, TimesEvidence, GuestsEvidence>;

impl Row {
    /// Headline row of a Workload, without reason and failures.
    pub fn new(workload: &Workload, verdict: Verdict, evidence: Evidence) -> Row {
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

    /// Names of the two rows that this row is computed from; `None` for a measured row.
    pub fn computed_from(&self) -> Option<&[String; 2]> {
        Some(&self.counts()?.sizes.as_ref()?.rows)
    }

    /// Evidence of counts; `None` for other methods.
    pub fn counts(&self) -> Option<&CountsEvidence> {
        self.evidence.counts()
    }

    /// Evidence of times; `None` for other methods.
    pub fn times(&self) -> Option<&TimesEvidence> {
        self.evidence.times()
    }

    /// Evidence of guests; `None` for other methods.
    pub fn guests(&self) -> Option<&GuestsEvidence> {
        self.evidence.guests()
    }

    /// Effects by Metric, the headline first. Empty for times, and if the row failed.
    pub fn effects(&self) -> &[Effect] {
        match &self.evidence {
            Evidence::Counts(counts) => &counts.effects,
            Evidence::Guests(guests) => &guests.effects,
            Evidence::Times(_) => &[],
        }
    }

    /// Cost of a Side per operation: the time, or for other methods the first Metric.
    pub fn cost(&self, side: Side) -> Option<f64> {
        if let Some(times) = self.times() {
            return *times.ns.get(side);
        }
        Some(self.effects().first()?.value(side))
    }

    /// Number of failed Boots of both Sides.
    pub fn failed_boots(&self) -> usize {
        self.failures.iter().map(|failed| failed.boots).sum()
    }

    /// Effect of a Metric, if measured.
    pub fn effect(&self, metric: &str) -> Option<&Effect> {
        self.effects().iter().find(|effect| effect.metric == metric)
    }

    /// Effect that the Verdict rests on; `None` for times, and if the row failed.
    pub fn deciding_effect(&self) -> Option<&Effect> {
        let decided_by = match &self.evidence {
            Evidence::Counts(counts) => &counts.decided_by,
            Evidence::Guests(_) | Evidence::Times(_) => return self.effects().first(),
        };
        self.effect(decided_by)
    }
}

/// All rows of a run directory: `comparison.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// One line for people.
    pub title: String,
    /// Smallest difference that is called slower or faster, in percent.
    pub threshold_percent: f64,
    /// Data of all rows together, by method.
    pub method: ComparisonMethod,
    /// One for each Workload, in the Plan's order.
    pub rows: Vec<Row>,
    pub warnings: Vec<Warning>,
}

pub type ComparisonMethod = ByMethod<CountsComparison, TimesComparison, GuestsComparison>;

impl Comparison {
    /// Exit tables of all rows of guests, each from the Layout of the row's first Effect.
    pub fn exit_tables(&self) -> Vec<ExitTable> {
        let guests = self.rows.iter().filter_map(|row| Some((row, row.guests()?)));
        guests.flat_map(|(row, guests)| guests.exit_tables(&row.row)).collect()
    }

    /// Data of counts; `None` for other methods.
    pub fn counts(&self) -> Option<&CountsComparison> {
        self.method.counts()
    }

    /// Data of times; `None` for other methods.
    pub fn times(&self) -> Option<&TimesComparison> {
        self.method.times()
    }
}

/// Conclusion about a row, for all methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The change costs more, beyond the noise and the threshold.
    Slower,
    /// The change costs less, beyond the noise and the threshold.
    Faster,
    /// The change differs from the base, by less than the threshold.
    BelowThreshold,
    /// No change was detected. The evidence has the smallest detectable change.
    NoDetectedChange,
    /// Too few Boots of both Sides to decide.
    TooFewBoots,
    Inconclusive,
    /// The work signatures differ, so the costs cannot be compared.
    DifferentWork,
    /// At least one Side has no measurement.
    Failed,
    /// The experiment has no change, only a base.
    OneSide,
}

impl Verdict {
    /// True for [`Verdict::Slower`] and [`Verdict::Faster`].
    pub fn is_change(self) -> bool {
        match self {
            Verdict::Slower | Verdict::Faster => true,
            Verdict::BelowThreshold | Verdict::NoDetectedChange | Verdict::OneSide => false,
            Verdict::TooFewBoots | Verdict::Inconclusive => false,
            Verdict::DifferentWork | Verdict::Failed => false,
        }
    }

    /// True if the Sides were compared successfully, with any outcome.
    pub fn is_answer(self) -> bool {
        match self {
            Verdict::Slower | Verdict::Faster => true,
            Verdict::BelowThreshold | Verdict::NoDetectedChange => true,
            Verdict::TooFewBoots | Verdict::Inconclusive | Verdict::OneSide => false,
            Verdict::DifferentWork | Verdict::Failed => false,
        }
    }

    /// Text for people: `no detected change`.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::BelowThreshold => "below the threshold",
            Verdict::NoDetectedChange => "no detected change",
            Verdict::TooFewBoots => "too few boots",
            Verdict::Inconclusive => "inconclusive",
            Verdict::DifferentWork => "different work",
            Verdict::Failed => "failed",
            Verdict::OneSide => "one side",
        }
    }
}

/// Warning that is stored with a result and printed below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// What is wrong, and for which rows or kernels.
    pub fact: String,
    pub next_step: String,
}

impl Warning {
    pub fn new(fact: impl Into<String>, next_step: impl Into<String>) -> Warning {
        Warning { fact: fact.into(), next_step: next_step.into() }
    }
}
