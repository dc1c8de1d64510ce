//! A kernel's modules as an archive, which the guest loads before its freeze.

use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::error::ProgramError;
use crate::disk::{sha256, write_atomically};

/// The archive of modules in the order in which they are loaded, each with its parameters, and its
/// SHA-256.
///
/// # Errors
///
/// The cache cannot be written.
pub fn pack_modules(
    modules: &[(String, Vec<u8>)],
    cache: &Path,
) -> Result<(String, PathBuf), ProgramError> {
    let mut bytes = Vec::new();
    let mut archive = Archive::new(&mut bytes);
    archive.directory("modules")?;
    for (number, (parameters, content)) in modules.iter().enumerate() {
        archive.text(&format!("modules/{number}"), 0o444, content)?;
        archive.text(&format!("modules/{number}.parameters"), 0o444, parameters.as_bytes())?;
    }
    archive.end()?;
    let sha256 = sha256(&bytes);
    let directory = cache.join("programs").join(&sha256);
    let path = directory.join("archive.cpio");
    if !path.exists() {
        std::fs::create_dir_all(&directory).map_err(ProgramError::Cache)?;
        write_atomically(&path, &bytes).map_err(ProgramError::Cache)?;
    }
    Ok((sha256, path))
}
