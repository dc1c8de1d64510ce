use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an engine runs Subjects on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    /// The kernel that is running.
    RunningKernel,
    /// Guests that ktax boots.
    Guests,
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

    /// The CPU model of a guest that is given none: as much of one as the accelerator has.
    pub fn cpu(self) -> &'static str {
        match self {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
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
    /// How many CPUs it has: vCPUs, as files say.
    #[serde(rename = "vcpus")]
    pub cpus: u32,
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
        let cpu = accelerator.cpu().to_owned();
        TimedMachine { cpu, memory_mib: 512, cpus: 1, cores: None, accelerator }
    }
}
