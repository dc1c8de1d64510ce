//! How a long task talks to its user.

use std::time::Duration;

use super::error::KernelError;

/// How long a build waits before it asks again whether the user has cancelled.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// A step that takes minutes, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTask {
    /// What is done.
    pub kind: TaskKind,
    /// The package or the source, for messages.
    pub what: String,
    /// Units that are done: bytes, or files.
    pub done: u64,
    /// Units in all; `None` if nobody knows.
    pub total: Option<u64>,
    /// Whether the step has ended well.
    pub is_over: bool,
}

/// What a [`KernelTask`] does, and its unit.
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
    /// Its name in the file of what earlier runs took.
    pub fn name(self) -> &'static str {
        match self {
            TaskKind::Download => "download",
            TaskKind::Unpack => "unpack",
            TaskKind::Import => "import",
            TaskKind::Compile => "compile",
        }
    }
}

/// How ktax tells the user what it does, and asks whether to go on.
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

impl Talk<'_> {
    /// Turns an error after the user has cancelled into [`KernelError::Cancelled`]. Ctrl-C also
    /// stops the tools that ktax runs, and they report that as a failure.
    pub(super) fn unless_cancelled<T>(
        &self,
        done: Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        done.map_err(|error| if (self.is_cancelled)() { KernelError::Cancelled } else { error })
    }
}
