//! What the timed engines have in common.

use super::stop::Stop;
use crate::model::{Facts, Failure, TimedSubject, Workload};

/// A timed engine.
pub trait Timed {
    /// A fresh Boot of a Subject, in which these Workloads run one after the other, each in a fresh
    /// process.
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop>;
    /// Puts back whatever was changed; asked once, when all is measured or the user stops.
    fn end(&self) -> Result<(), Stop>;
}

/// What a Boot came to; nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct Booted {
    /// What the machine says of itself, after the Subject's settings were made.
    pub facts: Facts,
    /// For each of the loops what it printed on the wire, or why it did not.
    pub wires: Vec<Result<Vec<u8>, Failure>>,
    /// The end of the guest's console, if something ended the guest before it was done.
    pub console: Vec<u8>,
}
