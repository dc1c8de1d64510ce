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
    python_modules(tree, &real)?;
    perl_modules(tree, &real)?;
    java_home(tree, &real)?;
    gcc_parts(tree, &real)
}

/// Adds what is in a directory of this machine, and what its links lead to, except for some names.
fn content(
    tree: &mut GuestTree,
    directory: &Path,
    is_left_out: impl Fn(&str) -> bool,
) -> Result<(), ProgramError> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(&is_left_out) && entry.path().exists() {
            tree.with_targets(&entry.path())?;
        }
    }
    Ok(())
}

/// The modules of Debian's Perl: `use strict` is one.
fn perl_modules(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    const BASE: &str = "/usr/lib/x86_64-linux-gnu/perl-base";
    const VERSIONS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu/perl", "/usr/share/perl"];
    if !real.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("perl")) {
        return Ok(());
    }
    // What documents Perl, compiles extensions and installs others.
    let is_left_out = |name: &str| matches!(name, "CORE" | "CPAN" | "debug" | "pod" | "unicore");
    content(tree, Path::new(BASE), |_| false)?;
    for directory in VERSIONS {
        // Those of a version, and a link to it.
        for version in fs::read_dir(directory).into_iter().flatten().flatten() {
            match version.path() {
                link if link.is_symlink() => tree.alone(&link)?,
                own => content(tree, &own, is_left_out)?,
            }
        }
    }
    Ok(())
}

/// The libraries, the classes and the configuration of a Java.
fn java_home(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    let home = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let own = home.join("lib");
    if !own.join("jvm.cfg").exists() || !own.join("server/libjvm.so").is_file() {
        return Ok(());
    }
    // What compiles, and what needs a screen.
    let of_screens = ["libawt", "libatk", "libfont", "libjawt", "libjsound", "libsplash"];
    let is_left_out = |name: &str| {
        matches!(name, "ct.sym" | "src.zip")
            || of_screens.iter().any(|prefix| name.starts_with(prefix))
    };
    content(tree, &own, is_left_out)?;
    content(tree, &home.join("conf"), |_| false)?;
    let loaded = fs::read_dir(&own).into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.ends_with(".so") && !is_left_out(name))
    });
    let loaded = loaded.map(|entry| entry.path()).filter(|path| path.is_file());
    let loaded = loaded.chain([own.join("server/libjvm.so")]).collect();
    libraries::add(tree, loaded, Missing::Ignored)
}

/// The modules of a Python, which it cannot start without, and their libraries.
fn python_modules(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let modules = prefix.join("lib").join(name);
    if !name.starts_with("python3.") || !modules.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&modules).into_iter().flatten().flatten() {
        // What compiles extensions and tests Python itself is half of it all; what others installed
        // can be any size.
        let left_out = |name: &str| {
            name.starts_with("config-") || matches!(name, "test" | "site-packages" | "idlelib")
        };
        if !entry.file_name().to_str().is_some_and(left_out) {
            tree.in_place(&entry.path())?;
        }
    }
    let loaded = fs::read_dir(modules.join("lib-dynload")).into_iter().flatten().flatten();
    libraries::add(tree, loaded.map(|entry| entry.path()).collect(), Missing::Ignored)
}

/// The compiler proper and the assembler of a gcc; what links is left out.
fn gcc_parts(tree: &mut GuestTree, real: &Path) -> Result<(), ProgramError> {
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some((target, kind, version)) = compiler_name(name) else { return Ok(()) };
    let own = Path::new("/usr/lib/gcc").join(target).join(version);
    let compiler = own.join(if kind == "gcc" { "cc1" } else { "cc1plus" });
    let assembler = Path::new("/usr/bin/as").to_owned();
    for program in [compiler, assembler].into_iter().filter(|program| program.is_file()) {
        let program = tree.in_place(&program)?;
        libraries::add(tree, vec![program], Missing::Ignored)?;
    }
    headers(tree, target, kind, &own, version)
}

/// The headers of the compiler, of the C library and of the kernel; of other libraries none.
fn headers(
    tree: &mut GuestTree,
    target: &str,
    kind: &str,
    own: &Path,
    version: &str,
) -> Result<(), ProgramError> {
    let all = Path::new("/usr/include");
    let of_target = all.join(target);
    let of_c = ["bits", "sys", "gnu", "asm"].map(|name| of_target.join(name));
    let of_kernel = ["linux", "asm-generic"].map(|name| all.join(name));
    let of_cxx = [all.join("c++").join(version), of_target.join("c++").join(version)];
    let of_cxx = of_cxx.into_iter().filter(|_| kind == "g++");
    let own = ["include", "include-fixed"].map(|name| own.join(name));
    let directories = own.into_iter().chain(of_c).chain(of_kernel).chain(of_cxx);
    for directory in directories.filter(|directory| directory.is_dir()) {
        tree.in_place(&directory)?;
    }
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        if entry.path().is_file() {
            tree.with_targets(&entry.path())?;
        }
    }
    Ok(())
}

/// The parts of `x86_64-linux-gnu-gcc-12`.
fn compiler_name(name: &str) -> Option<(&str, &str, &str)> {
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
        assert_eq!(compiler_name("x86_64-linux-gnu-gcc-12"), wanted);
        assert_eq!(compiler_name("x86_64-linux-gnu-gcc-ar-12"), None);
        assert_eq!(compiler_name("gcc"), None);
    }
}
