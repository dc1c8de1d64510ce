use crate::model::Bisection;
use crate::report::{NothingToSearch, Report};

/// How a search ended.
#[derive(Debug)]
pub enum Search {
    /// The user stopped it.
    Stopped {
        /// What to type to resume it.
        next: String,
    },
    /// Base and change do not differ in a way that can be searched.
    Nothing(Box<NothingToSearch>),
    /// What carries the difference.
    Found(Box<Bisection>),
}

impl Search {
    /// What there is to print; nothing of a search that was stopped.
    pub fn result(&self) -> Option<&dyn Report> {
        match self {
            Search::Stopped { .. } => None,
            Search::Nothing(nothing) => Some(&**nothing),
            Search::Found(bisection) => Some(&**bisection),
        }
    }
}
