use std::io;
use std::path::Path;

use super::console::read_tail;
use ktax_model::Failure;

/// Why a Boot or a Run has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The guest or QEMU failed; the row shows why. With the end of the console, if there is one.
    Failed(Failure, Vec<u8>),
    /// The user asked to stop: there is no row.
    Cancelled,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure, Vec::new())
    }
}

impl Stop {
    /// Adds the end of the console at `path`.
    pub(super) fn with_console(self, path: &Path) -> Stop {
        match self {
            Stop::Failed(failure, _) => Stop::Failed(failure, read_tail(path)),
            Stop::Cancelled => Stop::Cancelled,
        }
    }
}

/// Makes a Failure of an error of the host; `operation` says what could not be done.
pub(super) fn host(operation: &str) -> impl Fn(io::Error) -> Failure + Clone {
    let operation = operation.to_owned();
    move |error| Failure::Host { operation: operation.clone(), reason: error.to_string() }
}
