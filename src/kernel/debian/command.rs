//! Runs apt and dpkg as child processes, without a shell.

use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{ChildStdout, Command, Output, Stdio};

use super::archive::bad_package;
use crate::kernel::error::KernelError;
use crate::kernel::package::Package;
use crate::kernel::text::last_line;

/// A tool that speaks English and reads nothing from the terminal.
pub(super) fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a tool to its end; `package` has it.
pub(super) fn run(
    mut command: Command,
    tool: &'static str,
    package: &'static str,
) -> Result<Output, KernelError> {
    command.output().map_err(|error| not_started(tool, package, error))
}

fn not_started(tool: &'static str, package: &'static str, error: io::Error) -> KernelError {
    if error.kind() == io::ErrorKind::NotFound {
        return KernelError::NoTool { tool, package };
    }
    KernelError::ToolFailed { tool, error }
}

/// `dpkg-deb --fsys-tarfile`, piped into the reader. Its stderr goes to a file, so that neither
/// end can wait for the other.
pub(super) fn read_tree<T>(
    file: &Path,
    package: &Package,
    read: impl FnOnce(&mut ChildStdout) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let failed = |error| KernelError::ToolFailed { tool: "dpkg-deb", error };
    let mut complaints = tempfile::tempfile().map_err(failed)?;
    let mut command = tool("dpkg-deb");
    command.arg("--fsys-tarfile").arg(file).stdout(Stdio::piped());
    command.stderr(complaints.try_clone().map_err(failed)?);
    let mut child = command.spawn().map_err(|error| not_started("dpkg-deb", "dpkg", error))?;
    let contents = match child.stdout.take() {
        Some(mut pipe) => read(&mut pipe).inspect(|_| drain(&mut pipe)),
        None => Err(bad_package(package, "dpkg-deb has no output")),
    };
    let status = child.wait().map_err(failed)?;
    if contents.is_ok() && !status.success() {
        let mut said = Vec::new();
        complaints.rewind().and_then(|()| complaints.read_to_end(&mut said)).map_err(failed)?;
        return Err(bad_package(package, &last_line(&said)));
    }
    contents
}

/// Reads the padding after the last entry: a closed pipe would kill `dpkg-deb`.
fn drain(pipe: &mut impl Read) {
    // An error here shows as the exit status of the other end.
    let _ = io::copy(pipe, &mut io::sink());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_here_is_named() {
        let error = run(tool("ktax-no-such-tool"), "apt-cache", "apt").unwrap_err();
        assert!(matches!(error, KernelError::NoTool { tool: "apt-cache", .. }), "{error}");
        assert!(error.is_silence());
    }
}
