//! Gets loadable modules of a kernel from a package, with those that they depend on, and keeps them
//! beside its image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::apt::Apt;
use super::deb::{BUILT_IN, LOADABLE};
use crate::cache::{Cache, Kernel, MODULE_MAX};
use crate::spec::{KernelSpec, Package};
use crate::talk::Talk;
use ktax_host::disk::{is_sha256, read_limited, read_own, sha256};
use ktax_model::{Error, Identity, Result};

/// The longest index of modules, in bytes.
const INDEX_MAX: u64 = 64 << 10;

/// The SHA-256 of each module, by its name.
type Index = BTreeMap<String, String>;

/// The paths in the cache of the modules `names`, such as `kvm-amd`, in this order. An empty list
/// for a kernel that did not come from a package: it needs its drivers built in.
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

/// The package that a kernel came from; `None` if it came from elsewhere.
fn package_of(kernel: &Identity) -> Option<Package> {
    match kernel.source.parse::<KernelSpec>() {
        Ok(KernelSpec::Debian { package, version: Some(version) }) => {
            Package::new(&package, &version)
        }
        _ => None,
    }
}

/// The paths in the cache of these modules of a package, in this order; `None` where it has none.
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

fn cached_modules(cache: &Cache<'_>, entry: &Path, names: &[&str]) -> Option<Vec<PathBuf>> {
    let index = read_index(entry);
    let whole_path = |name: &&str| {
        let digest = index.get(*name)?;
        let path = entry.join(module_file_name(digest));
        cache.read_whole(&path, MODULE_MAX, digest).map(|_| path)
    };
    names.iter().map(whole_path).collect()
}

/// The index of a kernel's modules, empty if it is missing or damaged.
fn read_index(entry: &Path) -> Index {
    let bytes = read_own(&entry.join("modules.json"), INDEX_MAX).unwrap_or_default();
    let mut index: Index = serde_json::from_slice(&bytes).unwrap_or_default();
    // Digests become parts of paths, so drop those that are none.
    index.retain(|_, digest| is_sha256(digest));
    index
}

fn module_file_name(digest: &str) -> String {
    format!("module-{digest}")
}

/// A module's file, not compressed, and what it depends on.
struct LoadableModule {
    content: Vec<u8>,
    depends: Vec<String>,
}

/// Modules that compute checksums and ciphers by instructions that many CPUs have. Each names these
/// CPUs as an alias (`cpu:type:x86,…`), for which udev loads it on a real machine.
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

/// Names and files of the modules of [`CPU_MODULES`] that the package has, then of `names`, each
/// behind those that it depends on. Built-in modules are left out. Empty without `names`, and for a
/// kernel that did not come from a package: it needs them built in.
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
    let mut left: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    loop {
        left.retain(|name| !built_in.contains(name) && !modules.contains_key(name));
        if left.is_empty() {
            break;
        }
        let wanted: Vec<&str> = left.iter().map(String::as_str).collect();
        let paths = find_modules(kernel, &package, &wanted, cache, talk)?;
        let mut next = BTreeSet::new();
        for (name, path) in wanted.iter().zip(paths) {
            let missing = || no_module(&package, name);
            let bytes = read_limited(&path.ok_or_else(missing)?, MODULE_MAX).ok();
            let module = bytes.and_then(parse_module).ok_or_else(missing)?;
            next.extend(module.depends.iter().cloned());
            modules.insert((*name).to_owned(), module);
        }
        left = next;
    }
    let mut order = Vec::new();
    names.iter().for_each(|name| append_with_dependencies(name, &mut modules, &mut order));
    Ok(order)
}

/// Appends a module behind those that it depends on.
fn append_with_dependencies(
    name: &str,
    modules: &mut BTreeMap<String, LoadableModule>,
    order: &mut Vec<(String, Vec<u8>)>,
) {
    let Some(module) = modules.remove(name) else { return };
    module.depends.iter().for_each(|other| append_with_dependencies(other, modules, order));
    order.push((name.to_owned(), module.content));
}

fn no_module(package: &Package, module: &str) -> Error {
    Error::user(format!("{package} contains no module {module}.ko")).next(format!(
        "give a cloud kernel of Debian 12 such as `debian:cloud-amd64`, or the path of a kernel \
         with {module} built in"
    ))
}

/// The names in a modules.builtin or a modules.order: `kernel/fs/ext4/ext4.ko`.
fn module_names(list: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.rsplit('/').next()?.strip_suffix(".ko")?.to_owned());
    list.lines().filter_map(name).collect()
}

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
    let depends = dependencies(&content)?;
    Some(LoadableModule { content, depends })
}

/// The names behind `depends=` in a module's information, which are separated by commas.
fn dependencies(content: &[u8]) -> Option<Vec<String>> {
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
    fn what_a_module_depends_on_is_read_and_comes_before_it() {
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
