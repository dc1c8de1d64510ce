//! The driver against a fake engine: what is hard to provoke for real.

#[path = "fake/cancel.rs"]
mod cancel;
mod common;
#[path = "fake/disk.rs"]
mod disk;
#[path = "fake/engine.rs"]
mod engine;
#[path = "fake/failures.rs"]
mod failures;
#[path = "fake/order.rs"]
mod order;
#[path = "fake/plan.rs"]
mod plan;
#[path = "fake/scene.rs"]
mod scene;
#[path = "fake/timed.rs"]
mod timed;
#[path = "fake/timed_blocks.rs"]
mod timed_blocks;
#[path = "fake/timed_curves.rs"]
mod timed_curves;
#[path = "fake/timed_failures.rs"]
mod timed_failures;
#[path = "fake/timed_order.rs"]
mod timed_order;
#[path = "fake/timed_verdicts.rs"]
mod timed_verdicts;
#[path = "fake/verdicts.rs"]
mod verdicts;
