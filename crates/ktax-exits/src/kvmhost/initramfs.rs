//! The host's initramfs: a ktax, its libraries, the modules, the given files, and the order.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::order::Order;
use super::own;
use ktax_engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};

/// A file that commands find at `/files/NAME`.
#[derive(Debug, Clone)]
pub struct Given {
    pub name: String,
    pub content: Vec<u8>,
}

/// How many bytes all given files may have together. While the host unpacks them, its memory has
/// them twice, and no more than half of the rest may be files.
pub const GIVEN_MAX: u64 = 256 << 20;

/// Where init finds its order, unless it is to freeze and read it from QEMU.
pub(super) const ORDER: &str = "/order.json";
/// The program by which init freezes the machine and reads the order: `guest/vm/freeze.c`.
pub(super) const FREEZE: &str = "/freeze";
static FREEZE_PROGRAM: &[u8] = include_bytes!(env!("KTAX_FREEZE"));

/// Where the build put that program; for tests that execute it here.
#[doc(hidden)]
pub const FREEZE_PATH: &str = env!("KTAX_FREEZE");

/// Where init finds the modules; they are loaded in the order of their names.
pub(super) const MODULES: &str = "/modules";

const DIRECTORIES: [&str; 6] = ["dev", "proc", "sys", "tmp", "files", "modules"];

/// Builds the archive: the same bytes for the same files and order. Without an order the host
/// freezes once it has booted.
pub(super) fn build(
    program: &Path,
    modules: &[PathBuf],
    order: Option<&Order>,
    files: &[Given],
) -> Result<Vec<u8>, HostError> {
    let own = own::read(program)?;
    let mut members: Vec<Member> = vec![("/ktax".to_owned(), own.program.into())];
    members.extend(own.libraries.into_iter().map(|(place, content)| (place, content.into())));
    for (number, path) in modules.iter().enumerate() {
        members.push((format!("{MODULES}/{number:02}"), read(path)?.into()));
    }
    for file in files {
        members.push((format!("/files/{}", file.name), file.content.as_slice().into()));
    }
    members.push(match order {
        Some(order) => (ORDER.into(), order.to_json().into()),
        None => (FREEZE.into(), FREEZE_PROGRAM.into()),
    });
    archive(&members).map_err(HostError::of_file("the archive"))
}

fn read(path: &Path) -> Result<Vec<u8>, HostError> {
    fs::read(path).map_err(HostError::of_file(path.display().to_string()))
}

/// The path and content of one file.
type Member<'a> = (String, Cow<'a, [u8]>);

/// Writes an archive in which a directory comes before its files.
fn archive(members: &[Member<'_>]) -> io::Result<Vec<u8>> {
    let mut directories: BTreeSet<PathBuf> = DIRECTORIES.iter().map(PathBuf::from).collect();
    for (place, _) in members {
        let above = Path::new(place.trim_start_matches('/')).ancestors().skip(1);
        directories.extend(above.filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_owned));
    }
    let mut archive = Vec::with_capacity(members.iter().map(|(_, bytes)| bytes.len() + 512).sum());
    for directory in directories {
        append(&mut archive, &directory.to_string_lossy(), DIRECTORY, &[])?;
    }
    append_console(&mut archive)?;
    for (place, content) in members {
        append(&mut archive, place.trim_start_matches('/'), PROGRAM, content)?;
    }
    end(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
