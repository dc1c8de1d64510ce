//! Where the dynamic loader finds libraries, without running any program of the user's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::elf::{self, ElfNeeds};
use super::error::ProgramError;
use super::tree::GuestTree;
use ktax_host::disk::{read_limited, read_text};
use ktax_host::text::escape_path;

/// The directories that the loader knows by itself, Debian's and those of other distributions.
const USUAL: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// No program is larger.
const MOST_BYTES: u64 = 1 << 30;
const MOST_TEXT_BYTES: u64 = 1 << 20;

/// Whether what is missing is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The program cannot start without it.
    Refused,
    /// Nobody knows whether the file is ever loaded.
    Ignored,
}

/// Adds the dynamic loader and the libraries that programs or libraries need, and theirs.
pub(super) fn add(
    tree: &mut GuestTree,
    programs: Vec<PathBuf>,
    missing: Missing,
) -> Result<(), ProgramError> {
    let (mut known, mut left) = (BTreeSet::new(), programs);
    while let Some(path) = left.pop() {
        let bytes = read_limited(&path, MOST_BYTES).map_err(ProgramError::unreadable(&path))?;
        let needs = match elf::needs(&bytes, &path) {
            Err(_) if missing == Missing::Ignored => continue,
            needs => needs?,
        };
        if let Some(interpreter) = &needs.interpreter {
            tree.in_place(Path::new(interpreter))?;
        }
        let directories = directories(&needs, &path);
        for name in needs.libraries.iter().filter(|name| known.insert((*name).clone())) {
            match find(name, &directories) {
                Some(library) => {
                    if !is_usual(&library) {
                        cache_of_loader(tree)?;
                    }
                    left.push(tree.in_place(&library)?);
                }
                None if missing == Missing::Ignored => {}
                None => {
                    let path = escape_path(&path).to_string();
                    return Err(ProgramError::NoLibrary {
                        path,
                        library: name.escape_default().to_string(),
                    });
                }
            }
        }
    }
    Ok(())
}

fn find(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let candidates = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => directories.iter().map(|directory| directory.join(name)).collect(),
    };
    let is_program = |path: &PathBuf| {
        let read = read_limited(path, MOST_BYTES);
        read.is_ok_and(|bytes| elf::needs(&bytes, path).is_ok())
    };
    candidates.into_iter().find(is_program)
}

/// In the loader's order.
fn directories(needs: &ElfNeeds, path: &Path) -> Vec<PathBuf> {
    // The loader's $ORIGIN is the directory of the file, not that of a link to it.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = real.parent().unwrap_or(Path::new("/")).display().to_string();
    let of_file = needs.run_paths.iter().map(|directory| {
        PathBuf::from(directory.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    });
    of_file.chain(configured()).chain(USUAL.map(PathBuf::from)).collect()
}

/// Those of /etc/ld.so.conf and of the files in /etc/ld.so.conf.d.
fn configured() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    files.sort();
    files.insert(0, "/etc/ld.so.conf".into());
    let text = |path: &PathBuf| read_text(path, MOST_TEXT_BYTES).unwrap_or_default();
    let lines = files.iter().map(text).collect::<String>();
    lines.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

fn is_usual(library: &Path) -> bool {
    library
        .parent()
        .is_some_and(|directory| USUAL.iter().any(|usual| directory == Path::new(usual)))
}

/// The loader in the guest finds a library elsewhere as that of the host does.
fn cache_of_loader(tree: &mut GuestTree) -> Result<(), ProgramError> {
    let cache = Path::new("/etc/ld.so.cache");
    if cache.exists() {
        tree.in_place(cache)?;
    }
    Ok(())
}
