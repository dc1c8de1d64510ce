//! The kernel cache.
//!
//! ```text
//! CACHE/kernels/<sha256 of the image>/{image,config-<sha256>,module-<sha256>,origin.json}
//! CACHE/kernels/by-package/<name>_<version>.json
//! CACHE/kernels/tmp/            downloads, files that are being written, apt's index of its lists
//! CACHE/builds/                 files with which `source` builds similar kernels quickly
//! ```
//!
//! ktax writes each file in `tmp/`, syncs it and renames it, so a reader sees a complete file or
//! none. The directory of an image is named after its content, so two processes that write one at
//! the same time write the same bytes. ktax replaces a damaged file and does not remove it, because
//! another process may be reading it. [`ktax_host::cache`] removes whole kernels, if nobody uses
//! them. ktax hashes every image, config and module that it reads, and makes the Identity from the
//! bytes each time: it trusts no file of the cache.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use serde::Serialize;
use tempfile::TempDir;

use crate::cache_error;
use crate::image;
use ktax_host::cache::Holder;
use ktax_host::disk::{is_abandoned, read_own, sha256, write_read_only};
use ktax_host::text::escape_path;
use ktax_model::{Arch, Identity, ImageFormat, Result};

/// The largest image in bytes: a vmlinux with debug information fits.
pub(super) const IMAGE_MAX: u64 = 1 << 30;
/// The largest config in bytes.
pub(super) const CONFIG_MAX: u64 = 4 << 20;
/// The largest loadable module in bytes.
pub(super) const MODULE_MAX: u64 = 64 << 20;

/// An image with an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Format and hashes of the image, and where it came from.
    pub identity: Identity,
    /// The path of the image in the cache. The hash of its content is `identity.sha256`.
    pub image: PathBuf,
    /// The path of the config in the cache, if the source had one. The hash of its content is
    /// `identity.config_sha256`.
    pub config: Option<PathBuf>,
}

/// The longest `origin.json`, in bytes.
const ORIGIN_MAX: u64 = 64 << 10;

/// Returns the path of the image with this SHA-256. The cache may not have the image.
pub fn image_path(sha256: &str, cache: &Path) -> PathBuf {
    cache.join("kernels").join(sha256).join("image")
}

/// Returns the path of the image with this SHA-256; `None` if the cache does not have it, or has a
/// damaged file.
pub fn cached_image(sha256: &str, cache: &Path) -> Option<PathBuf> {
    let image = image_path(sha256, cache);
    is_intact(&image, sha256).then_some(image)
}

/// Returns the intact x86_64 bzImage that was added to the cache last. Downloads nothing.
pub fn newest_image(cache: &Path) -> Option<Kernel> {
    let entries = fs::read_dir(cache.join("kernels")).ok()?.flatten();
    let mut found: Vec<(SystemTime, Identity)> = entries
        .filter_map(|entry| {
            let origin = entry.path().join("origin.json");
            let added = fs::metadata(entry.path().join("image")).ok()?.modified().ok()?;
            let identity: Identity =
                serde_json::from_slice(&read_own(&origin, ORIGIN_MAX).ok()?).ok()?;
            let is_x86 = identity.arch == Arch::X86_64;
            let is_bootable = is_x86 && identity.format == ImageFormat::BzImage;
            let has_hash_as_name = entry.file_name() == identity.sha256.as_str();
            (is_bootable && has_hash_as_name).then_some((added, identity))
        })
        .collect();
    found.sort_by_key(|(added, _)| std::cmp::Reverse(*added));
    found.into_iter().find_map(|(_, identity)| {
        let image = cached_image(&identity.sha256, cache)?;
        Some(Kernel { identity, image, config: None })
    })
}

/// The directory `CACHE/kernels`.
pub(crate) struct Cache<'a> {
    root: PathBuf,
    /// The architecture of the images.
    pub(crate) arch: Arch,
    note: &'a dyn Fn(&str),
}

impl<'a> Cache<'a> {
    /// Opens the cache for x86_64 images.
    pub(crate) fn open(cache: &Path, note: &'a dyn Fn(&str)) -> Result<Self> {
        Self::open_for(Arch::X86_64, cache, note)
    }

    /// Opens the cache for images of one architecture, and makes it if it does not exist.
    pub(crate) fn open_for(arch: Arch, cache: &Path, note: &'a dyn Fn(&str)) -> Result<Self> {
        let root = std::path::absolute(cache.join("kernels"))
            .map_err(|error| cache_error("find", cache, error))?;
        let tmp = root.join("tmp");
        fs::create_dir_all(&tmp).map_err(|error| cache_error("create", &tmp, error))?;
        remove_abandoned(&tmp);
        Ok(Self { root, arch, note })
    }

    /// Prints a line for the user.
    pub(crate) fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// Creates a directory in the cache, which is removed when the value is dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir> {
        let tmp = self.root.join("tmp");
        TempDir::new_in(&tmp).map_err(|error| cache_error("write in", &tmp, error))
    }

    /// Writes an image and its config to the cache, unless the cache has both intact. `source` is
    /// the image's name in the Identity and in errors.
    pub(crate) fn put(&self, image: &[u8], config: Option<&[u8]>, source: &str) -> Result<Kernel> {
        let kernel = self.kernel(image, config, source)?;
        // Hold the entry, so that no cleaner removes it between the writes of its files.
        let entry = self.root.join(&kernel.identity.sha256);
        let _holder =
            Holder::hold_directory(&entry).map_err(|error| cache_error("create", &entry, error))?;
        self.write_unless_same(&kernel.image, image)?;
        if let (Some(path), Some(config)) = (&kernel.config, config) {
            self.write_unless_same(path, config)?;
        }
        // An origin with a config has more information, so one without does not replace it.
        let origin = kernel.image.with_file_name("origin.json");
        if config.is_some() || !origin.exists() {
            self.write_json(&origin, &kernel.identity)?;
        }
        Ok(kernel)
    }

    /// Finds the Kernel with these hashes. `None` if a file is missing, or damaged, for which the
    /// user gets a note.
    pub(crate) fn find(
        &self,
        image_sha256: &str,
        config_sha256: Option<&str>,
        source: &str,
    ) -> Result<Option<Kernel>> {
        let entry = self.root.join(image_sha256);
        let Some(image) = self.read_intact(&entry.join("image"), IMAGE_MAX, image_sha256) else {
            return Ok(None);
        };
        let config = match config_sha256 {
            None => None,
            Some(sha256) => {
                match self.read_intact(&entry.join(config_name(sha256)), CONFIG_MAX, sha256) {
                    None => return Ok(None),
                    some => some,
                }
            }
        };
        self.kernel(&image, config.as_deref(), source).map(Some)
    }

    /// Returns the path of a file or directory in `CACHE/kernels`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the path of `CACHE/builds`.
    pub(crate) fn builds(&self) -> PathBuf {
        self.root.with_file_name("builds")
    }

    /// Returns the Kernel of an image, with its paths in the cache.
    fn kernel(&self, image: &[u8], config: Option<&[u8]>, source: &str) -> Result<Kernel> {
        let facts = image::inspect(image, source, self.arch)?;
        let identity = Identity {
            source: source.to_owned(),
            sha256: sha256(image),
            release: facts.release,
            package_date: facts.package_date,
            build_id: facts.build_id,
            config_sha256: config.map(sha256),
            arch: self.arch,
            format: facts.format,
        };
        let entry = self.root.join(&identity.sha256);
        let config =
            identity.config_sha256.as_deref().map(|sha256| entry.join(config_name(sha256)));
        Ok(Kernel { identity, image: entry.join("image"), config })
    }

    /// Reads a file. `None` if the file cannot be read, or if its SHA-256 is not `expected`.
    pub(crate) fn read_intact(&self, path: &Path, limit: u64, expected: &str) -> Option<Vec<u8>> {
        let bytes = read_own(path, limit).ok()?;
        if sha256(&bytes) == expected {
            return Some(bytes);
        }
        self.note(&format!("{} is damaged; ktax downloads or builds it again", escape_path(path)));
        None
    }

    /// Writes a file of the cache, unless the file has this content already.
    pub(crate) fn write_unless_same(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if read_own(path, IMAGE_MAX).is_ok_and(|found| found == bytes) {
            return Ok(());
        }
        self.write(path, bytes)
    }

    /// Writes a value as JSON to a file of the cache.
    pub(crate) fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(value).map_err(io::Error::from);
        let mut text = text.map_err(|error| cache_error("write", path, error))?;
        text.push(b'\n');
        self.write_unless_same(path, &text)
    }

    /// Writes a read-only file. A reader sees the complete file or none.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
        directory
            .and_then(|()| write_read_only(path, bytes, &self.root.join("tmp")))
            .map_err(|error| cache_error("write", path, error))
    }
}

/// Returns the file name of a config. It has the config's hash, because several configs can lead to
/// the same image.
fn config_name(sha256: &str) -> String {
    format!("config-{sha256}")
}

/// Returns whether the file exists and its SHA-256 is `expected`.
fn is_intact(image: &Path, expected: &str) -> bool {
    read_own(image, IMAGE_MAX).is_ok_and(|bytes| sha256(bytes) == expected)
}

/// Removes files in `tmp` that a killed process left a day ago or earlier. Ignores errors: a file
/// that stays costs only disk space.
fn remove_abandoned(tmp: &Path) {
    let is_old = |entry: &fs::DirEntry| is_abandoned(&entry.path());
    for entry in fs::read_dir(tmp).into_iter().flatten().filter_map(Result::ok).filter(is_old) {
        let path = entry.path();
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_host::disk::sha256;

    fn put(cache: &Path, content: &[u8], arch: &str, age_s: u64) -> String {
        let sha256 = sha256(content);
        let dir = cache.join("kernels").join(&sha256);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("image"), content).unwrap();
        let image = fs::File::options().append(true).open(dir.join("image")).unwrap();
        image.set_modified(SystemTime::now() - std::time::Duration::from_secs(age_s)).unwrap();
        let origin = format!(
            r#"{{"source":"s","sha256":"{sha256}","release":"6.1","build_id":null,
            "config_sha256":null,"arch":"{arch}","format":"bzimage"}}"#
        );
        fs::write(dir.join("origin.json"), origin).unwrap();
        sha256
    }

    #[test]
    fn the_newest_intact_x86_image_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        assert_eq!(newest_image(cache), None);
        let oldest = put(cache, b"a", "x86_64", 300);
        let newer = put(cache, b"b", "x86_64", 200);
        put(cache, b"c", "powerpc", 100);
        assert_eq!(newest_image(cache).unwrap().identity.sha256, newer);
        fs::write(cache.join("kernels").join(&newer).join("image"), b"damaged").unwrap();
        let found = newest_image(cache).unwrap();
        assert_eq!((found.identity.sha256.as_str(), found.config), (oldest.as_str(), None));
        assert_eq!(fs::read(found.image).unwrap(), b"a");
    }
}
