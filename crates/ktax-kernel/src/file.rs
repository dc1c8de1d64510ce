//! Reads an image from a path that the user gave.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::error::KernelError;
use super::limits::IMAGE_MAX;
use ktax_host::disk::read_limited;
use ktax_host::text::escape_path;

/// The whole image, and its absolute path for the Identity.
pub(super) fn read(given: &Path) -> Result<(Vec<u8>, String), KernelError> {
    let path = escape_path(given);
    let metadata = match fs::metadata(given) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(KernelError::NotFound { path });
        }
        Err(error) => return Err(KernelError::Unreadable { path, error }),
    };
    if metadata.is_dir() {
        return Err(KernelError::Directory { path });
    }
    // A pipe can be read only once, and a device may never end.
    if !metadata.is_file() {
        return Err(KernelError::NotAFile { path });
    }
    if metadata.len() > IMAGE_MAX {
        let found = metadata.len();
        return Err(KernelError::TooLarge { path, found, limit: IMAGE_MAX });
    }
    let absolute = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    match read_limited(given, IMAGE_MAX) {
        Ok(image) => Ok((image, escape_path(&absolute))),
        Err(error) => Err(KernelError::Unreadable { path, error }),
    }
}
