use serde::Deserialize;

use super::PlanError;
use crate::model::{Machine, Subject};
use crate::text::escape_lines;

/// The kernel takes 2047 characters (COMMAND_LINE_SIZE of arch/x86), and some are ktax's own.
const LONGEST_BOOT_LINE: usize = 1800;

/// An experiment file: what is compared, over which rows, how often.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line for people.
    pub title: String,
    /// Why it is worth asking, for people who read the file.
    #[serde(default)]
    pub why: String,
    /// How the Subjects run.
    #[serde(default = "exact")]
    pub engine: String,
    /// Layouts per Side.
    #[serde(default = "five")]
    pub layouts: u32,
    /// What the Layouts are drawn from.
    #[serde(default = "one")]
    pub seed: u64,
    /// Changes below this many percent get no verdict.
    #[serde(default = "tenth")]
    pub threshold_percent: f64,
    /// Rows by name; all of them where absent.
    #[serde(default)]
    pub workloads: Option<Vec<String>>,
    /// The shape of the computer, the same for both Sides.
    #[serde(default)]
    pub machine: Machine,
    /// What the change is measured against.
    pub base: Subject,
    /// What is measured.
    pub change: Subject,
}

pub(super) fn exact() -> String {
    "exact".into()
}

pub(super) fn five() -> u32 {
    5
}

pub(super) fn one() -> u64 {
    1
}

pub(super) fn tenth() -> f64 {
    0.1
}

impl Experiment {
    /// Two Subjects, and for all else what a file that says no more would get.
    pub fn of(title: String, base: Subject, change: Subject) -> Experiment {
        Experiment {
            title,
            why: String::new(),
            engine: exact(),
            layouts: five(),
            seed: one(),
            threshold_percent: tenth(),
            workloads: None,
            machine: Machine::default(),
            base,
            change,
        }
    }

    /// Parses an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Experiment, PlanError> {
        check_engine(text)?;
        let experiment: Experiment = toml::from_str(text).map_err(|error| {
            let reason = escape_lines(error.to_string().trim_end());
            PlanError::Experiment { path: path.to_owned(), reason }
        })?;
        experiment.check()?;
        Ok(experiment)
    }

    /// Refuses what cannot be planned; call it again after changing a field.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.engine != "exact" {
            return Err(PlanError::Engine { engine: self.engine.clone() });
        }
        if !(1..=99).contains(&self.layouts) {
            return Err(PlanError::Layouts { layouts: self.layouts });
        }
        let threshold_percent = self.threshold_percent;
        if !(0.0..=100.0).contains(&threshold_percent) {
            return Err(PlanError::Threshold { threshold_percent });
        }
        if !(128..=65536).contains(&self.machine.memory_mib) {
            return Err(PlanError::Memory { memory_mib: self.machine.memory_mib });
        }
        for subject in [&self.base, &self.change] {
            if subject.boot_line.len() > LONGEST_BOOT_LINE {
                return Err(PlanError::BootLine { length: subject.boot_line.len() });
            }
        }
        for (what, text) in [
            ("the title", &self.title),
            ("base.boot_line", &self.base.boot_line),
            ("change.boot_line", &self.change.boot_line),
            ("machine.cpu", &self.machine.cpu),
            ("base's options and patches", &self.base.beside_kernel()),
            ("change's options and patches", &self.change.beside_kernel()),
        ] {
            if !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                return Err(PlanError::Unprintable { what });
            }
        }
        Ok(())
    }
}

/// Another engine's file has keys of its own: they are no mistakes, its engine's name is.
fn check_engine(text: &str) -> Result<(), PlanError> {
    let table = toml::from_str::<toml::Table>(text).ok();
    match table.and_then(|mut table| table.remove("engine")) {
        Some(toml::Value::String(engine)) if engine != exact() => Err(PlanError::Engine { engine }),
        _ => Ok(()),
    }
}
