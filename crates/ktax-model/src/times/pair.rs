use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::{Failure, Side, Sides, Signature};

/// What a machine says of itself that changes times: by name (`model::fact`), as the kernel
/// spells it; what it does not say is not there.
pub type Facts = BTreeMap<String, String>;

/// What one row did in one Boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedRun {
    /// Nanoseconds of each operation, one value for each loop.
    pub loops_ns: Vec<f64>,
    /// What it says it did; the last loop's.
    pub signature: Signature,
    /// Why the loops ended, if not with the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// One Boot of a Side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedBoot {
    /// What the machine said after the Side's settings were made.
    pub facts: Facts,
    /// By row.
    pub runs: BTreeMap<String, TimedRun>,
    /// Why the Boot was made a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Failure>,
}

/// What else the machine did while something was measured. Shares are of the time of the CPUs in
/// use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// How long, in seconds.
    pub seconds: f64,
    /// CPUs in use: those where vCPUs are kept, else all that ktax may use.
    pub cpus: u32,
    /// Time in which a hypervisor ran something else.
    pub steal_percent: f64,
    /// Time of tasks and interrupts that are not of what is measured.
    pub others_percent: f64,
    /// How often a CPU was slowed down for its heat.
    pub throttled: u64,
}

/// One pair of Boots, next to each other in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedPair {
    /// Position in the order, from 0.
    pub index: u32,
    /// An A/A pair: the base in both places.
    pub is_control: bool,
    /// Whether what stands in the place of the change ran first.
    pub change_first: bool,
    /// What was measured in each place.
    pub boots: Sides<TimedBoot>,
    /// What else the machine did.
    pub noise: Noise,
}

/// What was measured of one Side in one boot of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedBlock {
    /// Position among all blocks, from 0.
    pub index: u32,
    /// Which Side.
    pub side: Side,
    /// The kernel's name of that boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// One after the other.
    pub boots: Vec<TimedBoot>,
    /// What else the machine did.
    pub noise: Noise,
}
