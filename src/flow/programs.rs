//! The user's programs of a plan: packed once, and found again by their hash.

use std::path::PathBuf;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::engine::payload::UserSpace;
use crate::kernel::needed_modules;
use crate::model::{CountsPlan, Disk, Identity, Key, UserProgram, module_and_parameters};
use crate::plan::mkfs;
use crate::program::{self, LoadedModule, PackedModules, PackedPrograms};

/// What a kernel and the guest's own programs take at most.
const KERNEL_MIB: u32 = 60;
/// What a program may write into its root directory.
const TO_WRITE_MIB: u32 = 16;

/// Packs the programs and what makes the disk, from the current directory. Their files are in the
/// memory twice while the guest unpacks them.
pub(super) fn pack(
    programs: &[UserProgram],
    hooks: Option<&UserProgram>,
    disk: Option<&Disk>,
    memory_mib: u32,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if programs.is_empty() && hooks.is_none() && disk.is_none() {
        return Ok(None);
    }
    // The archive stays in memory while it is unpacked, and Linux gives the root directory half of
    // the rest.
    let third_mib = memory_mib.saturating_sub(KERNEL_MIB) / 3;
    let most_bytes = u64::from(third_mib.saturating_sub(TO_WRITE_MIB)) << 20;
    let mkfs = disk.map(mkfs);
    let disk = disk.zip(mkfs.as_ref());
    Ok(Some(program::pack(programs, hooks, disk, &here(), most_bytes, &session.cache)?))
}

/// The programs of a plan: from the cache, or packed again.
pub(super) fn planned(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    let CountsPlan { programs, hooks, disk, machine, .. } = plan;
    if programs.is_empty() && hooks.is_none() && disk.is_none() {
        return Ok(None);
    }
    let pack = || pack(programs, hooks.as_ref(), disk.as_ref(), machine.memory_mib, session);
    found(&plan.key.programs, pack, session).map(Some)
}

/// Programs that were packed before: from the cache, or packed again.
pub(super) fn found(
    sha256: &str,
    pack: impl FnOnce() -> Result<Option<PackedPrograms>, Error>,
    session: &Session<'_>,
) -> Result<PackedPrograms, Error> {
    if let Some(packed) = program::open(sha256, &session.cache) {
        return Ok(packed);
    }
    let packed = pack()?.filter(|packed| packed.sha256 == sha256);
    packed.ok_or_else(|| StalePlanError::OtherPrograms.into())
}

/// Where programs are looked up.
pub(super) fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// The modules of a Kernel that the guests load.
pub(super) fn modules(
    wanted: &[String],
    kernel: &Identity,
    session: &Session<'_>,
) -> Result<Option<PackedModules>, Error> {
    let wanted: Vec<(&str, &str)> =
        wanted.iter().map(|module| module_and_parameters(module)).collect();
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let needed = session.talking(|talk| needed_modules(kernel, &names, &session.cache, talk))?;
    if needed.is_empty() {
        return Ok(None);
    }
    let loaded = |(name, content): (String, Vec<u8>)| {
        let given = wanted.iter().find(|(wanted, _)| *wanted == name);
        let parameters = given.map_or("", |(_, parameters)| parameters).to_owned();
        LoadedModule { name, parameters, content }
    };
    let modules: Vec<LoadedModule> = needed.into_iter().map(loaded).collect();
    Ok(Some(program::pack_modules(&modules, &session.cache)?))
}

/// The Key of counts with this guest, these programs and modules.
pub(super) fn key(
    key: Key,
    guest: &UserSpace,
    packed: Option<&PackedPrograms>,
    modules: &[String],
) -> Key {
    let programs = packed.map_or_else(String::new, |packed| packed.sha256.clone());
    Key { guest: guest.sha256(), programs, modules: modules.to_vec(), ..key }
}
