//! Reads files from the tar archive of a package. Entries are selected by their paths, which are
//! never used as paths on the disk. [`Archive`] is the distribution's archive, which tests replace
//! by a fake.

use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;

use tar::Entry;

use crate::cache::{CONFIG_MAX, MODULE_MAX};
use crate::spec::Package;
use crate::{cache_error, is_full};
use ktax_host::disk::read_up_to;
use ktax_host::text::escape;
use ktax_model::{Error, Result};

/// The largest image in a package, in bytes.
const VMLINUZ_MAX: u64 = 256 << 20;
/// The largest number of bytes that is read of a package. No kernel package is larger.
const TREE_MAX: u64 = 8 << 30;
/// File name of the list of built-in modules; also the name under which it is taken like a module.
pub(super) const BUILT_IN: &str = "modules.builtin";
/// File name of the list of loadable modules; also the name under which it is taken like a module.
pub(super) const LOADABLE: &str = "modules.order";
/// The largest number of kernels, and of configs, in a package.
const FILES_MAX: usize = 8;

/// Reads the kernel from the tar stream `tree` of `package`: `./boot/vmlinuz-X`, which is
/// `./boot/vmlinux-X` on some architectures, and `./boot/config-X`.
pub(super) fn take_kernel(tree: impl Read, package: &Package) -> Result<Contents> {
    let bad = |error: io::Error| bad_package(package, &error.to_string());
    let mut archive = tar::Archive::new(tree.take(TREE_MAX));
    let mut kernels = Vec::new();
    let mut configs = Vec::new();
    for entry in archive.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path_bytes().into_owned();
        let (files, release, limit) = match boot_file(&path) {
            Some(BootFile::Vmlinuz(release)) => (&mut kernels, release, VMLINUZ_MAX),
            Some(BootFile::Config(release)) => (&mut configs, release, CONFIG_MAX),
            None => continue,
        };
        if files.len() == FILES_MAX {
            return Err(bad(io::Error::other("too many files in /boot")));
        }
        files.push((release.to_owned(), read_entry(&mut entry, limit).map_err(bad)?));
    }
    only_kernel(kernels, configs, package)
}

/// Writes the file `./usr/src/linux-source-*.tar.xz` of `package` to `archive`.
pub(super) fn take_source(tree: impl Read, package: &Package, archive: &Path) -> Result<()> {
    let bad = |error: io::Error| bad_package(package, &error.to_string());
    let mut tar = tar::Archive::new(tree.take(TREE_MAX));
    for entry in tar.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let path = entry.path_bytes().into_owned();
        let path = path.strip_prefix(b"./").unwrap_or(&path);
        if path.starts_with(b"usr/src/linux-source-") && path.ends_with(b".tar.xz") {
            let written = File::create(archive)
                .and_then(|mut file| io::copy(&mut entry, &mut file).map(drop));
            return written.map_err(|error| match is_full(&error) {
                true => cache_error("write", archive, error),
                false => bad(error),
            });
        }
    }
    Err(bad(io::Error::other("it contains no /usr/src/linux-source-*.tar.xz")))
}

/// Returns the names and contents of the modules `names`, from any directory below
/// `./lib/modules/`.
pub(super) fn take_modules(
    tree: impl Read,
    package: &Package,
    names: &[&str],
) -> Result<Vec<(String, Vec<u8>)>> {
    let bad = |error: io::Error| bad_package(package, &error.to_string());
    let mut tar = tar::Archive::new(tree.take(TREE_MAX));
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in tar.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let path = entry.path_bytes().into_owned();
        let Some(name) = module_name(&path).filter(|name| names.contains(name)) else { continue };
        if entry.header().entry_type().is_file() && found.iter().all(|(other, _)| other != name) {
            found.push((name.to_owned(), read_entry(&mut entry, MODULE_MAX).map_err(bad)?));
        }
    }
    Ok(found)
}

/// Returns the name of the module at a path; `None` for other files. The module may be compressed,
/// because the kernel can unpack it.
fn module_name(path: &[u8]) -> Option<&str> {
    let path = std::str::from_utf8(path.strip_prefix(b"./").unwrap_or(path)).ok()?;
    let path = path.strip_prefix("usr/").unwrap_or(path);
    let (_, file) = path.strip_prefix("lib/modules/")?.rsplit_once('/')?;
    if let Some(list) = [BUILT_IN, LOADABLE].into_iter().find(|list| *list == file) {
        return Some(list);
    }
    [".ko", ".ko.xz", ".ko.zst"].iter().find_map(|end| file.strip_suffix(end))
}

type FilesByRelease = Vec<(Vec<u8>, Vec<u8>)>;

fn only_kernel(
    mut kernels: FilesByRelease,
    configs: FilesByRelease,
    package: &Package,
) -> Result<Contents> {
    let Some((release, image)) = kernels.pop() else {
        return Err(Error::user(format!("{package} contains no /boot/vmlinuz-*"))
            .next("give a package that contains a kernel, such as `debian:cloud-amd64`"));
    };
    if !kernels.is_empty() {
        let releases = kernels.iter().map(|(release, _)| release).chain([&release]);
        let names: Vec<_> = releases.map(|name| escape(&String::from_utf8_lossy(name))).collect();
        let problem = format!("{package} contains more than one kernel ({})", names.join(", "));
        return Err(
            Error::user(problem).next("unpack it with `dpkg-deb -x`, then give the path of one")
        );
    }
    let config = configs.into_iter().find(|(name, _)| *name == release).map(|(_, config)| config);
    Ok(Contents { image, config })
}

enum BootFile<'a> {
    Vmlinuz(&'a [u8]),
    Config(&'a [u8]),
}

/// Returns the kind of a file in /boot, with the release in its name; `None` for other files.
fn boot_file(path: &[u8]) -> Option<BootFile<'_>> {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let name = path.strip_prefix(b"boot/").filter(|name| !name.contains(&b'/'))?;
    let release_after = |kind: &[u8]| name.strip_prefix(kind).filter(|release| !release.is_empty());
    let kernel = release_after(b"vmlinuz-").or_else(|| release_after(b"vmlinux-"));
    kernel.map(BootFile::Vmlinuz).or_else(|| release_after(b"config-").map(BootFile::Config))
}

/// Reads the content of an entry. The error names the entry.
fn read_entry(entry: &mut Entry<'_, impl Read>, limit: u64) -> io::Result<Vec<u8>> {
    let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    read_up_to(entry, limit).map_err(|error| io::Error::other(format!("{path}: {error}")))
}

/// Entry of a package in the local package lists.
pub(crate) struct Listed {
    pub package: Package,
    /// For a meta-package, the kernel package that it depends on, and its version.
    pub leads_to: Option<(String, Option<String>)>,
}

/// The files of a kernel package that ktax keeps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub image: Vec<u8>,
    pub config: Option<Vec<u8>>,
}

/// The distribution's archive of packages.
pub(crate) trait Archive {
    /// Finds a package in the local lists, in this version or the newest. Uses no network.
    fn look_up(&self, name: &str, version: Option<&str>) -> Result<Listed>;
    /// Downloads a package into `scratch`, and returns the kernel in it.
    fn fetch(&self, package: &Package, scratch: &Path) -> Result<Contents>;
}

/// Returns the error for a downloaded package that cannot be used.
pub(super) fn bad_package(package: &Package, problem: &str) -> Error {
    Error::host(format!("cannot use the downloaded {package}: {}", escape(problem)))
        .next("run `sudo apt-get update`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn package() -> Package {
        Package::new("linux-image-x", "1-1").unwrap()
    }

    fn tree(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses the paths of an evil archive, so set the bytes.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(content.len() as u64);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn unpacked(files: &[(&str, &[u8])]) -> Result<Contents> {
        take_kernel(tree(files).as_slice(), &package())
    }

    #[test]
    fn a_full_disk_is_not_blamed_on_the_package() {
        let tree = tree(&[("./usr/src/linux-source-6.12.tar.xz", &[1; 9000])]);
        let error = take_source(tree.as_slice(), &package(), Path::new("/dev/full")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("/dev/full: No space left on device"), "{message}");
        assert!(message.contains("`ktax cache clean --all`"), "{message}");
    }

    #[test]
    fn the_kernel_comes_with_its_own_config() {
        let files: &[(&str, &[u8])] = &[
            ("./boot/System.map-6", b"map"),
            ("./boot/config-5", b"five"),
            ("./boot/vmlinuz-6", b"image"),
            ("./boot/config-6", b"six"),
            ("./usr/boot/vmlinuz-7", b"no"),
            ("./boot/sub/vmlinuz-8", b"no"),
            ("../boot/vmlinuz-9", b"no"),
        ];
        let contents = unpacked(files).unwrap();
        assert_eq!((contents.image, contents.config), (b"image".into(), Some(b"six".into())));
        assert_eq!(unpacked(&[("boot/vmlinuz-6", b"image")]).unwrap().config, None);
    }

    #[test]
    fn modules_are_found_by_name() {
        let files: &[(&str, &[u8])] = &[
            ("./lib/modules/6/kernel/arch/x86/kvm/kvm.ko", b"kvm"),
            ("./lib/modules/6/kernel/arch/x86/kvm/kvm-intel.ko", b"no"),
            ("./usr/lib/modules/6/kernel/virt/lib/irqbypass.ko.xz", b"irq"),
            ("./lib/modules/6/kernel/kvm.ko.old", b"no"),
            ("./boot/kvm.ko", b"no"),
        ];
        let found = take_modules(tree(files).as_slice(), &package(), &["irqbypass", "kvm"]);
        let expected = [("kvm".to_owned(), b"kvm".to_vec()), ("irqbypass".into(), b"irq".into())];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_package_must_have_one_kernel_and_few_files() {
        let none = unpacked(&[("./usr/x", b"")]).unwrap_err();
        assert!(none.to_string().contains("contains no /boot/vmlinuz-*"), "{none}");
        let two = unpacked(&[("./boot/vmlinuz-a\x1b", b"1"), ("./boot/vmlinuz-b", b"2")]);
        let two = two.unwrap_err().to_string();
        assert!(two.contains("(a\\u{1b}, b)"), "{two}");
        let many = [("./boot/config-a", b"1".as_slice()); FILES_MAX + 1];
        let many = unpacked(&many).unwrap_err();
        assert!(many.to_string().contains("too many files in /boot"), "{many}");
    }

    #[test]
    fn a_link_is_not_a_kernel() {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "boot/vmlinuz-6", "/etc/shadow").unwrap();
        let error = take_kernel(tar.into_inner().unwrap().as_slice(), &package()).unwrap_err();
        assert!(error.to_string().contains("contains no /boot/vmlinuz-*"), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let config = vec![b'#'; usize::try_from(CONFIG_MAX).unwrap() + 1];
        let error = unpacked(&[("./boot/config-6", &config)]).unwrap_err().to_string();
        assert!(error.contains("more than 4194304 bytes"), "{error}");
    }

    #[test]
    fn a_truncated_package_is_refused() {
        let archive = tree(&[("./boot/vmlinuz-6", &[1; 2000])]);
        let error = take_kernel(&archive[..1500], &package()).unwrap_err();
        assert!(error.to_string().starts_with("cannot use the downloaded "), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            start in 0usize..1024,
        ) {
            let _ = take_kernel(bytes.as_slice(), &package());
            let mut mutant = tree(&[("./boot/vmlinuz-6", b"image")]);
            let end = mutant.len().min(start + bytes.len());
            mutant[start..end].copy_from_slice(&bytes[..end - start]);
            let _ = take_kernel(mutant.as_slice(), &package());
        }
    }
}
