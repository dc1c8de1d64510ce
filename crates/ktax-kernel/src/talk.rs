//! Progress of long tasks: what the user is shown, and how a program is stopped once the user has
//! cancelled.

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

/// Time between two questions whether the user has cancelled.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// A step that takes minutes, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTask {
    pub kind: TaskKind,
    /// The package or the source, for messages.
    pub what: String,
    /// Units that are done: bytes, or files.
    pub done: u64,
    /// Units in all; `None` if nobody knows.
    pub total: Option<u64>,
    /// True if the step has ended well.
    pub is_over: bool,
}

/// Kind of a [`KernelTask`], with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// Downloads a package; bytes.
    Download,
    /// Unpacks a source package; files and directories.
    Unpack,
    /// Adds a source tree to the repository of the cache; files.
    Import,
    /// Compiles a kernel; files.
    Compile,
}

impl TaskKind {
    /// Name in the file with the durations of earlier runs.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Download => "download",
            TaskKind::Unpack => "unpack",
            TaskKind::Import => "import",
            TaskKind::Compile => "compile",
        }
    }
}

/// Callbacks that tell the user what ktax does, and ask whether to go on.
pub struct Talk<'a> {
    /// Shows one line that stays: a download, a build, a damaged file, a fall-back to the cache.
    pub note: &'a dyn Fn(&str),
    /// Shows how far a build is; an empty text ends it. Called five times a second.
    pub status: &'a dyn Fn(&str),
    /// Shows how far a step is that takes minutes. Called when it begins, five times a second, and
    /// when it is over.
    pub task: &'a dyn Fn(&KernelTask),
    /// Returns whether the user has cancelled. Asked five times a second during a build.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// Shows nothing and goes on.
#[cfg(test)]
pub(crate) const SILENT: Talk<'_> =
    Talk { note: &|_| {}, status: &|_| {}, task: &|_| {}, is_cancelled: &|| false };

impl Talk<'_> {
    /// Turns an error after the user has cancelled into [`Error::cancelled`]. Ctrl-C also stops the
    /// tools that ktax runs, and they report that as a failure.
    pub(super) fn unless_cancelled<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|error| if (self.is_cancelled)() { Error::cancelled() } else { error })
    }
}

/// A file in memory for what a program complains about, which may be that the disk is full.
pub(super) fn stderr_file() -> io::Result<File> {
    Ok(memfd_create("complaints", MemfdFlags::CLOEXEC)?.into())
}

/// Reads a [`stderr_file`] from its beginning.
pub(super) fn read_stderr(file: &mut File) -> io::Result<Vec<u8>> {
    let mut stderr = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut stderr)?;
    Ok(stderr)
}

/// Starts a program in a process group of its own, so that it can be stopped with all its children.
pub(super) fn start_in_group(command: &mut Command) -> io::Result<Child> {
    command.process_group(0).spawn()
}

/// Waits for a program, and calls `look` five times a second. `None` if the user has cancelled; the
/// program has ended then too.
pub(super) fn wait_or_cancel(
    child: &mut Child,
    talk: &Talk<'_>,
    mut look: impl FnMut(),
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
        look();
        thread::sleep(PAUSE);
    }
}

/// The last line that a tool wrote to its stderr: at most 300 characters, escaped.
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
