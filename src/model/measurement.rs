use serde::{Deserialize, Serialize};

use super::{Boot, Identity, Key, Layout, Machine, Sample, Subject, Workload};

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
    /// What the Layouts were drawn from.
    pub seed: u64,
    /// One for each Layout.
    pub layouts: Vec<MeasuredLayout>,
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
