//! What the noise facts of timed pairs say of their comparison: what to warn of, what differs that
//! should not, and when the machine cannot measure at all.

mod average;
mod boots;
mod declared;
#[cfg(test)]
mod tests;
mod unfit;
mod warnings;

pub use declared::undeclared;
pub use unfit::cannot_measure;
pub use warnings::{CHANGED_MENDS, ignored_parameters, warnings};
