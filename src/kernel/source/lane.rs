//! Where kernels are built: a check-out and its object tree, kept so that the next build of a like
//! source does little: one for each version and target, whatever the sources. One build at a
//! time in each; the lock is held by make too, so that a build that outlives ktax is not joined by
//! another.

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

/// A place to build in, ours until it is dropped.
pub(super) struct Lane {
    root: PathBuf,
    _lock: File,
}

impl Lane {
    /// The lane of that name; waits for whoever builds there.
    pub fn take(builds: &Path, name: &str, talk: &Talk<'_>) -> Result<Lane, BuildError> {
        let root = builds.join("lanes").join(name);
        let failed = |action, error| BuildError::Cache { action, path: printable(&root), error };
        fs::create_dir_all(root.join("source")).map_err(|error| failed("make", error))?;
        fs::create_dir_all(root.join("objects")).map_err(|error| failed("make", error))?;
        let lock = File::create(root.join("lock")).map_err(|error| failed("lock", error))?;
        let is_ours = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if !is_ours() {
            (talk.note)("waiting for another build of this version");
            poll::until(talk, || Ok(is_ours().then_some(())))?;
        }
        fcntl_setfd(lock.as_fd(), FdFlags::empty())
            .map_err(|error| failed("lock", error.into()))?;
        // What is there already need not be written again.
        space::check(&root, root.join("index").exists())?;
        Ok(Lane { root, _lock: lock })
    }

    pub fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    pub fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Where it is kept of what the .config there was made.
    pub fn configured(&self) -> PathBuf {
        self.root.join("configured")
    }

    /// Makes the check-out hold this tree.
    pub fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<(), BuildError> {
        trees.check_out(tree, &self.source(), &self.root.join("index"))
    }
}
