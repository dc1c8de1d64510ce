//! From a Subject to its Kernel.

use std::path::Path;

use super::cache::{Cache, Kernel};
use super::debian::{self, Apt};
use super::error::KernelError;
use super::file;
use super::source;
use super::spec::KernelSpec;
use super::talk::Talk;
use super::target::Target;
use crate::model::Subject;

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
    talk.unless_cancelled(find_or_make(target, subject, cache, talk))
}

fn find_or_make(
    target: &Target,
    subject: &Subject,
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Kernel, KernelError> {
    let spec: KernelSpec = subject.kernel.parse()?;
    let cache = || Cache::of(target.arch, cache, talk.note);
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
            debian::obtain(&Apt::of(&cache), &cache, package, version.as_deref())
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
        true => {
            let cache = Cache::open(cache, talk.note)?;
            talk.unless_cancelled(source::check(&spec, subject, &cache))
        }
    }
}
