//! What ties results to the Plan that they belong to.

use std::path::Path;

use super::error::{Result, RunDirError};
use super::files::{read, write};
use ktax_host::disk::sha256;

/// The name of its file, which `sha256sum -c` reads.
const SEAL: &str = "plan.sha256";

/// The hash of `plan.json`, as `sha256sum` prints it.
#[derive(Debug)]
pub(super) struct Seal(String);

impl Seal {
    /// Of the text of a `plan.json`.
    pub fn of(plan: &[u8]) -> Seal {
        Seal(format!("{}  plan.json\n", sha256(plan)))
    }

    /// Refuses a directory whose results belong to another Plan. One without results has no seal,
    /// nor has one of an earlier ktax until something is added to it.
    pub fn check(&self, root: &Path) -> Result<()> {
        match read(&root.join(SEAL))? {
            Some(text) if text != self.0.as_bytes() => {
                Err(RunDirError::Edited { path: root.display().to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Seals a directory that has no seal yet.
    pub fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(SEAL);
        match read(&path)? {
            None => write(&path, self.0.as_bytes()),
            Some(_) => self.check(root),
        }
    }
}
