//! What a program needs: its interpreter, its libraries, and the files that its arguments name.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::ProgramError;
use super::libraries::{self, Missing};
use super::tree::{GuestNode, GuestTree};
use super::{WORK, elf, image, script, start};
use crate::disk::read_limited;
use crate::model::UserProgram;
use crate::text::escape_path;

const MOST_BYTES: u64 = 1 << 30;

/// As many interpreters of interpreters as Linux allows.
const MOST_NESTED: usize = 4;

/// Adds all that a program needs, and returns its path in the guest.
pub(super) fn add(
    tree: &mut GuestTree,
    program: &UserProgram,
    here: &Path,
) -> Result<PathBuf, ProgramError> {
    tree.directory(Path::new(WORK))?;
    tree.directory(Path::new("/tmp"))?;
    if let Some(root) = program.root.as_ref().map(|root| here.join(root)) {
        match root.is_dir() {
            true => tree.add(&root, Path::new("/"))?,
            false => image::add(tree, &root)?,
        }
    }
    let command = program.command.first().map_or("", String::as_str);
    let arguments = program.command.get(1..).unwrap_or_default();
    for argument in arguments.iter().filter(|it| is_of_the_user(Path::new(it), here)) {
        place(tree, Path::new(argument), here)?;
    }
    for file in &program.files {
        let (path, at) = match file.split_once(':') {
            Some((path, at)) => (path, Some(Path::new(WORK).join(at))),
            None => (file.as_str(), None),
        };
        let host = here.join(path);
        match at {
            Some(at) => tree.add(&host, &at)?,
            None => place(tree, Path::new(path), here)?,
        }
        runnable(tree, &host, Missing::Ignored, 0)?;
    }
    if program.root.is_some()
        && let Some(at) = in_root(tree, command)
    {
        return Ok(at);
    }
    let host = find(command, here)?;
    let at = match command.contains('/') {
        true => place(tree, Path::new(command), here).map(|()| Path::new(WORK).join(command))?,
        false => tree.in_place(&host).map(|_| host.clone())?,
    };
    if fs::metadata(&host).is_ok_and(|about| about.mode() & 0o111 == 0) {
        return Err(ProgramError::NotExecutable { path: escape_path(&host).to_string() });
    }
    runnable(tree, &host, Missing::Refused, 0)?;
    Ok(at)
}

/// Where a root directory has the program; what it needs is there, too.
fn in_root(tree: &GuestTree, command: &str) -> Option<PathBuf> {
    let directories = match command.contains('/') {
        true => &[WORK][..],
        false => &start::DIRECTORIES[..],
    };
    let mut candidates = directories.iter().map(|directory| Path::new(directory).join(command));
    candidates.find(|path| matches!(tree.look(path), Some(GuestNode::File(_))))
}

/// Adds what a file needs to be executed, if it can be.
fn runnable(
    tree: &mut GuestTree,
    host: &Path,
    missing: Missing,
    nested: usize,
) -> Result<(), ProgramError> {
    if host.is_dir() {
        return Ok(());
    }
    let bytes = read_limited(host, MOST_BYTES).map_err(ProgramError::unreadable(host))?;
    if elf::is_elf(&bytes) {
        libraries::add(tree, vec![host.to_owned()], missing)?;
        return of_python(tree, host);
    }
    let Some(words) = script::interpreter(&bytes, host)? else { return Ok(()) };
    if nested == MOST_NESTED {
        return Err(ProgramError::Nested { path: escape_path(host).to_string() });
    }
    let named = script::behind_env(&words).map(|name| find(name, Path::new("/"))).transpose()?;
    for interpreter in [Some(PathBuf::from(&words[0])), named].into_iter().flatten() {
        tree.in_place(&interpreter)?;
        runnable(tree, &interpreter, missing, nested + 1)?;
    }
    Ok(())
}

/// The modules of a Python, which it cannot start without, and their libraries.
fn of_python(tree: &mut GuestTree, host: &Path) -> Result<(), ProgramError> {
    let Ok(real) = host.canonicalize() else { return Ok(()) };
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let modules = prefix.join("lib").join(name);
    if !name.starts_with("python3.") || !modules.is_dir() {
        return Ok(());
    }
    tree.in_place(&modules)?;
    let loaded = fs::read_dir(modules.join("lib-dynload")).into_iter().flatten().flatten();
    libraries::add(tree, loaded.map(|entry| entry.path()).collect(), Missing::Ignored)
}

/// Whether an argument names a file that the program is to find.
fn is_of_the_user(argument: &Path, here: &Path) -> bool {
    let is_kernels = ["/dev", "/proc", "/sys"].iter().any(|of| argument.starts_with(of));
    !is_kernels && argument != Path::new("/") && here.join(argument).exists()
}

/// Adds a file or directory where the program finds it by this name.
fn place(tree: &mut GuestTree, path: &Path, here: &Path) -> Result<(), ProgramError> {
    if path.is_absolute() {
        return tree.in_place(path).map(drop);
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(ProgramError::Outside { path: escape_path(path).to_string() });
    }
    let at: PathBuf = Path::new(WORK).join(path).components().collect();
    tree.add(&here.join(path), &at)
}

/// The program on the host: a path, or a name in a directory of PATH.
fn find(command: &str, here: &Path) -> Result<PathBuf, ProgramError> {
    if command.contains('/') {
        return Ok(here.join(command));
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
    };
    let paths = env::var_os("PATH").unwrap_or_default();
    // Who is not root has no mkfs in PATH.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = env::split_paths(&paths).chain(more).map(|directory| directory.join(command));
    let mut found = found.filter(|path| path.is_absolute());
    found.find(is_program).ok_or_else(|| ProgramError::NotFound { command: command.to_owned() })
}
