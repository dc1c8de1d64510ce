//! What a program needs: its interpreter, its libraries, and the files that its arguments name.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::ProgramError;
use super::libraries::{self, Missing};
use super::tree::{GuestNode, GuestTree};
use super::{WORK, companions, elf, image, script, shell, start, traced, versions};
use ktax_host::disk::read_limited;
use ktax_host::text::escape_path;
use ktax_model::UserProgram;

const MOST_BYTES: u64 = 1 << 30;

/// The shell that runs hooks.
pub(super) const SHELL: &str = "/bin/sh";

/// As many interpreters of interpreters as Linux allows.
const MOST_NESTED: usize = 4;

/// Adds all that a program needs, and returns its path in the guest.
pub(super) fn add(
    tree: &mut GuestTree,
    program: &UserProgram,
    here: &Path,
) -> Result<PathBuf, ProgramError> {
    if let Some(root) = program.root.as_ref().map(|root| here.join(root)) {
        match root.is_dir() {
            true => tree.add(&root, Path::new("/"))?,
            false => image::add(tree, &root)?,
        }
        tree.end_root();
    }
    tree.directory(Path::new(WORK))?;
    tree.directory(Path::new("/tmp"))?;
    let command = program.command.first().map_or("", String::as_str);
    let arguments = program.command.get(1..).unwrap_or_default();
    called(tree, &shell::wrapped(command, arguments), here, 0)?;
    for argument in arguments.iter().filter(|it| is_of_the_user(Path::new(it), here)) {
        place(tree, Path::new(argument), here)?;
        of_script(tree, Path::new(argument), here)?;
    }
    for file in &program.files {
        let (path, at) = UserProgram::path_and_place(file);
        let host = here.join(path);
        match at {
            Some(at) => tree.add(&host, &Path::new(WORK).join(at))?,
            None => place(tree, Path::new(path), here)?,
        }
        runnable(tree, &host, here, Missing::Ignored, 0)?;
    }
    for name in &program.traced {
        traced::add(tree, name, here)?;
    }
    accounts(tree, program.user)?;
    if let Some(script) = &program.script {
        let at = Path::new(WORK).join(UserProgram::SCRIPT);
        tree.put(&at, GuestNode::Text(script.clone().into_bytes()))?;
    }
    if program.root.is_some()
        && let Some(at) = in_root(tree, command)
    {
        return Ok(at);
    }
    let host = executable(command, here)?;
    let at = match command.contains('/') {
        true => place(tree, Path::new(command), here).map(|()| Path::new(WORK).join(command))?,
        false => {
            tree.in_place(&host)?;
            callable(tree, command, &host)?;
            host.clone()
        }
    };
    runnable(tree, &host, here, Missing::Refused, 0)?;
    if let Some(text) = start::shell_text(program) {
        named_by(tree, text, here)?;
    }
    Ok(at)
}

/// Adds the users and groups that a guest has where nobody named others: its superuser, nobody, and
/// whom the program runs as.
fn accounts(tree: &mut GuestTree, user: u32) -> Result<(), ProgramError> {
    for (path, text) in start::accounts(user) {
        let path = Path::new(path);
        if tree.look(path).is_none() && !tree.is_of_root(path) {
            tree.put(path, GuestNode::Text(text.into_bytes()))?;
        }
    }
    Ok(())
}

/// Adds a shell and what the text that it runs names, and returns the shell's path in the guest.
pub(super) fn shell(
    tree: &mut GuestTree,
    text: &str,
    here: &Path,
) -> Result<PathBuf, ProgramError> {
    if !matches!(tree.look(Path::new(SHELL)), Some(GuestNode::File(_))) {
        tree.in_place(Path::new(SHELL))?;
        runnable(tree, Path::new(SHELL), here, Missing::Refused, 0)?;
    }
    named_by(tree, text, here)?;
    Ok(SHELL.into())
}

/// Adds the programs and the files that a text for a shell names.
fn named_by(tree: &mut GuestTree, text: &str, here: &Path) -> Result<(), ProgramError> {
    let words = shell::words(text);
    called(tree, &words.commands, here, 0)?;
    for argument in words.arguments {
        let path = Path::new(&argument);
        // Directories of the system are nobody's files.
        let is_file = here.join(path).is_file() || (path.is_relative() && path != Path::new("."));
        if is_file && is_of_the_user(path, here) {
            match place(tree, path, here) {
                Err(ProgramError::Outside { .. }) => {}
                placed => placed.and_then(|()| of_script(tree, path, here))?,
            }
        }
    }
    Ok(())
}

/// Adds the programs that an argument calls if it is a script for a shell, as its name says.
fn of_script(tree: &mut GuestTree, argument: &Path, here: &Path) -> Result<(), ProgramError> {
    let path = here.join(argument);
    if path.extension().is_none_or(|extension| extension != "sh") || !path.is_file() {
        return Ok(());
    }
    let bytes = read_limited(&path, MOST_BYTES).map_err(ProgramError::unreadable(&path))?;
    called(tree, &shell::words(&String::from_utf8_lossy(&bytes)).commands, here, 0)
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
    here: &Path,
    missing: Missing,
    nested: usize,
) -> Result<(), ProgramError> {
    if host.is_dir() {
        return Ok(());
    }
    let bytes = read_limited(host, MOST_BYTES).map_err(ProgramError::unreadable(host))?;
    if elf::is_elf(&bytes) {
        libraries::add(tree, vec![host.to_owned()], missing)?;
        return companions::add(tree, host);
    }
    let Some(words) = script::interpreter(&bytes, host)? else {
        return match missing {
            Missing::Ignored => Ok(()),
            Missing::Refused => {
                Err(ProgramError::NoProgram { path: escape_path(host).to_string() })
            }
        };
    };
    if nested == MOST_NESTED {
        return match missing {
            Missing::Ignored => Ok(()),
            Missing::Refused => Err(ProgramError::Nested { path: escape_path(host).to_string() }),
        };
    }
    let named = script::behind_env(&words).map(|name| {
        let host = find(name, Path::new("/"))?;
        callable(tree, name, &host).map(|()| host)
    });
    let named = named.transpose()?;
    let interpreters: Vec<PathBuf> =
        [Some(PathBuf::from(&words[0])), named].into_iter().flatten().collect();
    for interpreter in &interpreters {
        tree.in_place(interpreter)?;
        runnable(tree, interpreter, here, missing, nested + 1)?;
    }
    match interpreters.iter().any(|interpreter| shell::is_shell(file_name(interpreter))) {
        true => {
            let words = shell::words(&String::from_utf8_lossy(&bytes));
            called(tree, &words.commands, here, nested + 1)
        }
        false => Ok(()),
    }
}

/// Adds the programs that a shell script calls, where this machine has them.
fn called(
    tree: &mut GuestTree,
    commands: &BTreeSet<String>,
    here: &Path,
    nested: usize,
) -> Result<(), ProgramError> {
    for name in commands {
        let Ok(host) = find(name, here) else { continue };
        // A name is looked up, and a path is where the script says.
        let path = if name.contains('/') { Path::new(name) } else { &host };
        if !host.is_file() || tree.look(&Path::new(WORK).join(path)).is_some() {
            continue;
        }
        match place(tree, path, here) {
            Ok(()) => {
                callable(tree, name, &host)?;
                runnable(tree, &host, here, Missing::Ignored, nested)?;
            }
            Err(ProgramError::Outside { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Lets the guest find a program by its name, whose directory is in this user's PATH alone.
fn callable(tree: &mut GuestTree, name: &str, host: &Path) -> Result<(), ProgramError> {
    let is_usual = host
        .parent()
        .is_some_and(|own| start::DIRECTORIES.iter().any(|usual| own == Path::new(usual)));
    if name.contains('/') || is_usual {
        return Ok(());
    }
    let at = Path::new("/usr/local/bin").join(name);
    match tree.look(&at) {
        Some(_) => Ok(()),
        None => tree.put(&at, GuestNode::Link(host.to_owned())),
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// Whether an argument names a file that the program is to find.
fn is_of_the_user(argument: &Path, here: &Path) -> bool {
    let is_kernels = ["/dev", "/proc", "/sys"].iter().any(|of| argument.starts_with(of));
    // A directory at the top, such as /tmp, is every system's.
    let is_at_the_top = argument.is_absolute() && argument.components().count() <= 2;
    let path = here.join(argument);
    // No name at all would be the directory itself.
    let is_named = !argument.as_os_str().is_empty();
    is_named && !is_kernels && path.exists() && !(is_at_the_top && path.is_dir())
}

/// Adds a file or directory where the program finds it by this name. What the user's own root
/// directory has there stays.
fn place(tree: &mut GuestTree, path: &Path, here: &Path) -> Result<(), ProgramError> {
    let at: PathBuf = Path::new(WORK).join(path).components().collect();
    if at != Path::new(WORK) && tree.is_of_root(&at) {
        return Ok(());
    }
    if path.is_absolute() {
        return tree.in_place(path).map(drop);
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(ProgramError::Outside { path: escape_path(path).to_string() });
    }
    tree.add(&here.join(path), &at)
}

/// The same, which can be executed.
pub(super) fn executable(command: &str, here: &Path) -> Result<PathBuf, ProgramError> {
    let path = find(command, here)?;
    let about = fs::metadata(&path);
    let shown = || escape_path(&path).to_string();
    match about {
        Ok(about) if about.is_dir() => Err(ProgramError::Directory { path: shown() }),
        Ok(about) if about.mode() & 0o111 == 0 => {
            Err(ProgramError::NotExecutable { path: shown() })
        }
        _ => Ok(path),
    }
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
    let not_found = || ProgramError::NotFound { command: command.to_owned() };
    let found = found.find(is_program).ok_or_else(not_found)?;
    Ok(versions::behind_shim(&found, here).unwrap_or(found))
}
