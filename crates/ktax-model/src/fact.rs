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
/// What the CPU is affected by and how that is met, parts joined by [`PARTS`].
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
/// Of a guest: what the linker made of its Kernel's build.
pub const BUILD_ID: &str = "build-id";
/// Of a guest: kernel parameters that its Kernel does not know.
pub const IGNORED: &str = "ignored parameters";
/// Of a guest: kernel threads that still ran when its workloads began.
pub const BUSY: &str = "busy kernel threads";
/// Of a guest: `none` where its random number generator has no seed.
pub const RANDOM_SEED: &str = "random seed";
/// Of a guest: QEMU's version.
pub const QEMU: &str = "QEMU";
/// Of a guest: what executes its instructions.
pub const ACCELERATOR: &str = "accelerator";
/// Of a guest: its memory.
pub const GUEST_MEMORY: &str = "guest memory";
/// Of a guest: the number of its vCPUs.
pub const VCPUS: &str = "vCPUs";
/// Of a guest: the CPUs of this machine that its vCPUs are kept on.
pub const VCPU_CPUS: &str = "CPUs of the vCPUs";

/// The name of what the machine says that a guest runs on.
pub fn of_machine(name: &str) -> String {
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
    /// Its name.
    pub fact: String,
    /// What the base's machine said; empty if nothing. Of a fact with parts only what differs.
    pub base: String,
    /// What the change's machine said.
    pub change: String,
    /// In so many Pairs.
    pub pairs: usize,
    /// Of so many that were compared.
    pub of: usize,
}

impl fmt::Display for FactDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |value: &str| if value.is_empty() { "nothing" } else { value }.to_owned();
        let (base, change) = (said(&self.base), said(&self.change));
        let FactDifference { fact, pairs, of, .. } = self;
        write!(f, "{fact}: base {base}, change {change} ({pairs} of {of} pairs)")
    }
}
