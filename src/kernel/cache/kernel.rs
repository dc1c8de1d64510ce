//! A kernel in the cache.

use std::path::PathBuf;

use crate::model::Identity;

/// An image with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub identity: Identity,
    /// The image in the cache; its content is `identity.sha256`.
    pub image: PathBuf,
    /// The config in the cache, if the source had one; its content is `identity.config_sha256`.
    pub config: Option<PathBuf>,
}
