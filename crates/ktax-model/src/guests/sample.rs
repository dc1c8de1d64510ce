use serde::{Deserialize, Serialize};

use super::super::{ExitRun, Signature};

/// What one guest did, in one host under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSample {
    /// Its exit table and times.
    pub run: ExitRun,
    /// What a program says that it did; empty of a boot and of a guest without a kernel.
    pub signature: Signature,
}

impl GuestSample {
    /// All of the vCPUs' time, in and out of the guest, ns.
    pub fn time_ns(&self) -> u64 {
        self.run.table.sum_ns()
    }

    /// How often the guest was left.
    pub fn exits(&self) -> u64 {
        self.run.table.exits()
    }
}
