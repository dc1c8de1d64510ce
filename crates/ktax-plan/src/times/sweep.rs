//! Values of parameters become rows, values of settings become runs.

use super::experiment::TimesExperiment;
use crate::asked::Experiment;
use crate::error::PlanError;
use crate::workloads::ParamValue;
use ktax_model::RunsOn;

impl Experiment<TimesExperiment> {
    /// The Experiments that the swept settings make, each with what it is called; without any it is
    /// the one.
    ///
    /// # Errors
    /// One of them cannot be planned: nobody waits for the first to hear of the last.
    pub fn of_settings(&self) -> Result<Vec<(String, Experiment<TimesExperiment>)>, PlanError> {
        let points = self.method.of_settings()?.into_iter();
        let all: Vec<_> = points.map(|(called, method)| (called, self.with(method))).collect();
        all.iter().try_for_each(|(_, experiment)| experiment.plan().map(drop))?;
        Ok(all)
    }
}

impl TimesExperiment {
    fn of_settings(&self) -> Result<Vec<(String, TimesExperiment)>, PlanError> {
        self.check_sweep()?;
        let mut all = vec![(String::new(), self.clone())];
        for (name, values) in self.sweep.iter().filter(|(name, _)| is_setting(name)) {
            let mut next = Vec::new();
            for (called, experiment) in &all {
                for value in values {
                    let mut point = experiment.clone();
                    point.sweep.remove(name);
                    point.set(name, value);
                    let called = format!("{called},{name}={value}");
                    next.push((called.trim_start_matches(',').to_owned(), point));
                }
            }
            all = next;
        }
        Ok(all)
    }

    /// The same on both Sides.
    fn set(&mut self, name: &str, value: &ParamValue) {
        match (name, cpus(value)) {
            ("cpus" | "vcpus", Some(number)) => self.machine.cpus = number,
            ("cores", number @ Some(_)) => self.machine.cores = number,
            _ => {
                for subject in [&mut self.base, &mut self.change] {
                    subject.set(name, &value.to_string());
                }
            }
        }
    }

    /// Refuses what would not be measured as it is written.
    pub(super) fn check_sweep(&self) -> Result<(), PlanError> {
        for (name, values) in &self.sweep {
            let wrong = |reason: String| Err(PlanError::Sweep { name: name.clone(), reason });
            let is_none = |value: &ParamValue| value.to_string().is_empty();
            if values.is_empty() || values.iter().any(is_none) {
                return wrong("a value is missing; write NAME=V1,V2".into());
            }
            if !is_setting(name) {
                continue;
            }
            let mut sorted: Vec<String> = values.iter().map(ParamValue::to_string).collect();
            sorted.sort();
            if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                return wrong("a value is given twice; give it once".into());
            }
            let is_of_guests = is_of_guests(name);
            if is_of_guests != (self.engine.runs_on == RunsOn::Guests) {
                let engine = self.engine.name;
                return wrong(format!("the {engine} engine does not have it; remove it"));
            }
            if let Some(value) = values.iter().find(|it| is_of_guests && cpus(it).is_none()) {
                let value = value.to_string();
                return wrong(format!("{value:?} is not a number of CPUs; write numbers from 1"));
            }
            if [&self.base, &self.change].iter().any(|side| side.sets(name)) {
                return wrong(
                    "a side sets it too, and the sweep sets it on both sides; remove one of the two"
                        .into(),
                );
            }
        }
        Ok(())
    }

    /// The headline rows' names with every value of the swept parameters, and whose they are.
    pub(super) fn points(&self) -> (Vec<String>, Vec<String>) {
        let mut names = self.workloads.clone();
        let mut swept = Vec::new();
        for (name, values) in self.sweep.iter().filter(|(name, _)| !is_setting(name)) {
            let with = |row: &String, value: &ParamValue| {
                let sign = if row.contains(':') { ',' } else { ':' };
                format!("{row}{sign}{name}={value}")
            };
            names = names
                .iter()
                .flat_map(|row| values.iter().map(move |value| with(row, value)))
                .collect();
            swept.push(name.clone());
        }
        (names, swept)
    }
}

/// Whether it is the running kernel's, and no parameter of a workload. Sysctls have dots or slashes
/// in their names.
fn is_setting(name: &str) -> bool {
    matches!(name, "thp" | "governor") || is_of_guests(name) || name.contains(['.', '/'])
}

fn is_of_guests(name: &str) -> bool {
    matches!(name, "cpus" | "vcpus" | "cores")
}

/// A number of CPUs; whether there can be so many is checked with the machine.
fn cpus(value: &ParamValue) -> Option<u32> {
    match value {
        ParamValue::Number(number) => u32::try_from(*number).ok(),
        ParamValue::Word(_) => None,
    }
}
