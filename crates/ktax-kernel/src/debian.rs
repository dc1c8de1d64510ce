//! Downloads packages of the distribution: kernels, their modules, and kernel source. The cache has
//! a record for each version of each package that it knows.

mod apt;
pub(super) mod deb;
mod modules;

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Kernel};
use crate::spec::{Package, compare_versions};
use deb::{Archive, Listed};
use ktax_host::disk::{is_sha256, read_own};
use ktax_host::text::escape_path;
use ktax_model::{Error, ErrorKind, Result};

pub(super) use apt::Apt;
pub use modules::{CPU_MODULES, modules, needed_modules};

/// Gets the kernel of the package `name`. Uses the network only if the cache does not have it.
pub(crate) fn obtain(
    archive: &dyn Archive,
    cache: &Cache<'_>,
    name: &str,
    version: Option<&str>,
) -> Result<Kernel> {
    if let Some(asked) = version.and_then(|version| Package::new(name, version)) {
        if let Some(kernel) = recorded_kernel(cache, &asked)? {
            return Ok(kernel);
        }
    }
    let first = match archive.look_up(name, version) {
        Err(error) if error.kind == ErrorKind::NoPackageList && version.is_none() => {
            return newest_cached(cache, name, error);
        }
        answer => answer?,
    };
    let asked = first.package.clone();
    let holder = match known_holder(cache, &first) {
        Some(holder) => holder,
        None => resolve(archive, first)?,
    };
    if let Some(kernel) = recorded_kernel(cache, &holder)? {
        remember(cache, asked, holder, &kernel)?;
        return Ok(kernel);
    }
    cache.note(&format!("downloading {holder}"));
    let scratch = cache.scratch()?;
    let contents = archive.fetch(&holder, scratch.path())?;
    if contents.config.is_none() {
        cache.note(&format!("{holder} contains no /boot/config-*, so its config is not known"));
    }
    let kernel = cache.put(&contents.image, contents.config.as_deref(), &kernel_name(&holder))?;
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
    release_in_name(name).or_else(|| {
        let listed = archive.look_up(name, version).ok()?;
        let (kernel, _) = listed.leads_to?;
        release_in_name(&kernel)
    })
}

/// The first two numbers in the name of a kernel package.
fn release_in_name(name: &str) -> Option<String> {
    let mut numbers = name.strip_prefix("linux-image-")?.splitn(3, ['.', '-', '+']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
}

/// The package that a version of a meta-package led to before; `None` if it is not recorded. A
/// meta-package that names an exact version always leads to the same package, so apt need not be
/// asked again.
fn known_holder(cache: &Cache<'_>, first: &Listed) -> Option<Package> {
    let (_, version) = first.leads_to.as_ref()?;
    version.as_ref()?;
    find_record(cache, &first.package).map(|record| record.kernel)
}

/// Follows the dependencies from `first` to the package that contains the kernel.
fn resolve(archive: &dyn Archive, first: Listed) -> Result<Package> {
    const STEPS: usize = 4;
    let asked = first.package.clone();
    let mut listed = first;
    for _ in 0..STEPS {
        match listed.leads_to {
            None => return Ok(listed.package),
            Some((name, version)) => listed = archive.look_up(&name, version.as_deref())?,
        }
    }
    Err(Error::user(format!("the dependencies of {asked} lead to no kernel"))
        .next("give the package that contains it"))
}

/// The kernel of the newest version in the cache, or `error` if there is none.
fn newest_cached(cache: &Cache<'_>, name: &str, error: Error) -> Result<Kernel> {
    let mut records = all_records(cache, name);
    records.sort_by(|a, b| compare_versions(&b.package.version, &a.package.version));
    for record in records {
        if let Some(kernel) = record.kernel_in(cache)? {
            let used = &record.kernel;
            cache.note(&format!("{error}; ktax uses the newest one in the cache, {used}"));
            return Ok(kernel);
        }
    }
    Err(error)
}

fn remember(cache: &Cache<'_>, package: Package, holder: Package, kernel: &Kernel) -> Result<()> {
    let record = PackageRecord {
        package,
        kernel: holder,
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone(),
    };
    write_record(cache, &record)
}

const DIRECTORY: &str = "by-package";
/// The longest record, in bytes.
const RECORD_MAX: u64 = 64 << 10;

/// The record of one version of one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageRecord {
    /// The package that the user named, perhaps a meta-package.
    pub package: Package,
    /// The package that contains the kernel.
    pub kernel: Package,
    pub image_sha256: String,
    pub config_sha256: Option<String>,
}

impl PackageRecord {
    /// Whether both hashes are SHA-256 in hexadecimal: they become parts of paths.
    fn is_valid(&self) -> bool {
        is_sha256(&self.image_sha256) && self.config_sha256.as_deref().is_none_or(is_sha256)
    }

    /// The recorded Kernel. `None` if the files are missing, or damaged, which ktax notes.
    fn kernel_in(&self, cache: &Cache<'_>) -> Result<Option<Kernel>> {
        let config = self.config_sha256.as_deref();
        cache.find(&self.image_sha256, config, &kernel_name(&self.kernel))
    }
}

/// The name by which a user can ask for the kernel of this package again.
fn kernel_name(package: &Package) -> String {
    format!("debian:{package}")
}

/// The record of one version of a package. `None` if there is none, or it is damaged, which ktax
/// notes.
fn find_record(cache: &Cache<'_>, package: &Package) -> Option<PackageRecord> {
    let path = record_path(cache, package);
    let bytes = read_own(&path, RECORD_MAX).ok()?;
    match serde_json::from_slice::<PackageRecord>(&bytes) {
        Ok(record) if record.package == *package && record.is_valid() => Some(record),
        _ => {
            cache.note(&format!("{} is damaged; ktax writes it again", escape_path(&path)));
            None
        }
    }
}

/// The Kernel of one version of a package, if the cache has it whole.
fn recorded_kernel(cache: &Cache<'_>, package: &Package) -> Result<Option<Kernel>> {
    match find_record(cache, package) {
        Some(record) => record.kernel_in(cache),
        None => Ok(None),
    }
}

/// The records of all versions of the package `name`, in no order.
fn all_records(cache: &Cache<'_>, name: &str) -> Vec<PackageRecord> {
    let Ok(entries) = fs::read_dir(cache.path(DIRECTORY)) else { return Vec::new() };
    let version = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let version = file.strip_prefix(name)?.strip_prefix('_')?.strip_suffix(".json")?;
        find_record(cache, &Package::new(name, version)?)
    };
    entries.filter_map(Result::ok).filter_map(version).collect()
}

/// Writes a record, so that [`find_record`] finds it.
fn write_record(cache: &Cache<'_>, record: &PackageRecord) -> Result<()> {
    cache.write_json(&record_path(cache, &record.package), record)
}

fn record_path(cache: &Cache<'_>, package: &Package) -> PathBuf {
    cache.path(DIRECTORY).join(format!("{}_{}.json", package.name, package.version))
}
