//! Experiments whose Subjects are timed.

mod check;
mod rows;
mod sweep;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::experiment::one;
use super::{PlanError, Value};
use crate::model::{FORMAT, Sides, TimedEngine, TimedMachine, TimedPlan, TimedSubject};
use crate::text::escape_lines;
use rows::rows;
pub use rows::{has_own_ops, with_ops};

/// An experiment file with `engine = "host"` or `"kvm"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedExperiment {
    /// One line for people.
    pub title: String,
    /// Why it is worth asking, for people who read the file.
    #[serde(default)]
    pub why: String,
    /// How the Subjects run.
    pub engine: TimedEngine,
    /// What the order of the pairs is drawn from.
    #[serde(default = "one")]
    pub seed: u64,
    /// Changes below this many percent get no verdict.
    #[serde(default = "hundredth")]
    pub threshold_percent: f64,
    /// So many pairs and one look, instead of a pilot and five.
    #[serde(default)]
    pub pairs: Option<u32>,
    /// No more pairs than this.
    #[serde(default = "two_hundred")]
    pub most_pairs: u32,
    /// How often each row runs in a Boot.
    #[serde(default = "five")]
    pub loops: u32,
    /// Whether to go on, with a warning, where the Sides differ in more than was declared.
    #[serde(default)]
    pub allow_differences: bool,
    /// The rows that decide, by name.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// The rows that are looked at besides.
    #[serde(default)]
    pub secondary: Vec<String>,
    /// Values by name: a parameter of the workloads makes a row of each, a setting of the running
    /// kernel a run of each, the same on both Sides.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<Value>>,
    /// Of guests: their shape.
    #[serde(default)]
    pub machine: TimedMachine,
    /// What the change is measured against.
    #[serde(default)]
    pub base: TimedSubject,
    /// What is measured.
    #[serde(default)]
    pub change: TimedSubject,
}

fn hundredth() -> f64 {
    1.0
}

fn two_hundred() -> u32 {
    200
}

fn five() -> u32 {
    5
}

impl TimedExperiment {
    /// Whether a file is one: its engine measures times.
    pub fn is_one(text: &str) -> bool {
        let engine =
            toml::from_str::<toml::Table>(text).ok().and_then(|mut it| it.remove("engine"));
        engine.is_some_and(|engine| engine.try_into::<TimedEngine>().is_ok())
    }

    /// What a file that says no more than its engine would get.
    pub fn of(title: String, engine: TimedEngine) -> TimedExperiment {
        TimedExperiment {
            title,
            why: String::new(),
            engine,
            seed: one(),
            threshold_percent: hundredth(),
            pairs: None,
            most_pairs: two_hundred(),
            loops: five(),
            allow_differences: false,
            workloads: Vec::new(),
            secondary: Vec::new(),
            sweep: BTreeMap::new(),
            machine: TimedMachine::default(),
            base: TimedSubject::default(),
            change: TimedSubject::default(),
        }
    }

    /// Parses an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<TimedExperiment, PlanError> {
        toml::from_str(text).map_err(|error| {
            let reason = escape_lines(error.to_string().trim_end());
            PlanError::TimedExperiment { path: path.to_owned(), reason }
        })
    }

    /// The Plan, after what cannot be planned is refused; it has no Kernels yet.
    pub fn plan(&self) -> Result<TimedPlan, PlanError> {
        self.check()?;
        let (points, swept) = self.points();
        let headline = rows(self.engine, &points)?;
        let secondary = if self.secondary.is_empty() {
            Vec::new()
        } else {
            rows(self.engine, &self.secondary)?
        };
        let twice = secondary.iter().find(|row| headline.iter().any(|it| it.row == row.row));
        if let Some(twice) = twice {
            return Err(PlanError::Twice { row: twice.row.clone() });
        }
        Ok(TimedPlan {
            format: FORMAT,
            engine: self.engine,
            title: self.title.clone(),
            seed: self.seed,
            threshold_percent: self.threshold_percent,
            pairs: self.pairs,
            most_pairs: self.most_pairs,
            loops: self.loops,
            allow_differences: self.allow_differences,
            machine: self.machine.clone(),
            subjects: Sides { base: self.base.clone(), change: self.change.clone() },
            kernels: BTreeMap::new(),
            swept,
            headline,
            secondary,
        })
    }
}

#[cfg(test)]
mod tests;
