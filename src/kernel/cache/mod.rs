//! The kernel cache: images by their SHA-256, with their configurations.

mod at_hand;
mod files;
mod kernel;
mod store;

pub use at_hand::{at_hand, cached};
pub(super) use files::{read_limited, sha256};
pub use kernel::Kernel;
pub(super) use store::Cache;
