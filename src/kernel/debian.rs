//! A Kernel from a package of the distribution's archive: newest version, cache, download.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Kernel;
use super::cache::Cache;
use super::error::KernelError;
use super::index::{Record, source_of};
use super::version;

/// One version of one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// As in `linux-image-6.1.0-50-cloud-amd64`.
    pub name: String,
    /// As in `6.1.176-1`.
    pub version: String,
}

impl Package {
    /// Nothing if the name or the version breaks the rules of Debian Policy 5.6.
    pub(super) fn new(name: &str, version: &str) -> Option<Self> {
        (is_package_name(name) && is_version(version))
            .then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.version)
    }
}

/// Such a name is safe as an argument and as a part of a file name.
pub(super) fn is_package_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    (2..=120).contains(&name.len())
        && name.bytes().all(rest)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Such a version is safe as a part of an argument and of a file name.
pub(super) fn is_version(version: &str) -> bool {
    (1..=100).contains(&version.len())
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b".+-~:".contains(&b))
        && version.starts_with(|c: char| c.is_ascii_digit())
}

/// What the local package lists say of a package.
pub(super) struct Listed {
    pub package: Package,
    /// The kernel package that a meta-package depends on, and its version.
    pub leads_to: Option<(String, Option<String>)>,
}

/// What a package holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub image: Vec<u8>,
    pub config: Option<Vec<u8>>,
}

/// The distribution's archive: the one boundary to the outside, so that tests can fake it.
pub(super) trait Archive {
    /// Looks in the local lists, newest version unless one is given; no network.
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed, KernelError>;
    /// Downloads a package into `scratch` and takes the kernel out of it.
    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents, KernelError>;
}

/// Gets the kernel of the package `name`; the network is used only if the cache has not got it.
pub(super) fn obtain(
    archive: &dyn Archive,
    cache: &Cache<'_>,
    name: &str,
    version: Option<&str>,
) -> Result<Kernel, KernelError> {
    if let Some(asked) = version.and_then(|version| Package::new(name, version)) {
        if let Some(kernel) = cached(cache, &asked)? {
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
    if let Some(kernel) = cached(cache, &holder)? {
        remember(cache, asked, holder, &kernel)?;
        return Ok(kernel);
    }
    cache.note(&format!("fetching {holder} from the distribution's archive"));
    let scratch = cache.scratch()?;
    let contents = archive.fetch(&holder, scratch.path())?;
    if contents.config.is_none() {
        cache.note(&format!("{holder} holds no /boot/config-*: its config is not known"));
    }
    let kernel = cache.put(&contents.image, contents.config.as_deref(), &source_of(&holder))?;
    remember(cache, holder.clone(), holder.clone(), &kernel)?;
    remember(cache, asked, holder, &kernel)?;
    Ok(kernel)
}

/// Where a version of a meta-package led before, if it names the version that it leads to: then it
/// cannot lead anywhere else now, and apt need not be asked again.
fn known(cache: &Cache<'_>, first: &Listed) -> Option<Package> {
    let (_, version) = first.leads_to.as_ref()?;
    version.as_ref()?;
    cache.record(&first.package).map(|record| record.kernel)
}

/// From the package that was asked for to the one that holds the kernel.
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

fn cached(cache: &Cache<'_>, package: &Package) -> Result<Option<Kernel>, KernelError> {
    match cache.record(package) {
        Some(record) => cache.get(&record),
        None => Ok(None),
    }
}

/// The newest version in the cache, or `error` if there is none.
fn newest_cached(cache: &Cache<'_>, name: &str, error: KernelError) -> Result<Kernel, KernelError> {
    let mut records = cache.records(name);
    records.sort_by(|a, b| version::compare(&b.package.version, &a.package.version));
    for record in records {
        if let Some(kernel) = cache.get(&record)? {
            cache.note(&format!("{error}; using the newest in the cache, {}", record.kernel));
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
    cache.remember(&Record {
        package,
        kernel: holder,
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone(),
    })
}
