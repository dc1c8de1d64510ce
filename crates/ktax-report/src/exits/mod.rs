//! Exit tables: where virtual machines' time went.

mod account;
mod bars;
mod classic;
#[cfg(test)]
mod counter_tests;
mod diff;
mod headline;
mod reasons;
mod records;
mod scale;
mod sections;
mod table;
#[cfg(test)]
mod tests;
mod whole;
#[cfg(test)]
mod width_tests;

pub use bars::bars;
pub use classic::{Classic, exits_classic};
pub use diff::ExitDiff;
pub use headline::headline;
pub use reasons::reasons;
pub use scale::Scale;
pub use sections::{legend, remarks, sections};
pub use whole::ExitTables;
