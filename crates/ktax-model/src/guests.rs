//! Guests of a KVM host: their plan, samples and evidence.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Effect, ExitRun, ExitTable, Identity, Key, Layout, Side, Sides, Signature, Step, Subject,
    Workload,
};

/// Guest of a KVM host, as asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSubject {
    /// Kernel of the guest; absent for guests without a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Subject>,
    /// Features of KVM that are hidden from the guest, such as `kvmclock` and `magic-page`.
    #[serde(rename = "without", default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_features: Vec<String>,
    pub cpus: u8,
    pub memory_mib: u32,
}

impl GuestSubject {
    /// The only feature of KVM that can be hidden from guests of a board.
    pub const MAGIC_PAGE: &str = "magic-page";
    /// The feature that ktax's monitor hides from every guest of a host within QEMU.
    pub const PV_EOI: &str = "kvm-pv-eoi";
    /// Permitted numbers of vCPUs.
    pub const CPUS: RangeInclusive<u32> = 1..=16;
    /// Permitted sizes of memory, in MiB.
    pub const MEMORY_MIB: RangeInclusive<u32> = 64..=3072;
}

/// Guest of a Side. Planning adds the identity of its Kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestSide {
    pub subject: GuestSubject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// Work of a guest while its exits are recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestWork {
    /// The guest boots and powers off.
    Boot,
    /// A guest without a kernel does one kind of work `count` times.
    Raw { kind: String, count: u32 },
    /// The guest runs one program, from its start to its end.
    Program(Workload),
}

/// Row of an experiment with guests: the work of each Side's guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestRow {
    /// Name of the row in the experiment; also the name of its file in a run directory.
    pub row: String,
    pub work: GuestWork,
}

/// Request of an experiment with guests, after file and flags were merged and checked. Plans and
/// comparisons hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedGuests {
    pub host: HostKind,
    /// Kernel of the KVM host, as asked for.
    pub host_subject: Subject,
    pub base: GuestSide,
    /// Guest of the change; absent if only the base is measured.
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

    /// Guests of the base and of the change, if there is a change.
    pub fn sides(&self) -> impl Iterator<Item = &GuestSide> {
        std::iter::once(&self.base).chain(&self.change)
    }

    /// Guests of the base and of the change, if there is a change.
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
    /// Kinds of KVM hosts in QEMU.
    pub enum HostKind {
        /// Linux with KVM for x86.
        Kvm = "kvm",
        /// Linux with KVM for e500v2, a PowerPC core of 2008 without virtualization, in QEMU's
        /// ppce500 machine.
        KvmE500v2 = "kvm-e500v2",
        /// Linux with KVM for arm64, in QEMU's virt machine.
        KvmArm64 = "kvm-arm64",
        /// Linux with KVM for POWER9, as a nested hypervisor, in QEMU's pseries machine.
        KvmPower9 = "kvm-power9",
        /// Linux with KVM for riscv64 with the hypervisor extension, in QEMU's virt machine.
        KvmRiscv64 = "kvm-riscv64",
    }
}

impl HostKind {
    /// True for a board: a machine of another architecture than x86, whose init process runs one
    /// guest without a kernel.
    pub fn is_board(self) -> bool {
        self != HostKind::Kvm
    }

    /// Kinds of work of a guest without a kernel: permitted values of `KIND` in `raw:KIND=N`.
    pub fn raw_kinds(self) -> Vec<&'static str> {
        match self {
            HostKind::Kvm => RawKind::ALL.map(RawKind::name).to_vec(),
            // Each privileged instruction, and a mixture of all.
            HostKind::KvmE500v2 => {
                vec!["all", "mfmsr", "mtspr", "mfspr", "mmio", "wrtee", "rfi"]
            }
            HostKind::KvmArm64 => vec!["all", "hvc", "mrs", "mmio", "fault", "wfi"],
            HostKind::KvmPower9 => vec!["all", "hcall", "fault"],
            HostKind::KvmRiscv64 => vec!["all", "ecall", "mmio", "fault", "wfi"],
        }
    }

    /// Permitted values of `N` in `raw:KIND=N`; `None` for an unknown kind.
    pub fn permitted_counts(self, kind: &str) -> Option<RangeInclusive<u32>> {
        match self {
            HostKind::Kvm => RawKind::from_name(kind).map(RawKind::permitted_counts),
            board => board.raw_kinds().contains(&kind).then_some(1..=u32::MAX),
        }
    }

    /// True if KVM can share its "magic page" with guests.
    pub fn has_magic_page(self) -> bool {
        self == HostKind::KvmE500v2
    }
}

/// Kinds of work of a guest without a kernel on x86. The guest repeats one kind.
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

/// Name and help text of each kind, in the order of [`RawKind::ALL`]. The name is also an option of
/// the raw guest.
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
    /// All kinds, in the order in which a guest does them.
    pub const ALL: [RawKind; 12] = {
        use RawKind::*;
        [Cpuid, Rdmsr, Wrmsr, Fault, Pic, Interrupt, Wake, SelfIpi, Ipi, Out, Mmio, Hlt]
    };

    /// Maximum number of 4 KiB pages that a guest can touch, because its memory ends below 768 MiB.
    pub const MAX_FAULTS: u32 = 196_096;

    /// Name in experiments, which is also an option of the raw guest.
    pub fn name(self) -> &'static str {
        RAW_KINDS[self as usize].0
    }

    /// Help text of the option.
    pub fn help(self) -> &'static str {
        RAW_KINDS[self as usize].1
    }

    /// Kind with this name; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<RawKind> {
        RawKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub fn permitted_counts(self) -> RangeInclusive<u32> {
        match self {
            RawKind::Fault => 1..=RawKind::MAX_FAULTS,
            _ => 1..=u32::MAX,
        }
    }

    /// True if the kind needs KVM's in-kernel interrupt controllers.
    pub fn needs_interrupt_controllers(self) -> bool {
        self == RawKind::Pic || self.is_interrupt()
    }

    /// True if the guest receives interrupts from its local APIC.
    pub fn is_interrupt(self) -> bool {
        use RawKind::{Interrupt, Ipi, SelfIpi, Wake};
        matches!(self, Interrupt | Wake | SelfIpi | Ipi)
    }
}

/// Result of one guest in one host, under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSample {
    pub run: ExitRun,
    /// Work signature of a program; empty for a boot and for a guest without a kernel.
    pub signature: Signature,
}

impl GuestSample {
    /// Time of all vCPUs, inside and outside the guest, ns.
    pub fn time_ns(&self) -> u64 {
        self.run.table.sum_ns()
    }

    pub fn exits(&self) -> u64 {
        self.run.table.exits()
    }
}

/// Evidence of a row of guests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestsEvidence {
    /// Effects of [`TIME`] and [`EXITS`] if there is a change. Without a change, the Effect of
    /// [`GUEST_TIME`], if the host did the same work. Empty if the row failed.
    pub effects: Vec<Effect>,
    /// Exit tables in the Layout of the first Effect; absent if the row failed.
    pub runs: Sides<Option<ExitRun>>,
    /// Time of all vCPUs under each Layout, inside and outside the guest, ns. Empty if a Side
    /// failed or is absent.
    pub times_ns: Sides<Vec<u64>>,
}

impl GuestsEvidence {
    /// Exit tables, named by the row, and by their Sides if there are two.
    pub fn exit_tables(&self, row: &str) -> Vec<ExitTable> {
        let has_both = self.runs.base.is_some() && self.runs.change.is_some();
        let sides = [Side::Base, Side::Change].into_iter();
        let runs = sides.filter_map(|side| Some((side, self.runs.get(side).as_ref()?)));
        let named = |(side, run): (Side, &ExitRun)| {
            let name = if has_both { format!("{row}, {}", side.name()) } else { row.to_owned() };
            ExitTable { name, ..run.table.clone() }
        };
        runs.map(named).collect()
    }
}

/// Metric of the time of all vCPUs, inside and outside the guest.
pub const TIME: &str = "time";
/// Metric of the number of exits.
pub const EXITS: &str = "exits";
/// Metric of the duration of the work: its base is the host itself, its change is the guest.
pub const GUEST_TIME: &str = "guest-time";

/// Data of all rows of guests together.
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
            assert_eq!(RawKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(RawKind::from_name("rdtsc"), None);
    }

    #[test]
    fn a_count_of_zero_is_not_permitted() {
        assert!(RawKind::ALL.iter().all(|kind| !kind.permitted_counts().contains(&0)));
        assert_eq!(*RawKind::Fault.permitted_counts().end(), RawKind::MAX_FAULTS);
    }
}
