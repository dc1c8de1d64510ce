//! All that is in the host.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::given::Given;
use super::own;
use crate::engine::initramfs::{DIRECTORY, PROGRAM, append, append_console, end};

/// Where init finds the commands.
pub(super) const ORDER: &str = "/order.json";
/// Where it finds the modules; they are loaded in the order of their names.
pub(super) const MODULES: &str = "/modules";

const DIRECTORIES: [&str; 6] = ["dev", "proc", "sys", "tmp", "files", "modules"];

/// The archive: the same bytes for the same files and commands.
pub(super) fn build(
    modules: &[PathBuf],
    commands: &[Vec<String>],
    files: &[Given],
) -> Result<Vec<u8>, HostError> {
    let own = own::read()?;
    let mut members: Vec<Member> = vec![("/ktax".to_owned(), own.program.into())];
    members.extend(own.libraries.into_iter().map(|(place, content)| (place, content.into())));
    for (number, path) in modules.iter().enumerate() {
        members.push((format!("{MODULES}/{number:02}"), read(path)?.into()));
    }
    for file in files {
        members.push((format!("/files/{}", file.name), file.content.as_slice().into()));
    }
    let order = serde_json::to_vec(commands).map_err(io::Error::from);
    let order = order.map_err(|error| HostError::File { path: ORDER.into(), error })?;
    members.push((ORDER.into(), order.into()));
    archive(&members).map_err(|error| HostError::File { path: "the archive".into(), error })
}

fn read(path: &Path) -> Result<Vec<u8>, HostError> {
    fs::read(path).map_err(|error| HostError::File { path: path.display().to_string(), error })
}

/// A place and what is there.
type Member<'a> = (String, Cow<'a, [u8]>);

/// Directories come before what is in them.
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
