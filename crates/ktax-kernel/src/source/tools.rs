//! The tools that a build needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::BuildError;
use crate::target::Target;

/// Each program, and the package of the distribution that contains it.
const PROGRAMS: [(&str, &str); 7] = [
    ("git", "git"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
];

/// A header and its package: an x86 build compiles objtool, which needs it.
const HEADER: (&str, &str) = ("/usr/include/gelf.h", "libelf-dev");

/// Checks that all tools are installed, so that a build does not fail halfway.
pub(super) fn check(target: &Target) -> Result<(), BuildError> {
    missing(target, &directories(), Path::new(HEADER.0))
}

/// Whether ccache is installed.
pub(super) fn has_ccache() -> bool {
    directories().iter().any(|directory| directory.join("ccache").is_file())
}

/// The directories of `PATH`.
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

/// The cross tools of a target. The compiler of this machine is needed too, for the build's own
/// programs.
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

/// The versions of compiler and linker. They are a part of the key, because another compiler builds
/// another kernel.
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
    // The variables of the target change the kernel too.
    Ok(target.of_make().into_iter().chain([said]).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let dir = tempfile::tempdir().unwrap();
        for (program, _) in &PROGRAMS[..4] {
            std::fs::write(dir.path().join(program), "").unwrap();
        }
        let missing = |target| {
            let error = missing(target, &[dir.path().to_owned()], Path::new("/no/gelf.h"));
            error.unwrap_err().to_string()
        };
        let text = missing(&Target::X86_64);
        assert!(text.contains("without flex, bison, bc, /usr/include/gelf.h;"), "{text}");
        assert!(text.ends_with("`sudo apt-get install flex bison bc libelf-dev`"), "{text}");
        let text = missing(&Target::E500V2);
        assert!(text.contains("bc, powerpc-linux-gnu-gcc, powerpc-linux-gnu-ld, "), "{text}");
        let packages = " gcc-powerpc-linux-gnu binutils-powerpc-linux-gnu libelf-dev`";
        assert!(text.ends_with(packages), "{text}");
    }
}
