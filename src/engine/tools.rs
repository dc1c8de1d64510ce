use std::path::PathBuf;

use super::argv::Files;
use super::limits::{Cancel, Limits};
use super::payload::Payload;
use super::qemu::Qemu;
use super::vm::Watched;

/// What every part of the exact engine works with.
#[derive(Debug)]
pub(super) struct Tools {
    pub qemu: Qemu,
    /// ktax's own directory.
    pub cache: PathBuf,
    pub payload: Payload,
    pub guest_sha256: String,
    pub limits: Limits,
    pub cancel: Cancel,
}

impl Tools {
    /// What is watched while a VM with these files runs.
    pub fn watch<'a>(&'a self, files: &'a Files, wire_bytes: u64) -> Watched<'a> {
        Watched {
            limits: &self.limits,
            cancel: &self.cancel,
            wire: (&files.wire, wire_bytes),
            console: &files.console,
        }
    }
}
