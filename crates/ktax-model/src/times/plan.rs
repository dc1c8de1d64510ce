use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::{Identity, Side, Sides, UserProgram, Workload};
use super::{RunsOn, TimedMachine, TimedSubject};

/// What only timed pairs need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesPlan {
    /// The name of the engine.
    pub engine: String,
    /// What the engine runs both Sides on.
    pub runs_on: RunsOn,
    /// So many pairs and one look; where absent, a pilot decides and there are five looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u32>,
    /// No more pairs than this.
    pub most_pairs: u32,
    /// How often each row runs in a Boot; the Boot's value is their median.
    pub loops: u32,
    /// Whether to go on, with a warning, where the Sides differ in more than was declared.
    #[serde(default)]
    pub allow_differences: bool,
    /// Of guests: their shape.
    #[serde(default)]
    pub machine: TimedMachine,
    /// What is compared.
    pub subjects: Sides<TimedSubject>,
    /// Of guests: the Kernels, by the names that the Subjects have for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, Identity>,
    /// Programs of the user's, of which each is a row that decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// In guests: SHA-256 of the archive with all that they need.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub packed: String,
    /// On the running kernel: which they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_here: Option<ProgramsHere>,
    /// The parameters whose values make a curve of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// The rows that decide.
    pub headline: Vec<Workload>,
    /// The rows that are looked at besides.
    pub secondary: Vec<Workload>,
}

/// Programs that run where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramsHere {
    /// The directory in which they start.
    pub directory: String,
    /// SHA-256 of the programs, their arguments with the files that they name, and their standard
    /// input.
    pub sha256: String,
}

impl TimesPlan {
    /// Whether the Sides are kernels that the user boots: no pairs then, but blocks.
    pub fn is_in_blocks(&self) -> bool {
        let Sides { base, change } = &self.subjects;
        self.runs_on == RunsOn::RunningKernel && base.kernel != change.kernel
    }

    /// Whether a Side is the running kernel.
    pub fn is_here(&self) -> bool {
        self.runs_on == RunsOn::RunningKernel || self.subjects.base.bare_metal
    }

    /// Whether that Side runs in a guest.
    pub fn is_guest(&self, side: Side) -> bool {
        self.runs_on == RunsOn::Guests && !self.subjects.get(side).bare_metal
    }

    /// All rows, those that decide first.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.headline.iter().chain(&self.secondary)
    }
}
