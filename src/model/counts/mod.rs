//! What only exact counts have.

mod comparison;
mod plan;

pub use comparison::{CountsComparison, CountsEvidence, Subjects};
pub use plan::CountsPlan;
