//! What an ELF file says that it needs.

use std::path::Path;

use object::LittleEndian;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_LOAD,
    ProgramHeader64,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::error::ProgramError;
use ktax_host::text::escape_path;

const LE: LittleEndian = LittleEndian;

/// What one needs to start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ElfNeeds {
    /// The dynamic loader; none for a statically linked program.
    pub interpreter: Option<String>,
    /// The names of libraries.
    pub libraries: Vec<String>,
    /// Directories that come before the loader's own, of this file and in its order.
    pub run_paths: Vec<String>,
}

/// Whether a file begins as an ELF file does.
pub(super) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Reads it from a program or a library; `path` is for messages.
pub(super) fn needs(bytes: &[u8], path: &Path) -> Result<ElfNeeds, ProgramError> {
    let said = || escape_path(path).to_string();
    let foreign = || ProgramError::Foreign { path: said() };
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(|_| foreign())?;
    let kind = header.e_type.get(LE);
    if header.e_machine.get(LE) != EM_X86_64 || !(kind == ET_EXEC || kind == ET_DYN) {
        return Err(foreign());
    }
    read(bytes, header).ok_or_else(|| ProgramError::Damaged { path: said() })
}

fn read(bytes: &[u8], header: &FileHeader64<LittleEndian>) -> Option<ElfNeeds> {
    let segments = header.program_headers(LE, bytes).ok()?;
    let mut needs = ElfNeeds::default();
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(LE, bytes).ok()? {
            needs.interpreter = Some(String::from_utf8(interpreter.to_vec()).ok()?);
        }
    }
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(LE, bytes).ok().flatten());
    let Some(dynamic) = dynamic else { return Some(needs) };
    let value =
        |tag: u32| dynamic.iter().find(|it| it.tag32(LE) == Some(tag)).map(|it| it.d_val(LE));
    let Some(strings) = value(DT_STRTAB) else { return Some(needs) };
    let text = |offset: u64| string(bytes, segments, strings.checked_add(offset)?);
    for entry in dynamic.iter().filter(|it| it.tag32(LE) == Some(DT_NEEDED)) {
        needs.libraries.push(text(entry.d_val(LE))?);
    }
    // RPATH counts only where there is no RUNPATH.
    if let Some(paths) = value(DT_RUNPATH).or(value(DT_RPATH)) {
        needs.run_paths = text(paths)?.split(':').map(str::to_owned).collect();
    }
    Some(needs)
}

/// The string at a virtual address.
fn string(bytes: &[u8], segments: &[ProgramHeader64<LittleEndian>], at: u64) -> Option<String> {
    let of = |segment: &&ProgramHeader64<LittleEndian>| {
        let begin = segment.p_vaddr(LE);
        segment.p_type(LE) == PT_LOAD
            && (begin..begin.saturating_add(segment.p_filesz(LE))).contains(&at)
    };
    let segment = segments.iter().find(of)?;
    let offset = segment.p_offset(LE).checked_add(at - segment.p_vaddr(LE))?;
    let rest = bytes.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}
