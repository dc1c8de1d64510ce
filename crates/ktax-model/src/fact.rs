//! The names of [`super::Facts`], and when a machine is called quiet.

use std::fmt;

use serde::{Deserialize, Serialize};

pub const KERNEL: &str = "kernel";
/// Number and date of the Kernel's build: two builds can have one release.
pub const BUILD: &str = "kernel build";
/// The kernel's command line.
pub const BOOT_LINE: &str = "boot line";
/// CPU model; all of them where CPUs differ.
pub const CPU: &str = "CPU model";
/// Online CPUs as a list: `0-3,6`.
pub const CPUS: &str = "online CPUs";
/// Frequency governor; where policies differ, all of them: `performance, powersave`.
pub const GOVERNOR: &str = "governor";
/// Name of the kernel's file for it, with its content: `no_turbo=0`, `boost=1`.
pub const TURBO: &str = "turbo";
/// `on` if siblings share cores now, `off` if not; else the kernel's word for its switch.
pub const SMT: &str = "SMT";
pub const CLOCK: &str = "clock source";
/// Transparent huge pages: `always`, `madvise` or `never`.
pub const THP: &str = "THP";
/// kernel.randomize_va_space, or 0 if ktax itself runs without.
pub const ASLR: &str = "ASLR";
/// Vulnerabilities of the CPU and their mitigations, parts joined by [`PARTS`].
pub const MITIGATIONS: &str = "mitigations";
pub const MICROCODE: &str = "microcode";
/// `yes` or `no`, of x86.
pub const HYPERVISOR: &str = "hypervisor";
/// CPUs that the scheduler leaves alone.
pub const ISOLATED: &str = "isolated CPUs";
/// CPUs without a tick while they run one task.
pub const NOHZ_FULL: &str = "nohz_full CPUs";
/// CPUs that ktax and its children may run on.
pub const AFFINITY: &str = "affinity";
/// Build-id that the linker gave the Kernel, of a guest.
pub const BUILD_ID: &str = "build-id";
/// Kernel parameters that its Kernel does not know, of a guest.
pub const IGNORED: &str = "ignored parameters";
/// Kernel threads that still ran when its workloads began, of a guest.
pub const BUSY: &str = "busy kernel threads";
/// `none` where its random number generator has no seed, of a guest.
pub const RANDOM_SEED: &str = "random seed";
/// QEMU's version, of a guest.
pub const QEMU: &str = "QEMU";
/// Accelerator that executes its instructions, of a guest.
pub const ACCELERATOR: &str = "accelerator";
pub const GUEST_MEMORY: &str = "guest memory";
pub const VCPUS: &str = "vCPUs";
/// CPUs of this machine that its vCPUs are kept on, of a guest.
pub const VCPU_CPUS: &str = "CPUs of the vCPUs";

/// Name of a fact of the machine that a guest runs on.
pub fn machine_fact(name: &str) -> String {
    format!("host {name}")
}

/// Separator of the parts of one fact.
pub const PARTS: &str = " | ";

/// A CPU that others, interrupts or a hypervisor use less than this is quiet: percent of one CPU.
pub const QUIET_PERCENT: f64 = 10.0;

/// Fact in which the Boots of base and change differ, though nothing declared explains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactDifference {
    pub fact: String,
    /// Value on the base's machine; empty if it says nothing. A fact with parts has only those that
    /// differ.
    pub base: String,
    /// Value on the change's machine.
    pub change: String,
    /// Number of Pairs that differ.
    pub pairs: usize,
    /// Number of Pairs that were compared.
    pub of: usize,
}

impl fmt::Display for FactDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &str| if value.is_empty() { "nothing" } else { value }.to_owned();
        let (base, change) = (shown(&self.base), shown(&self.change));
        let FactDifference { fact, pairs, of, .. } = self;
        write!(f, "{fact}: base {base}, change {change} ({pairs} of {of} pairs)")
    }
}
