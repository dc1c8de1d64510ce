//! Reads ELF files: the dynamic loader and the libraries that they need, and their functions.
//! Libraries are searched like the dynamic loader does, without running it or a program of the
//! user.
//!
//! The plugin needs the functions to name the function and file that user mode executes:
//! `docs/wire.md`, "Programs".

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use object::LittleEndian;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_X,
    PT_LOAD, ProgramHeader64, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};

use crate::pack::PlacedFile;
use crate::tree::{GuestTree, HostFile};
use crate::{MAX_FILE_BYTES, unreadable};
use ktax_host::disk::{read_limited, read_text, sha256};
use ktax_host::text::escape_path;
use ktax_model::{Error, Result};

const LE: LittleEndian = LittleEndian;

/// Dynamic loader and libraries that an ELF file needs to start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ElfNeeds {
    /// Path of the dynamic loader; `None` for a static program and for a library.
    pub interpreter: Option<String>,
    /// Names of the needed libraries (DT_NEEDED).
    pub libraries: Vec<String>,
    /// Directories of DT_RUNPATH or DT_RPATH, which the loader searches before its own directories.
    pub run_paths: Vec<String>,
}

pub(super) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Reads which loader and libraries a program or library needs. `path` is for messages.
pub(super) fn elf_needs(bytes: &[u8], path: &Path) -> Result<ElfNeeds> {
    let shown = escape_path(path);
    let foreign =
        || Error::user(format!("{shown} is not a program for x86-64")).next("give one that is");
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(|_| foreign())?;
    let kind = header.e_type.get(LE);
    if header.e_machine.get(LE) != EM_X86_64 || !(kind == ET_EXEC || kind == ET_DYN) {
        return Err(foreign());
    }
    read_dynamic(bytes, header).ok_or_else(|| {
        Error::user(format!("{shown} is a damaged ELF file")).next("install it again")
    })
}

fn read_dynamic(bytes: &[u8], header: &FileHeader64<LittleEndian>) -> Option<ElfNeeds> {
    let segments = header.program_headers(LE, bytes).ok()?;
    let mut needs = ElfNeeds::default();
    for segment in segments {
        if let Some(interpreter) = segment.interpreter(LE, bytes).ok()? {
            needs.interpreter = Some(String::from_utf8(interpreter.to_vec()).ok()?);
        }
    }
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(LE, bytes).ok().flatten());
    let Some(dynamic) = dynamic else { return Some(needs) };
    let value = |tag: u32| {
        dynamic.iter().find(|entry| entry.tag32(LE) == Some(tag)).map(|entry| entry.d_val(LE))
    };
    let Some(strings) = value(DT_STRTAB) else { return Some(needs) };
    let text = |offset: u64| string_at_address(bytes, segments, strings.checked_add(offset)?);
    for entry in dynamic.iter().filter(|entry| entry.tag32(LE) == Some(DT_NEEDED)) {
        needs.libraries.push(text(entry.d_val(LE))?);
    }
    // The loader ignores DT_RPATH if there is a DT_RUNPATH.
    if let Some(paths) = value(DT_RUNPATH).or(value(DT_RPATH)) {
        needs.run_paths = text(paths)?.split(':').map(str::to_owned).collect();
    }
    Some(needs)
}

/// String at a virtual address, up to its NUL; `None` if it is outside the file or not UTF-8.
fn string_at_address(
    bytes: &[u8],
    segments: &[ProgramHeader64<LittleEndian>],
    address: u64,
) -> Option<String> {
    let has_address = |segment: &&ProgramHeader64<LittleEndian>| {
        let begin = segment.p_vaddr(LE);
        segment.p_type(LE) == PT_LOAD
            && (begin..begin.saturating_add(segment.p_filesz(LE))).contains(&address)
    };
    let segment = segments.iter().find(has_address)?;
    let offset = segment.p_offset(LE).checked_add(address - segment.p_vaddr(LE))?;
    let rest = bytes.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

/// Default directories of the dynamic loader, of Debian and of other distributions.
const DEFAULT_DIRECTORIES: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Maximum size of a configuration file of the dynamic loader.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Handling of a file that a program may need and that this machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// The missing file is an error, because the program cannot start without it.
    Refused,
    /// The missing file is ignored, because the program may never load it.
    Ignored,
}

/// Adds the dynamic loader and all libraries that `programs` need, directly or indirectly.
pub(super) fn add_libraries(
    tree: &mut GuestTree,
    programs: Vec<PathBuf>,
    missing: IfMissing,
) -> Result<()> {
    let (mut known, mut unread) = (BTreeSet::new(), programs);
    while let Some(path) = unread.pop() {
        let bytes = read_limited(&path, MAX_FILE_BYTES).map_err(unreadable(&path))?;
        let needs = match elf_needs(&bytes, &path) {
            Err(_) if missing == IfMissing::Ignored => continue,
            needs => needs?,
        };
        if let Some(interpreter) = &needs.interpreter {
            tree.add_in_place(Path::new(interpreter))?;
        }
        let directories = search_directories(&needs, &path);
        for name in needs.libraries.iter().filter(|name| known.insert((*name).clone())) {
            match find_library(name, &directories) {
                Some(library) => {
                    if !is_in_default_directory(&library) {
                        add_loader_cache(tree)?;
                    }
                    unread.push(tree.add_in_place(&library)?);
                }
                None if missing == IfMissing::Ignored => {}
                None => {
                    let (path, library) = (escape_path(&path), name.escape_default());
                    return Err(Error::user(format!(
                        "{path} needs the library {library}, and no directory of the dynamic \
                         loader has it"
                    ))
                    .next("install it, or name it with --file PATH:AT"));
                }
            }
        }
    }
    Ok(())
}

/// First ELF file for x86-64 with this name in the directories; a name with a slash is a path.
fn find_library(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let candidates = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => directories.iter().map(|directory| directory.join(name)).collect(),
    };
    let is_library = |path: &PathBuf| {
        let content = read_limited(path, MAX_FILE_BYTES);
        content.is_ok_and(|bytes| elf_needs(&bytes, path).is_ok())
    };
    candidates.into_iter().find(is_library)
}

/// Directories that the dynamic loader searches for the libraries of `path`, in its order.
fn search_directories(needs: &ElfNeeds, path: &Path) -> Vec<PathBuf> {
    // $ORIGIN is the directory of the file itself, not of a link to it.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = real.parent().unwrap_or(Path::new("/")).display().to_string();
    let run_paths = needs.run_paths.iter().map(|directory| {
        PathBuf::from(directory.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    });
    run_paths
        .chain(configured_directories())
        .chain(DEFAULT_DIRECTORIES.map(PathBuf::from))
        .collect()
}

/// Directories in /etc/ld.so.conf and in the files of /etc/ld.so.conf.d.
fn configured_directories() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    files.sort();
    files.insert(0, "/etc/ld.so.conf".into());
    let text = |path: &PathBuf| read_text(path, MAX_CONFIG_BYTES).unwrap_or_default();
    let lines = files.iter().map(text).collect::<String>();
    lines.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

fn is_in_default_directory(library: &Path) -> bool {
    library.parent().is_some_and(|directory| {
        DEFAULT_DIRECTORIES.iter().any(|default| directory == Path::new(default))
    })
}

/// Adds the cache of the dynamic loader, which finds libraries outside its default directories by
/// it.
fn add_loader_cache(tree: &mut GuestTree) -> Result<()> {
    let cache = Path::new("/etc/ld.so.cache");
    if cache.exists() {
        tree.add_in_place(cache)?;
    }
    Ok(())
}

/// Maximum number of characters of a file's name in a profile.
const MAX_FILE_NAME_CHARS: usize = 40;
/// Maximum number of characters of a function's name in a profile.
const MAX_FUNCTION_NAME_CHARS: usize = 80;

/// Symbols in the plugin's format. A program or library is listed once, even if the archive has
/// several copies.
pub(super) fn symbol_text(placed: &[PlacedFile]) -> Result<String> {
    let (mut text, mut seen) = (String::new(), BTreeSet::new());
    for PlacedFile { name, file, offset } in placed {
        let unreadable = unreadable(&file.path);
        // An ELF header has 64 bytes. Most files are not ELF files, so read their magic number
        // alone.
        if file.bytes < 64 || !is_elf(&read_content(file, 4).map_err(&unreadable)?) {
            continue;
        }
        let bytes = read_content(file, file.bytes).map_err(&unreadable)?;
        if elf_needs(&bytes, &file.path).is_ok() && seen.insert(sha256(&bytes)) {
            let name = name.rsplit('/').next().unwrap_or_default();
            let lines = symbol_lines(&bytes, *offset).unwrap_or_default();
            let name = clean_name(name, MAX_FILE_NAME_CHARS);
            writeln!(text, "object {name}").expect("a write to a String does not fail");
            text += &lines;
        }
    }
    Ok(text)
}

/// Reads at most `max_bytes` of a file's content.
fn read_content(file: &HostFile, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open()?.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Symbols of one file in the plugin's format. `offset` is the offset of its content in the
/// archive. `None` for a damaged file.
fn symbol_lines(bytes: &[u8], offset: u64) -> Option<String> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let mut text = String::new();
    for segment in header.program_headers(LE, bytes).ok()? {
        if segment.p_type(LE) == PT_LOAD && segment.p_flags(LE) & PF_X != 0 {
            let (start, size) = segment.file_range(LE);
            let end = start.checked_add(size)?;
            if end > bytes.len() as u64 {
                return None;
            }
            let vaddr = segment.p_vaddr(LE);
            writeln!(text, "text {:x} {size:x} {vaddr:x}", offset + start).ok()?;
        }
    }
    let mut functions = elf_functions(header, bytes).unwrap_or_default();
    // Of several names of a function, keep the public one: malloc, not __libc_malloc.
    functions.sort_by_cached_key(|(begin, _, name)| (*begin, name.starts_with('_'), name.clone()));
    functions.dedup_by_key(|(begin, ..)| *begin);
    for (begin, size, name) in functions {
        writeln!(text, "fn {begin:x} {size:x} {name}").ok()?;
    }
    Some(text)
}

/// Address, size and name of a function.
type Function = (u64, u64, String);

/// Functions of a file. A stripped file still has its dynamic symbols.
fn elf_functions(header: &FileHeader64<LittleEndian>, bytes: &[u8]) -> Option<Vec<Function>> {
    let sections = header.sections(LE, bytes).ok()?;
    let has_section = |kind| sections.iter().any(|section| section.sh_type(LE) == kind);
    let kind = if has_section(SHT_SYMTAB) { SHT_SYMTAB } else { SHT_DYNSYM };
    let symbols = sections.symbols(LE, bytes, kind).ok()?;
    let mut functions = Vec::new();
    for symbol in symbols.iter() {
        let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
        if !is_function || symbol.is_undefined(LE) || symbol.st_value(LE) == 0 {
            continue;
        }
        let name = symbol.name(LE, symbols.strings()).ok()?;
        let name = clean_name(&String::from_utf8_lossy(name), MAX_FUNCTION_NAME_CHARS);
        functions.push((symbol.st_value(LE), symbol.st_size(LE), name));
    }
    Some(functions)
}

/// Replaces characters that a profile cannot have, and truncates the name to `max_chars`.
fn clean_name(name: &str, max_chars: usize) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "_.$+-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(clean).take(max_chars).collect();
    if name.is_empty() { "_".into() } else { name }
}
