use std::path::PathBuf;

use crate::argv::Files;
use crate::contract::Request;
use crate::limits::{Cancel, Limits};
use crate::payload::Payload;
use crate::qemu::Qemu;
use crate::stop::host;
use crate::vm::Watched;
use ktax_model::Failure;
use ktax_program::PackedPrograms;

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
    /// What the guest of a Boot unpacks: ktax's programs, the kernel's modules, the user's.
    pub fn initrd(&self, request: &Request) -> Result<PathBuf, Failure> {
        self.payload.with(&archives(request)).map_err(host("cannot write to the cache"))
    }

    /// Whether its kernel has more code than its image.
    pub fn loads_code(request: &Request) -> bool {
        let mut programs = request.beside.iter().chain(&request.program);
        request.modules.is_some() || programs.any(|programs| programs.has_setup)
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

/// What a guest has beside ktax's own programs.
pub(super) fn archives(request: &Request) -> Vec<&PackedPrograms> {
    let modules = request.modules.iter().map(|modules| &modules.packed);
    modules.chain(&request.beside).chain(&request.program).collect()
}
