// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use super::exits::ExitFault;
use crate::FORMAT;

/// Why a text has no result. What it quotes of the text is not escaped.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SavedError {
    #[error("it is damaged, or ktax did not write it ({0})")]
    NotAResult(String),
    #[error("it has format {found}, and this ktax reads format {FORMAT}")]
    Format { found: u32 },
    #[error("it does not say what it is, as results of this version of ktax do")]
    Untagged,
    #[error("it is damaged ({0})")]
    Damaged(String),
    #[error("its search is damaged")]
    Search,
    #[error(transparent)]
    Exits(#[from] ExitFault),
}

impl SavedError {
    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            SavedError::NotAResult(_) => "give a file that ktax wrote with --json",
            SavedError::Damaged(_) | SavedError::Search | SavedError::Exits(_) => "make it again",
            SavedError::Format { .. } | SavedError::Untagged => {
                "make it again with this version of ktax"
            }
        }
    }
}
