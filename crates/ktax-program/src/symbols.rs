//! The machine code of programs and libraries, so that the plugin can tell which function of which
//! file user mode executes: `docs/wire.md`, "Programs".

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{self, Read};

use object::LittleEndian;
use object::elf::{FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

use super::archive::Placed;
use super::elf;
use super::error::ProgramError;
use super::tree::HostFile;
use ktax_host::disk::sha256;

const LE: LittleEndian = LittleEndian;
const LONGEST_FILE_NAME: usize = 40;
const LONGEST_NAME: usize = 80;

/// What the plugin reads: each program or library once, however often it is there.
pub(super) fn text(placed: &[Placed]) -> Result<String, ProgramError> {
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    for Placed { name, file, offset } in placed {
        let unreadable = ProgramError::unreadable(&file.path);
        // Most files of a tree are no programs, and need not be read again.
        let is_small = file.bytes < 64;
        if is_small || !elf::is_elf(&content(file, 4).map_err(&unreadable)?) {
            continue;
        }
        let bytes = content(file, file.bytes).map_err(&unreadable)?;
        if elf::needs(&bytes, &file.path).is_ok() && seen.insert(sha256(&bytes)) {
            let name = name.rsplit('/').next().unwrap_or_default();
            let of_file = of_elf(&bytes, *offset).unwrap_or_default();
            let name = of_name(name, LONGEST_FILE_NAME);
            writeln!(text, "object {name}").expect("a String takes everything");
            text += &of_file;
        }
    }
    Ok(text)
}

fn content(file: &HostFile, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open()?.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The lines of one file, whose content is at `offset` in the archive.
fn of_elf(bytes: &[u8], offset: u64) -> Option<String> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let mut text = String::new();
    for segment in header.program_headers(LE, bytes).ok()? {
        if segment.p_type(LE) == PT_LOAD && segment.p_flags(LE) & PF_X != 0 {
            let (at, size) = segment.file_range(LE);
            let end = at.checked_add(size)?;
            if end > bytes.len() as u64 {
                return None;
            }
            let vaddr = segment.p_vaddr(LE);
            writeln!(text, "text {:x} {size:x} {vaddr:x}", offset + at).ok()?;
        }
    }
    let mut functions = functions(header, bytes).unwrap_or_default();
    // Of several names of one function the one that people call it by: malloc, not __libc_malloc.
    functions.sort_by_cached_key(|(begin, _, name)| (*begin, name.starts_with('_'), name.clone()));
    functions.dedup_by_key(|(begin, ..)| *begin);
    for (begin, size, name) in functions {
        writeln!(text, "fn {begin:x} {size:x} {name}").ok()?;
    }
    Some(text)
}

type Function = (u64, u64, String);

/// Address, size and name of each. A stripped file still has those that others may call.
fn functions(header: &FileHeader64<LittleEndian>, bytes: &[u8]) -> Option<Vec<Function>> {
    let sections = header.sections(LE, bytes).ok()?;
    let is_there = |kind| sections.iter().any(|section| section.sh_type(LE) == kind);
    let kind = if is_there(SHT_SYMTAB) { SHT_SYMTAB } else { SHT_DYNSYM };
    let symbols = sections.symbols(LE, bytes, kind).ok()?;
    let mut functions = Vec::new();
    for symbol in symbols.iter() {
        let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
        if !is_function || symbol.is_undefined(LE) || symbol.st_value(LE) == 0 {
            continue;
        }
        let name = symbol.name(LE, symbols.strings()).ok()?;
        let name = of_name(&String::from_utf8_lossy(name), LONGEST_NAME);
        functions.push((symbol.st_value(LE), symbol.st_size(LE), name));
    }
    Some(functions)
}

/// A name without what a profile could not have.
fn of_name(name: &str, longest: usize) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() || "_.$+-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(of).take(longest).collect();
    if name.is_empty() { "_".into() } else { name }
}
