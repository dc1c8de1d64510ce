//! The interface of the timed engines.

use super::stop::Stop;
use ktax_model::{Facts, Failure, TimedSubject, Workload};

/// An engine that measures time.
pub trait Timed {
    /// Makes a fresh Boot of a Subject and runs these Workloads one after the other, each in a
    /// fresh process.
    ///
    /// # Errors
    ///
    /// No Workload could run, or the user cancelled.
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop>;
    /// Restores all settings. Called once, after the last measurement or when the user stops.
    ///
    /// # Errors
    ///
    /// A setting cannot be restored.
    fn end(&self) -> Result<(), Stop>;
}

/// The output of a Boot. Nothing in it has been checked.
#[derive(Debug, Clone, Default)]
pub struct Booted {
    /// The facts of the machine, read after the Subject's settings were applied.
    pub facts: Facts,
    /// For each loop its output on the wire, or why it has none.
    pub wires: Vec<Result<Vec<u8>, Failure>>,
    /// The end of the guest's console, if the guest stopped early.
    pub console: Vec<u8>,
}
