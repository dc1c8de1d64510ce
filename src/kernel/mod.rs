//! Gets a [`Kernel`]: an image with an [`Identity`], from a file or from a package of the
//! distribution's archive, kept in a cache by its hash.
//!
//! ```text
//! KernelSpec ─► file ──────────────────────┐
//!            ├► debian ─► apt ─► deb ──────┼─► image (bzimage, vmlinux) ─► cache ─► Kernel
//!            └► source ─► git, make ───────┘
//! ```
//!
//! What has no identity is not measured: an image with neither a release nor a build-id is an
//! error. The image is used from the cache, so that replacing a file in the middle of a run
//! cannot mix two kernels.

mod apt;
mod at_hand;
mod bzimage;
mod cache;
mod deb;
mod debian;
mod error;
mod file;
mod image;
mod index;
mod modules;
mod source;
mod spec;
mod target;
#[cfg(test)]
mod tests;
mod version;
mod vmlinux;

use std::path::{Path, PathBuf};

use crate::model::{Identity, Subject};

pub use at_hand::at_hand;
pub use debian::Package;
pub use error::KernelError;
pub use modules::modules;
pub use source::{BuildError, commits, options_between, that_touch, with_options};
pub use spec::KernelSpec;
pub use target::Target;

/// An image with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub identity: Identity,
    /// The image in the cache; its content is `identity.sha256`.
    pub image: PathBuf,
    /// The config in the cache, if the source had one; its content is `identity.config_sha256`.
    pub config: Option<PathBuf>,
}

/// Who is told what is going on.
pub struct Talk<'a> {
    /// In one line each, what the user should know: a download, a build, a damaged cache entry, a
    /// fall-back to the cache.
    pub note: &'a dyn Fn(&str),
    /// How far a build is; empty when it is over.
    pub status: &'a dyn Fn(&str),
    /// Asked whether to stop.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// Gets the Kernel that a Subject names, and keeps it under `cache/kernels/`. A package version
/// that the cache holds never uses the network again; what was built is not built again.
///
/// # Errors
/// A [`KernelError`] whose message ends with the next step.
pub fn obtain(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<Kernel, KernelError> {
    obtain_for(&Target::X86_64, subject, cache, talk)
}

/// The same of a Kernel for a machine that may be of another architecture.
///
/// # Errors
/// As [`obtain`].
pub fn obtain_for(
    target: &Target,
    subject: &Subject,
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Kernel, KernelError> {
    let spec: KernelSpec = subject.kernel.parse()?;
    let cache = || cache::Cache::of(target.arch, cache, talk.note);
    if !spec.is_source() && subject.is_built() {
        return Err(KernelError::NotBuilt { spec: spec.to_string() });
    }
    match &spec {
        KernelSpec::Debian { .. } if target.is_foreign() => Err(KernelError::NotFor {
            name: spec.to_string(),
            found: "for x86_64".into(),
            wanted: target.arch.name(),
        }),
        KernelSpec::Debian { package, version } => {
            let cache = cache()?;
            debian::obtain(&cache.apt(), &cache, package, version.as_deref())
        }
        KernelSpec::File(path) => {
            let (image, source) = file::read(path)?;
            cache()?.put(&image, None, &source)
        }
        KernelSpec::Source(_) | KernelSpec::DebianSource(_) | KernelSpec::Revision(_) => {
            source::obtain(&spec, (target, subject), &cache()?, talk)
        }
    }
}

/// Looks whether what a Subject asks for is there, as far as that can be known without a build.
///
/// # Errors
/// As [`obtain`].
pub fn check(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<(), KernelError> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false => Ok(()),
        true => source::check(&spec, subject, &cache::Cache::open(cache, talk.note)?),
    }
}

/// The image of that SHA-256 in the cache, if it is there and whole.
pub fn cached(sha256: &str, cache: &Path) -> Option<PathBuf> {
    let image = cache.join("kernels").join(sha256).join("image");
    cache::is_whole(&image, sha256).then_some(image)
}
