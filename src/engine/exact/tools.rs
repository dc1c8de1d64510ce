use std::path::PathBuf;

use crate::engine::argv::Files;
use crate::engine::contract::Request;
use crate::engine::limits::{Cancel, Limits};
use crate::engine::payload::Payload;
use crate::engine::qemu::Qemu;
use crate::engine::stop::host;
use crate::engine::vm::Watched;
use crate::model::Failure;
use crate::program::PackedPrograms;

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
    pub programs: Option<PackedPrograms>,
}

impl Tools {
    /// What the guest of a Boot unpacks: ktax's programs, the kernel's modules, the user's.
    pub fn initrd(&self, request: &Request) -> Result<PathBuf, Failure> {
        let archives: Vec<&PackedPrograms> = self.archives(request).collect();
        self.payload.with(&archives).map_err(host("cannot write to the cache"))
    }

    /// Whether its kernel has more code than its image.
    pub fn loads_code(&self, request: &Request) -> bool {
        let has_hooks = self.programs.as_ref().is_some_and(|programs| programs.has_setup);
        request.modules.is_some() || has_hooks
    }

    /// What it has beside ktax's own programs.
    pub fn archives<'a>(
        &'a self,
        request: &'a Request,
    ) -> impl Iterator<Item = &'a PackedPrograms> {
        request.modules.iter().map(|modules| &modules.packed).chain(&self.programs)
    }

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
