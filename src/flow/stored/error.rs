// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::text::{escape, shell_line, shell_word};

/// Why the store has no answer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StoredError {
    #[error(
        "the store in {store} has no {name:?}{}; `ktax log --subjects` lists what it has, and \
         `{}` measures it",
        meant(.near), shell_line(.command)
    )]
    Unknown { store: String, name: String, near: Option<String>, command: Vec<String> },
    #[error("{name:?} is {}; give one of these", listed(.choices))]
    Ambiguous { name: String, choices: Vec<(String, String)> },
    #[error("{name:?} is a name of {of} already; choose another")]
    Taken { name: String, of: String },
    #[error(
        "no measurement of these has the boot line {wanted:?}; give one of {}", known.join(", ")
    )]
    NoBootLine { wanted: String, known: Vec<String> },
    #[error(
        "the store has no row of both that was measured in the same way; `{}` measures what is \
         missing",
        shell_line(.command)
    )]
    NothingInCommon { command: Vec<String> },
    #[error("{base:?} and {change:?} are the same subject; give two")]
    Same { base: String, change: String },
    #[error(
        "the store has no row {row:?}{}; `ktax history` lists what it has",
        meant(.near)
    )]
    NoRow { row: String, near: Option<String> },
    #[error(
        "none of these subjects was measured with these rows; `ktax history` without --along lists \
         what was"
    )]
    NotAlong,
    #[error("the store has no measurement yet; `ktax compare lsm` makes some")]
    Empty,
    #[error("no profile of these rows has the function {function:?}; `ktax diff` shows names")]
    NoFunction { function: String },
    #[error("there is no metric {name:?}; give one of {known}")]
    NoMetric { name: String, known: String },
    #[error("{path} is not empty, and not a site of ktax; give an empty directory")]
    NoSite { path: String },
    #[error("another ktax writes {path}; wait for it to end")]
    SiteInUse { path: String },
    #[error(
        "the tag {tag} is of a subject that would lose measurements; take it away with `ktax tag \
         --delete {tag}`, or give --tagged"
    )]
    Tagged { tag: String },
    #[error(
        "no result and no measurement begins with {id:?}; `ktax log` lists results, and `ktax \
         store prune --dry-run --subject NAME` the measurements of a subject"
    )]
    NothingKept { id: String },
    #[error("no result begins with {id:?}; `ktax log` lists them")]
    NoResult { id: String },
}

fn meant(near: &Option<String>) -> String {
    let near = near.as_ref().map(|near| format!(" (did you mean {:?}?)", escape(near)));
    near.unwrap_or_default()
}

fn listed(of: &[(String, String)]) -> String {
    let one = |(name, what): &(String, String)| match what.as_str() {
        "" => shell_word(name),
        what => format!("{} ({})", shell_word(name), escape(what)),
    };
    of.iter().map(one).collect::<Vec<String>>().join(" or ")
}
