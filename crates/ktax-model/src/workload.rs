use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::UserProgram;

/// The guest's program that runs a user's.
pub const RUNNER: &str = "program";

/// Named integers that say what a Workload did.
pub type Signature = BTreeMap<String, u64>;

/// One row: a guest program with its parameters, resolved and ready to be ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The row's name, `fork-pages:pages=16`; also its file name in a run directory.
    pub row: String,
    /// One line for people.
    pub title: String,
    /// What one operation is.
    pub operation: String,
    /// The guest program's name.
    pub program: String,
    /// Operations in the Region.
    pub ops: u64,
    /// Where the Region is.
    #[serde(default, skip_serializing_if = "Region::is_usual")]
    pub region: Region,
    /// Parameters by name.
    pub params: BTreeMap<String, u64>,
    /// Bytes of memory that it needs at least; 0 where that is next to nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_bytes: u64,
    /// What the work signature must contain.
    pub signature: Signature,
    /// Of a program of the user's: numbers in what it prints that are a part of its work
    /// signature, by name: the text before each, or a regular expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
}

/// Where a Workload's Region is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Between the markers of its program.
    #[default]
    Marked,
    /// From the kernel's start to init's, of all tasks: each Run is a boot.
    Boot,
}

impl Region {
    fn is_usual(&self) -> bool {
        *self == Region::Marked
    }
}

pub(super) fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Workload {
    /// The parameter of a program that prints how many operations it did.
    pub const PRINTS_OPS: &str = "prints-ops";
    /// The parameter of a program that is timed: how often it runs in one loop.
    pub const RUNS: &str = "runs";

    /// The operations of a Run that has this signature; 0 if it says none.
    pub fn ops_of(&self, signature: &Signature) -> u64 {
        match self.params.contains_key(Workload::PRINTS_OPS) {
            true => signature.get(UserProgram::OPS).copied().unwrap_or(0),
            false => self.ops,
        }
    }

    /// Whether it is a program of the user's.
    pub fn is_users(&self) -> bool {
        self.program == RUNNER
    }

    /// What of `signature` is not as expected: `calls 19999, expected 20000`.
    pub fn deviations(&self, signature: &Signature) -> Vec<String> {
        self.signature
            .iter()
            .filter_map(|(name, wanted)| match signature.get(name) {
                Some(found) if found == wanted => None,
                Some(found) => Some(format!("{name} {found}, expected {wanted}")),
                None => Some(format!("{name} missing, expected {wanted}")),
            })
            .collect()
    }
}

/// What rows that differ in one parameter alone, or in their operations, have in common: of
/// `fork-pages:backing=thp,pages=16` without `pages` it is `fork-pages:backing=thp`.
pub fn family(row: &str, parameter: &str) -> String {
    let (name, params) = row.split_once(':').unwrap_or((row, ""));
    let is_other = |param: &&str| {
        let name = param.split('=').next().unwrap_or_default();
        name != parameter && name != "ops" && !name.is_empty()
    };
    let others: Vec<&str> = params.split(',').filter(is_other).collect();
    if others.is_empty() { name.to_owned() } else { format!("{name}:{}", others.join(",")) }
}
