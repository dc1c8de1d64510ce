//! The only reader and writer of a run directory; `docs/rundir.md` lists every file.
//!
//! Every file is written beside its place, synced and renamed, so that a file that is there is
//! whole.

mod adopt;
mod boots;
mod campaign;
mod check;
mod dir;
mod error;
mod fields;
mod files;
mod msrs;
mod pairs;
mod paths;
pub mod profile;
mod seal;

pub use campaign::CampaignDir;
pub use dir::{AnyRunDir, RunDir};
pub use error::RunDirError;
pub use files::{FILE_MAX, check_free};
