//! The experiments, ledgers and machines that are in the binary.

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
const MACHINES: Files = include!(concat!(env!("OUT_DIR"), "/machines.rs"));
const LEDGERS: Files = include!(concat!(env!("OUT_DIR"), "/ledgers.rs"));

/// The experiments, by name.
pub fn experiments() -> impl Iterator<Item = BuiltIn> {
    named(EXPERIMENTS)
}

/// The ledgers, by name.
pub fn ledgers() -> impl Iterator<Item = BuiltIn> {
    named(LEDGERS)
}

/// The machines that are modelled, by name.
pub fn machines() -> impl Iterator<Item = BuiltIn> {
    named(MACHINES)
}

fn named(files: Files) -> impl Iterator<Item = BuiltIn> {
    let name = |path: &'static str| Path::new(path).file_stem()?.to_str();
    files.iter().filter_map(move |(path, text)| Some(BuiltIn { name: name(path)?, text }))
}
