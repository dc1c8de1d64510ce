//! The user's programs of a plan: packed once, and found again by their hash.

use std::fs;
use std::path::PathBuf;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::engine::payload::UserSpace;
use crate::kernel::needed_modules;
use crate::model::{CountsPlan, Disk, Identity, Key, UserProgram, module_and_parameters};
use crate::plan::mkfs;
use crate::program::{
    self, LoadedModule, PackedModules, PackedPrograms, ProgramError, ProgramsAlone,
};

/// What a kernel and the guest's own programs take at most.
const KERNEL_MIB: u32 = 60;
/// What a program may write into its root directory.
const TO_WRITE_MIB: u32 = 16;

/// Packs programs for guests that have them all, from the current directory.
pub(super) fn pack_together(
    programs: &[UserProgram],
    memory_mib: u32,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if programs.is_empty() {
        return Ok(None);
    }
    let most_bytes = most_bytes(memory_mib);
    Ok(Some(program::pack(programs, None, None, &here(), most_bytes, &session.cache)?))
}

/// What fits into a guest. The archive stays in memory while it is unpacked, and Linux gives the
/// root directory half of the rest.
fn most_bytes(memory_mib: u32) -> u64 {
    let third_mib = memory_mib.saturating_sub(KERNEL_MIB) / 3;
    u64::from(third_mib.saturating_sub(TO_WRITE_MIB)) << 20
}

/// The programs of a Plan of counts, and what its guests have besides.
pub(super) struct Counted<'a> {
    pub programs: &'a [UserProgram],
    pub hooks: Option<&'a UserProgram>,
    pub disk: Option<&'a Disk>,
    pub memory_mib: u32,
}

impl Counted<'_> {
    /// Packs each program alone, from the current directory.
    pub fn pack(&self, session: &Session<'_>) -> Result<ProgramsAlone, Error> {
        let beside = self.pack_beside(session)?;
        let pack = |program| self.pack_alone(program, beside.as_ref(), session);
        let programs = self.programs.iter().map(pack).collect::<Result<_, _>>()?;
        Ok(ProgramsAlone { beside, programs })
    }

    fn pack_beside(&self, session: &Session<'_>) -> Result<Option<PackedPrograms>, Error> {
        let Counted { hooks, disk, memory_mib, .. } = *self;
        if hooks.is_none() && disk.is_none() {
            return Ok(None);
        }
        let mkfs = disk.map(mkfs);
        let (disk, most_bytes) = (disk.zip(mkfs.as_ref()), most_bytes(memory_mib));
        Ok(Some(program::pack(&[], hooks, disk, &here(), most_bytes, &session.cache)?))
    }

    fn pack_alone(
        &self,
        program: &UserProgram,
        beside: Option<&PackedPrograms>,
        session: &Session<'_>,
    ) -> Result<PackedPrograms, Error> {
        let beside =
            beside.map_or(Ok(0), |packed| fs::metadata(&packed.archive).map(|about| about.len()));
        let beside = (beside.map_err(ProgramError::Cache)?, self.disk);
        let most_bytes = most_bytes(self.memory_mib);
        Ok(program::pack_alone(program, beside, &here(), most_bytes, &session.cache)?)
    }
}

/// The programs of a plan: from the cache, or packed again.
pub(super) fn planned(plan: &CountsPlan, session: &Session<'_>) -> Result<ProgramsAlone, Error> {
    let CountsPlan { programs, hooks, disk, machine, .. } = plan;
    let (hooks, disk, memory_mib) = (hooks.as_ref(), disk.as_ref(), machine.memory_mib);
    let counted = Counted { programs, hooks, disk, memory_mib };
    let (beside, alone) = plan.archives();
    let beside = match beside {
        Some(sha256) => Some(found(sha256, || counted.pack_beside(session), session)?),
        None => None,
    };
    let pack = |(program, sha256): (&UserProgram, &str)| {
        let pack = || counted.pack_alone(program, beside.as_ref(), session).map(Some);
        found(sha256, pack, session)
    };
    let programs = programs.iter().zip(alone).map(pack).collect::<Result<_, _>>()?;
    Ok(ProgramsAlone { beside, programs })
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
pub(super) fn key(key: Key, guest: &UserSpace, packed: &ProgramsAlone, modules: &[String]) -> Key {
    let programs = Key::of_archives(packed.sha256s());
    Key { guest: guest.sha256(), programs, modules: modules.to_vec(), ..key }
}
