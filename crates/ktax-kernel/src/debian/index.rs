//! The cache's index of packages: one record for each version of each package.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Kernel};
use crate::error::KernelError;
use crate::package::Package;
use ktax_host::disk::is_sha256;
use ktax_host::disk::read_own;
use ktax_host::text::escape_path;

const DIRECTORY: &str = "by-package";
/// The longest record, in bytes.
const RECORD_MAX: u64 = 64 << 10;

/// The record of one version of one package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The package that the user named, perhaps a meta-package.
    pub package: Package,
    /// The package that contains the kernel.
    pub kernel: Package,
    pub image_sha256: String,
    pub config_sha256: Option<String>,
}

impl Record {
    /// Whether its hashes are hashes: they become parts of paths.
    fn is_valid(&self) -> bool {
        is_sha256(&self.image_sha256) && self.config_sha256.as_deref().is_none_or(is_sha256)
    }

    /// Its Kernel. `None` if the files are missing, or damaged, which ktax notes.
    pub(super) fn kernel_in(&self, cache: &Cache<'_>) -> Result<Option<Kernel>, KernelError> {
        let config = self.config_sha256.as_deref();
        cache.find(&self.image_sha256, config, &source_of(&self.kernel))
    }
}

/// The name by which a user can ask for the kernel of this package again.
pub(super) fn source_of(package: &Package) -> String {
    format!("debian:{package}")
}

/// The record of one version of a package. `None` if there is none, or it is damaged, which ktax
/// notes.
pub(super) fn find(cache: &Cache<'_>, package: &Package) -> Option<Record> {
    let path = path(cache, package);
    let bytes = read_own(&path, RECORD_MAX).ok()?;
    match serde_json::from_slice::<Record>(&bytes) {
        Ok(record) if record.package == *package && record.is_valid() => Some(record),
        _ => {
            cache.note(&format!("{} is damaged; ktax writes it again", escape_path(&path)));
            None
        }
    }
}

/// The Kernel of one version of a package, if the cache has it whole.
pub(super) fn kernel(cache: &Cache<'_>, package: &Package) -> Result<Option<Kernel>, KernelError> {
    match find(cache, package) {
        Some(record) => record.kernel_in(cache),
        None => Ok(None),
    }
}

/// The records of all versions of the package `name`, in no order.
pub(super) fn all(cache: &Cache<'_>, name: &str) -> Vec<Record> {
    let Ok(entries) = fs::read_dir(cache.path(DIRECTORY)) else { return Vec::new() };
    let version = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let version = file.strip_prefix(name)?.strip_prefix('_')?.strip_suffix(".json")?;
        find(cache, &Package::new(name, version)?)
    };
    entries.filter_map(Result::ok).filter_map(version).collect()
}

/// Writes a record, so that [`find`] finds it.
pub(super) fn remember(cache: &Cache<'_>, record: &Record) -> Result<(), KernelError> {
    cache.write_json(&path(cache, &record.package), record)
}

fn path(cache: &Cache<'_>, package: &Package) -> PathBuf {
    cache.path(DIRECTORY).join(format!("{}_{}.json", package.name, package.version))
}
