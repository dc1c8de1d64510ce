//! How a long task talks to its user.

use super::error::KernelError;

/// Who is told what is going on.
pub struct Talk<'a> {
    /// In one line each, what the user should know: a download, a build, a damaged cache entry, a
    /// fall-back to the cache.
    pub note: &'a dyn Fn(&str),
    /// How far a build is; empty when it is over.
    pub status: &'a dyn Fn(&str),
    /// Asked whether to stop.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

impl Talk<'_> {
    /// What fails after the user has cancelled has not failed: Ctrl-C also stops the tools that
    /// ktax runs, and they report it as a failure of theirs.
    pub(super) fn unless_cancelled<T>(
        &self,
        done: Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        done.map_err(|error| if (self.is_cancelled)() { KernelError::Cancelled } else { error })
    }
}
