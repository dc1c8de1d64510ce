//! Long tasks: shows their progress to the user, and stops their programs when the user cancels.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use std::{io, thread};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use ktax_host::text::escape;
use ktax_model::{Error, Result};

/// Time between two checks whether the user has cancelled.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// A step that takes minutes, with its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTask {
    pub kind: TaskKind,
    /// The package or the source, for messages.
    pub what: String,
    /// Number of units that are done. The units are bytes or files.
    pub done: u64,
    /// Total number of units; `None` if it is unknown.
    pub total: Option<u64>,
    /// True if the step has succeeded.
    pub is_over: bool,
}

/// Kind of a [`KernelTask`]. The kind determines the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// Download of a package, in bytes.
    Download,
    /// Unpacking of a source package, in files and directories.
    Unpack,
    /// Import of a source tree into the cache's repository, in files.
    Import,
    /// Compilation of a kernel, in files.
    Compile,
}

impl TaskKind {
    /// Returns the name in the file with the durations of earlier runs.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Download => "download",
            TaskKind::Unpack => "unpack",
            TaskKind::Import => "import",
            TaskKind::Compile => "compile",
        }
    }
}

/// Callbacks for messages to the user, and for the user's request to stop.
pub struct Talk<'a> {
    /// Prints a line, such as about a download, a build, a damaged file, or a fall-back to the
    /// cache.
    pub note: &'a dyn Fn(&str),
    /// Shows the status of a build; an empty text removes it. Called five times a second.
    pub status: &'a dyn Fn(&str),
    /// Shows the progress of a step that takes minutes. Called when the step begins, five times a
    /// second, and when the step is over.
    pub task: &'a dyn Fn(&KernelTask),
    /// Returns whether the user has cancelled. Called five times a second during a build.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// Callbacks that show nothing and never cancel.
#[cfg(test)]
pub(crate) const SILENT: Talk<'_> =
    Talk { note: &|_| {}, status: &|_| {}, task: &|_| {}, is_cancelled: &|| false };

impl Talk<'_> {
    /// Replaces an error by [`Error::cancelled`] if the user has cancelled. Ctrl-C also stops the
    /// tools that ktax runs, which then fail.
    pub(super) fn unless_cancelled<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| if (self.is_cancelled)() { Error::cancelled() } else { error })
    }
}

/// Creates a file for a program's stderr. It is in memory, so that the program can also report a
/// full disk.
pub(super) fn stderr_file() -> io::Result<File> {
    Ok(memfd_create("stderr", MemfdFlags::CLOEXEC)?.into())
}

/// Reads a [`stderr_file`] from its beginning.
pub(super) fn read_stderr(file: &mut File) -> io::Result<Vec<u8>> {
    let mut stderr = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut stderr)?;
    Ok(stderr)
}

/// Starts a program in a new process group, so that it can be stopped with all its children.
pub(super) fn start_in_group(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Waits for a program, and calls `show` five times a second. `None` if the user has cancelled;
/// then the program was stopped.
pub(super) fn wait_or_cancel(
    child: &mut Child,
    talk: &Talk<'_>,
    mut show: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if (talk.is_cancelled)() {
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            child.wait()?;
            return Ok(None);
        }
        show();
        thread::sleep(PAUSE);
    }
}

/// Returns the last line of a tool's stderr, escaped: at most 300 characters of it.
pub(super) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    escape(&line.unwrap_or("it gave no reason").trim().chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_tool_is_escaped() {
        assert_eq!(last_line(b"W: x\nE: a\x1b[2Jb\n\n"), "E: a\\u{1b}[2Jb");
        assert_eq!(last_line(b""), "it gave no reason");
    }
}
