//! Experiments whose Subjects are guests of a KVM host.

mod experiment;
mod rows;
mod sweep;
#[cfg(test)]
mod tests;

pub use experiment::{GuestKernels, GuestsExperiment};
