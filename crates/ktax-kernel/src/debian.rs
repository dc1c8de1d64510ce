//! Gets kernels from packages of the distribution, and their modules with the dependencies of
//! these. The cache has a record for each version of a package whose kernel it has, and keeps
//! modules next to the image of their kernel.

mod apt;
pub(super) mod deb;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Kernel, MODULE_MAX};
use crate::spec::{KernelSpec, Package, compare_versions};
use crate::talk::Talk;
use deb::{Archive, BUILT_IN, LOADABLE, Listed};
use ktax_host::disk::{is_sha256, read_limited, read_own, sha256};
use ktax_host::text::escape_path;
use ktax_model::{Error, ErrorKind, Identity, Result};

pub(super) use apt::Apt;

/// Gets the kernel of the package `name`. Uses the network only if the cache does not have the
/// kernel.
pub(crate) fn obtain(
    archive: &dyn Archive,
    cache: &Cache<'_>,
    name: &str,
    version: Option<&str>,
) -> Result<Kernel> {
    if let Some(named) = version.and_then(|version| Package::new(name, version)) {
        if let Some(kernel) = recorded_kernel(cache, &named)? {
            return Ok(kernel);
        }
    }
    let listed = match archive.look_up(name, version) {
        Err(error) if error.kind == ErrorKind::NoPackageList && version.is_none() => {
            return newest_cached(cache, name, error);
        }
        answer => answer?,
    };
    let named = listed.package.clone();
    let package = match recorded_dependency(cache, &listed) {
        Some(package) => package,
        None => follow_dependencies(archive, listed)?,
    };
    if let Some(kernel) = recorded_kernel(cache, &package)? {
        write_record(cache, named, package, &kernel)?;
        return Ok(kernel);
    }
    cache.note(&format!("downloading {package}"));
    let scratch = cache.scratch()?;
    let contents = archive.fetch(&package, scratch.path())?;
    if contents.config.is_none() {
        cache.note(&format!("{package} contains no /boot/config-*, so its config is not known"));
    }
    let kernel = cache.put(&contents.image, contents.config.as_deref(), &kernel_name(&package))?;
    write_record(cache, package.clone(), package.clone(), &kernel)?;
    write_record(cache, named, package, &kernel)?;
    Ok(kernel)
}

/// Returns the version of the source package of a kernel package: `6.1` for
/// `linux-image-6.1.0-56-amd64`. `None` if apt does not know the package.
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

/// Returns the first two numbers in the name of a kernel package.
fn release_in_name(name: &str) -> Option<String> {
    let mut numbers = name.strip_prefix("linux-image-")?.splitn(3, ['.', '-', '+']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
}

/// Returns the recorded kernel package of a meta-package; `None` without a record. A meta-package
/// that depends on an exact version always leads to the same package, so apt need not be asked
/// again.
fn recorded_dependency(cache: &Cache<'_>, meta: &Listed) -> Option<Package> {
    let (_, exact_version) = meta.leads_to.as_ref()?;
    exact_version.as_ref()?;
    find_record(cache, &meta.package).map(|record| record.kernel)
}

/// Follows the dependencies of a package to the package that contains the kernel.
fn follow_dependencies(archive: &dyn Archive, mut listed: Listed) -> Result<Package> {
    const MAX_STEPS: usize = 4;
    let named = listed.package.clone();
    for _ in 0..MAX_STEPS {
        match listed.leads_to {
            None => return Ok(listed.package),
            Some((name, version)) => listed = archive.look_up(&name, version.as_deref())?,
        }
    }
    Err(Error::user(format!("the dependencies of {named} lead to no kernel"))
        .next("give the package that contains it"))
}

/// Returns the kernel of the newest version in the cache; `error` if the cache has none.
fn newest_cached(cache: &Cache<'_>, name: &str, error: Error) -> Result<Kernel> {
    let mut records = all_records(cache, name);
    records.sort_by(|a, b| compare_versions(&b.package.version, &a.package.version));
    for record in records {
        if let Some(kernel) = record.kernel_in(cache)? {
            let package = &record.kernel;
            cache.note(&format!("{error}; ktax uses the newest one in the cache, {package}"));
            return Ok(kernel);
        }
    }
    Err(error)
}

/// Writes the record of a package that the user named, and of the package that contains its kernel.
fn write_record(
    cache: &Cache<'_>,
    named: Package,
    package: Package,
    kernel: &Kernel,
) -> Result<()> {
    let record = PackageRecord {
        package: named,
        kernel: package,
        image_sha256: kernel.identity.sha256.clone(),
        config_sha256: kernel.identity.config_sha256.clone(),
    };
    cache.write_json(&record_path(cache, &record.package), &record)
}

/// The directory of the records.
const RECORD_DIRECTORY: &str = "by-package";
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
    /// Returns whether both hashes are SHA-256 in hexadecimal: they become parts of paths.
    fn is_valid(&self) -> bool {
        is_sha256(&self.image_sha256) && self.config_sha256.as_deref().is_none_or(is_sha256)
    }

    /// Finds the recorded Kernel. `None` if a file is missing, or damaged, for which the user gets
    /// a note.
    fn kernel_in(&self, cache: &Cache<'_>) -> Result<Option<Kernel>> {
        let config = self.config_sha256.as_deref();
        cache.find(&self.image_sha256, config, &kernel_name(&self.kernel))
    }
}

/// Returns the name by which a user can ask for the kernel of this package.
fn kernel_name(package: &Package) -> String {
    format!("debian:{package}")
}

/// Finds the record of one version of a package. `None` if there is none, or if it is damaged, for
/// which the user gets a note.
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

/// Returns the Kernel of one version of a package; `None` if the cache does not have it intact.
fn recorded_kernel(cache: &Cache<'_>, package: &Package) -> Result<Option<Kernel>> {
    match find_record(cache, package) {
        Some(record) => record.kernel_in(cache),
        None => Ok(None),
    }
}

/// Returns the records of all versions of the package `name`, in any order.
fn all_records(cache: &Cache<'_>, name: &str) -> Vec<PackageRecord> {
    let Ok(entries) = fs::read_dir(cache.path(RECORD_DIRECTORY)) else { return Vec::new() };
    let record = |entry: fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let version = file.strip_prefix(name)?.strip_prefix('_')?.strip_suffix(".json")?;
        find_record(cache, &Package::new(name, version)?)
    };
    entries.filter_map(Result::ok).filter_map(record).collect()
}

/// Returns the path of the record of a package.
fn record_path(cache: &Cache<'_>, package: &Package) -> PathBuf {
    cache.path(RECORD_DIRECTORY).join(format!("{}_{}.json", package.name, package.version))
}

// Loadable modules.

/// The longest index of modules, in bytes.
const INDEX_MAX: u64 = 64 << 10;

/// The SHA-256 of each module, by the module's name.
type Index = BTreeMap<String, String>;

/// Gets the modules `names`, such as `kvm-amd`, and returns their paths in the cache in this order.
/// The list is empty for a kernel that is not from a package: such a kernel needs its drivers built
/// in.
pub fn modules(
    kernel: &Kernel,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<PathBuf>> {
    let Some(package) = package_of(&kernel.identity) else { return Ok(Vec::new()) };
    let found_path =
        |(name, path): (&&str, Option<PathBuf>)| path.ok_or_else(|| no_module(&package, name));
    let found = find_modules(&kernel.identity, &package, names, cache, talk)?;
    names.iter().zip(found).map(found_path).collect()
}

/// Returns the package that a kernel is from; `None` for other kernels.
fn package_of(kernel: &Identity) -> Option<Package> {
    match kernel.source.parse::<KernelSpec>() {
        Ok(KernelSpec::Debian { package, version: Some(version) }) => {
            Package::new(&package, &version)
        }
        _ => None,
    }
}

/// Gets modules of a package, and returns their paths in the cache in this order; `None` for a
/// module that the package does not have.
fn find_modules(
    kernel: &Identity,
    package: &Package,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<Option<PathBuf>>> {
    let cache = Cache::open_for(kernel.arch, cache, talk.note)?;
    let entry = cache.path(&kernel.sha256);
    if let Some(paths) = cached_modules(&cache, &entry, names) {
        return Ok(paths.into_iter().map(Some).collect());
    }
    cache.note(&format!("downloading the modules of {package}"));
    let scratch = cache.scratch()?;
    let mut index = read_index(&entry);
    let fetched = Apt::for_images(&cache).fetch_modules(package, names, scratch.path());
    for (name, content) in talk.unless_cancelled(fetched)? {
        let digest = sha256(&content);
        cache.write_unless_same(&entry.join(module_file_name(&digest)), &content)?;
        index.insert(name, digest);
    }
    cache.write_json(&entry.join("modules.json"), &index)?;
    let module_path =
        |name: &&str| index.get(*name).map(|digest| entry.join(module_file_name(digest)));
    Ok(names.iter().map(module_path).collect())
}

/// Returns the paths of modules; `None` if the cache does not have all of them intact.
fn cached_modules(cache: &Cache<'_>, entry: &Path, names: &[&str]) -> Option<Vec<PathBuf>> {
    let index = read_index(entry);
    let intact_path = |name: &&str| {
        let digest = index.get(*name)?;
        let path = entry.join(module_file_name(digest));
        cache.read_intact(&path, MODULE_MAX, digest).map(|_| path)
    };
    names.iter().map(intact_path).collect()
}

/// Reads the index of a kernel's modules; empty if the file is missing or damaged.
fn read_index(entry: &Path) -> Index {
    let bytes = read_own(&entry.join("modules.json"), INDEX_MAX).unwrap_or_default();
    let mut index: Index = serde_json::from_slice(&bytes).unwrap_or_default();
    // Digests become parts of paths, so drop all other texts.
    index.retain(|_, digest| is_sha256(digest));
    index
}

fn module_file_name(digest: &str) -> String {
    format!("module-{digest}")
}

/// A module that was unpacked.
struct LoadableModule {
    content: Vec<u8>,
    /// The names of the modules that it depends on.
    dependencies: Vec<String>,
}

/// Modules that compute checksums and ciphers with instructions of many CPUs. Each module has an
/// alias with the features of these CPUs (`cpu:type:x86,…`), by which udev loads the module on a
/// real machine.
pub const CPU_MODULES: [&str; 9] = [
    "crc32c-intel",
    "crc32-pclmul",
    "crct10dif-pclmul",
    "polyval-clmulni",
    "ghash-clmulni-intel",
    "aesni-intel",
    "sha1-ssse3",
    "sha256-ssse3",
    "sha512-ssse3",
];

/// Gets the modules of [`CPU_MODULES`] that the package has, and then the modules `names`, each
/// after its dependencies. Returns their names and contents, without modules that are built in. The
/// list is empty without `names`, and for a kernel that is not from a package: such a kernel needs
/// them built in.
pub fn needed_modules(
    kernel: &Identity,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let Some(package) = package_of(kernel).filter(|_| !names.is_empty()) else {
        return Ok(Vec::new());
    };
    let lists = find_modules(kernel, &package, &[BUILT_IN, LOADABLE], cache, talk)?;
    let list = |path: Option<PathBuf>| {
        module_names(&path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default())
    };
    let [built_in, loadable_names] = [0, 1].map(|index| list(lists.get(index).cloned().flatten()));
    let cpu_modules = CPU_MODULES.into_iter().filter(|name| loadable_names.contains(*name));
    let names: Vec<&str> = cpu_modules.chain(names.iter().copied()).collect();
    let mut modules: BTreeMap<String, LoadableModule> = BTreeMap::new();
    let mut missing_names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    loop {
        missing_names.retain(|name| !built_in.contains(name) && !modules.contains_key(name));
        if missing_names.is_empty() {
            break;
        }
        let wanted: Vec<&str> = missing_names.iter().map(String::as_str).collect();
        let paths = find_modules(kernel, &package, &wanted, cache, talk)?;
        let mut next = BTreeSet::new();
        for (name, path) in wanted.iter().zip(paths) {
            let missing = || no_module(&package, name);
            let bytes = read_limited(&path.ok_or_else(missing)?, MODULE_MAX).ok();
            let module = bytes.and_then(parse_module).ok_or_else(missing)?;
            next.extend(module.dependencies.iter().cloned());
            modules.insert((*name).to_owned(), module);
        }
        missing_names = next;
    }
    let mut order = Vec::new();
    names.iter().for_each(|name| append_with_dependencies(name, &mut modules, &mut order));
    Ok(order)
}

/// Appends the dependencies of a module that are still in `modules`, and then the module.
fn append_with_dependencies(
    name: &str,
    modules: &mut BTreeMap<String, LoadableModule>,
    order: &mut Vec<(String, Vec<u8>)>,
) {
    let Some(module) = modules.remove(name) else { return };
    module.dependencies.iter().for_each(|other| append_with_dependencies(other, modules, order));
    order.push((name.to_owned(), module.content));
}

fn no_module(package: &Package, module: &str) -> Error {
    Error::user(format!("{package} contains no module {module}.ko")).next(format!(
        "give a cloud kernel of Debian 12 such as `debian:cloud-amd64`, or the path of a kernel \
         with {module} built in"
    ))
}

/// Parses the names of modules in modules.builtin or modules.order, whose lines are paths such as
/// `kernel/fs/ext4/ext4.ko`.
fn module_names(list: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.rsplit('/').next()?.strip_suffix(".ko")?.to_owned());
    list.lines().filter_map(name).collect()
}

/// Unpacks a module and reads its dependencies; `None` if it is not a module.
fn parse_module(bytes: Vec<u8>) -> Option<LoadableModule> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let content = match bytes.starts_with(XZ) {
        false => bytes,
        true => {
            let mut content = Vec::new();
            lzma_rs::xz_decompress(&mut Cursor::new(bytes), &mut content).ok()?;
            content
        }
    };
    let dependencies = parse_dependencies(&content)?;
    Some(LoadableModule { content, dependencies })
}

/// Parses the field `depends=` in a module's information: names that are separated by commas.
fn parse_dependencies(content: &[u8]) -> Option<Vec<String>> {
    const KEY: &[u8] = b"\0depends=";
    let start = content.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let end = content[start..].iter().position(|byte| *byte == 0)?;
    let names = std::str::from_utf8(&content[start..start + end]).ok()?;
    Some(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dependencies_of_a_module_precede_it() {
        let module = |depends: &str| {
            let text = format!("ELF\0license=GPL\0depends={depends}\0name=x\0");
            parse_module(text.into_bytes()).unwrap()
        };
        let mut modules = BTreeMap::from([
            ("xfs".to_owned(), module("libcrc32c")),
            ("btrfs".to_owned(), module("raid6_pq,libcrc32c,built-in")),
            ("raid6_pq".to_owned(), module("")),
            ("libcrc32c".to_owned(), module("")),
        ]);
        let mut order = Vec::new();
        ["xfs", "btrfs"]
            .iter()
            .for_each(|name| append_with_dependencies(name, &mut modules, &mut order));
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["libcrc32c", "xfs", "raid6_pq", "btrfs"]);
        assert!(module_names("kernel/fs/ext4/ext4.ko\nkernel/x.ko\n").contains("ext4"));
        assert!(parse_module(b"no module".to_vec()).is_none());
        assert!(parse_module(b"\xfd7zXZ\0damaged".to_vec()).is_none());
    }
}
