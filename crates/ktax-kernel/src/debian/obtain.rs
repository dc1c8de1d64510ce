//! Gets the kernel of a package: finds its version, looks in the cache, downloads it.

use super::archive::{Archive, Listed};
use super::index::{self, Record, source_of};
use super::version;
use crate::cache::{Cache, Kernel};
use crate::error::KernelError;
use crate::package::Package;

/// Gets the kernel of the package `name`. Uses the network only if the cache does not have it.
pub(crate) fn obtain(
    archive: &dyn Archive,
    cache: &Cache<'_>,
    name: &str,
    version: Option<&str>,
) -> Result<Kernel, KernelError> {
    if let Some(asked) = version.and_then(|version| Package::new(name, version)) {
        if let Some(kernel) = index::kernel(cache, &asked)? {
            return Ok(kernel);
        }
    }
    let first = match archive.look_up(name, version) {
        Err(error) if error.is_silence() && version.is_none() => {
            return newest_cached(cache, name, error);
        }
        answer => answer?,
    };
    let asked = first.package.clone();
    let holder = match known(cache, &first) {
        Some(holder) => holder,
        None => resolve(archive, first)?,
    };
    if let Some(kernel) = index::kernel(cache, &holder)? {
        remember(cache, asked, holder, &kernel)?;
        return Ok(kernel);
    }
    cache.note(&format!("downloading {holder}"));
    let scratch = cache.scratch()?;
    let contents = archive.fetch(&holder, scratch.path())?;
    if contents.config.is_none() {
        cache.note(&format!("{holder} contains no /boot/config-*, so its config is not known"));
    }
    let kernel = cache.put(&contents.image, contents.config.as_deref(), &source_of(&holder))?;
    remember(cache, holder.clone(), holder.clone(), &kernel)?;
    remember(cache, asked, holder, &kernel)?;
    Ok(kernel)
}

/// The version of the source package of a kernel package: `6.1` of `linux-image-6.1.0-56-amd64`.
/// `None` if apt does not know the package.
pub(crate) fn source_version(
    archive: &dyn Archive,
    name: &str,
    version: Option<&str>,
) -> Option<String> {
    release(name).or_else(|| {
        let listed = archive.look_up(name, version).ok()?;
        let (kernel, _) = listed.leads_to?;
        release(&kernel)
    })
}

/// The first two numbers in the name of a kernel package.
fn release(name: &str) -> Option<String> {
    let mut numbers = name.strip_prefix("linux-image-")?.splitn(3, ['.', '-', '+']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
}

/// The package that a version of a meta-package led to before. A meta-package that names an exact
/// version always leads to the same package, so apt need not be asked again.
fn known(cache: &Cache<'_>, first: &Listed) -> Option<Package> {
    let (_, version) = first.leads_to.as_ref()?;
    version.as_ref()?;
    index::find(cache, &first.package).map(|record| record.kernel)
}

/// Follows the dependencies from `first` to the package that contains the kernel.
fn resolve(archive: &dyn Archive, first: Listed) -> Result<Package, KernelError> {
    const STEPS: usize = 4;
    let asked = first.package.clone();
    let mut listed = first;
    for _ in 0..STEPS {
        match listed.leads_to {
            None => return Ok(listed.package),
            Some((name, version)) => listed = archive.look_up(&name, version.as_deref())?,
        }
    }
    Err(KernelError::TooManySteps { package: asked })
}

/// The kernel of the newest version in the cache, or `error` if there is none.
fn newest_cached(cache: &Cache<'_>, name: &str, error: KernelError) -> Result<Kernel, KernelError> {
    let mut records = index::all(cache, name);
    records.sort_by(|a, b| version::compare(&b.package.version, &a.package.version));
    for record in records {
        if let Some(kernel) = record.kernel_in(cache)? {
            let used = &record.kernel;
            cache.note(&format!("{error}; ktax uses the newest one in the cache, {used}"));
            return Ok(kernel);
        }
    }
    Err(error)
}

fn remember(
    cache: &Cache<'_>,
    package: Package,
    holder: Package,
    kernel: &Kernel,
) -> Result<(), KernelError> {
    let record = Record {
        package,
        kernel: holder,
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone(),
    };
    index::remember(cache, &record)
}
