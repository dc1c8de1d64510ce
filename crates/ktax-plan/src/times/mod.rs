//! Experiments that time pairs.

mod check;
mod experiment;
mod rows;
mod sweep;
#[cfg(test)]
mod tests;

pub use experiment::TimesExperiment;
pub use rows::{has_own_ops, with_ops};
