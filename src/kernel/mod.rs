//! Gets a [`Kernel`]: an image with an [`Identity`], from a file or from a package of the
//! distribution's archive, kept in a cache by its hash.
//!
//! ```text
//! KernelSpec ─► file ──────────────────────┐
//!            └► debian ─► apt ─► deb ──────┴─► image (bzimage, vmlinux) ─► cache ─► Kernel
//! ```
//!
//! What has no identity is not measured: an image with neither a release nor a build-id is an
//! error. The image is used from the cache, so that replacing a file in the middle of a run
//! cannot mix two kernels.

mod apt;
mod bzimage;
mod cache;
mod deb;
mod debian;
mod error;
mod file;
mod image;
mod spec;
#[cfg(test)]
mod tests;
mod version;
mod vmlinux;

use std::path::{Path, PathBuf};

use crate::model::Identity;

pub use debian::Package;
pub use error::KernelError;
pub use spec::KernelSpec;

/// An image with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub identity: Identity,
    /// The image in the cache; its content is `identity.sha256`.
    pub image: PathBuf,
    /// The config in the cache, if the source had one; its content is `identity.config_sha256`.
    pub config: Option<PathBuf>,
}

/// Gets the Kernel that `spec` names, and keeps it under `cache/kernels/`.
///
/// `note` is told, in one line each, what the user should know: a download, a damaged cache
/// entry, a fall-back to the cache. A package version that the cache holds never uses the
/// network again.
///
/// # Errors
/// A [`KernelError`] whose message ends with the next step.
pub fn obtain(spec: &KernelSpec, cache: &Path, note: &dyn Fn(&str)) -> Result<Kernel, KernelError> {
    let cache = || cache::Cache::open(cache, note);
    match spec {
        KernelSpec::Debian { package, version } => {
            debian::obtain(&apt::Apt, &cache()?, package, version.as_deref())
        }
        KernelSpec::File(path) => {
            let (image, source) = file::read(path)?;
            cache()?.put(&image, None, &source)
        }
    }
}

/// The image of that SHA-256 in the cache, if it is there and whole.
pub fn cached(sha256: &str, cache: &Path) -> Option<PathBuf> {
    let image = cache.join("kernels").join(sha256).join("image");
    cache::is_whole(&image, sha256).then_some(image)
}
