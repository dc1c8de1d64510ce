use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What two Subjects differ in, as a chain: each element is one step from the base to the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Of a history, on the line of first parents.
    Commits,
    /// Of a kernel's configuration.
    Options,
    /// One on top of the other.
    Patches,
    /// Of the boot line.
    Parameters,
}

impl Chain {
    /// One and several of them.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Chain::Commits => ("commit", "commits"),
            Chain::Options => ("option", "options"),
            Chain::Patches => ("patch", "patches"),
            Chain::Parameters => ("parameter", "parameters"),
        }
    }
}

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// A commit's id, an option with its value, a patch's path, a parameter.
    pub name: String,
    /// One line for people: a commit's subject, the value that an option had.
    pub title: String,
    /// Whether other commits come in with it.
    pub is_merge: bool,
}

/// What is known after so many elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// Of one operation, in the Metric's unit.
    Cost(f64),
    /// It could not be measured, and why.
    Skipped(String),
}

/// An element that carries a share of the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// The elements before it.
    pub after: usize,
    /// The elements with it: `after + 1`, or more where what is between could not be measured.
    pub at: usize,
    /// What it costs, per operation.
    pub delta: f64,
    /// Of the whole difference.
    pub share_percent: f64,
}

/// The search for the elements that carry the difference between two Subjects: `bisection.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    /// One line for people.
    pub title: String,
    /// What the elements are.
    pub chain: Chain,
    /// From the base to the change.
    pub elements: Vec<Element>,
    /// The places of those, from 1, that are tried first.
    pub likely: Vec<usize>,
    /// The Workload's row.
    pub row: String,
    /// The Metric that is followed.
    pub metric: String,
    /// A difference up to this, per operation, is not looked into.
    pub negligible: f64,
    /// What is known, by the number of elements; both ends are.
    pub points: BTreeMap<usize, Point>,
    /// The words of the command line that searches the same again; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// What was found, the largest first; nothing as long as the search goes on.
    pub found: Option<Vec<Carrier>>,
}

impl Bisection {
    /// What is known after so many elements, if it is a cost.
    pub fn cost(&self, place: usize) -> Option<f64> {
        match self.points.get(&place) {
            Some(Point::Cost(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// What the base and the change cost.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.cost(0)?, self.cost(self.elements.len())?))
    }

    /// Whether it holds together, as one that was read from a file may not.
    pub fn is_sound(&self) -> bool {
        let last = self.elements.len();
        // A commit's name goes into a line that is there to be copied.
        let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        last > 0
            && self.ends().is_some()
            && self.negligible >= 0.0
            && super::metric(&self.metric).is_some()
            && self.points.keys().all(|place| *place <= last)
            && (self.chain != Chain::Commits || self.elements.iter().all(|it| is_id(&it.name)))
    }
}
