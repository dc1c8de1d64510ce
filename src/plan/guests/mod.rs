//! Experiments whose Subjects are guests of a KVM host.

mod experiment;
mod rows;
#[cfg(test)]
mod tests;

pub use experiment::{GuestKernels, GuestsExperiment};
