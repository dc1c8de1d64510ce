use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Context, Failure, Identity, Key, Side, Sides, Signature, Subject, Warning};

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The change executes more, beyond what the Layouts do by themselves.
    Slower,
    /// The change executes less, beyond what the Layouts do by themselves.
    Faster,
    /// Nothing beyond [`Effect::detectable`] was seen.
    NoDetectedChange,
    /// Fewer than three Layouts have both Sides.
    TooFewBoots,
    /// The work signatures differ: the numbers do not compare.
    DifferentWork,
    /// At least one Run of the row has no Sample.
    Failed,
}

impl Verdict {
    /// Whether a change was seen.
    pub fn is_change(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::Faster)
    }

    /// As printed: `no detected change`.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::NoDetectedChange => "no detected change",
            Verdict::TooFewBoots => "too few boots",
            Verdict::DifferentWork => "different work",
            Verdict::Failed => "failed",
        }
    }
}

/// What one Metric did between the Sides. All values are per operation, in the Metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// The Metric's name.
    pub metric: String,
    /// The base's value in the Layout whose delta is the median; so is `change`, so `delta` is
    /// exact.
    pub base: f64,
    /// The change's value in that Layout.
    pub change: f64,
    /// `change - base`.
    pub delta: f64,
    /// `delta` in percent of `base`; absent where `base` is 0 and `delta` is not.
    pub percent: Option<f64>,
    /// Which Layout that is.
    pub layout: usize,
    /// Smallest and largest paired delta over the Layouts.
    pub delta_range: (f64, f64),
    /// How far one Side's values lie apart over the Layouts: the larger of the two Sides'.
    pub spread: f64,
    /// The smallest delta that the rule would have called a change.
    pub detectable: f64,
    /// Raw region counts by Layout, of the Layouts that have both Sides.
    pub samples: Sides<Vec<u64>>,
    /// What follows.
    pub verdict: Verdict,
    /// What carries the delta, largest first: all functions that differ, if the Verdict is a
    /// change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDelta>,
}

/// What one function contributes to a delta, in the Effect's Layout and Context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionDelta {
    /// The symbol without the compiler's suffixes; `[user]` is user mode.
    pub function: String,
    /// In which Context.
    pub context: Context,
    /// Instructions in the Region, each Side.
    pub instructions: Sides<u64>,
    /// REP iterations in the Region, each Side.
    pub rep_iterations: Sides<u64>,
    /// Instructions per operation, change minus base.
    pub delta: f64,
    /// REP iterations per operation, change minus base.
    pub rep_delta: f64,
}

/// A Run of a row that has no Sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFailure {
    /// The Boot's directory name.
    pub boot: String,
    /// Which Side.
    pub side: Side,
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
    /// Operations in the Region.
    pub ops: u64,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, u64>,
    /// The Verdict of the first Effect in process context that changed, else the headline's; unless
    /// the row failed or did different work.
    pub verdict: Verdict,
    /// The Metric that decided; empty where the row failed.
    pub decided_by: String,
    /// The headline first; empty where the row failed.
    pub effects: Vec<Effect>,
    /// What each Side's guest saw beside its work, in the headline's Layout: page faults, context
    /// switches. Absent where the row failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Sides<Signature>>,
    /// How the work differed: `faults 400 in base, 401 in change`.
    pub different_work: Vec<String>,
    /// The Runs without a Sample.
    pub failures: Vec<RowFailure>,
}

impl Row {
    /// The Effect that decided the Verdict.
    pub fn deciding(&self) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.metric == self.decided_by)
    }
}

/// How the cost of an operation grows with a parameter, over rows that differ in nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// What the rows have in common: `fork-pages`.
    pub family: String,
    /// The parameter: `pages`.
    pub parameter: String,
    /// Of which Side; natively there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// `O(1)`, `O(pages)`, `O(pages^1.3)` or `unclear`.
    pub order: String,
    /// The power of the parameter with which the cost beyond that of 0 grows.
    pub exponent: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// The smallest value that was fitted: the upper half is.
    pub from: f64,
    /// How many rows were fitted.
    pub points: usize,
}

/// What was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subjects {
    /// As it was asked for.
    pub subject: Subject,
    /// What the Kernel is.
    pub kernel: Identity,
}

/// All rows: `comparison.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// [`super::FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// What the counts compare with.
    pub key: Key,
    /// The two Subjects.
    pub subjects: Sides<Subjects>,
    /// Layouts per Side.
    pub layouts: usize,
    /// Changes below this many percent get no verdict.
    pub threshold_percent: f64,
    /// One for each Workload, in the Plan's order.
    pub rows: Vec<Row>,
    /// How costs grow with a size, where the rows say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
    /// Facts to know.
    pub warnings: Vec<Warning>,
}
