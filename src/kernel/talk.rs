//! How a long task talks to its user.

use std::time::Duration;

use super::error::KernelError;

/// How long a build waits before it asks again whether the user has cancelled.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// How ktax tells the user what it does, and asks whether to go on.
pub struct Talk<'a> {
    /// Shows one line that stays: a download, a build, a damaged file, a fall-back to the cache.
    pub note: &'a dyn Fn(&str),
    /// Shows how far a build is; an empty text ends it. Called five times a second.
    pub status: &'a dyn Fn(&str),
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
