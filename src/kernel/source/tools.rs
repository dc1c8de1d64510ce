//! What building a kernel needs of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::BuildError;

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
pub(super) fn check() -> Result<(), BuildError> {
    missing(&directories(), Path::new(HEADER.0))
}

/// Whether builds can be made quicker.
pub(super) fn has_ccache() -> bool {
    directories().iter().any(|directory| directory.join("ccache").is_file())
}

/// Where programs are.
fn directories() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

fn missing(directories: &[PathBuf], header: &Path) -> Result<(), BuildError> {
    let is_here = |name: &str| directories.iter().any(|directory| directory.join(name).is_file());
    let mut missing: Vec<(&str, &str)> =
        PROGRAMS.into_iter().filter(|(program, _)| !is_here(program)).collect();
    if !header.is_file() {
        missing.push(HEADER);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names = |of: fn(&(&'static str, &'static str)) -> &'static str, between: &str| {
        missing.iter().map(of).collect::<Vec<_>>().join(between)
    };
    Err(BuildError::NoTools {
        missing: names(|(name, _)| name, ", "),
        packages: names(|(_, package)| package, " "),
    })
}

/// Which compiler and linker: another one makes another kernel of the same source.
pub(super) fn compiler() -> Result<String, BuildError> {
    let version = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|error| BuildError::Start { tool: program.to_owned(), error })?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    };
    Ok(format!("{}; {}", version("gcc")?, version("ld")?))
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
        let error = missing(&[dir.path().to_owned()], Path::new("/no/gelf.h")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("flex, bison, bc, /usr/include/gelf.h is missing"), "{text}");
        assert!(text.ends_with("`sudo apt-get install flex bison bc libelf-dev`"), "{text}");
    }
}
