//! The driver against a fake engine: what is hard to provoke for real.

mod cancel;
mod disk;
mod engine;
mod failures;
mod guests;
pub mod guests_scene;
mod order;
pub mod plan;
mod program_work;
mod programs;
mod scene;
pub mod timed;
mod timed_blocks;
mod timed_curves;
mod timed_failures;
mod timed_order;
mod timed_verdicts;
mod verdicts;
