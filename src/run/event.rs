use crate::model::Step;

/// What happens, for whoever wants to show it.
#[derive(Debug)]
pub enum Event<'a> {
    /// A Boot is being made, or found in the cache.
    Booting(&'a Step),
    /// A row starts.
    Running(&'a Step, &'a str),
    /// This many Runs are done or need not be made any more.
    Done(usize),
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every Run of the Plan is on disk.
    Complete,
    /// The user stopped it; the rest can be made later.
    Cancelled,
}
