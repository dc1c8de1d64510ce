use serde::{Deserialize, Serialize};

use super::super::{
    Calibration, Disk, Identity, Key, Layout, Machine, Sides, Step, Subject, UserProgram, Workload,
};

/// What only exact counts need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsPlan {
    /// What the counts will be comparable with.
    pub key: Key,
    /// The shape of the computer.
    pub machine: Machine,
    /// What is compared.
    pub subjects: Sides<Subject>,
    /// The Subjects' Kernels.
    pub kernels: Sides<Identity>,
    /// What the machine that is modelled takes, if its file says so: for estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The file system of the guest's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The programs of the user's, of which each is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// What runs beside rows that are no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<UserProgram>,
    /// The directory of the user's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_from: Option<String>,
    /// The rows.
    pub workloads: Vec<Workload>,
    /// The perturbations.
    pub layouts: Vec<Layout>,
    /// The Boots in order.
    pub steps: Vec<Step>,
}
