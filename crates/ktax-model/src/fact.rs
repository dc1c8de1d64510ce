//! Names of the facts of a machine ([`super::Facts`]), and the threshold of a quiet machine.

use std::fmt;

use serde::{Deserialize, Serialize};

pub const KERNEL: &str = "kernel";
/// Number and date of the Kernel's build, which tell apart builds with the same release.
pub const BUILD: &str = "kernel build";
/// The kernel's command line.
pub const BOOT_LINE: &str = "boot line";
/// CPU model; all models if CPUs differ.
pub const CPU: &str = "CPU model";
/// Online CPUs as a list: `0-3,6`.
pub const CPUS: &str = "online CPUs";
/// Frequency governor; all governors if CPUs differ: `performance, powersave`.
pub const GOVERNOR: &str = "governor";
/// Name and content of the kernel's file about turbo: `no_turbo=0`, `boost=1`.
pub const TURBO: &str = "turbo";
/// `on` or `off` if the kernel tells whether sibling threads are online; else the content of its
/// control file.
pub const SMT: &str = "SMT";
pub const CLOCK: &str = "clock source";
/// Transparent huge pages: `always`, `madvise` or `never`.
pub const THP: &str = "THP";
/// kernel.randomize_va_space, or 0 if ktax itself runs without address randomization.
pub const ASLR: &str = "ASLR";
/// Vulnerabilities of the CPU and their mitigations, parts joined by [`PART_SEPARATOR`].
pub const MITIGATIONS: &str = "mitigations";
pub const MICROCODE: &str = "microcode";
/// `yes` if the machine runs under a hypervisor, else `no`; only for x86.
pub const HYPERVISOR: &str = "hypervisor";
/// CPUs that the kernel parameter `isolcpus` isolates from the scheduler.
pub const ISOLATED: &str = "isolated CPUs";
/// CPUs that run without a timer tick while they have one task.
pub const NOHZ_FULL: &str = "nohz_full CPUs";
/// CPUs that ktax and its children may run on.
pub const AFFINITY: &str = "affinity";
/// GNU build-id of a guest's Kernel.
pub const BUILD_ID: &str = "build-id";
/// Kernel parameters that a guest's Kernel does not know.
pub const IGNORED: &str = "ignored parameters";
/// Kernel threads of a guest that still ran when its workloads began.
pub const BUSY: &str = "busy kernel threads";
/// `none` if the random number generator of a guest's Kernel has no seed.
pub const RANDOM_SEED: &str = "random seed";
/// Version of the QEMU that runs a guest.
pub const QEMU: &str = "QEMU";
/// Accelerator that executes a guest's instructions.
pub const ACCELERATOR: &str = "accelerator";
pub const GUEST_MEMORY: &str = "guest memory";
pub const VCPUS: &str = "vCPUs";
/// CPUs of this machine to which the vCPUs of a guest are pinned.
pub const VCPU_CPUS: &str = "CPUs of the vCPUs";

/// Name of a fact of the host of a guest: `host CPU model`.
pub fn machine_fact(name: &str) -> String {
    format!("host {name}")
}

/// Separator of the parts of a fact's value.
pub const PART_SEPARATOR: &str = " | ";

/// Maximum share of a quiet CPU's time that other tasks, interrupts or a hypervisor use, in
/// percent.
pub const QUIET_PERCENT: f64 = 10.0;

/// Fact in which the Boots of base and change differ, although the experiment does not declare such
/// a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactDifference {
    pub fact: String,
    /// Value in the base's Boot; empty if unknown. Of a value with parts, only the parts that
    /// differ.
    pub base: String,
    /// Value in the change's Boot, in the form of `base`.
    pub change: String,
    /// Number of Pairs that differ.
    pub pairs: usize,
    /// Number of Pairs that were compared.
    #[serde(rename = "of")]
    pub compared_pairs: usize,
}

impl fmt::Display for FactDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &str| if value.is_empty() { "nothing" } else { value }.to_owned();
        let (base, change) = (shown(&self.base), shown(&self.change));
        let FactDifference { fact, pairs, compared_pairs, .. } = self;
        write!(f, "{fact}: base {base}, change {change} ({pairs} of {compared_pairs} pairs)")
    }
}
