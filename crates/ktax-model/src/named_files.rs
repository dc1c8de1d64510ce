use std::path::PathBuf;

/// The files that a program named in its system calls, by absolute path, each once and in the order
/// in which it named them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedFiles {
    /// Files and directories that were there.
    pub opened: Vec<PathBuf>,
    /// Programs that it executed, itself among them.
    pub executed: Vec<PathBuf>,
    /// What was not there.
    pub missing: Vec<PathBuf>,
    /// How it ended: its exit status, or 128 and the signal as shells have it.
    pub status: u64,
}

impl NamedFiles {
    /// The value of a guest's parameter `trace` that asks for them.
    pub const TRACED: u64 = 2;

    /// The most of each kind; the guest ends a program before that.
    pub const MOST: usize = 1 << 17;
}
