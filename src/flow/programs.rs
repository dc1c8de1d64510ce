//! The user's programs of a plan: packed once, and found again by their hash.

use std::path::Path;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::engine::ProgramFiles;
use crate::model::{CountsPlan, Key, Machine, UserProgram};
use crate::program::{self, PackedPrograms};

/// What a kernel and the guest's own programs take at most.
const KERNEL_MIB: u32 = 160;

/// Packs the programs, from the current directory. Their files are in the memory twice while the
/// guest unpacks them.
pub(super) fn pack(
    programs: &[UserProgram],
    machine: &Machine,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if programs.is_empty() {
        return Ok(None);
    }
    let most_bytes = u64::from(machine.memory_mib.saturating_sub(KERNEL_MIB) / 2) << 20;
    let here = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    Ok(Some(program::pack(programs, &here, most_bytes, &session.cache)?))
}

/// The programs of a plan: from the cache, or packed again.
pub(super) fn planned(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if plan.programs.is_empty() {
        return Ok(None);
    }
    if let Some(packed) = program::open(&plan.key.programs, &session.cache) {
        return Ok(Some(packed));
    }
    let packed = pack(&plan.programs, &plan.machine, session)?;
    match packed.as_ref().is_some_and(|packed| packed.sha256 == plan.key.programs) {
        true => Ok(packed),
        false => Err(StalePlanError::OtherPrograms.into()),
    }
}

/// The Key of counts with these programs.
pub(super) fn key(key: Key, packed: Option<&PackedPrograms>) -> Key {
    Key { programs: packed.map_or_else(String::new, |packed| packed.sha256.clone()), ..key }
}

/// What the engine needs of them.
pub(super) fn files(packed: &PackedPrograms) -> ProgramFiles {
    let PackedPrograms { sha256, archive, symbols, .. } = packed.clone();
    ProgramFiles { sha256, archive, symbols }
}
