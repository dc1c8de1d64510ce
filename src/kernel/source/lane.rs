//! The lanes, in which kernels are built: a check-out and its object tree for each kernel version
//! and target. ktax keeps them, so the next build of a similar source compiles little.
//!
//! Each lane has one build at a time. make holds the lock too: if ktax is killed and make goes on,
//! no other build begins there.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use super::poll;
use super::space;
use super::trees::{Tree, Trees};
use crate::kernel::error::BuildError;
use crate::kernel::talk::Talk;
use crate::kernel::text::printable;

/// A locked lane. Dropping it unlocks the lane.
pub(super) struct Lane {
    root: PathBuf,
    _lock: File,
}

impl Lane {
    /// Locks the lane `name`, and waits while another build has it.
    pub(super) fn take(builds: &Path, name: &str, talk: &Talk<'_>) -> Result<Lane, BuildError> {
        let root = builds.join("lanes").join(name);
        let failed = |action, error| BuildError::Cache { action, path: printable(&root), error };
        fs::create_dir_all(root.join("source")).map_err(|error| failed("create", error))?;
        fs::create_dir_all(root.join("objects")).map_err(|error| failed("create", error))?;
        let lock = File::create(root.join("lock")).map_err(|error| failed("lock", error))?;
        let is_ours = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_ours() {
            (talk.note)("waiting for another build of the same kernel version");
            poll::until(talk, || Ok(is_ours().then_some(())))?;
        }
        fcntl_setfd(lock.as_fd(), FdFlags::empty())
            .map_err(|error| failed("lock", error.into()))?;
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
