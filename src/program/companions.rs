//! What some programs need beside their libraries, without which nobody can use them.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::error::ProgramError;
use super::libraries::{self, Missing};
use super::tree::GuestTree;

/// Adds it, by the name of the program's file behind all links.
pub(super) fn add(tree: &mut GuestTree, host: &Path) -> Result<(), ProgramError> {
    let Ok(real) = host.canonicalize() else { return Ok(()) };
    of_python(tree, &real)?;
    of_gcc(tree, &real)
}

/// The modules of a Python, which it cannot start without, and their libraries.
fn of_python(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let modules = prefix.join("lib").join(name);
    if !name.starts_with("python3.") || !modules.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&modules).into_iter().flatten().flatten() {
        // What compiles extensions and tests Python itself is half of it all.
        let left_out = |name: &str| name.starts_with("config-") || name == "test";
        if !entry.file_name().to_str().is_some_and(left_out) {
            tree.in_place(&entry.path())?;
        }
    }
    let loaded = fs::read_dir(modules.join("lib-dynload")).into_iter().flatten().flatten();
    libraries::add(tree, loaded.map(|entry| entry.path()).collect(), Missing::Ignored)
}

/// The compiler proper and the assembler of a gcc; what links is left out.
fn of_gcc(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((target, kind, version)) = of_compiler(name) else { return Ok(()) };
    let own = Path::new("/usr/lib/gcc").join(target).join(version);
    let compiler = own.join(if kind == "gcc" { "cc1" } else { "cc1plus" });
    let assembler = Path::new("/usr/bin/as").to_owned();
    for program in [compiler, assembler].into_iter().filter(|program| program.is_file()) {
        let program = tree.in_place(&program)?;
        libraries::add(tree, vec![program], Missing::Ignored)?;
    }
    // gcc reads it before any file.
    let first = Path::new("/usr/include/stdc-predef.h");
    match first.is_file() {
        true => tree.in_place(first).map(drop),
        false => Ok(()),
    }
}

/// The parts of `x86_64-linux-gnu-gcc-12`.
fn of_compiler(name: &str) -> Option<(&str, &str, &str)> {
    let (rest, version) = name.rsplit_once('-')?;
    let (target, kind) = rest.rsplit_once('-')?;
    let is_version = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (matches!(kind, "gcc" | "g++") && is_version).then_some((target, kind, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_known_by_its_name() {
        let wanted = Some(("x86_64-linux-gnu", "gcc", "12"));
        assert_eq!(of_compiler("x86_64-linux-gnu-gcc-12"), wanted);
        assert_eq!(of_compiler("x86_64-linux-gnu-gcc-ar-12"), None);
        assert_eq!(of_compiler("gcc"), None);
    }
}
