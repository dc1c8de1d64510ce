//! What only exact counts have.

mod comparison;
mod plan;

pub use comparison::{CountsComparison, CountsEvidence, OfSizes, Subjects};
pub use plan::CountsPlan;
