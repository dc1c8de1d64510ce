//! Gets loadable modules of a kernel from a package, and keeps them beside its image.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::apt::Apt;
use crate::cache::{Cache, Kernel};
use crate::error::KernelError;
use crate::limits::MODULE_MAX;
use crate::package::Package;
use crate::spec::KernelSpec;
use crate::talk::Talk;
use ktax_host::disk::is_sha256;
use ktax_host::disk::{read_own, sha256};
use ktax_model::Identity;

/// The longest index of modules, in bytes.
const INDEX_MAX: u64 = 64 << 10;

/// The SHA-256 of each module, by its name.
type Index = BTreeMap<String, String>;

/// The paths in the cache of the modules `names`, such as `kvm-amd`, in this order. An empty list
/// for a kernel that did not come from a package: it needs its drivers built in.
///
/// # Errors
/// A [`KernelError`] if the package cannot be downloaded or does not contain one of the modules.
pub fn modules(
    kernel: &Kernel,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<PathBuf>, KernelError> {
    let Some(package) = package_of(&kernel.identity) else { return Ok(Vec::new()) };
    let one = |(name, path): (&&str, Option<PathBuf>)| {
        let module = (*name).to_owned();
        path.ok_or_else(|| KernelError::NoModule { package: package.clone(), module })
    };
    let found = found(&kernel.identity, &package, names, cache, talk)?;
    names.iter().zip(found).map(one).collect()
}

/// The package that a kernel came from.
pub(super) fn package_of(kernel: &Identity) -> Option<Package> {
    match kernel.source.parse::<KernelSpec>() {
        Ok(KernelSpec::Debian { package, version: Some(version) }) => {
            Package::new(&package, &version)
        }
        _ => None,
    }
}

/// The paths in the cache of these modules of a package, in this order; `None` where it has none.
pub(super) fn found(
    kernel: &Identity,
    package: &Package,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<Option<PathBuf>>, KernelError> {
    let cache = Cache::of(kernel.arch, cache, talk.note)?;
    let entry = cache.entry(&kernel.sha256);
    if let Some(paths) = cached(&cache, &entry, names) {
        return Ok(paths.into_iter().map(Some).collect());
    }
    cache.note(&format!("downloading the modules of {package}"));
    let scratch = cache.scratch()?;
    let mut index = read_index(&entry);
    let fetched = Apt::for_images(&cache).fetch_modules(package, names, scratch.path());
    for (name, content) in talk.unless_cancelled(fetched)? {
        let digest = sha256(&content);
        cache.write_unless_same(&entry.join(file_name(&digest)), &content)?;
        index.insert(name, digest);
    }
    cache.write_json(&entry.join("modules.json"), &index)?;
    let one = |name: &&str| index.get(*name).map(|digest| entry.join(file_name(digest)));
    Ok(names.iter().map(one).collect())
}

fn cached(cache: &Cache<'_>, entry: &Path, names: &[&str]) -> Option<Vec<PathBuf>> {
    let index = read_index(entry);
    let one = |name: &&str| {
        let digest = index.get(*name)?;
        let path = entry.join(file_name(digest));
        cache.read_whole(&path, MODULE_MAX, digest).map(|_| path)
    };
    names.iter().map(one).collect()
}

/// The index of a kernel's modules, empty if it is missing or damaged.
fn read_index(entry: &Path) -> Index {
    let bytes = read_own(&entry.join("modules.json"), INDEX_MAX).unwrap_or_default();
    let mut index: Index = serde_json::from_slice(&bytes).unwrap_or_default();
    // A digest becomes a part of a path.
    index.retain(|_, digest| is_sha256(digest));
    index
}

fn file_name(digest: &str) -> String {
    format!("module-{digest}")
}
