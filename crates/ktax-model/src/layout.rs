use serde::{Deserialize, Serialize};

use super::subject::{is_one, one};
use super::{Machine, Model, Side};

/// One deterministic perturbation of a Boot that no honest result may depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// QEMU's `-seed`: RDRAND, the firmware's rng-seed, and through them slab order and stack
    /// offsets.
    pub seed: u32,
    /// Characters of padding on the boot line.
    pub padding: u32,
    /// Delay-loop iterations before the Region: moves it against the timer tick.
    pub phase: u64,
}

/// One Boot to make: a Side under a Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Position in the Plan, from 0.
    pub index: u32,
    /// Which Subject.
    pub side: Side,
    /// Index into the Plan's Layouts; Steps of one Layout are a pair.
    pub layout: usize,
}

impl Step {
    /// The Boot's directory name: `003-change`.
    pub fn name(&self) -> String {
        format!("{:03}-{}", self.index, self.side.name())
    }
}

/// The name of a module, and its parameters: of `zram num_devices=2`.
pub fn module_and_parameters(module: &str) -> (&str, &str) {
    module.split_once(' ').unwrap_or((module, ""))
}

/// Counts compare only within one Key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// `exact`.
    pub engine: String,
    /// QEMU's version with the distribution's suffix, as `--version` prints it.
    pub qemu: String,
    /// QEMU's machine type; its version is QEMU's.
    pub machine: String,
    /// CPU model with features.
    pub cpu: String,
    /// Guest memory in MiB.
    pub memory_mib: u32,
    /// How many CPUs the guest has.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cpus: u32,
    /// How many instructions each of several CPUs executes in turn; see [`Machine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u32>,
    /// What was modelled beside counting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// SHA-256 over the guest programs and the plugin.
    pub guest: String,
    /// SHA-256 of each archive of the user's programs with all that they need, with `+` between
    /// them; empty where there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub programs: String,
    /// The kernel's modules that are loaded, each with its parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
}

impl Key {
    /// The shape of the computer.
    pub fn shape(&self) -> Machine {
        let Key { cpu, memory_mib, cpus, quantum, model, .. } = self.clone();
        Machine { cpu, memory_mib, cpus, quantum, model }
    }
}
