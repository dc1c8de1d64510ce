//! What the store has, asked without measuring anything.

mod diff;
mod error;
mod history;
mod lineage;
mod log;
mod names;
mod open;
mod prune;
mod site;
mod tags;
mod taken;

pub use diff::DiffOrder;
pub use error::StoredError;
pub use history::HistoryOrder;
pub use log::{LogOrder, Shown};
pub use open::Stored;
pub use prune::{Prunable, Prune, PruneOrder, guest};
pub(super) use taken::compare;
