use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Context, Costly, Modelled, Msr, PathDelta, Sides, Verdict};

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
    /// The smallest delta, without its sign, that the rule would have called a change: in the
    /// Verdict's direction, without one in either. Absent where there are too few Layouts for any.
    pub detectable: Option<f64>,
    /// Raw region counts by Layout, of the Layouts that have both Sides.
    pub samples: Sides<Vec<u64>>,
    /// What follows.
    pub verdict: Verdict,
    /// What carries the delta, largest first: all functions that differ, if the Verdict is a
    /// change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDelta>,
    /// From where they are called, if the Verdict is a change: a caller, then what it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathDelta>,
}

impl Effect {
    /// The raw counts in its Layout; a file that ktax did not write may have no such Layout.
    pub fn counts(&self) -> Option<Sides<u64>> {
        let of = |samples: &Vec<u64>| samples.get(self.layout).copied();
        Some(Sides { base: of(&self.samples.base)?, change: of(&self.samples.change)? })
    }
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
    /// Of several CPUs: what they waited for each other there, each Side.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    pub wait: Sides<u64>,
    /// The cache lines that it got from another CPU, by the model of coherence, each Side.
    #[serde(rename = "model_transfers", default = "nothing", skip_serializing_if = "is_nothing")]
    pub transfers: Sides<u64>,
    /// If the Effect is of costly instructions: how many there, each Side.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// If it is of `wrmsr` or `rdmsr`: how often each register was accessed there, each Side,
    /// where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub msrs: BTreeMap<Msr, Sides<u64>>,
    /// If the Effect is of the model of a machine: how many there, each Side.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modelled: BTreeMap<Modelled, Sides<u64>>,
}

fn nothing() -> Sides<u64> {
    Sides::default()
}

fn is_nothing(counts: &Sides<u64>) -> bool {
    *counts == nothing()
}
