use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::kind::RawKind;

/// A kind of KVM host within QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// A Linux kernel with KVM for x86.
    Kvm,
    /// The same for a PowerPC of 2008, which has no virtualization, in QEMU's ppce500.
    #[serde(rename = "kvm-e500v2")]
    KvmE500v2,
    /// The same for arm64, in QEMU's virt machine.
    #[serde(rename = "kvm-arm64")]
    KvmArm64,
    /// The same for POWER9, as a hypervisor within another one, in QEMU's pseries.
    #[serde(rename = "kvm-power9")]
    KvmPower9,
    /// The same for riscv64 with the hypervisor extension, in QEMU's virt machine.
    #[serde(rename = "kvm-riscv64")]
    KvmRiscv64,
}

impl HostKind {
    /// As experiment files name it.
    pub fn name(self) -> &'static str {
        match self {
            HostKind::Kvm => "kvm",
            HostKind::KvmE500v2 => "kvm-e500v2",
            HostKind::KvmArm64 => "kvm-arm64",
            HostKind::KvmPower9 => "kvm-power9",
            HostKind::KvmRiscv64 => "kvm-riscv64",
        }
    }

    /// Whether it is a board: a machine of another architecture, whose first process runs one guest
    /// without a kernel.
    pub fn is_board(self) -> bool {
        self != HostKind::Kvm
    }

    /// What a guest without a kernel can do there: `KIND` of `raw:KIND=N`.
    pub fn kinds(self) -> Vec<&'static str> {
        match self {
            HostKind::Kvm => RawKind::ALL.map(RawKind::name).to_vec(),
            // What it may not do, and all of that together.
            HostKind::KvmE500v2 => {
                vec!["all", "mfmsr", "mtspr", "mfspr", "mmio", "wrtee", "rfi"]
            }
            HostKind::KvmArm64 => vec!["all", "hvc", "mrs", "mmio", "fault", "wfi"],
            HostKind::KvmPower9 => vec!["all", "hcall", "fault"],
            HostKind::KvmRiscv64 => vec!["all", "ecall", "mmio", "fault", "wfi"],
        }
    }

    /// How often such a guest can do this; `None` where it cannot.
    pub fn times(self, kind: &str) -> Option<RangeInclusive<u32>> {
        match self {
            HostKind::Kvm => RawKind::named(kind).map(RawKind::times),
            board => board.kinds().contains(&kind).then_some(1..=u32::MAX),
        }
    }

    /// Whether guest and KVM of a board can share the "magic page".
    pub fn has_magic_page(self) -> bool {
        self == HostKind::KvmE500v2
    }
}
