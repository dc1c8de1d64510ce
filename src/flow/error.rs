//! The errors of all commands: [`Error`] is that of the whole tree, with what the flow alone says.

use std::path::Path;

use super::stored::StoredError;
use super::touching::TouchingError;
use crate::model::{ErrorKind, Identity, Key};

pub use crate::model::{Error, ErrorContext};

impl From<StoredError> for Error {
    fn from(error: StoredError) -> Error {
        let kind = match &error {
            StoredError::Unknown { .. } => ErrorKind::Unknown,
            StoredError::Ambiguous { .. } => ErrorKind::Ambiguous,
            StoredError::Empty => ErrorKind::EmptyStore,
            _ => ErrorKind::Other,
        };
        let text = error.to_string();
        let (message, next) = text.split_once("; ").unwrap_or((&text, ""));
        Error::user(message).next(next).kind(kind)
    }
}

impl From<TouchingError> for Error {
    fn from(error: TouchingError) -> Error {
        Error::user(error.to_string())
    }
}

/// Error of a plan that no longer fits this machine or its files.
pub(super) fn stale(message: impl Into<String>) -> Error {
    Error::user(message).next("plan again in a new directory")
}

pub(super) fn no_engine(measures: &str, name: &str) -> Error {
    stale(format!("no engine for {measures} is called {name:?}"))
}

/// QEMU or ktax is not that of the plan, and exact counts belong to one build of each.
pub(super) fn other_key(dir: &Path, planned: &Key, found: &Key) -> Error {
    stale(format!(
        "{} was planned for QEMU {} and the ktax of that time, and this is QEMU {}: counts would \
         not compare",
        dir.display(),
        planned.qemu,
        found.qemu
    ))
}

pub(super) fn other_kernel(planned: &Identity) -> Error {
    stale(format!("{} is another kernel than when the plan was made", planned.source))
}

pub(super) fn other_programs() -> Error {
    stale("the program's files are not those of the plan any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_plan_are_quoted_and_escaped() {
        let message = no_engine("times", "warp\x1b\n").to_string();
        assert_eq!(
            message,
            "no engine for times is called \"warp\\u{1b}\\n\"; plan again in a new directory"
        );
    }
}
