//! Gets the kernel of a Subject: reads its file, downloads its package, or builds it.

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

/// Gets the x86_64 kernel that a Subject names, and keeps the kernel in `cache/kernels/`. Downloads
/// a version of a package only once, and builds a source with the same options only once.
pub fn obtain(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<Kernel> {
    obtain_for(&Target::X86_64, subject, cache, talk)
}

/// Gets a kernel as [`obtain`] does, for any target.
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
/// downloads nothing, so that an error of a mistyped name comes at once.
pub fn check_names(subject: &Subject, cache: &Path, talk: &Talk<'_>) -> Result<()> {
    let spec: KernelSpec = subject.kernel.parse()?;
    match spec.is_source() {
        false if subject.is_built_from_source() => Err(not_built(&spec, cache, talk)),
        false => Ok(()),
        true => source::check_files(subject),
    }
}

/// Returns the error for options of a prebuilt kernel, with the source to give instead.
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

/// Checks a Subject without building it: the name of its kernel, and for a source also the tools,
/// the tree, the patches, and with Kconfig the options.
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

/// Reads an image. Returns its content, and its absolute path for the Identity.
fn read_named_file(named: &Path) -> Result<(Vec<u8>, String)> {
    let path = escape_path(named);
    let refused = |problem: &str, next| Err(Error::user(format!("{path} {problem}")).next(next));
    let unreadable = |error| {
        Error::user(format!("cannot read {path}: {error}"))
            .next("make it readable, or give the path of a readable copy")
    };
    let metadata = match fs::metadata(named) {
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
    let absolute = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
    let image = read_limited(named, IMAGE_MAX).map_err(unreadable)?;
    Ok((image, escape_path(&absolute)))
}

#[cfg(test)]
#[path = "obtain_tests.rs"]
mod tests;
