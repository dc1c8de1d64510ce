use ktax_model::{Boot, Failure, Step};

/// What happens, for whoever wants to show it.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many Runs of a Boot are on disk; of all of them it is not made again.
    Found(&'a Step, usize),
    /// A Boot is being made, or found in the cache.
    Booting(&'a Step),
    /// A Boot is up, and says this about itself.
    Booted(&'a Step, &'a Boot),
    /// The host lost a Boot or a Run of it, which is made once more.
    Lost(&'a Step, &'a Failure),
    /// A row starts.
    Running(&'a Step, &'a str),
    /// This many Runs of a Boot are done, or will never be made.
    Done(&'a Step, usize),
}

impl Event<'_> {
    /// The Boot.
    pub fn step(&self) -> &Step {
        match self {
            Event::Found(step, _) | Event::Booting(step) | Event::Lost(step, _) => step,
            Event::Booted(step, _) | Event::Running(step, _) | Event::Done(step, _) => step,
        }
    }
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every Run of the Plan is on disk.
    Complete,
    /// The user stopped it; the rest can be made later.
    Cancelled,
}
