//! Built-in experiments, ledgers and machines, and the models of machines.

use std::path::Path;

use crate::experiment::Error;
use ktax_host::text::{did_you_mean_quoted, escape_lines, nearest};
use ktax_model::{Calibration, MachineModel, Model};
use serde::{Deserialize, Serialize};

/// Value of the key `machine.model`. After parsing an experiment file, a name that ends in `.toml`
/// is replaced by the machine in that file.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(from = "String")]
pub enum ModelKey {
    /// `coherence`, or the name of a built-in machine.
    Name(String),
    /// Machine from a file, with its Calibration if the file has one.
    Machine(Box<MachineModel>, Option<Box<Calibration>>),
}

impl From<String> for ModelKey {
    fn from(name: String) -> ModelKey {
        ModelKey::Name(name)
    }
}

impl ModelKey {
    /// Parses the text of a machine's file; `name` is the name of the file.
    pub fn parse(text: &str, name: &str) -> Result<ModelKey, Error> {
        let (machine, calibration) = parse_machine(text, name)?;
        Ok(ModelKey::Machine(Box::new(machine), calibration.map(Box::new)))
    }

    /// Calibration of a machine from a file; `None` if the file has none.
    pub fn calibration(&self) -> Option<Calibration> {
        match self {
            ModelKey::Name(_) => None,
            ModelKey::Machine(_, calibration) => calibration.as_deref().cloned(),
        }
    }

    /// Returns the model. Fails for unknown names and invalid machines.
    pub fn model(&self) -> Result<Model, Error> {
        let machine = match self {
            ModelKey::Name(name) if *name == Model::Coherence.name() => {
                return Ok(Model::Coherence);
            }
            ModelKey::Name(name) => built_in_machine(name)?,
            ModelKey::Machine(machine, _) => (**machine).clone(),
        };
        let refuse = |reason: String| machine_error(&machine.name, &reason);
        machine.wire().map_err(refuse)?;
        // Counts do not depend on title and sources, so leave both out of the key of the counts.
        let (title, sources) = (String::new(), Vec::new());
        Ok(Model::Machine(Box::new(MachineModel { title, sources, ..machine })))
    }
}

/// Names of all built-in models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    std::iter::once("coherence").chain(machines().map(|machine| machine.name))
}

/// Default machine of the ranking of a ledger: a built-in machine with a Calibration.
const RANKING_MACHINE: &str = "zen5";

/// Name and Calibration of the default machine of the ranking of a ledger.
pub fn ranking_machine() -> Result<(&'static str, Calibration), Error> {
    let refuse = |reason: &str| machine_error(RANKING_MACHINE, reason);
    let file = machines()
        .find(|machine| machine.name == RANKING_MACHINE)
        .ok_or_else(|| refuse("is missing"))?;
    let (_, calibration) = parse_machine(file.text, file.name)?;
    Ok((file.name, calibration.ok_or_else(|| refuse("has no [calibration]"))?))
}

fn machine_error(file: &str, reason: &str) -> Error {
    Error::user(format!("cannot model the machine {file:?}: {reason}"))
}

fn built_in_machine(name: &str) -> Result<MachineModel, Error> {
    let built_in = machines().find(|machine| machine.name == name);
    let Some(BuiltIn { name, text }) = built_in else {
        let suggestion = did_you_mean_quoted(nearest(name, model_names()));
        let names = model_names().collect::<Vec<_>>().join(", ");
        return Err(Error::user(format!("there is no model {name:?}{suggestion}"))
            .next(format!("choose one of {names}, or a file whose name ends in .toml")));
    };
    parse_machine(text, name).map(|(machine, _)| machine)
}

/// Parses a machine's file: its sizes, and its Calibration in `[calibration]`.
fn parse_machine(text: &str, name: &str) -> Result<(MachineModel, Option<Calibration>), Error> {
    let refuse = |reason: String| machine_error(name, &escape_lines(reason.trim_end()));
    let mut table: toml::Table = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let calibration = table.remove("calibration").map(toml::Value::try_into).transpose();
    let calibration: Option<Calibration> =
        calibration.map_err(|error| refuse(error.to_string()))?;
    calibration.iter().try_for_each(Calibration::check).map_err(refuse)?;
    let machine: MachineModel = table.try_into().map_err(|error| refuse(error.to_string()))?;
    Ok((MachineModel { name: name.to_owned(), ..machine }, calibration))
}

/// Title of the built-in machine with this name.
pub fn machine_title(name: &str) -> Result<String, Error> {
    Ok(built_in_machine(name)?.title)
}

/// A built-in file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Name of the file without `.toml`.
    pub name: &'static str,
    pub text: &'static str,
}

/// Path and text of each file.
type Files = &'static [(&'static str, &'static str)];

const EXPERIMENTS: Files = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));
const MACHINES: Files = include!(concat!(env!("OUT_DIR"), "/machines.rs"));
const LEDGERS: Files = include!(concat!(env!("OUT_DIR"), "/ledgers.rs"));

/// The built-in experiments.
pub fn experiments() -> impl Iterator<Item = BuiltIn> {
    built_in_files(EXPERIMENTS)
}

/// The built-in ledgers.
pub fn ledgers() -> impl Iterator<Item = BuiltIn> {
    built_in_files(LEDGERS)
}

/// The built-in machines.
pub fn machines() -> impl Iterator<Item = BuiltIn> {
    built_in_files(MACHINES)
}

fn built_in_files(files: Files) -> impl Iterator<Item = BuiltIn> {
    let name = |path: &'static str| Path::new(path).file_stem()?.to_str();
    files.iter().filter_map(move |(path, text)| Some(BuiltIn { name: name(path)?, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zen3(from: &str, to: &str) -> Result<Model, String> {
        let text = machines().find(|machine| machine.name == "zen3").unwrap().text;
        assert!(text.contains(from), "{text}");
        let key = ModelKey::parse(&text.replace(from, to), "my.toml")
            .map_err(|error| error.to_string())?;
        key.model().map_err(|error| error.to_string())
    }

    #[test]
    fn built_in_machines_can_be_modelled() {
        for name in model_names() {
            let model = ModelKey::Name(name.to_owned()).model().unwrap();
            assert_eq!(model.name(), name);
        }
        assert_eq!(zen3("kib = 512", "kib = 1024").unwrap().name(), "my.toml");
    }

    #[test]
    fn machines_with_impossible_sizes_are_refused() {
        for (from, to, why) in [
            ("kib = 512, ways = 8", "kib = 512, ways = 7", "l2 must have a power of two sets"),
            ("kib = 512, ways = 8", "kib = 512, ways = 0", "l2 must have"),
            ("kib = 512, ways = 8", "kib = 4294967295, ways = 1", "l2 must have"),
            ("itlb2 =", "stlb =", "stlb is behind both TLBs"),
            ("entries = 512, ways = 8", "entries = 512, ways = 7", "itlb2 must have a power"),
            ("ways = 16 }\nbranches", "ways = 16, large_ways = 4 }\nbranches", "go together"),
            ("returns = 32", "returns = 0", "branches needs"),
            ("l1i =", "l0 =", "unknown field `l0`"),
        ] {
            let error = zen3(from, to).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let named = |name: &str| {
            let key = ModelKey::parse(machines().next().unwrap().text, name).unwrap();
            key.model().map_err(|error| error.to_string())
        };
        assert!(named("a\u{1b}b.toml").unwrap_err().contains("a name has 1 to 32 letters"));
        let error = ModelKey::Name("zen4".to_owned()).model().unwrap_err().to_string();
        assert!(error.contains("zen3"), "{error}");
    }
}
