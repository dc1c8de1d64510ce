//! A kernel in the cache.

use std::path::PathBuf;

use ktax_model::Identity;

/// An image with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What the image is, and where it came from.
    pub identity: Identity,
    /// The path of the image in the cache. The hash of its content is `identity.sha256`.
    pub image: PathBuf,
    /// The path of the config in the cache, if the source had one. The hash of its content is
    /// `identity.config_sha256`.
    pub config: Option<PathBuf>,
}
