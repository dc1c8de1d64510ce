//! Guests of a KVM host: their plan, samples and evidence.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Effect, ExitRun, ExitTable, Identity, Key, Layout, Side, Sides, Signature, Step, Subject,
    Workload,
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSubject {
    /// Named as in every experiment; a guest of e500v2 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Subject>,
    /// Features of KVM that are hidden from the guest: `kvmclock`, `magic-page`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    pub cpus: u8,
    pub memory_mib: u32,
}

impl GuestSubject {
    /// The only feature of KVM on a board that can be left out.
    pub const MAGIC_PAGE: &str = "magic-page";
    /// The feature that ktax's monitor hides from every guest of a host within QEMU.
    pub const PV_EOI: &str = "kvm-pv-eoi";
    pub const CPUS: RangeInclusive<u32> = 1..=16;
    /// Memory that a guest can have, in MiB.
    pub const MEMORY_MIB: RangeInclusive<u32> = 64..=3072;
}

/// Guest of a Side. Planning fills in its Kernel as found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSide {
    pub subject: GuestSubject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// Work of a guest while it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestWork {
    /// Boots and powers off.
    Boot,
    /// Has no kernel, and leaves for one reason, `count` times.
    Raw { kind: String, count: u32 },
    /// One program, from its start to its end.
    Program(Workload),
}

/// A row: what each Side's guest does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestRow {
    /// Name as in the experiment; also its file name in a run directory.
    pub row: String,
    pub work: GuestWork,
}

/// Merged and checked request of an experiment with guests. Plans and comparisons hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedGuests {
    pub host: HostKind,
    /// Kernel of the host, as asked for.
    pub host_subject: Subject,
    pub base: GuestSide,
    /// Change of the comparison; without it the base is described alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<GuestSide>,
    pub rows: Vec<GuestRow>,
}

impl AskedGuests {
    /// Guest of a Side; `None` if there is no change.
    pub fn side(&self, side: Side) -> Option<&GuestSide> {
        match side {
            Side::Base => Some(&self.base),
            Side::Change => self.change.as_ref(),
        }
    }

    /// Base, and change if there is one.
    pub fn sides(&self) -> impl Iterator<Item = &GuestSide> {
        std::iter::once(&self.base).chain(&self.change)
    }

    /// Base, and change if there is one.
    pub fn sides_mut(&mut self) -> impl Iterator<Item = &mut GuestSide> {
        std::iter::once(&mut self.base).chain(&mut self.change)
    }
}

/// Plan of an experiment with guests: the request, and the results of planning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestsPlan {
    #[serde(flatten)]
    pub asked: AskedGuests,
    pub key: Key,
    pub host_kernel: Identity,
    pub layouts: Vec<Layout>,
    pub steps: Vec<Step>,
}

named_enum! {
    pub enum HostKind {
        /// A Linux kernel with KVM for x86.
        Kvm = "kvm",
        /// A Linux kernel with KVM for a PowerPC of 2008, which has no virtualization, in QEMU's
        /// ppce500.
        KvmE500v2 = "kvm-e500v2",
        /// A Linux kernel with KVM for arm64, in QEMU's virt machine.
        KvmArm64 = "kvm-arm64",
        /// A Linux kernel with KVM for POWER9, as a hypervisor within another one, in QEMU's
        /// pseries.
        KvmPower9 = "kvm-power9",
        /// A Linux kernel with KVM for riscv64 with the hypervisor extension, in QEMU's virt
        /// machine.
        KvmRiscv64 = "kvm-riscv64",
    }
}

impl HostKind {
    /// True for a board: a machine of another architecture, whose first process runs one guest
    /// without a kernel.
    pub fn is_board(self) -> bool {
        self != HostKind::Kvm
    }

    /// Kinds of work of a guest without a kernel: `KIND` of `raw:KIND=N`.
    pub fn kinds(self) -> Vec<&'static str> {
        match self {
            HostKind::Kvm => RawKind::ALL.map(RawKind::name).to_vec(),
            // Each privileged instruction, and all of them together.
            HostKind::KvmE500v2 => {
                vec!["all", "mfmsr", "mtspr", "mfspr", "mmio", "wrtee", "rfi"]
            }
            HostKind::KvmArm64 => vec!["all", "hvc", "mrs", "mmio", "fault", "wfi"],
            HostKind::KvmPower9 => vec!["all", "hcall", "fault"],
            HostKind::KvmRiscv64 => vec!["all", "ecall", "mmio", "fault", "wfi"],
        }
    }

    /// Permitted numbers of times that such a guest does this; `None` if it cannot.
    pub fn times(self, kind: &str) -> Option<RangeInclusive<u32>> {
        match self {
            HostKind::Kvm => RawKind::named(kind).map(RawKind::times),
            board => board.kinds().contains(&kind).then_some(1..=u32::MAX),
        }
    }

    /// True if guest and KVM of a board can share the "magic page".
    pub fn has_magic_page(self) -> bool {
        self == HostKind::KvmE500v2
    }
}

/// Work of a guest without a kernel on x86, done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawKind {
    Cpuid,
    Rdmsr,
    Wrmsr,
    Fault,
    Pic,
    Interrupt,
    Wake,
    SelfIpi,
    Ipi,
    Out,
    Mmio,
    Hlt,
}

/// Name of each kind in an experiment, which is also an option, and its work.
const RAW_KINDS: [(&str, &str); 12] = [
    ("cpuid", "Execute N CPUID instructions; KVM handles them in the kernel"),
    ("rdmsr", "Execute N RDMSR instructions; KVM handles them in the kernel"),
    ("wrmsr", "Execute N WRMSR instructions; KVM handles them in the kernel"),
    ("fault", "Write to N new pages of memory (EPT or NPT faults); KVM handles them in the kernel"),
    ("pic", "Execute N OUT instructions to KVM's interrupt controller, which is in the kernel"),
    ("interrupt", "Get N interrupts from the local APIC's timer while the guest runs"),
    ("wake", "Halt N times in the kernel until the local APIC's timer wakes the guest"),
    ("self-ipi", "Send N interrupts (IPIs) from the vCPU to itself"),
    ("ipi", "Send N interrupts (IPIs) to a second vCPU that halts, and get one back for each"),
    ("out", "Execute N OUT instructions; each exits to user space"),
    ("mmio", "Write N times to an address without memory (MMIO); each exits to user space"),
    ("hlt", "Execute N HLT instructions; each exits to user space"),
];

impl RawKind {
    /// In the order in which a guest does them.
    pub const ALL: [RawKind; 12] = {
        use RawKind::*;
        [Cpuid, Rdmsr, Wrmsr, Fault, Pic, Interrupt, Wake, SelfIpi, Ipi, Out, Mmio, Hlt]
    };

    /// Most pages of 4 KiB that a guest can touch: there is no memory at 768 MiB.
    pub const FAULTS_MAX: u32 = 196_096;

    /// Name in an experiment, and as an option of the raw guest.
    pub fn name(self) -> &'static str {
        RAW_KINDS[self as usize].0
    }

    pub fn help(self) -> &'static str {
        RAW_KINDS[self as usize].1
    }

    pub fn named(name: &str) -> Option<RawKind> {
        RawKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub fn times(self) -> RangeInclusive<u32> {
        match self {
            RawKind::Fault => 1..=RawKind::FAULTS_MAX,
            _ => 1..=u32::MAX,
        }
    }

    /// True if KVM must have the interrupt controllers in the kernel.
    pub fn needs_controllers(self) -> bool {
        self == RawKind::Pic || self.is_interrupt()
    }

    /// True if the guest gets interrupts, from its local APIC.
    pub fn is_interrupt(self) -> bool {
        use RawKind::{Interrupt, Ipi, SelfIpi, Wake};
        matches!(self, Interrupt | Wake | SelfIpi | Ipi)
    }
}

/// Result of one guest, in one host under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSample {
    pub run: ExitRun,
    /// Work signature of a program; empty for a boot and for a guest without a kernel.
    pub signature: Signature,
}

impl GuestSample {
    /// Total time of the vCPUs, in and out of the guest, ns.
    pub fn time_ns(&self) -> u64 {
        self.run.table.sum_ns()
    }

    pub fn exits(&self) -> u64 {
        self.run.table.exits()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestsEvidence {
    /// With a change, [`TIME`] and then [`EXITS`] against the base. Without one, [`GUEST_TIME`] of
    /// the guest against the host itself, if the host did the same work. Empty if the row failed.
    pub effects: Vec<Effect>,
    /// Exit tables of the first Effect's Layout; absent if the row failed.
    pub runs: Sides<Option<ExitRun>>,
    /// Time by Layout, in and out of the guest, ns; empty if a Side failed or is not there.
    pub times_ns: Sides<Vec<u64>>,
}

impl GuestsEvidence {
    /// Exit tables of a row, named by it and by their Sides if there are two.
    pub fn exit_tables(&self, row: &str) -> Vec<ExitTable> {
        let has_both = self.runs.base.is_some() && self.runs.change.is_some();
        let sides = [Side::Base, Side::Change].into_iter();
        let runs = sides.filter_map(|side| Some((side, self.runs.get(side).as_ref()?)));
        let named = |(side, run): (Side, &ExitRun)| {
            let name = if has_both { format!("{row}, {}", side.name()) } else { row.to_owned() };
            ExitTable { of: name, ..run.table.clone() }
        };
        runs.map(named).collect()
    }
}

/// Metric of the total time of the vCPUs, in and out of the guest.
pub const TIME: &str = "time";
/// Metric of the number of exits.
pub const EXITS: &str = "exits";
/// Metric of the work's own time: base is the host itself, change is the guest.
pub const GUEST_TIME: &str = "guest-time";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestsComparison {
    pub plan: GuestsPlan,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_name() {
        for kind in RawKind::ALL {
            assert_eq!(RawKind::named(kind.name()), Some(kind));
        }
        assert_eq!(RawKind::named("rdtsc"), None);
    }

    #[test]
    fn nothing_is_done_zero_times() {
        assert!(RawKind::ALL.iter().all(|kind| !kind.times().contains(&0)));
        assert_eq!(*RawKind::Fault.times().end(), RawKind::FAULTS_MAX);
    }
}
