use super::account::Account;
use super::error::VmmError;

/// How a guest ended, if not by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    /// It ended itself.
    ByGuest,
    /// SIGINT or SIGTERM.
    BySignal,
}

/// The counts of a guest, and how it ended.
#[derive(Debug)]
pub struct GuestOutcome {
    pub account: Account,
    pub ended: Result<GuestEnd, VmmError>,
}
