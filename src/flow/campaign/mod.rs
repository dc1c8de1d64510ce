//! A campaign: many Subjects over the same rows, in shards that any scheduler runs on any machine.
//! A directory that the machines share, or have copies of, is all that they have in common.

mod build;
mod collect;
mod error;
mod left;
mod plan;
mod shard;
mod slurm;
mod status;

pub use build::build;
pub use collect::{Collected, collect};
pub use error::{CampaignError, some};
pub use plan::plan;
pub use shard::{ShardEnd, run};
pub use slurm::write_slurm;
pub use status::{ShardStatus, status};
