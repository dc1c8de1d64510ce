//! Reads and writes kernels of the cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::TempDir;

use super::files::sweep;
use super::kernel::Kernel;
use crate::error::KernelError;
use crate::image;
use crate::limits::{CONFIG_MAX, IMAGE_MAX};
use ktax_host::cache::Holder;
use ktax_host::disk::{read_own, sha256, write_read_only};
use ktax_host::text::escape_path;
use ktax_model::{Arch, Identity};

/// The directory `CACHE/kernels`.
pub(crate) struct Cache<'a> {
    root: PathBuf,
    /// The architecture of the images.
    arch: Arch,
    note: &'a dyn Fn(&str),
}

impl<'a> Cache<'a> {
    /// Opens the cache for x86_64 images.
    pub(crate) fn open(cache: &Path, note: &'a dyn Fn(&str)) -> Result<Self, KernelError> {
        Self::of(Arch::X86_64, cache, note)
    }

    /// Opens the cache for images of one architecture, and makes it if it does not exist.
    pub(crate) fn of(
        arch: Arch,
        cache: &Path,
        note: &'a dyn Fn(&str),
    ) -> Result<Self, KernelError> {
        let root = std::path::absolute(cache.join("kernels"))
            .map_err(|error| KernelError::cache("find", cache, error))?;
        let tmp = root.join("tmp");
        fs::create_dir_all(&tmp).map_err(|error| KernelError::cache("create", &tmp, error))?;
        sweep(&tmp);
        Ok(Self { root, arch, note })
    }

    /// The architecture of the images.
    pub(crate) fn arch(&self) -> Arch {
        self.arch
    }

    /// Shows `text` to the user.
    pub(crate) fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// A new directory in the cache, removed when the value is dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir, KernelError> {
        let tmp = self.root.join("tmp");
        TempDir::new_in(&tmp).map_err(|error| KernelError::cache("write in", &tmp, error))
    }

    /// Stores an image and its config, unless the cache has both whole. `source` goes into the
    /// Identity, and names the image in the errors.
    pub(crate) fn put(
        &self,
        image: &[u8],
        config: Option<&[u8]>,
        source: &str,
    ) -> Result<Kernel, KernelError> {
        let kernel = self.kernel(image, config, source)?;
        // No cleaner removes it between one file and the next.
        let entry = self.root.join(&kernel.identity.sha256);
        let _holder = Holder::of_directory(&entry)
            .map_err(|error| KernelError::cache("create", &entry, error))?;
        self.write_unless_same(&kernel.image, image)?;
        if let (Some(path), Some(config)) = (&kernel.config, config) {
            self.write_unless_same(path, config)?;
        }
        // The origin of the same image with a config says more, so one without does not replace it.
        let origin = kernel.image.with_file_name("origin.json");
        if config.is_some() || !origin.exists() {
            self.write_json(&origin, &kernel.identity)?;
        }
        Ok(kernel)
    }

    /// The Kernel of these files. `None` if they are missing, or damaged, which ktax notes.
    pub(crate) fn find(
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

    /// The directory of the image with this SHA-256.
    pub(crate) fn entry(&self, sha256: &str) -> PathBuf {
        self.path(sha256)
    }

    /// The path of a file or directory in `CACHE/kernels`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The directory `CACHE/builds`.
    pub(crate) fn builds(&self) -> PathBuf {
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

    /// The content of a file. `None` if it cannot be read, or its SHA-256 is not `expected`.
    pub(crate) fn read_whole(&self, path: &Path, limit: u64, expected: &str) -> Option<Vec<u8>> {
        let bytes = read_own(path, limit).ok()?;
        if sha256(&bytes) == expected {
            return Some(bytes);
        }
        self.note(&format!("{} is damaged; ktax downloads or builds it again", escape_path(path)));
        None
    }

    /// Writes a file of the cache, unless it has this content already.
    pub(crate) fn write_unless_same(&self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        if read_own(path, IMAGE_MAX).is_ok_and(|found| found == bytes) {
            return Ok(());
        }
        self.write(path, bytes)
    }

    /// Writes a value as JSON to a file of the cache.
    pub(crate) fn write_json(
        &self,
        path: &Path,
        value: &impl Serialize,
    ) -> Result<(), KernelError> {
        let text = serde_json::to_vec_pretty(value).map_err(io::Error::from);
        let mut text = text.map_err(|error| KernelError::cache("write", path, error))?;
        text.push(b'\n');
        self.write_unless_same(path, &text)
    }

    /// Writes a read-only file. A reader sees all of it or none.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
        directory
            .and_then(|()| write_read_only(path, bytes, &self.root.join("tmp")))
            .map_err(|error| KernelError::cache("write", path, error))
    }
}

/// Several configs can lead to the same image, so the name has the config's hash.
fn config_name(sha256: &str) -> String {
    format!("config-{sha256}")
}
