//! Times: what an engine needs, pairs or blocks, and what comes next.

mod analyse;
mod blocks;
mod calibrate;
mod cpus;
mod drive;
mod engine;
mod error;
mod estimate;
mod judged;
mod plan;
mod programs;
mod rates;
mod run;

pub(super) use analyse::{analyse, planned};
pub use blocks::BOOTS as BOOTS_OF_A_BLOCK;
pub use blocks::run_block;
pub use error::{BlockError, CpuError};
pub(super) use estimate::estimate;
pub(super) use plan::{check, plan};
pub(super) use run::run;
