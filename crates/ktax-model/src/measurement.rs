use serde::{Deserialize, Serialize};

use super::{Boot, Disk, Identity, Key, Layout, Machine, Sample, Subject, UserProgram, Workload};

/// What makes an exact measurement this one: whoever measures it again gets the same counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurand {
    /// SHA-256 of the Kernel's image.
    pub kernel_sha256: String,
    /// The boot line of the Subject.
    pub boot_line: String,
    /// The machine.
    pub machine: Machine,
    /// What counts compare within.
    pub key: Key,
    /// The row, with its parameters and operations.
    pub workload: Workload,
    /// The Layouts, in the Plan's order.
    pub layouts: Vec<Layout>,
}

/// An exact measurement: a row of a Subject under all Layouts of a Plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// What was measured.
    pub of: Measurand,
    /// What the Kernel is called; another name of the same image is no other measurement.
    pub kernel: Identity,
    /// What was asked for.
    pub subject: Subject,
    /// What both Sides' guests had, as it was asked for.
    #[serde(default, skip_serializing_if = "AskedGuest::is_usual")]
    pub guest: AskedGuest,
    /// What the Layouts were drawn from.
    pub seed: u64,
    /// One for each Layout.
    pub layouts: Vec<MeasuredLayout>,
}

/// What the guests of both Sides have beside their kernels, as it was asked for. What it came to is
/// in the Key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedGuest {
    /// The file system of the guest's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The user's programs, of which each is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// What runs beside rows that are no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<UserProgram>,
    /// The directory of the user's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_from: Option<String>,
}

impl AskedGuest {
    fn is_usual(&self) -> bool {
        *self == AskedGuest::default()
    }
}

/// What was measured under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLayout {
    /// What the guest reports of its kernel.
    pub boot: Boot,
    /// The counts.
    pub sample: Sample,
    /// The counts by function, as the plugin wrote them. A file of the store has them elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
}
