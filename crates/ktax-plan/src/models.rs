//! Files that are in the binary, and the machines and models among them.

use std::path::Path;

use crate::experiment::Error;
use ktax_host::text::{did_you_mean_quoted, escape_lines, nearest};
use ktax_model::{Calibration, MachineModel, Model};
use serde::{Deserialize, Serialize};

/// A model or a machine. A name that ends in `.toml` is replaced by that file's machine when the
/// experiment file is read.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(from = "String")]
pub enum ModelKey {
    /// `coherence`, or a machine that is built in.
    Name(String),
    /// Sizes of a machine, and its Calibration if it was calibrated.
    Machine(Box<MachineModel>, Option<Box<Calibration>>),
}

impl From<String> for ModelKey {
    fn from(name: String) -> ModelKey {
        ModelKey::Name(name)
    }
}

impl ModelKey {
    /// Parses the text of a machine's file; `name` is that of the file.
    pub fn parse(text: &str, name: &str) -> Result<ModelKey, Error> {
        let (machine, calibration) = parse_machine(text, name)?;
        Ok(ModelKey::Machine(Box::new(machine), calibration.map(Box::new)))
    }

    /// Calibration, if its file has one.
    pub fn calibration(&self) -> Option<Calibration> {
        match self {
            ModelKey::Name(_) => None,
            ModelKey::Machine(_, calibration) => calibration.as_deref().cloned(),
        }
    }

    pub fn model(&self) -> Result<Model, Error> {
        let machine = match self {
            ModelKey::Name(name) if *name == Model::Coherence.name() => {
                return Ok(Model::Coherence);
            }
            ModelKey::Name(name) => built_in_machine(name)?,
            ModelKey::Machine(machine, _) => (**machine).clone(),
        };
        let refused = |reason: String| machine_error(&machine.name, &reason);
        machine.wire().map_err(refused)?;
        // Title and sources do not change counts, so they must not keep counts from being compared.
        let (title, sources) = (String::new(), Vec::new());
        Ok(Model::Machine(Box::new(MachineModel { title, sources, ..machine })))
    }
}

/// Names of all built-in models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    std::iter::once("coherence").chain(machines().map(|machine| machine.name))
}

/// Default machine by which a ledger ranks: a built-in one with a Calibration.
const MEASURED: &str = "zen5";

/// Name and Calibration of that machine.
pub fn measured_machine() -> Result<(&'static str, Calibration), Error> {
    let refused = |reason: &str| machine_error(MEASURED, reason);
    let file =
        machines().find(|machine| machine.name == MEASURED).ok_or_else(|| refused("is missing"))?;
    let (_, calibration) = parse_machine(file.text, file.name)?;
    Ok((file.name, calibration.ok_or_else(|| refused("has no [calibration]"))?))
}

fn machine_error(file: &str, reason: &str) -> Error {
    Error::user(format!("cannot model the machine {file:?}: {reason}"))
}

fn built_in_machine(name: &str) -> Result<MachineModel, Error> {
    let found = machines().find(|machine| machine.name == name);
    let Some(BuiltIn { name, text }) = found else {
        let near = did_you_mean_quoted(nearest(name, model_names()));
        let known = model_names().collect::<Vec<_>>().join(", ");
        return Err(Error::user(format!("there is no model {name:?}{near}"))
            .next(format!("there are {known}, and files, which end in .toml")));
    };
    parse_machine(text, name).map(|(machine, _)| machine)
}

/// Parses a machine's file: its sizes, and its Calibration below `[calibration]`.
fn parse_machine(text: &str, name: &str) -> Result<(MachineModel, Option<Calibration>), Error> {
    let refused = |reason: String| machine_error(name, &escape_lines(reason.trim_end()));
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| refused(error.to_string()))?;
    let calibration = table.remove("calibration").map(toml::Value::try_into).transpose();
    let calibration: Option<Calibration> =
        calibration.map_err(|error| refused(error.to_string()))?;
    calibration.iter().try_for_each(Calibration::check).map_err(refused)?;
    let machine: MachineModel = table.try_into().map_err(|error| refused(error.to_string()))?;
    Ok((MachineModel { name: name.to_owned(), ..machine }, calibration))
}

/// Title of the built-in machine with this name.
pub fn machine_title(name: &str) -> Result<String, Error> {
    Ok(built_in_machine(name)?.title)
}

/// A file in the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// The file's name without `.toml`.
    pub name: &'static str,
    pub text: &'static str,
}

type Files = &'static [(&'static str, &'static str)];

const EXPERIMENTS: Files = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));
const MACHINES: Files = include!(concat!(env!("OUT_DIR"), "/machines.rs"));
const LEDGERS: Files = include!(concat!(env!("OUT_DIR"), "/ledgers.rs"));

pub fn experiments() -> impl Iterator<Item = BuiltIn> {
    built_in_files(EXPERIMENTS)
}

pub fn ledgers() -> impl Iterator<Item = BuiltIn> {
    built_in_files(LEDGERS)
}

/// The machines that are modelled, by name.
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
    fn what_is_built_in_can_be_modelled() {
        for name in model_names() {
            let model = ModelKey::Name(name.to_owned()).model().unwrap();
            assert_eq!(model.name(), name);
        }
        assert_eq!(zen3("kib = 512", "kib = 1024").unwrap().name(), "my.toml");
    }

    #[test]
    fn a_machine_that_cannot_be_modelled_is_refused() {
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
