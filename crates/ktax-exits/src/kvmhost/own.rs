//! The ktax that runs in the host, and the libraries that it needs there unless it is linked
//! statically, as it usually is. A library's user may have another program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use super::error::HostError;

/// The program of this process, also where its file was replaced.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// Where a 64-bit ELF header says where its sections are, and how many.
const SECTIONS_AT: std::ops::Range<usize> = 0x28..0x30;
const SECTIONS_COUNT: std::ops::Range<usize> = 0x3c..0x40;

/// A program.
pub(super) struct Own {
    pub program: Vec<u8>,
    /// The path and content of each library; none if the program is linked statically.
    pub libraries: Vec<(String, Vec<u8>)>,
}

/// Reads a program that needs no other libraries than this process has.
pub(super) fn read(path: &Path) -> Result<Own, HostError> {
    let file = |path: &Path| HostError::of_file(path.display().to_string());
    let read = |path: &Path| fs::read(path).map_err(file(path));
    let program = read(path)?;
    let strange = |reason| HostError::Program { path: path.display().to_string(), reason };
    let Some(place) = interpreter(&program).map_err(strange)? else {
        return Ok(Own { program: without_sections(program), libraries: Vec::new() });
    };
    let linker = Path::new(&place).canonicalize().ok();
    let maps = Path::new("/proc/self/maps");
    let maps = fs::read_to_string(maps).map_err(file(maps))?;
    let own = fs::read_link(THIS_PROGRAM).map_err(file(Path::new(THIS_PROGRAM)))?;
    let mut libraries = Vec::new();
    for path in mapped(&maps).into_iter().filter(|path| *path != own) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Its place is part of the program; the others are looked for.
        let place = match path.canonicalize().ok() == linker {
            true => place.clone(),
            false => format!("/lib/{name}"),
        };
        libraries.push((place, without_sections(read(&path)?)));
    }
    Ok(Own { program: without_sections(program), libraries })
}

/// The files that this process executes and that still exist.
fn mapped(maps: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let executable = line.split_ascii_whitespace().nth(1)?.contains('x');
        let path = &line[line.find('/')?..];
        (executable && !path.ends_with(" (deleted)")).then(|| PathBuf::from(path))
    };
    maps.lines().filter_map(path).collect()
}

/// The dynamic linker that the program names, unless it is linked statically.
fn interpreter(program: &[u8]) -> Result<Option<String>, &'static str> {
    let elf = FileHeader64::<LittleEndian>::parse(program).map_err(|_| "no 64-bit ELF file")?;
    let segments = elf.program_headers(LittleEndian, program).map_err(|_| "no program")?;
    let named = segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_INTERP);
    let Some(named) = named else { return Ok(None) };
    let bytes = named.data(LittleEndian, program).map_err(|()| "its interpreter is not in it")?;
    let name = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    Ok(Some(String::from_utf8_lossy(name).into_owned()))
}

/// Cuts a program off behind its last loaded byte: most of a debug build is debug information.
fn without_sections(mut file: Vec<u8>) -> Vec<u8> {
    let end = FileHeader64::<LittleEndian>::parse(file.as_slice()).ok().and_then(|elf| {
        let segments = elf.program_headers(LittleEndian, file.as_slice()).ok()?;
        let end = |segment: &object::elf::ProgramHeader64<LittleEndian>| {
            let (start, length) = segment.file_range(LittleEndian);
            start.checked_add(length)
        };
        usize::try_from(segments.iter().filter_map(end).max()?).ok()
    });
    match end.filter(|end| (SECTIONS_COUNT.end..file.len()).contains(end)) {
        None => file,
        Some(end) => {
            file.truncate(end);
            file[SECTIONS_AT].fill(0);
            file[SECTIONS_COUNT].fill(0);
            file
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_is_executed() {
        let maps = "\
            5500-5600 r--p 00000000 08:01 7  /usr/bin/a b\n\
            5600-5700 r-xp 00000000 08:01 7  /usr/bin/a b\n\
            7f00-7f10 r-xp 00000000 08:01 8  /lib/libc.so.6\n\
            7f10-7f20 r-xp 00000000 08:01 9  /lib/gone.so (deleted)\n\
            7f20-7f30 r--p 00000000 08:01 9  /usr/lib/locale/C\n\
            7fff-7fff r-xp 00000000 00:00 0  [vdso]\n";
        let expected = ["/lib/libc.so.6", "/usr/bin/a b"].map(PathBuf::from);
        assert_eq!(mapped(maps), BTreeSet::from(expected));
    }

    #[test]
    fn a_program_without_its_sections_still_runs() {
        let own = read(Path::new(THIS_PROGRAM)).unwrap();
        let whole = fs::metadata(THIS_PROGRAM).unwrap().len();
        assert!((own.program.len() as u64) < whole);
        let dir = tempfile::tempdir().unwrap();
        let [written, path] = ["written", "program"].map(|name| dir.path().join(name));
        fs::write(&written, &own.program).unwrap();
        // A child that another test starts meanwhile has our descriptors for a moment, and what is
        // open for writing cannot be executed: so somebody else writes it.
        let copied = std::process::Command::new("cp").args([&written, &path]).status();
        assert!(copied.unwrap().success());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        let listed = std::process::Command::new(&path).args(["--list", "kvmhost"]).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(listed.contains("a_program_without_its_sections_still_runs"), "{listed}");
    }

    #[test]
    fn what_is_no_program_is_left_as_it_is() {
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0x7f; 100]] {
            assert_eq!(without_sections(bytes.to_vec()), bytes);
            assert!(interpreter(bytes).is_err());
        }
    }
}
