use std::path::PathBuf;

use crate::engine::argv::Files;
use crate::engine::entry::ProgramFiles;
use crate::engine::limits::{Cancel, Limits};
use crate::engine::payload::Payload;
use crate::engine::qemu::Qemu;
use crate::engine::vm::Watched;

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
    /// The user's programs, which are in each guest.
    pub programs: Option<ProgramFiles>,
}

impl Tools {
    /// What is watched while a VM with these files runs.
    pub fn watch<'a>(&'a self, files: &'a Files, wire_bytes: u64) -> Watched<'a> {
        Watched {
            limits: &self.limits,
            cancel: &self.cancel,
            wire: (&files.wire, wire_bytes),
            speaks_first: true,
            console: &files.console,
        }
    }
}
