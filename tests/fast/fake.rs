//! The driver against a fake engine: what is hard to provoke for real.

mod cancel;
mod disk;
mod engine;
mod failures;
mod order;
mod plan;
mod scene;
mod timed;
mod timed_blocks;
mod timed_curves;
mod timed_failures;
mod timed_order;
mod timed_verdicts;
mod verdicts;
