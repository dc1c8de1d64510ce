//! The kernel cache: images by their SHA-256, and an index of them by package.
//!
//! ```text
//! CACHE/kernels/<sha256 of the image>/{image,config,origin.json}
//! CACHE/kernels/by-package/<name>_<version>.json
//! CACHE/kernels/tmp/            downloads, files being written, apt's index of its lists
//! ```
//!
//! Each file is written to `tmp/`, synced and renamed into place, so a reader sees all of it or
//! none. An image's name is its content, so two processes that write one at the same time write
//! the same bytes; a damaged file is replaced, never removed from under a reader. Every read is
//! re-hashed, and the Identity is made from the bytes each time: no file here is trusted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempDir;

use super::files::{read_limited, sha256, sweep};
use super::kernel::Kernel;
use crate::kernel::error::KernelError;
use crate::kernel::image;
use crate::kernel::limits::{CONFIG_MAX, IMAGE_MAX};
use crate::kernel::text::printable;
use crate::model::{Arch, Identity};

/// The directory `CACHE/kernels`.
pub(crate) struct Cache<'a> {
    root: PathBuf,
    /// What the images are for.
    arch: Arch,
    note: &'a dyn Fn(&str),
}

impl<'a> Cache<'a> {
    /// The cache, for images of x86_64.
    pub fn open(cache: &Path, note: &'a dyn Fn(&str)) -> Result<Self, KernelError> {
        Self::of(Arch::X86_64, cache, note)
    }

    /// The cache, for images of one architecture.
    pub fn of(arch: Arch, cache: &Path, note: &'a dyn Fn(&str)) -> Result<Self, KernelError> {
        let root = std::path::absolute(cache.join("kernels"))
            .map_err(|error| failed("find", cache, error))?;
        let tmp = root.join("tmp");
        fs::create_dir_all(&tmp).map_err(|error| failed("make", &tmp, error))?;
        sweep(&tmp);
        Ok(Self { root, arch, note })
    }

    /// Says `text` to the user.
    pub fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// A directory of our own on the cache's filesystem, removed with the value.
    pub fn scratch(&self) -> Result<TempDir, KernelError> {
        let tmp = self.root.join("tmp");
        TempDir::new_in(&tmp).map_err(|error| failed("write in", &tmp, error))
    }

    /// Stores an image and its config, unless they are there and whole. `source` is for the
    /// Identity, and stands for the image in the errors.
    pub fn put(
        &self,
        image: &[u8],
        config: Option<&[u8]>,
        source: &str,
    ) -> Result<Kernel, KernelError> {
        let kernel = self.kernel(image, config, source)?;
        self.write_unless_same(&kernel.image, image)?;
        if let (Some(path), Some(config)) = (&kernel.config, config) {
            self.write_unless_same(path, config)?;
        }
        // A file knows less of the same image than a package, which has a config: it says nothing.
        let origin = kernel.image.with_file_name("origin.json");
        if config.is_some() || !origin.exists() {
            self.write_json(&origin, &kernel.identity)?;
        }
        Ok(kernel)
    }

    /// The Kernel of these files, or nothing (and a note) if they are gone or damaged.
    pub fn find(
        &self,
        image_sha256: &str,
        config_sha256: Option<&str>,
        source: &str,
    ) -> Result<Option<Kernel>, KernelError> {
        let entry = self.root.join(image_sha256);
        let Some(image) = self.read_whole(&entry.join("image"), IMAGE_MAX, image_sha256) else {
            return Ok(None);
        };
        let config = match config_sha256 {
            None => None,
            Some(sha256) => {
                match self.read_whole(&entry.join(config_name(sha256)), CONFIG_MAX, sha256) {
                    None => return Ok(None),
                    some => some,
                }
            }
        };
        self.kernel(&image, config.as_deref(), source).map(Some)
    }

    /// Where the files of the image of that SHA-256 are.
    pub fn entry(&self, sha256: &str) -> PathBuf {
        self.path(sha256)
    }

    /// Where a file of the cache is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where what is built is kept.
    pub fn builds(&self) -> PathBuf {
        self.root.with_file_name("builds")
    }

    fn kernel(
        &self,
        image: &[u8],
        config: Option<&[u8]>,
        source: &str,
    ) -> Result<Kernel, KernelError> {
        let facts = image::inspect(image, source, self.arch)?;
        let identity = Identity {
            source: source.to_owned(),
            sha256: sha256(image),
            release: facts.release,
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

    /// Reads a file whose SHA-256 must be `expected`.
    pub fn read_whole(&self, path: &Path, limit: u64, expected: &str) -> Option<Vec<u8>> {
        let bytes = read_limited(path, limit).ok()?;
        if sha256(&bytes) == expected {
            return Some(bytes);
        }
        self.note(&format!("{} is damaged: ktax gets it again", printable(path)));
        None
    }

    /// Writes a file of the cache, unless it is there.
    pub fn write_unless_same(&self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        if read_limited(path, IMAGE_MAX).is_ok_and(|found| found == bytes) {
            return Ok(());
        }
        self.write(path, bytes)
    }

    /// Writes a file of the cache.
    pub fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), KernelError> {
        let text = serde_json::to_vec_pretty(value).map_err(io::Error::from);
        let mut text = text.map_err(|error| failed("write", path, error))?;
        text.push(b'\n');
        self.write_unless_same(path, &text)
    }

    /// Writes a file so that it is there whole or not at all, and read-only.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = tempfile::NamedTempFile::new_in(self.root.join("tmp"))?;
            file.write_all(bytes)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o444))?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        };
        write().map_err(|error| failed("write", path, error))
    }
}

/// Several configurations can make the same image.
fn config_name(sha256: &str) -> String {
    format!("config-{sha256}")
}

fn failed(action: &'static str, path: &Path, error: io::Error) -> KernelError {
    KernelError::Cache { action, path: printable(path), error }
}
