//! The error type of ktax: what failed and why, the next step, and who can take the next step.

use std::fmt::{self, Display};
use std::io;

use crate::{Blame, Failure};

/// Error of any phase, with a message for the user. It is built where something fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Kind, for code that handles some errors in its own way; [`ErrorKind::Other`] for most
    /// errors.
    pub kind: ErrorKind,
    /// Party that can fix the error; the exit status follows from it.
    pub blame: Blame,
    /// Failed action and its cause.
    message: String,
    /// Next step for the user; empty if the message says it.
    next: String,
}

/// Kinds of errors that code matches. A different message alone is not a new kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Error that no code handles in its own way.
    Other,
    /// The user stopped the command; finished work is kept.
    Cancelled,
    /// Base and change are the same.
    SameSides,
    /// apt has no list of packages; ktax then uses a kernel from its cache.
    NoPackageList,
    /// The source cannot be built with these options; a bisection skips this kernel.
    Unbuildable,
    /// No measurement in the store has this name.
    Unknown,
    /// Several measurements in the store have this name.
    Ambiguous,
    EmptyStore,
    NoComparison,
    NoPaths,
    /// A kernel setting or file does not exist.
    Absent,
    Empty,
    Truncated,
    /// The guest shut down, or executed an instruction that KVM cannot run.
    GuestFault,
    NoEbpf,
    /// There is no run directory, or no plan in it.
    NoRunDirectory,
    /// Another ktax uses the directory, or made it at the same time.
    InUse,
    /// Another process has locked the index; ktax builds one in memory.
    IndexInUse,
    /// The index cannot be used; ktax removes it and builds it again.
    IndexDamaged,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Error that the user can fix: the command line, a file of the user's, or a run directory.
    pub fn user(message: impl Into<String>) -> Error {
        Error::blamed(Blame::User, message)
    }

    /// Error of the guest: its kernel cannot be built or booted, or this machine cannot run guests.
    pub fn guest(message: impl Into<String>) -> Error {
        Error::blamed(Blame::Guest, message)
    }

    /// Error of the host: ktax itself, a full disk, a permission, another process.
    pub fn host(message: impl Into<String>) -> Error {
        Error::blamed(Blame::Host, message)
    }

    /// The user stopped the command.
    pub fn cancelled() -> Error {
        Error::user("stopped").kind(ErrorKind::Cancelled)
    }

    /// Error that the party `blame` can fix.
    pub fn blamed(blame: Blame, message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Other, blame, message: message.into(), next: String::new() }
    }

    /// Adds the next step, which is printed after a semicolon.
    pub fn next(mut self, next: impl Into<String>) -> Error {
        self.next = next.into();
        self
    }

    pub fn kind(mut self, kind: ErrorKind) -> Error {
        self.kind = kind;
        self
    }

    /// Failed action and its cause, without the next step.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Next step for the user; empty if the message says it.
    pub fn next_step(&self) -> &str {
        &self.next
    }

    pub fn is_cancelled(&self) -> bool {
        self.kind == ErrorKind::Cancelled
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.next.is_empty() { Ok(()) } else { write!(f, "; {}", self.next) }
    }
}

impl std::error::Error for Error {}

/// Converts a failure without which the command cannot continue.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::host(failure.to_string()).next(failure.next_step())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::host(error.to_string())
    }
}

/// Converts an unexpected system error.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::host(error.to_string())
    }
}

/// Converts errors of libraries and of the system.
pub trait Context<T> {
    /// Error of the host, with the message `what: error; next`.
    fn or_host(self, what: impl Display, next: &str) -> Result<T>;

    /// Error of the user, with the message `what: error; next`.
    fn or_user(self, what: impl Display, next: &str) -> Result<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn or_host(self, what: impl Display, next: &str) -> Result<T> {
        self.map_err(|error| Error::host(format!("{what}: {error}")).next(next))
    }

    fn or_user(self, what: impl Display, next: &str) -> Result<T> {
        self.map_err(|error| Error::user(format!("{what}: {error}")).next(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_follows_a_semicolon() {
        let error = Error::user("cannot read x: gone").next("give the path of a file");
        assert_eq!(error.to_string(), "cannot read x: gone; give the path of a file");
        assert_eq!(Error::host("no space").to_string(), "no space");
        assert!(Error::cancelled().is_cancelled() && !error.is_cancelled());
    }
}
