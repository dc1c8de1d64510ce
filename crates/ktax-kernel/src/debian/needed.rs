//! The modules that others depend on, as `modprobe` finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::deb::{BUILT_IN, LOADABLE};
use super::modules::{found, package_of};
use crate::error::KernelError;
use crate::limits::MODULE_MAX;
use crate::package::Package;
use crate::talk::Talk;
use ktax_host::disk::read_limited;
use ktax_model::Identity;

/// A module's file, not compressed, and what it depends on.
struct Loadable {
    content: Vec<u8>,
    depends: Vec<String>,
}

/// Modules that compute checksums and ciphers by instructions that many CPUs have. Each names these
/// CPUs as an alias (`cpu:type:x86,…`), for which udev loads it on a real machine.
pub const OF_CPU: [&str; 9] = [
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

/// The names and files of the modules of [`OF_CPU`] that the package has, then of these modules;
/// before each stand those that it depends on, as a kernel loads them. What is built in is left
/// out. An empty list without names, and for a kernel that did not come from a package: it needs
/// them built in.
///
/// # Errors
/// A [`KernelError`] if the package cannot be downloaded or does not contain one of the modules.
pub fn needed_modules(
    kernel: &Identity,
    names: &[&str],
    cache: &Path,
    talk: &Talk<'_>,
) -> Result<Vec<(String, Vec<u8>)>, KernelError> {
    let Some(package) = package_of(kernel).filter(|_| !names.is_empty()) else {
        return Ok(Vec::new());
    };
    let lists = found(kernel, &package, &[BUILT_IN, LOADABLE], cache, talk)?;
    let list = |path: Option<PathBuf>| {
        names_of(&path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default())
    };
    let [built_in, loadable_names] = [0, 1].map(|place| list(lists.get(place).cloned().flatten()));
    let of_cpu = OF_CPU.into_iter().filter(|name| loadable_names.contains(*name));
    let names: Vec<&str> = of_cpu.chain(names.iter().copied()).collect();
    let mut all: BTreeMap<String, Loadable> = BTreeMap::new();
    let mut left: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    loop {
        left.retain(|name| !built_in.contains(name) && !all.contains_key(name));
        if left.is_empty() {
            break;
        }
        let wanted: Vec<&str> = left.iter().map(String::as_str).collect();
        let paths = found(kernel, &package, &wanted, cache, talk)?;
        let mut next = BTreeSet::new();
        for (name, path) in wanted.iter().zip(paths) {
            let missing = || missing(&package, name);
            let bytes = read_limited(&path.ok_or_else(missing)?, MODULE_MAX).ok();
            let module = bytes.and_then(loadable).ok_or_else(missing)?;
            next.extend(module.depends.iter().cloned());
            all.insert((*name).to_owned(), module);
        }
        left = next;
    }
    let mut order = Vec::new();
    names.iter().for_each(|name| visit(name, &mut all, &mut order));
    Ok(order)
}

/// What a module depends on comes before it.
fn visit(name: &str, all: &mut BTreeMap<String, Loadable>, order: &mut Vec<(String, Vec<u8>)>) {
    let Some(module) = all.remove(name) else { return };
    module.depends.iter().for_each(|other| visit(other, all, order));
    order.push((name.to_owned(), module.content));
}

fn missing(package: &Package, name: &str) -> KernelError {
    KernelError::NoModule { package: package.clone(), module: name.to_owned() }
}

/// The names in a modules.builtin or a modules.order: `kernel/fs/ext4/ext4.ko`.
fn names_of(list: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.rsplit('/').next()?.strip_suffix(".ko")?.to_owned());
    list.lines().filter_map(name).collect()
}

fn loadable(bytes: Vec<u8>) -> Option<Loadable> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let content = match bytes.starts_with(XZ) {
        false => bytes,
        true => {
            let mut content = Vec::new();
            lzma_rs::xz_decompress(&mut Cursor::new(bytes), &mut content).ok()?;
            content
        }
    };
    let depends = depends(&content)?;
    Some(Loadable { content, depends })
}

/// The names behind `depends=` in a module's information, which are separated by commas.
fn depends(content: &[u8]) -> Option<Vec<String>> {
    const KEY: &[u8] = b"\0depends=";
    let at = content.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let end = content[at..].iter().position(|byte| *byte == 0)?;
    let names = std::str::from_utf8(&content[at..at + end]).ok()?;
    Some(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_depends_on_is_read_and_comes_before_it() {
        let module = |depends: &str| {
            let text = format!("ELF\0license=GPL\0depends={depends}\0name=x\0");
            loadable(text.into_bytes()).unwrap()
        };
        let mut all = BTreeMap::from([
            ("xfs".to_owned(), module("libcrc32c")),
            ("btrfs".to_owned(), module("raid6_pq,libcrc32c,built-in")),
            ("raid6_pq".to_owned(), module("")),
            ("libcrc32c".to_owned(), module("")),
        ]);
        let mut order = Vec::new();
        ["xfs", "btrfs"].iter().for_each(|name| visit(name, &mut all, &mut order));
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["libcrc32c", "xfs", "raid6_pq", "btrfs"]);
        assert!(names_of("kernel/fs/ext4/ext4.ko\nkernel/x.ko\n").contains("ext4"));
        assert!(loadable(b"no module".to_vec()).is_none());
        assert!(loadable(b"\xfd7zXZ\0damaged".to_vec()).is_none());
    }
}
