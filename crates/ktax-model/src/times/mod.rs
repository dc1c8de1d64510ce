//! What only timed pairs have.

mod comparison;
mod pair;
mod plan;
mod subject;

pub use comparison::{AaControl, Crossing, PairRatio, Ratio, TimesComparison, TimesEvidence};
pub use pair::{Facts, Noise, TimedBlock, TimedBoot, TimedPair, TimedRun};
pub use plan::{ProgramsHere, TimesPlan};
pub use subject::{Accelerator, RunsOn, TimedMachine, TimedSubject};
