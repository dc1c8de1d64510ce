//! Names that a user gives to subjects: a small file each.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::files::{Store, TAGS, read, write};
use super::object::json_of;
use ktax_host::disk::is_sha256;

/// Longer names fit into no table.
pub const LONGEST: usize = 64;

/// What a tag stands for: a kernel's image with a boot line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tagged {
    /// SHA-256 of the Kernel's image.
    pub kernel_sha256: String,
    /// The boot line.
    pub boot_line: String,
}

impl Store {
    /// Gives a subject a name, which may have been another's.
    ///
    /// # Errors
    /// It is no name, or the store cannot be written.
    pub fn tag(&self, name: &str, subject: &Tagged) -> Result<(), StoreError> {
        write(&self.tag_path(name)?, &json_of(subject))
    }

    /// Takes a name away; whether there was one.
    ///
    /// # Errors
    /// It is no name, or the store cannot be written.
    pub fn untag(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.tag_path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("cannot remove", &path)(error)),
        }
    }

    /// All names, in their order, with what they stand for. What is no tag is passed over.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tags(&self) -> Result<Vec<(String, Tagged)>, StoreError> {
        let mut all = Vec::new();
        for path in self.files(TAGS)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !is_name(name) || path != self.root().join(TAGS).join(name) {
                continue;
            }
            let tagged = read(&path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let tagged = tagged.filter(|tagged: &Tagged| is_sha256(&tagged.kernel_sha256));
            all.extend(tagged.map(|tagged| (name.to_owned(), tagged)));
        }
        alphanumeric_sort::sort_slice_by_str_key(&mut all, |(name, _)| name.as_str());
        Ok(all)
    }

    fn tag_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        match is_name(name) {
            true => Ok(self.root().join(TAGS).join(name)),
            false => Err(StoreError::NoTag { name: name.to_owned() }),
        }
    }
}

/// Whether it can be a file's name, needs no quotes in a shell, and hides nothing.
fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    (1..=LONGEST).contains(&name.len())
        && name.bytes().all(is_usual)
        && name.as_bytes()[0].is_ascii_alphanumeric()
}
