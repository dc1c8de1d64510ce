//! Files beside a program's root directory, which `guest/program.c` reads: how the program starts.

use std::path::Path;

use crate::{WORK, script};
use ktax_model::{Disk, Error, Result, UserProgram};

/// Directories in which a program is looked up in a root directory of the user's: those of `PATH`
/// below.
pub(super) const DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The environment of every program. It is not that of the user, so that it is the same for all.
pub(super) const USUAL: [&str; 5] = [
    "HOME=/work",
    "LANG=C",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TZ=UTC0",
    "USER=root",
];

/// The text that a shell runs: a script of the program's own, or that behind `-c`.
pub(super) fn shell_text(program: &UserProgram) -> Option<&str> {
    if program.script.is_some() {
        return program.script.as_deref();
    }
    let (command, arguments) = program.command.split_first()?;
    let is_shell = script::is_shell(command.rsplit('/').next().unwrap_or_default());
    let is_option = |word: &String| word.starts_with('-') && word.ends_with('c');
    let option = arguments.iter().take_while(|word| word.starts_with('-')).position(is_option)?;
    arguments.get(option + 1).filter(|_| is_shell).map(String::as_str)
}

/// The words of the command behind the path to execute, each with a NUL behind it.
pub(super) fn words(program: &UserProgram, executed: &Path) -> Vec<u8> {
    let path = executed.display().to_string();
    nul_terminated([path.as_str()].into_iter().chain(program.command.iter().map(String::as_str)))
}

/// The environment: the usual one, in which a later variable replaces an earlier one.
pub(super) fn environment(usual: &[&str], program: &UserProgram) -> Result<Vec<u8>> {
    let mut variables = usual.to_vec();
    for text in &program.env {
        let name = text.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
        let wrong = || {
            Error::user(format!("--env {text:?} is not NAME=VALUE"))
                .next("write it as --env LANG=C")
        };
        let name = name.filter(|_| !text.contains('\0')).ok_or_else(wrong)?;
        variables.retain(|set| set.split('=').next() != Some(name));
        variables.push(text);
    }
    Ok(nul_terminated(variables.into_iter()))
}

/// The files of users and groups: the superuser, nobody, and the user that the program runs as.
pub(super) fn accounts(user: u32) -> [(&'static str, String); 2] {
    const NOBODY: u32 = 65534;
    let mut users = "root:x:0:0:root:/work:/bin/sh\n".to_owned();
    let mut groups = "root:x:0:\n".to_owned();
    if user != 0 && user != NOBODY {
        users += &format!("user:x:{user}:{user}:user:/work:/bin/sh\n");
        groups += &format!("user:x:{user}:\n");
    }
    users += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    groups += "nogroup:x:65534:\n";
    [("/etc/passwd", users), ("/etc/group", groups)]
}

/// File system, options and device of the disk.
pub(super) fn mount(disk: &Disk) -> Vec<u8> {
    nul_terminated([disk.fs.as_str(), &disk.options, disk.device.path()].into_iter())
}

/// Settings that make the disk's device: pairs of a path in the guest and the text to write to it.
pub(super) fn device(disk: &Disk) -> Vec<u8> {
    settings(&disk.settings())
}

/// Encodes pairs of a path in the guest and the text to write to it.
pub(super) fn settings(pairs: &[(String, String)]) -> Vec<u8> {
    nul_terminated(pairs.iter().flat_map(|(path, text)| [path.as_str(), text.as_str()]))
}

/// The words that run a text for a shell at this path.
pub(super) fn shell(path: &Path, text: &str) -> Vec<u8> {
    nul_terminated([path.display().to_string().as_str(), "sh", "-ec", text].into_iter())
}

pub(super) fn owner(path: &Path, user: u32) -> u32 {
    if is_below_work(path) { user } else { 0 }
}

/// Whether a file of the guest is in the working directory, where the program's user owns it.
pub(super) fn is_below_work(path: &Path) -> bool {
    path.starts_with(WORK)
}

fn nul_terminated<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u8> {
    words.flat_map(|word| word.bytes().chain([0])).collect()
}
