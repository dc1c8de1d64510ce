//! The driver against a fake engine: what is hard to provoke for real.

mod disk;
mod failures;
pub mod guests;
mod programs;
pub mod scene;
pub mod timed;
mod timed_verdicts;
