//! The names of [`super::Facts`], and when a machine is called quiet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kernel release.
pub const KERNEL: &str = "kernel";
/// Number and date of the Kernel's build: two builds can have one release.
pub const BUILD: &str = "kernel build";
/// The kernel's command line.
pub const BOOT_LINE: &str = "boot line";
/// Model of the CPUs; of several models all.
pub const CPU: &str = "CPU model";
/// Online CPUs as a list: `0-3,6`.
pub const CPUS: &str = "online CPUs";
/// Frequency governor; where policies differ, all of them: `performance, powersave`.
pub const GOVERNOR: &str = "governor";
/// The file that says it and what is in it: `no_turbo=0`, `boost=1`.
pub const TURBO: &str = "turbo";
/// Whether siblings share cores now: `on` or `off`; else what the kernel says of its switch.
pub const SMT: &str = "SMT";
/// The clock source.
pub const CLOCK: &str = "clock source";
/// Transparent huge pages: `always`, `madvise` or `never`.
pub const THP: &str = "THP";
/// kernel.randomize_va_space, or 0 if ktax itself runs without.
pub const ASLR: &str = "ASLR";
/// Vulnerabilities of the CPU and their mitigations, parts joined by [`PARTS`].
pub const MITIGATIONS: &str = "mitigations";
/// The microcode's revision.
pub const MICROCODE: &str = "microcode";
/// `yes` or `no`, of x86.
pub const HYPERVISOR: &str = "hypervisor";
/// CPUs that the scheduler leaves alone.
pub const ISOLATED: &str = "isolated CPUs";
/// CPUs without a tick while they run one task.
pub const NOHZ_FULL: &str = "nohz_full CPUs";
/// CPUs that ktax may run on, and so what it starts.
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
/// Memory, of a guest.
pub const GUEST_MEMORY: &str = "guest memory";
/// Number of vCPUs, of a guest.
pub const VCPUS: &str = "vCPUs";
/// CPUs of this machine that its vCPUs are kept on, of a guest.
pub const VCPU_CPUS: &str = "CPUs of the vCPUs";

/// The name of what the machine says that a guest runs on.
pub fn machine_fact(name: &str) -> String {
    format!("host {name}")
}

/// Between the parts of one fact.
pub const PARTS: &str = " | ";

/// A CPU that others, interrupts or a hypervisor use less than this is quiet: percent of one CPU.
pub const QUIET_PERCENT: f64 = 10.0;

/// A fact in which the Boots of base and change differ, though nothing was declared that makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactDifference {
    /// Name of the fact.
    pub fact: String,
    /// Value on the base's machine; empty if it says nothing. A fact with parts has only those that
    /// differ.
    pub base: String,
    /// Value on the change's machine.
    pub change: String,
    /// In so many Pairs.
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
