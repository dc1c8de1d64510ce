//! The host's initramfs: a ktax, its libraries, the modules, the given files, and the order.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use object::LittleEndian;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use super::init::Order;
use super::unprepared;
use ktax_engine::payload::{
    DIRECTORY_MODE, PROGRAM_MODE, append_console, append_file, end_archive,
};
use ktax_host::cache::Holder;
use ktax_host::disk::{sha256, unpack, write_atomically};
use ktax_model::{Error, Result};

/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct Given {
    pub name: String,
    pub content: Vec<u8>,
}

/// Most bytes of all given files together. While the host unpacks them, its memory has them twice,
/// and no more than half of the rest may be files.
pub const GIVEN_MAX: u64 = 256 << 20;

/// File with init's order, unless init is to freeze and read the order from QEMU.
pub(super) const ORDER: &str = "/order.json";
/// Program by which init freezes the machine and reads the order: `guest/vm/freeze.c`.
pub(super) const FREEZE: &str = "/freeze";
static FREEZE_PROGRAM: &[u8] = include_bytes!(env!("KTAX_FREEZE_Z"));

/// Path of that program in the build, for tests that execute it here.
#[doc(hidden)]
pub const FREEZE_PATH: &str = env!("KTAX_FREEZE");

/// Directory of the modules; they are loaded in the order of their names.
pub(super) const MODULES: &str = "/modules";

const DIRECTORIES: [&str; 6] = ["dev", "proc", "sys", "tmp", "files", "modules"];

/// Builds the archive: the same bytes for the same files and order. Without an order the host
/// freezes once it has booted.
pub(super) fn build(
    program: &Path,
    modules: &[PathBuf],
    order: Option<&Order>,
    files: &[Given],
) -> Result<Vec<u8>> {
    let linked = read_program(program)?;
    let mut members: Vec<Member> = vec![("/ktax".to_owned(), linked.program.into())];
    members.extend(linked.libraries.into_iter().map(|(path, content)| (path, content.into())));
    for (number, path) in modules.iter().enumerate() {
        let module = fs::read(path).map_err(unprepared(path))?;
        members.push((format!("{MODULES}/{number:02}"), module.into()));
    }
    for file in files {
        members.push((format!("/files/{}", file.name), file.content.as_slice().into()));
    }
    members.push(match order {
        Some(order) => (ORDER.into(), order.to_json().into()),
        None => (FREEZE.into(), unpack(FREEZE_PROGRAM).into()),
    });
    archive(&members).map_err(unprepared(Path::new("the archive")))
}

type Member<'a> = (String, Cow<'a, [u8]>);

/// Writes an archive in which a directory comes before its files.
fn archive(members: &[Member<'_>]) -> io::Result<Vec<u8>> {
    let mut directories: BTreeSet<PathBuf> = DIRECTORIES.iter().map(PathBuf::from).collect();
    for (path, _) in members {
        let above = Path::new(path.trim_start_matches('/')).ancestors().skip(1);
        directories.extend(above.filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_owned));
    }
    let directories = directories.iter().map(|dir| dir.to_string_lossy());
    let files = members.iter().map(|(path, content)| (path.trim_start_matches('/'), &**content));
    pack(directories, files)
}

/// Writes an archive of directories, the console, and programs.
pub(super) fn pack<'a>(
    directories: impl IntoIterator<Item = impl AsRef<str>>,
    programs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for directory in directories {
        append_file(&mut archive, directory.as_ref(), DIRECTORY_MODE, &[])?;
    }
    append_console(&mut archive)?;
    for (name, content) in programs {
        append_file(&mut archive, name, PROGRAM_MODE, content)?;
    }
    end_archive(archive)
}

/// Program of this process, even if its file was replaced.
pub const THIS_PROGRAM: &str = "/proc/self/exe";
/// Fields of a 64-bit ELF header: the offset of its sections, and their number.
const SECTIONS_AT: std::ops::Range<usize> = 0x28..0x30;
const SECTIONS_COUNT: std::ops::Range<usize> = 0x3c..0x40;

struct LinkedProgram {
    program: Vec<u8>,
    /// The path and content of each library; none if the program is linked statically.
    libraries: Vec<(String, Vec<u8>)>,
}

/// Reads a program that needs no other libraries than this process has.
fn read_program(path: &Path) -> Result<LinkedProgram> {
    let read = |path: &Path| fs::read(path).map_err(unprepared(path));
    let program = read(path)?;
    let strange = |reason: &str| {
        Error::host(format!("the KVM host cannot run {}: {reason}", path.display()))
            .next("use a ktax that is built for this machine")
    };
    let Some(linker_path) = interpreter(&program).map_err(strange)? else {
        return Ok(LinkedProgram { program: without_sections(program), libraries: Vec::new() });
    };
    let linker = Path::new(&linker_path).canonicalize().ok();
    let maps = Path::new("/proc/self/maps");
    let maps = fs::read_to_string(maps).map_err(unprepared(maps))?;
    let this_program = fs::read_link(THIS_PROGRAM).map_err(unprepared(Path::new(THIS_PROGRAM)))?;
    let mut libraries = Vec::new();
    for path in mapped(&maps).into_iter().filter(|path| *path != this_program) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The linker's path is in the program; other libraries are searched for.
        let target = match path.canonicalize().ok() == linker {
            true => linker_path.clone(),
            false => format!("/lib/{name}"),
        };
        libraries.push((target, without_sections(read(&path)?)));
    }
    Ok(LinkedProgram { program: without_sections(program), libraries })
}

/// Returns the files that this process executes and that still exist.
fn mapped(maps: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let executable = line.split_ascii_whitespace().nth(1)?.contains('x');
        let path = &line[line.find('/')?..];
        (executable && !path.ends_with(" (deleted)")).then(|| PathBuf::from(path))
    };
    maps.lines().filter_map(path).collect()
}

/// Returns the dynamic linker that a program names; `None` for a static program.
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

/// An archive in the cache, which is in use until the last copy of this is dropped.
#[derive(Debug, Clone)]
pub(super) struct HostArchive {
    pub path: PathBuf,
    _holder: Arc<Holder>,
}

/// Puts an archive into the cache, named by its hash.
pub(super) fn keep_archive(cache: &Path, archive: &[u8]) -> Result<HostArchive> {
    keep(cache, archive).map_err(unprepared(Path::new("the cache")))
}

fn keep(cache: &Path, archive: &[u8]) -> io::Result<HostArchive> {
    let dir = cache.join("hosts");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}.cpio", sha256(archive)));
    loop {
        let holder = Holder::hold(&path)?;
        // The content is compared, not the name trusted: a damaged file is replaced.
        match holder.filter(|_| fs::read(&path).is_ok_and(|found| found == archive)) {
            Some(holder) => return Ok(HostArchive { path, _holder: Arc::new(holder) }),
            None => write_atomically(&path, archive)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_host::cache::{Budget, clean};

    #[test]
    fn directories_come_first_and_nothing_is_absolute() {
        let members =
            [("/lib64/ld.so".to_owned(), vec![1].into()), ("/ktax".to_owned(), vec![2; 5].into())];
        let archive = archive(&members).unwrap();
        let mut names = Vec::new();
        let mut rest = archive.as_slice();
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            rest = reader.finish().unwrap();
        }
        let expected = [
            "dev",
            "files",
            "lib64",
            "modules",
            "proc",
            "sys",
            "tmp",
            "dev/console",
            "lib64/ld.so",
            "ktax",
        ];
        assert_eq!(names, expected);
    }

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
        let own = read_program(Path::new(THIS_PROGRAM)).unwrap();
        let whole = fs::metadata(THIS_PROGRAM).unwrap().len();
        assert!((own.program.len() as u64) < whole);
        let dir = tempfile::tempdir().unwrap();
        let [written, path] = ["written", "program"].map(|name| dir.path().join(name));
        fs::write(&written, &own.program).unwrap();
        // A child that another test starts meanwhile has our descriptors for a moment, and a file
        // that is open for writing cannot be executed: so another process writes it.
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

    #[test]
    fn the_same_archive_is_one_file_that_stays_while_it_is_used() {
        let cache = tempfile::tempdir().unwrap();
        let kept = keep_archive(cache.path(), b"one").unwrap();
        fs::write(&kept.path, "damaged").unwrap();
        assert_eq!(keep_archive(cache.path(), b"one").unwrap().path, kept.path);
        assert_eq!(fs::read(&kept.path).unwrap(), b"one");
        let kept = keep_archive(cache.path(), b"one").unwrap();
        let clean = || clean(cache.path(), Budget::Bytes(0), true).unwrap().unwrap();
        assert_eq!(clean().removed, []);
        let path = kept.path.clone();
        drop(kept);
        assert_eq!(clean().removed.len(), 1);
        assert!(!path.exists());
    }
}
