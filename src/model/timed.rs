use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Failure, Identity, Side, Sides, Signature, Workload};

/// How a timed Subject runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimedEngine {
    /// The running kernel.
    Host,
    /// A guest under QEMU/KVM.
    Kvm,
}

impl TimedEngine {
    /// `host` or `kvm`.
    pub fn name(self) -> &'static str {
        match self {
            TimedEngine::Host => "host",
            TimedEngine::Kvm => "kvm",
        }
    }
}

/// What a Side is. Of the running kernel: what is set before its Boots and put back afterwards.
/// Of a guest: its Kernel and boot line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimedSubject {
    /// Of a guest: as in every experiment. Of the running kernel: a word for the Kernel that the
    /// user boots for this Side; the Sides are then measured in blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Of a guest's base: it is no guest, but this machine itself, so that what is compared is what
    /// being a guest costs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bare_metal: bool,
    /// Of a guest: kernel parameters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Values by name, as `sysctl` has them: `vm.swappiness`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thp: Option<String>,
    /// Frequency governor of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// The command that runs each loop, itself given the program and its arguments:
    /// `taskset -c 1`, `chrt -f 10`, `setarch -R`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
}

impl TimedSubject {
    /// Sets what is known by a name: `thp`, `governor`, `kernel`, or a sysctl's.
    pub fn set(&mut self, name: &str, value: &str) {
        let value = value.to_owned();
        match name {
            "thp" => self.thp = Some(value),
            "governor" => self.governor = Some(value),
            "kernel" => self.kernel = Some(value),
            name => drop(self.sysctl.insert(name.to_owned(), value)),
        }
    }

    /// Whether a setting of that name is made.
    pub fn sets(&self, name: &str) -> bool {
        match name {
            "thp" => self.thp.is_some(),
            "governor" => self.governor.is_some(),
            "kernel" => self.kernel.is_some(),
            name => self.sysctl.contains_key(name),
        }
    }
}

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The processor.
    #[default]
    Kvm,
    /// QEMU's translator: everything works and times mean nothing. For tests.
    Tcg,
}

impl Accelerator {
    /// QEMU's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }
}

/// The shape of a timed guest, the same for both Sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimedMachine {
    /// QEMU's name of a CPU model, with its features.
    pub cpu: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// On so many CPUs of this machine, the quiet ones; fewer than vCPUs is overcommit. Absent: as
    /// many as vCPUs, or all that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// What executes.
    pub accelerator: Accelerator,
}

impl Default for TimedMachine {
    fn default() -> Self {
        let accelerator = Accelerator::Kvm;
        TimedMachine { cpu: "host".into(), memory_mib: 512, vcpus: 1, cores: None, accelerator }
    }
}

/// Everything that a run of timed pairs needs to know: its `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedPlan {
    /// [`super::FORMAT`].
    pub format: u32,
    /// How both Sides run.
    pub engine: TimedEngine,
    /// One line for people.
    pub title: String,
    /// What the order of the pairs is drawn from.
    pub seed: u64,
    /// Relevance: a change below this many percent gets no verdict.
    pub threshold_percent: f64,
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
    /// The parameters whose values make a curve of the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
    /// The rows that decide.
    pub headline: Vec<Workload>,
    /// The rows that are looked at besides.
    pub secondary: Vec<Workload>,
}

impl TimedPlan {
    /// Whether the Sides are kernels that the user boots: no pairs then, but blocks.
    pub fn is_in_blocks(&self) -> bool {
        let Sides { base, change } = &self.subjects;
        self.engine == TimedEngine::Host && base.kernel != change.kernel
    }

    /// Whether that Side runs in a guest.
    pub fn is_guest(&self, side: Side) -> bool {
        self.engine == TimedEngine::Kvm && !self.subjects.get(side).bare_metal
    }

    /// All rows, those that decide first.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.headline.iter().chain(&self.secondary)
    }
}

/// What a machine says of itself that changes times: by name ([`super::fact`]), as the kernel
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
}

/// What else the machine did while something was measured. Shares are of the time of all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// How long, in seconds.
    pub seconds: f64,
    /// CPUs that are online.
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
