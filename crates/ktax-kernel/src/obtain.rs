//! Gets the kernel of a Subject.

use std::path::Path;

use super::cache::{Cache, Kernel};
use super::debian::{self, Apt};
use super::error::KernelError;
use super::file;
use super::source;
use super::spec::KernelSpec;
use super::talk::Talk;
use super::target::Target;
use ktax_model::Subject;

/// Gets the x86_64 kernel that a Subject names, and keeps it in `cache/kernels/`. ktax downloads a
/// package version only once, and builds the same source with the same options only once.
///
/// # Errors
/// A [`KernelError`] if the kernel does not exist, is not one that ktax can boot, or cannot be
/// built, and [`KernelError::Cancelled`] if the user has cancelled.
pub fn obtain(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<Kernel, KernelError> {
    obtain_for(&Target::X86_64, subject, cache, talk)
}

/// Like [`obtain`], for a machine that may have another architecture.
///
/// # Errors
/// Those of [`obtain`], and one for a kernel of another architecture than the target's.
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
    if !spec.is_source() && subject.is_built() {
        return Err(not_built(&spec, cache, talk));
    }
    let cache = || Cache::of(target.arch, cache, talk.note);
    match &spec {
        KernelSpec::Debian { .. } if !target.is_packaged => Err(KernelError::NotFor {
            name: spec.to_string(),
            found: "without the options that this host needs".into(),
            wanted: target.arch.name(),
        }),
        KernelSpec::Debian { package, version } => {
            let cache = cache()?;
            let apt = Apt::for_images(&cache).with(talk);
            debian::obtain(&apt, &cache, package, version.as_deref())
        }
        KernelSpec::File(path) => {
            let (image, source) = file::read(path)?;
            cache()?.put(&image, None, &source)
        }
        _ if target.is_foreign() && target.is_packaged => {
            Err(KernelError::OnlyPackaged { name: spec.to_string(), arch: target.arch.name() })
        }
        KernelSpec::Source(_) | KernelSpec::DebianSource(_) | KernelSpec::Revision(_) => {
            source::obtain(&spec, (target, subject), &cache()?, talk)
        }
    }
}

/// Checks the names in a Subject: its kernel, and the files of options and patches. Builds and
/// downloads nothing, so that nobody waits to hear of a mistyped name.
///
/// # Errors
/// Those of [`obtain`] about names and about files that are not what they should be.
pub fn check_names(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<(), KernelError> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false if subject.is_built() => Err(not_built(&spec, cache, talk)),
        false => Ok(()),
        true => Ok(source::check_files(subject)?),
    }
}

/// The error for options of a prebuilt kernel, with the source to give instead.
fn not_built(spec: &KernelSpec, cache: &Path, talk: &Talk<'_>) -> KernelError {
    let version = match spec {
        KernelSpec::Debian { package, version } => {
            Cache::open(cache, talk.note).ok().and_then(|cache| {
                debian::source_version(&Apt::of(&cache), package, version.as_deref())
            })
        }
        _ => None,
    };
    let next = match version {
        Some(version) => format!(
            "write `debian-src:{version}`, the source of that package, in the place of `{}`; ktax \
             then builds both sides",
            spec.short()
        ),
        None => "give the source that it was built from, such as `src:DIR` or `debian-src:6.12`"
            .to_owned(),
    };
    KernelError::NotBuilt { spec: spec.short(), next }
}

/// Checks as much of a Subject as is possible without a build: the name of its kernel, and for a
/// source also the tools, the tree, the patches and, by Kconfig, the options.
///
/// # Errors
/// Those of [`obtain`] that a build would begin with.
pub fn check(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<(), KernelError> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false => Ok(()),
        true => {
            let cache = Cache::open(cache, talk.note)?;
            talk.unless_cancelled(source::check(&spec, subject, &cache, talk))
        }
    }
}
