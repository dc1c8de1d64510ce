//! The lanes, in which kernels are built: a check-out and its object tree for each kernel version
//! and target. ktax keeps them, so the next build of a similar source compiles little.
//!
//! Each lane has one build at a time. make holds the lock too: if ktax is killed and make goes on,
//! no other build begins there.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::space;
use super::trees::{Tree, Trees};
use crate::disk::Lock;
use crate::kernel::error::BuildError;
use crate::kernel::talk::{PAUSE, Talk};
use crate::text::escape_path;

/// A locked lane. Dropping it unlocks the lane.
pub(super) struct Lane {
    root: PathBuf,
    _lock: Lock,
}

impl Lane {
    /// Locks the lane `name`, and waits while another build has it.
    pub(super) fn take(builds: &Path, name: &str, talk: &Talk<'_>) -> Result<Lane, BuildError> {
        let root = builds.join("lanes").join(name);
        let failed = |action, error| BuildError::Cache { action, path: escape_path(&root), error };
        fs::create_dir_all(root.join("source")).map_err(|error| failed("create", error))?;
        fs::create_dir_all(root.join("objects")).map_err(|error| failed("create", error))?;
        let file = || File::create(root.join("lock"));
        let mut lock = match file().and_then(Lock::take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                (talk.note)("waiting for another build of the same kernel version");
                let waited = file().and_then(|file| Lock::wait(file, PAUSE, talk.is_cancelled));
                waited.map_err(|error| failed("lock", error))?.ok_or(BuildError::Cancelled)?
            }
            taken => taken.map_err(|error| failed("lock", error))?,
        };
        lock.inherit().map_err(|error| failed("lock", error))?;
        // A check-out that exists needs no space.
        space::check(&root, root.join("index").exists())?;
        Ok(Lane { root, _lock: lock })
    }

    /// The directory of the check-out.
    pub(super) fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// The directory of the object files.
    pub(super) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// The output of the last make.
    pub(super) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The file with a hash of what the .config was made from.
    pub(super) fn configured(&self) -> PathBuf {
        self.root.join("configured")
    }

    /// Checks out a tree into the lane.
    pub(super) fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<(), BuildError> {
        trees.check_out(tree, &self.source(), &self.root.join("index"))
    }
}
