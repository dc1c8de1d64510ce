use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::super::{Identity, Key, Layout, Side, Step, Subject, Workload};
use super::host::HostKind;

/// What a guest is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSubject {
    /// Its Kernel as every experiment names it; a guest of e500v2 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Subject>,
    /// Features of KVM that the guest does not see: `kvmclock`, `magic-page`, …
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// vCPUs.
    pub cpus: u8,
    /// Memory in MiB.
    pub memory_mib: u32,
}

impl GuestSubject {
    /// The only feature of KVM on a board that can be left out.
    pub const MAGIC_PAGE: &str = "magic-page";
    /// The feature that ktax's monitor hides from every guest of a host within QEMU.
    pub const PV_EOI: &str = "kvm-pv-eoi";
    /// How many vCPUs a guest can have.
    pub const CPUS: RangeInclusive<u32> = 1..=16;
    /// How much memory a guest can have, in MiB.
    pub const MEMORY_MIB: RangeInclusive<u32> = 64..=3072;
}

/// A Side's guest, with its Kernel as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSide {
    /// As it was asked for.
    pub subject: GuestSubject,
    /// What the Kernel is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// What a guest does while it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestWork {
    /// It boots, and powers off.
    Boot,
    /// It has no kernel, and leaves for one reason, so often.
    Raw {
        /// The reason.
        kind: String,
        /// How often.
        count: u32,
    },
    /// One program, from its start to its end.
    Program(Workload),
}

/// A row: what each Side's guest does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestRow {
    /// Its name, as in the experiment; also its file name in a run directory.
    pub row: String,
    /// What the guest does.
    pub work: GuestWork,
}

/// What only guests need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsPlan {
    /// What the guests run on.
    pub host: HostKind,
    /// What the counts will be comparable with.
    pub key: Key,
    /// The host's Kernel, as it was asked for.
    pub host_subject: Subject,
    /// What the host's Kernel is.
    pub host_kernel: Identity,
    /// What the change is measured against.
    pub base: GuestSide,
    /// What is measured; without it the base is described alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<GuestSide>,
    /// What the guests do.
    pub rows: Vec<GuestRow>,
    /// The perturbations.
    pub layouts: Vec<Layout>,
    /// The Boots in order.
    pub steps: Vec<Step>,
}

impl GuestsPlan {
    /// The guest of a Side; there may be no change.
    pub fn side(&self, side: Side) -> Option<&GuestSide> {
        match side {
            Side::Base => Some(&self.base),
            Side::Change => self.change.as_ref(),
        }
    }
}
