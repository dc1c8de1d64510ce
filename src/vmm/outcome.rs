use super::account::Account;
use super::error::VmmError;

/// How a guest came to its end, if not by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended itself.
    ByGuest,
    /// SIGINT or SIGTERM.
    BySignal,
}

/// What is left of a guest: what was counted, and how it ended.
#[derive(Debug)]
pub struct Outcome {
    pub account: Account,
    pub ended: Result<Ended, VmmError>,
}
