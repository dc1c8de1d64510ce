use std::fmt::Display;

use super::error::Error;

/// Says what a fault of the host's came in the way of.
pub trait OrHost<T> {
    /// `what: the error; next`
    fn context(self, what: impl Display, next: &str) -> Result<T, Error>;
}

impl<T, E: Display> OrHost<T> for Result<T, E> {
    fn context(self, what: impl Display, next: &str) -> Result<T, Error> {
        self.map_err(|error| Error::Host(format!("{what}: {error}; {next}")))
    }
}
