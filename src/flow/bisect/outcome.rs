use crate::model::{Bisection, Comparison};
use crate::report::Report;

/// How a search ended.
#[derive(Debug)]
pub enum Search {
    /// The user stopped it.
    Stopped {
        /// What to type to resume it.
        next: String,
    },
    /// Base and change do not differ in a way that can be searched.
    Nothing {
        /// Base against change.
        comparison: Box<Comparison>,
        /// Why, and what has more.
        why: String,
    },
    /// What carries the difference.
    Found(Box<Bisection>),
}

impl Search {
    /// What there is to print; nothing of a search that was stopped.
    pub fn result(&self) -> Option<&dyn Report> {
        match self {
            Search::Stopped { .. } => None,
            Search::Nothing { comparison, .. } => Some(&**comparison),
            Search::Found(bisection) => Some(&**bisection),
        }
    }
}
