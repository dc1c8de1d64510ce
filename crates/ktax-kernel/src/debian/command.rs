//! Runs apt and dpkg as child processes, without a shell.

use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{ChildStdout, Command, Output, Stdio};

use super::archive::bad_package;
use crate::error::KernelError;
use crate::last_line::last_line;
use crate::package::Package;
use crate::watched;

/// Options of `apt-get download` and `apt-get update`. Root must stay root: apt would change to a
/// user who cannot write to the directory. A package must be signed. A dead network must not hold
/// ktax up.
pub(super) const OPTIONS: [&str; 10] = [
    "-o",
    "APT::Sandbox::User=root",
    "-o",
    "APT::Get::AllowUnauthenticated=false",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
    "-o",
    "Acquire::https::Timeout=30",
];

/// A command with English messages and no stdin.
pub(super) fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a command and collects its output. `tool` and `package` are for the error if it is not
/// installed.
pub(super) fn run(
    mut command: Command,
    tool: &'static str,
    package: &'static str,
) -> Result<Output, KernelError> {
    command.output().map_err(|error| not_started(tool, package, error))
}

pub(super) fn not_started(
    tool: &'static str,
    package: &'static str,
    error: io::Error,
) -> KernelError {
    if error.kind() == io::ErrorKind::NotFound {
        return KernelError::NoTool { tool, package };
    }
    KernelError::ToolFailed { tool, error }
}

/// Calls `read` with the output of `dpkg-deb --fsys-tarfile`. stderr goes to a file: a full pipe
/// would stop `dpkg-deb` for ever.
pub(super) fn read_tree<T>(
    file: &Path,
    package: &Package,
    read: impl FnOnce(&mut ChildStdout) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let failed = |error| KernelError::ToolFailed { tool: "dpkg-deb", error };
    let mut complaints = watched::complaints().map_err(failed)?;
    let mut command = tool("dpkg-deb");
    command.arg("--fsys-tarfile").arg(file).stdout(Stdio::piped());
    command.stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(|error| not_started("dpkg-deb", "dpkg", error))?;
    let contents = match child.stdout.take() {
        Some(mut pipe) => read(&mut pipe).inspect(|_| drain(&mut pipe)),
        None => Err(bad_package(package, "dpkg-deb gave no output")),
    };
    let status = child.wait().map_err(failed)?;
    if contents.is_ok() && !status.success() {
        let mut said = Vec::new();
        complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)).map_err(failed)?;
        return Err(bad_package(package, &last_line(&said)));
    }
    contents
}

/// Reads the padding after the last entry, because a closed pipe would kill `dpkg-deb`.
fn drain(pipe: &mut impl Read) {
    // If this fails, dpkg-deb fails too and its exit status says so.
    let _ = io::copy(pipe, &mut io::sink());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named() {
        let error = run(tool("ktax-no-such-tool"), "apt-cache", "apt").unwrap_err();
        assert!(matches!(error, KernelError::NoTool { tool: "apt-cache", .. }), "{error}");
        assert!(error.is_silence());
    }
}
