// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::text::{escape, shell_word};

/// Why the store has no answer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StoredError {
    #[error(
        "the store in {store} has no {name:?}{}; `ktax log --subjects` lists what it has",
        meant(.near)
    )]
    Unknown { store: String, name: String, near: Option<String> },
    #[error("{name:?} is {}; give one of these", listed(.choices))]
    Ambiguous { name: String, choices: Vec<String> },
    #[error(
        "the store has no row of both that was measured in the same way; `ktax compare --base {} \
         --change {}` measures what is missing",
        shell_word(.base), shell_word(.change)
    )]
    NothingInCommon { base: String, change: String },
    #[error("{base:?} and {change:?} are the same subject; give two")]
    Same { base: String, change: String },
    #[error(
        "the store has no row {row:?}{}; `ktax history` lists what it has",
        meant(.near)
    )]
    NoRow { row: String, near: Option<String> },
    #[error("the store has no measurement yet; `ktax compare lsm` makes some")]
    Empty,
    #[error("no profile of these rows has the function {function:?}; `ktax diff` shows names")]
    NoFunction { function: String },
    #[error("there is no metric {name:?}; give one of {known}")]
    NoMetric { name: String, known: String },
    #[error("{path} is not empty, and not a site of ktax; give an empty directory")]
    NoSite { path: String },
    #[error("no result begins with {id:?}; `ktax log` lists them")]
    NoResult { id: String },
}

fn meant(near: &Option<String>) -> String {
    let near = near.as_ref().map(|near| format!(" (did you mean {:?}?)", escape(near)));
    near.unwrap_or_default()
}

fn listed(of: &[String]) -> String {
    let quoted: Vec<String> = of.iter().map(|one| shell_word(one)).collect();
    quoted.join(" or ")
}
