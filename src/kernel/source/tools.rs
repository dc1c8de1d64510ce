//! What building a kernel needs of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kernel::error::BuildError;
use crate::kernel::target::Target;

/// A program and the package of the distribution that has it.
const PROGRAMS: [(&str, &str); 7] = [
    ("git", "git"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
];

/// objtool, which x86 builds, reads ELF with it.
const HEADER: (&str, &str) = ("/usr/include/gelf.h", "libelf-dev");

/// Refuses to begin what could not be ended.
pub(super) fn check(target: &Target) -> Result<(), BuildError> {
    missing(target, &directories(), Path::new(HEADER.0))
}

/// Whether builds can be made quicker.
pub(super) fn has_ccache() -> bool {
    directories().iter().any(|directory| directory.join("ccache").is_file())
}

/// Where programs are.
fn directories() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn missing(target: &Target, directories: &[PathBuf], header: &Path) -> Result<(), BuildError> {
    let is_here = |name: &str| directories.iter().any(|directory| directory.join(name).is_file());
    let owned = |(name, package): (&str, &str)| (name.to_owned(), package.to_owned());
    let wanted = PROGRAMS.map(owned).into_iter().chain(cross_tools(target));
    let mut missing: Vec<(String, String)> = wanted.filter(|(name, _)| !is_here(name)).collect();
    if !header.is_file() {
        missing.push(owned(HEADER));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, packages): (Vec<String>, Vec<String>) = missing.into_iter().unzip();
    Err(BuildError::NoTools { missing: missing.join(", "), packages: packages.join(" ") })
}

/// What a target needs beside the compiler of this machine, which builds the build's own tools.
fn cross_tools(target: &Target) -> Vec<(String, String)> {
    let cross = target.cross();
    let tool = |name: &str, package: &str| {
        (format!("{cross}{name}"), format!("{package}-{}", cross.trim_end_matches('-')))
    };
    match target.is_foreign() {
        true => vec![tool("gcc", "gcc"), tool("ld", "binutils")],
        false => Vec::new(),
    }
}

/// Which compiler and linker: another one makes another kernel of the same source.
pub(super) fn compiler(target: &Target) -> Result<String, BuildError> {
    let version = |name: &str| {
        let program = &format!("{}{name}", target.cross());
        let mut command = Command::new(program);
        command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
        let output =
            command.output().map_err(|error| BuildError::Start { tool: program.clone(), error })?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    let said = format!("{}; {}", version("gcc")?, version("ld")?);
    // What else make is told makes another kernel too.
    Ok(target.of_make().into_iter().chain([said]).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let dir = tempfile::tempdir().unwrap();
        for (program, _) in &PROGRAMS[..4] {
            std::fs::write(dir.path().join(program), "").unwrap();
        }
        let missing = |target| {
            let error = missing(target, &[dir.path().to_owned()], Path::new("/no/gelf.h"));
            error.unwrap_err().to_string()
        };
        let text = missing(&Target::X86_64);
        assert!(text.contains("flex, bison, bc, /usr/include/gelf.h is missing"), "{text}");
        assert!(text.ends_with("`sudo apt-get install flex bison bc libelf-dev`"), "{text}");
        let text = missing(&Target::E500V2);
        assert!(text.contains("bc, powerpc-linux-gnu-gcc, powerpc-linux-gnu-ld, "), "{text}");
        let packages = " gcc-powerpc-linux-gnu binutils-powerpc-linux-gnu libelf-dev`";
        assert!(text.ends_with(packages), "{text}");
    }
}
