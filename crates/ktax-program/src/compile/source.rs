//! The files of a directory of workloads.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::CompileError;
use ktax_host::disk::read_text;
use ktax_host::text::escape_path;

const MOST_FILES: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// What a directory has: each file's path below it, and its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadFiles {
    /// Workload files.
    pub toml: Vec<(PathBuf, String)>,
    /// C files and headers.
    pub c: Vec<(PathBuf, String)>,
}

/// Reads a directory and those in it, in the order of their names.
///
/// # Errors
///
/// A file cannot be read, or none is a workload file.
pub fn read(directory: &Path) -> Result<WorkloadFiles, CompileError> {
    let unreadable = |path: &Path| {
        let path = escape_path(path).to_string();
        move |reason: io::Error| CompileError::Unreadable { path, reason }
    };
    let (mut files, mut left) = (WorkloadFiles::default(), vec![directory.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).map_err(unreadable(&next))? {
            let path = entry.map_err(unreadable(&next))?.path();
            // A link may lead to where the search began.
            if fs::symlink_metadata(&path).map_err(unreadable(&path))?.is_dir() {
                left.push(path);
                continue;
            }
            let list = match path.extension().and_then(OsStr::to_str) {
                Some("toml") => &mut files.toml,
                Some("c" | "h") => &mut files.c,
                _ => continue,
            };
            let text = read_text(&path, MOST_BYTES).map_err(unreadable(&path))?;
            list.push((path.strip_prefix(directory).unwrap_or(&path).to_owned(), text));
        }
        if files.toml.len() + files.c.len() + left.len() > MOST_FILES {
            let path = escape_path(directory).to_string();
            return Err(CompileError::TooMany { path, most: MOST_FILES });
        }
    }
    files.toml.sort();
    files.c.sort();
    match files.toml.is_empty() {
        true => Err(CompileError::Nothing { path: escape_path(directory).to_string() }),
        false => Ok(files),
    }
}
