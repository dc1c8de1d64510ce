//! Gets the kernel of a Subject: reads, downloads or builds it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::cache::{Cache, IMAGE_MAX, Kernel};
use crate::debian::Apt;
use crate::spec::KernelSpec;
use crate::spec::Target;
use crate::talk::Talk;
use crate::{debian, image, source};
use ktax_host::disk::read_limited;
use ktax_host::text::escape_path;
use ktax_model::{Error, Result, Subject};

/// Gets the x86_64 kernel that a Subject names, and keeps it in `cache/kernels/`. ktax downloads a
/// package version only once, and builds the same source with the same options only once.
pub fn obtain(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<Kernel> {
    obtain_for(&Target::X86_64, subject, cache, talk)
}

/// Gets a kernel as [`obtain`] does, for a machine that may have another architecture.
pub fn obtain_for(
    target: &Target,
    subject: &Subject,
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Kernel> {
    talk.unless_cancelled(find_or_make(target, subject, cache, talk))
}

fn find_or_make(
    target: &Target,
    subject: &Subject,
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Kernel> {
    let spec: KernelSpec = subject.kernel.parse()?;
    if !spec.is_source() && subject.is_built_from_source() {
        return Err(not_built(&spec, cache, talk));
    }
    let cache = || Cache::open_for(target.arch, cache, talk.note);
    match &spec {
        KernelSpec::Debian { .. } if !target.is_packaged => {
            Err(image::not_for(&spec, "without the options that this host needs", target.arch))
        }
        KernelSpec::Debian { package, version } => {
            let cache = cache()?;
            let apt = Apt::for_images(&cache).with_talk(talk);
            debian::obtain(&apt, &cache, package, version.as_deref())
        }
        KernelSpec::File(path) => {
            let (image, source) = read_named_file(path)?;
            cache()?.put(&image, None, &source)
        }
        _ if target.is_foreign() && target.is_packaged => {
            let arch = target.arch.name();
            let problem = format!("{spec} is a source, and ktax builds no kernels for {arch}");
            Err(Error::user(problem).next(format!(
                "give a package such as `debian:cloud-{arch}`, or the path of an Image with KVM"
            )))
        }
        KernelSpec::Source(_) | KernelSpec::DebianSource(_) | KernelSpec::Revision(_) => {
            source::obtain(&spec, (target, subject), &cache()?, talk)
        }
    }
}

/// Checks the names in a Subject: its kernel, and the files of options and patches. Builds and
/// downloads nothing, so that nobody waits to hear of a mistyped name.
pub fn check_names(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<()> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false if subject.is_built_from_source() => Err(not_built(&spec, cache, talk)),
        false => Ok(()),
        true => source::check_files(subject),
    }
}

/// The error for options of a prebuilt kernel, with the source to give instead.
fn not_built(spec: &KernelSpec, cache: &Path, talk: &Talk<'_>) -> Error {
    let version = match spec {
        KernelSpec::Debian { package, version } => {
            Cache::open(cache, talk.note).ok().and_then(|cache| {
                debian::source_version(&Apt::local(&cache), package, version.as_deref())
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
    let problem = "--config, --patch, --start-config and --tree need a kernel that ktax builds";
    Error::user(format!("{} is a prebuilt kernel: {problem}", spec.short())).next(next)
}

/// Checks as much of a Subject as is possible without a build: the name of its kernel, and for a
/// source also the tools, the tree, the patches and, by Kconfig, the options.
pub fn check(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<()> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false => Ok(()),
        true => {
            let cache = Cache::open(cache, talk.note)?;
            talk.unless_cancelled(source::check(&spec, subject, &cache, talk))
        }
    }
}

/// The whole image, and its absolute path for the Identity.
fn read_named_file(given: &Path) -> Result<(Vec<u8>, String)> {
    let path = escape_path(given);
    let refused = |problem: &str, next| Err(Error::user(format!("{path} {problem}")).next(next));
    let unreadable = |error| {
        Error::user(format!("cannot read {path}: {error}"))
            .next("make it readable, or give the path of a readable copy")
    };
    let metadata = match fs::metadata(given) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let next = "give the path of a bzImage, or `debian:cloud-amd64`";
            return refused("does not exist", next);
        }
        found => found.map_err(unreadable)?,
    };
    if metadata.is_dir() {
        return refused("is a directory", "give the image in it, such as arch/x86/boot/bzImage");
    }
    // A pipe can be read only once, and a device may never end.
    if !metadata.is_file() {
        return refused("is not a regular file", "give the path of a bzImage");
    }
    let found = metadata.len();
    if found > IMAGE_MAX {
        let problem = format!("has {found} bytes, and ktax reads at most {IMAGE_MAX} bytes");
        return refused(
            &problem,
            "give the bzImage, or strip the vmlinux with `strip --strip-debug`",
        );
    }
    let absolute = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    let image = read_limited(given, IMAGE_MAX).map_err(unreadable)?;
    Ok((image, escape_path(&absolute)))
}

#[cfg(test)]
#[path = "obtain_tests.rs"]
mod tests;
