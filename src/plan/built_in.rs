//! The experiments and ledgers that are in the binary.

use std::path::Path;

/// A file that is in the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// The file's name without `.toml`.
    pub name: &'static str,
    /// What the file says.
    pub text: &'static str,
}

type Files = &'static [(&'static str, &'static str)];

const EXPERIMENTS: Files = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));
const LEDGERS: Files = include!(concat!(env!("OUT_DIR"), "/ledgers.rs"));

/// The experiments, by name.
pub fn experiments() -> impl Iterator<Item = BuiltIn> {
    named(EXPERIMENTS)
}

/// The ledgers, by name.
pub fn ledgers() -> impl Iterator<Item = BuiltIn> {
    named(LEDGERS)
}

fn named(files: Files) -> impl Iterator<Item = BuiltIn> {
    let name = |path: &'static str| Path::new(path).file_stem()?.to_str();
    files.iter().filter_map(move |(path, text)| Some(BuiltIn { name: name(path)?, text }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Experiment, Ledger};

    #[test]
    fn what_is_built_in_is_planned_without_any_file() {
        for BuiltIn { name, text } in experiments() {
            Experiment::parse(text, name).unwrap();
        }
        for BuiltIn { name, text } in ledgers() {
            Ledger::parse(text, name).unwrap();
        }
        assert!(experiments().any(|it| it.name == "lsm") && experiments().count() > 20);
        assert!(ledgers().any(|it| it.name == "hardening-boot"));
        // This one names patches, which are built in, too.
        assert!(experiments().any(|it| it.name == "magic-page"));
    }
}
