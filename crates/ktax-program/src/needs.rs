//! Adds all files that a program needs to the files of its guest: interpreters, libraries, files
//! that its arguments name, the parts of gcc, Python, Perl and Java, and the program that a shim of
//! pyenv or rbenv executes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

use crate::elf::IfMissing;
use crate::tree::{GuestNode, GuestTree};
use crate::{MAX_FILE_BYTES, WORK, elf, pack, script, traced, tree, unreadable};
use ktax_host::disk::read_limited;
use ktax_host::text::escape_path;
use ktax_model::{Error, Result, UserProgram};

/// The shell that runs hooks.
pub(super) const SHELL: &str = "/bin/sh";

/// Maximum depth of scripts whose interpreters are scripts; Linux has the same limit.
const MAX_NESTED_SCRIPTS: usize = 4;

/// Adds all files that a program needs, and returns the program's path in the guest.
pub(super) fn add_program(
    tree: &mut GuestTree,
    program: &UserProgram,
    here: &Path,
) -> Result<PathBuf> {
    if let Some(root) = program.root.as_ref().map(|root| here.join(root)) {
        match root.is_dir() {
            true => tree.add(&root, Path::new("/"))?,
            false => tree::add_tar(tree, &root)?,
        }
        tree.mark_users_root();
    }
    tree.add_directory(Path::new(WORK))?;
    tree.add_directory(Path::new("/tmp"))?;
    let command = program.command.first().map_or("", String::as_str);
    let arguments = program.command.get(1..).unwrap_or_default();
    add_called(tree, &script::wrapped_commands(command, arguments), here, 0)?;
    for argument in arguments.iter().filter(|word| is_users_file(Path::new(word), here)) {
        add_users_file(tree, Path::new(argument), here)?;
        add_script_commands(tree, Path::new(argument), here)?;
    }
    for file in &program.files {
        let (path, guest) = UserProgram::path_and_guest_path(file);
        let host = here.join(path);
        match guest {
            Some(guest) => tree.add(&host, &Path::new(WORK).join(guest))?,
            None => add_users_file(tree, Path::new(path), here)?,
        }
        add_runnable(tree, &host, here, IfMissing::Ignored, 0)?;
    }
    for name in &program.traced {
        traced::add_traced(tree, name, here)?;
    }
    add_accounts(tree, program.user)?;
    if let Some(script) = &program.script {
        let path = Path::new(WORK).join(UserProgram::SCRIPT);
        tree.put(&path, GuestNode::Text(script.clone().into_bytes()))?;
    }
    if program.root.is_some()
        && let Some(path) = path_in_root(tree, command)
    {
        return Ok(path);
    }
    let host = find_executable(command, here)?;
    let path = match command.contains('/') {
        true => {
            add_users_file(tree, Path::new(command), here)?;
            Path::new(WORK).join(command)
        }
        false => {
            tree.add_in_place(&host)?;
            link_by_name(tree, command, &host)?;
            host.clone()
        }
    };
    add_runnable(tree, &host, here, IfMissing::Refused, 0)?;
    if let Some(text) = pack::shell_text(program) {
        add_files_of_commands(tree, text, here)?;
    }
    Ok(path)
}

/// Adds /etc/passwd and /etc/group with root, nobody and the user of the program, unless the user
/// named such files.
fn add_accounts(tree: &mut GuestTree, user: u32) -> Result<()> {
    for (path, text) in pack::accounts(user) {
        let path = Path::new(path);
        if tree.node_at(path).is_none() && !tree.is_in_users_root(path) {
            tree.put(path, GuestNode::Text(text.into_bytes()))?;
        }
    }
    Ok(())
}

/// Adds a shell and the files that its commands `text` name, and returns the shell's path in the
/// guest.
pub(super) fn add_shell(tree: &mut GuestTree, text: &str, here: &Path) -> Result<PathBuf> {
    if !matches!(tree.node_at(Path::new(SHELL)), Some(GuestNode::File(_))) {
        tree.add_in_place(Path::new(SHELL))?;
        add_runnable(tree, Path::new(SHELL), here, IfMissing::Refused, 0)?;
    }
    add_files_of_commands(tree, text, here)?;
    Ok(SHELL.into())
}

/// Adds the programs and files that shell commands name.
fn add_files_of_commands(tree: &mut GuestTree, text: &str, here: &Path) -> Result<()> {
    let words = script::read_script(text);
    add_called(tree, &words.commands, here, 0)?;
    for argument in words.arguments {
        let path = Path::new(&argument);
        // Of absolute paths add files alone, because a directory may be a large one of the system.
        let is_file = here.join(path).is_file() || (path.is_relative() && path != Path::new("."));
        if is_file && is_users_file(path, here) && add_by_path(tree, path, here)? {
            add_script_commands(tree, path, here)?;
        }
    }
    Ok(())
}

/// Adds the programs that an argument calls if it is a shell script by its name (`.sh`).
fn add_script_commands(tree: &mut GuestTree, argument: &Path, here: &Path) -> Result<()> {
    let path = here.join(argument);
    if path.extension().is_none_or(|extension| extension != "sh") || !path.is_file() {
        return Ok(());
    }
    let bytes = read_limited(&path, MAX_FILE_BYTES).map_err(unreadable(&path))?;
    add_called(tree, &script::read_script(&String::from_utf8_lossy(&bytes)).commands, here, 0)
}

/// Path of the program in the root directory that the user gave; `None` if it is not there. Such a
/// directory must also have the files that the program needs.
fn path_in_root(tree: &GuestTree, command: &str) -> Option<PathBuf> {
    let directories = match command.contains('/') {
        true => &[WORK][..],
        false => &pack::PATH_DIRECTORIES[..],
    };
    let mut candidates = directories.iter().map(|directory| Path::new(directory).join(command));
    candidates.find(|path| matches!(tree.node_at(path), Some(GuestNode::File(_))))
}

/// Adds the files that a file needs to be executed. `missing` says whether a file that cannot be
/// executed is an error; `nested` is the number of scripts whose interpreter it is.
fn add_runnable(
    tree: &mut GuestTree,
    host: &Path,
    here: &Path,
    missing: IfMissing,
    nested: usize,
) -> Result<()> {
    if host.is_dir() {
        return Ok(());
    }
    let bytes = read_limited(host, MAX_FILE_BYTES).map_err(unreadable(host))?;
    if elf::is_elf(&bytes) {
        elf::add_libraries(tree, vec![host.to_owned()], missing)?;
        return add_companions(tree, host);
    }
    let Some(words) = script::interpreter(&bytes, host)? else {
        return match missing {
            IfMissing::Ignored => Ok(()),
            IfMissing::Refused => {
                let problem = "is neither an ELF file nor a script with `#!` in its first line";
                Err(refused(
                    host,
                    problem,
                    "write `#!/bin/sh` there, or name the program that runs it",
                ))
            }
        };
    };
    if nested == MAX_NESTED_SCRIPTS {
        return match missing {
            IfMissing::Ignored => Ok(()),
            IfMissing::Refused => {
                let problem = "is a script whose interpreters are scripts themselves";
                Err(refused(host, problem, "give the program that runs the script"))
            }
        };
    }
    let named = script::command_of_env(&words).map(|name| {
        let host = find_program(name, Path::new("/"))?;
        link_by_name(tree, name, &host).map(|()| host)
    });
    let named = named.transpose()?;
    let interpreters: Vec<PathBuf> =
        [Some(PathBuf::from(&words[0])), named].into_iter().flatten().collect();
    for interpreter in &interpreters {
        tree.add_in_place(interpreter)?;
        add_runnable(tree, interpreter, here, missing, nested + 1)?;
    }
    match interpreters.iter().any(|interpreter| script::is_shell(file_name(interpreter))) {
        true => {
            let words = script::read_script(&String::from_utf8_lossy(&bytes));
            add_called(tree, &words.commands, here, nested + 1)
        }
        false => Ok(()),
    }
}

/// Adds the programs that a shell script calls, if this machine has them.
fn add_called(
    tree: &mut GuestTree,
    commands: &BTreeSet<String>,
    here: &Path,
    nested: usize,
) -> Result<()> {
    for name in commands {
        let Ok(host) = find_program(name, here) else { continue };
        // The shell looks up a name in PATH, and takes a path as it is.
        let path = if name.contains('/') { Path::new(name) } else { &host };
        if !host.is_file() || tree.node_at(&Path::new(WORK).join(path)).is_some() {
            continue;
        }
        if add_by_path(tree, path, here)? {
            link_by_name(tree, name, &host)?;
            add_runnable(tree, &host, here, IfMissing::Ignored, nested)?;
        }
    }
    Ok(())
}

/// Adds a link in the guest's PATH to a program outside the directories of the guest's PATH.
fn link_by_name(tree: &mut GuestTree, name: &str, host: &Path) -> Result<()> {
    let is_in_path = host.parent().is_some_and(|directory| {
        pack::PATH_DIRECTORIES.iter().any(|entry| directory == Path::new(entry))
    });
    if name.contains('/') || is_in_path {
        return Ok(());
    }
    let link = Path::new("/usr/local/bin").join(name);
    match tree.node_at(&link) {
        Some(_) => Ok(()),
        None => tree.put(&link, GuestNode::Link(host.to_owned())),
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// Returns true if an argument names a file or directory that the guest must have.
fn is_users_file(argument: &Path, here: &Path) -> bool {
    let is_kernel_file =
        ["/dev", "/proc", "/sys"].iter().any(|directory| argument.starts_with(directory));
    // A word like /tmp names a directory that every system has.
    let is_top_level = argument.is_absolute() && argument.components().count() <= 2;
    let path = here.join(argument);
    // An empty argument would name `here` itself.
    let is_named = !argument.as_os_str().is_empty();
    is_named && !is_kernel_file && path.exists() && !(is_top_level && path.is_dir())
}

/// Adds a file or directory so that the program finds it by this path. A file of the root directory
/// that the user gave is not replaced. Returns false, and adds nothing, if the path leads out of
/// `here`.
fn add_by_path(tree: &mut GuestTree, path: &Path, here: &Path) -> Result<bool> {
    let guest: PathBuf = Path::new(WORK).join(path).components().collect();
    if guest != Path::new(WORK) && tree.is_in_users_root(&guest) {
        return Ok(true);
    }
    if path.is_absolute() {
        tree.add_in_place(path)?;
        return Ok(true);
    }
    let is_inside = path.components().all(|part| part != Component::ParentDir);
    if is_inside {
        tree.add(&here.join(path), &guest)?;
    }
    Ok(is_inside)
}

/// Adds a file or directory that the user named, so that the program finds it by this path.
fn add_users_file(tree: &mut GuestTree, path: &Path, here: &Path) -> Result<()> {
    match add_by_path(tree, path, here)? {
        true => Ok(()),
        false => Err(refused(
            path,
            "leads out of the current directory",
            "give its absolute path, or --file PATH:AT for its place in the guest",
        )),
    }
}

fn refused(path: &Path, problem: &str, next: &str) -> Error {
    Error::user(format!("{} {problem}", escape_path(path))).next(next)
}

/// Path of a program on this machine, by its path or by its name in PATH. A file that cannot be
/// executed is an error.
pub(super) fn find_executable(command: &str, here: &Path) -> Result<PathBuf> {
    let path = find_program(command, here)?;
    match fs::metadata(&path) {
        Ok(about) if about.is_dir() => {
            Err(refused(&path, "is a directory", "name a program in it"))
        }
        Ok(about) if about.mode() & 0o111 == 0 => Err(refused(
            &path,
            "cannot be executed",
            "run `chmod +x` on it, or name the program that runs it",
        )),
        _ => Ok(path),
    }
}

/// Path of a program on this machine, by its path or by its name in PATH.
pub(super) fn find_program(command: &str, here: &Path) -> Result<PathBuf> {
    if command.contains('/') {
        return Ok(here.join(command));
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
    };
    let paths = env::var_os("PATH").unwrap_or_default();
    // Only root has the directories of mkfs in PATH.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = env::split_paths(&paths).chain(more).map(|directory| directory.join(command));
    let mut found = found.filter(|path| path.is_absolute());
    let not_found = || {
        Error::user(format!("no directory of PATH has a program {command:?}"))
            .next("install it, or give its path")
    };
    let found = found.find(is_program).ok_or_else(not_found)?;
    Ok(program_of_shim(&found, here).unwrap_or(found))
}

/// Adds files besides libraries that some programs need. These programs are recognized by the name
/// of their file behind all links.
fn add_companions(tree: &mut GuestTree, host: &Path) -> Result<()> {
    let Ok(real) = host.canonicalize() else { return Ok(()) };
    add_python_modules(tree, &real)?;
    add_perl_modules(tree, &real)?;
    add_java_home(tree, &real)?;
    add_gcc_parts(tree, &real)
}

/// Adds the content of a directory of this machine, with the targets of links. Entries for whose
/// names `is_left_out` holds are omitted.
fn add_content(
    tree: &mut GuestTree,
    directory: &Path,
    is_left_out: impl Fn(&str) -> bool,
) -> Result<()> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(&is_left_out) && entry.path().exists() {
            tree.add_with_targets(&entry.path())?;
        }
    }
    Ok(())
}

/// Adds the modules of Debian's Perl, such as `strict`.
fn add_perl_modules(tree: &mut GuestTree, real: &Path) -> Result<()> {
    const BASE: &str = "/usr/lib/x86_64-linux-gnu/perl-base";
    const VERSIONS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/perl", "/usr/share/perl"];
    if !real.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("perl")) {
        return Ok(());
    }
    // Omit documentation, headers for extensions, and installers of modules.
    let is_left_out = |name: &str| matches!(name, "CORE" | "CPAN" | "debug" | "pod" | "unicore");
    add_content(tree, Path::new(BASE), |_| false)?;
    for directory in VERSIONS {
        // Each version has a directory, and may have links to it.
        for version in fs::read_dir(directory).into_iter().flatten().flatten() {
            match version.path() {
                link if link.is_symlink() => tree.add_without_content(&link)?,
                directory => add_content(tree, &directory, is_left_out)?,
            }
        }
    }
    Ok(())
}

/// Adds the libraries, classes and configuration of a Java runtime.
fn add_java_home(tree: &mut GuestTree, real: &Path) -> Result<()> {
    let home = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let lib = home.join("lib");
    if !lib.join("jvm.cfg").exists() || !lib.join("server/libjvm.so").is_file() {
        return Ok(());
    }
    // Omit parts for compiling, and libraries that need a screen.
    let screen_libraries = ["libawt", "libatk", "libfont", "libjawt", "libjsound", "libsplash"];
    let is_left_out = |name: &str| {
        matches!(name, "ct.sym" | "src.zip")
            || screen_libraries.iter().any(|prefix| name.starts_with(prefix))
    };
    add_content(tree, &lib, is_left_out)?;
    add_content(tree, &home.join("conf"), |_| false)?;
    let libraries = fs::read_dir(&lib).into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.ends_with(".so") && !is_left_out(name))
    });
    let libraries = libraries.map(|entry| entry.path()).filter(|path| path.is_file());
    let libraries = libraries.chain([lib.join("server/libjvm.so")]).collect();
    elf::add_libraries(tree, libraries, IfMissing::Ignored)
}

/// Adds the standard modules of Python, without which it cannot start, and their libraries.
fn add_python_modules(tree: &mut GuestTree, real: &Path) -> Result<()> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let modules = prefix.join("lib").join(name);
    if !name.starts_with("python3.") || !modules.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&modules).into_iter().flatten().flatten() {
        // Omit files for compiling extensions and for testing Python, which are half of the
        // content, and installed packages, whose size is not limited.
        let is_left_out = |name: &str| {
            name.starts_with("config-") || matches!(name, "test" | "site-packages" | "idlelib")
        };
        if !entry.file_name().to_str().is_some_and(is_left_out) {
            tree.add_in_place(&entry.path())?;
        }
    }
    let libraries = fs::read_dir(modules.join("lib-dynload")).into_iter().flatten().flatten();
    elf::add_libraries(tree, libraries.map(|entry| entry.path()).collect(), IfMissing::Ignored)
}

/// Adds the compiler proper, the assembler and the headers of gcc, but not the linker.
fn add_gcc_parts(tree: &mut GuestTree, real: &Path) -> Result<()> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((target, kind, version)) = split_compiler_name(name) else { return Ok(()) };
    let gcc_directory = Path::new("/usr/lib/gcc").join(target).join(version);
    let compiler = gcc_directory.join(if kind == "gcc" { "cc1" } else { "cc1plus" });
    let assembler = Path::new("/usr/bin/as").to_owned();
    for program in [compiler, assembler].into_iter().filter(|program| program.is_file()) {
        let program = tree.add_in_place(&program)?;
        elf::add_libraries(tree, vec![program], IfMissing::Ignored)?;
    }
    add_headers(tree, target, kind, &gcc_directory, version)
}

/// Adds the headers of the compiler, the C library and the kernel, but not of other libraries.
fn add_headers(
    tree: &mut GuestTree,
    target: &str,
    kind: &str,
    gcc_directory: &Path,
    version: &str,
) -> Result<()> {
    let include = Path::new("/usr/include");
    let target_include = include.join(target);
    let c_headers = ["bits", "sys", "gnu", "asm"].map(|name| target_include.join(name));
    let kernel_headers = ["linux", "asm-generic"].map(|name| include.join(name));
    let cxx_headers = [include.join("c++").join(version), target_include.join("c++").join(version)];
    let cxx_headers = cxx_headers.into_iter().filter(|_| kind == "g++");
    let gcc_headers = ["include", "include-fixed"].map(|name| gcc_directory.join(name));
    let directories =
        gcc_headers.into_iter().chain(c_headers).chain(kernel_headers).chain(cxx_headers);
    for directory in directories.filter(|directory| directory.is_dir()) {
        tree.add_in_place(&directory)?;
    }
    for entry in fs::read_dir(include).into_iter().flatten().flatten() {
        if entry.path().is_file() {
            tree.add_with_targets(&entry.path())?;
        }
    }
    Ok(())
}

/// Splits `x86_64-linux-gnu-gcc-12` into target, `gcc` or `g++`, and version; `None` for other
/// names.
fn split_compiler_name(name: &str) -> Option<(&str, &str, &str)> {
    let (rest, version) = name.rsplit_once('-')?;
    let (target, kind) = rest.rsplit_once('-')?;
    let is_version = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (matches!(kind, "gcc" | "g++") && is_version).then_some((target, kind, version))
}

/// Version managers: name, environment variable, and file with the chosen version. The root
/// directory of a manager has the scripts `shims/NAME`, the programs `versions/VERSION/bin/NAME`,
/// and the file `version` with the default version.
const VERSION_MANAGERS: [(&str, &str, &str); 3] = [
    ("pyenv", "PYENV_VERSION", ".python-version"),
    ("rbenv", "RBENV_VERSION", ".ruby-version"),
    ("nodenv", "NODENV_VERSION", ".node-version"),
];

/// Program that a shim executes in the directory `here`; `None` if `shim` is not a shim, or if its
/// version manager has no chosen version.
fn program_of_shim(shim: &Path, here: &Path) -> Option<PathBuf> {
    let directory = shim.parent()?;
    let root = directory.parent()?;
    if directory.file_name()? != "shims" || !root.join("versions").is_dir() {
        return None;
    }
    let text = fs::read_to_string(shim).ok()?;
    let manager = VERSION_MANAGERS.iter().find(|(name, ..)| text.contains(name))?;
    let versions = chosen_versions(manager, root, here)?;
    let name = shim.file_name()?;
    let program = |version: &str| root.join("versions").join(version).join("bin").join(name);
    versions.split([':', '\n', ' ']).map(program).find(|path| path.is_file())
}

/// Chosen versions: from the environment, from a file in `here` or a parent directory, or the
/// default version. `None` without a choice.
fn chosen_versions(
    (_, variable, file): &(&str, &str, &str),
    root: &Path,
    here: &Path,
) -> Option<String> {
    if let Some(version) = env::var(variable).ok().filter(|version| !version.is_empty()) {
        return Some(version);
    }
    let files = here.ancestors().map(|directory| directory.join(file));
    let mut files = files.chain([root.join("version")]);
    let text = files.find_map(|path| fs::read_to_string(path).ok())?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_names_are_split() {
        let wanted = Some(("x86_64-linux-gnu", "gcc", "12"));
        assert_eq!(split_compiler_name("x86_64-linux-gnu-gcc-12"), wanted);
        assert_eq!(split_compiler_name("x86_64-linux-gnu-gcc-ar-12"), None);
        assert_eq!(split_compiler_name("gcc"), None);
    }

    #[test]
    fn a_shim_executes_the_program_of_the_chosen_version() {
        let dir = tempfile::tempdir().unwrap();
        let (root, here) = (dir.path().join("manager"), dir.path().join("here/below"));
        for path in ["shims", "versions/1.0/bin", "versions/2.0/bin"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::create_dir_all(&here).unwrap();
        let shim = root.join("shims/ruby");
        fs::write(&shim, "#!/bin/sh\nexec rbenv exec \"$0\"\n").unwrap();
        let real = |version: &str| root.join("versions").join(version).join("bin/ruby");
        for version in ["1.0", "2.0"] {
            fs::write(real(version), "").unwrap();
        }
        assert_eq!(program_of_shim(&shim, &here), None);
        fs::write(root.join("version"), "system\n1.0\n").unwrap();
        assert_eq!(program_of_shim(&shim, &here), Some(real("1.0")));
        fs::write(dir.path().join("here/.ruby-version"), "2.0\n").unwrap();
        assert_eq!(program_of_shim(&shim, &here), Some(real("2.0")));
        assert_eq!(program_of_shim(&real("1.0"), &here), None);
    }
}
