//! Where kernels are built: a check-out and its object tree, kept so that the next build of a like
//! source does little. One build at a time in each; the lock is held by make too, so that a build
//! that outlives ktax is not joined by another.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::{FdFlags, fcntl_setfd};
use sha2::{Digest, Sha256};

use super::error::BuildError;
use super::git::{Tree, Trees};
use crate::kernel::spec::printable;

/// What a check-out and a small object tree take.
const NEEDED_MIB: u64 = 3000;

/// A place to build in, ours until it is dropped.
pub(super) struct Lane {
    root: PathBuf,
    _lock: File,
}

impl Lane {
    /// The lane of sources that are called `label`; waits for whoever builds there.
    pub fn take(builds: &Path, label: &str, note: &dyn Fn(&str)) -> Result<Lane, BuildError> {
        let name = format!("{:x}", Sha256::digest(label));
        let root = builds.join("lanes").join(&name[..16]);
        let failed = |action, error| BuildError::Cache { action, path: printable(&root), error };
        fs::create_dir_all(root.join("source")).map_err(|error| failed("make", error))?;
        fs::create_dir_all(root.join("objects")).map_err(|error| failed("make", error))?;
        fs::write(root.join("label"), label).map_err(|error| failed("write in", error))?;
        let lock = File::create(root.join("lock")).map_err(|error| failed("lock", error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            note("waiting for another build of this source");
            let locked = flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from);
            locked.map_err(|error| failed("lock", error))?;
        }
        fcntl_setfd(lock.as_fd(), FdFlags::empty())
            .map_err(|error| failed("lock", error.into()))?;
        let lane = Lane { root, _lock: lock };
        lane.check_space()?;
        Ok(lane)
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

    /// Makes the check-out hold this tree.
    pub fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<(), BuildError> {
        trees.check_out(tree, &self.source(), &self.root.join("index"))
    }

    fn check_space(&self) -> Result<(), BuildError> {
        let failed = |error: rustix::io::Errno| BuildError::Cache {
            action: "look at",
            path: printable(&self.root),
            error: error.into(),
        };
        let space = statvfs(&self.root).map_err(failed)?;
        let free_mib = (space.f_bavail * space.f_frsize) >> 20;
        // What is there already need not be written again.
        let needed_mib = if self.root.join("index").exists() { 300 } else { NEEDED_MIB };
        if free_mib < needed_mib {
            let path = printable(&self.root);
            return Err(BuildError::DiskFull { free_mib, needed_mib, path });
        }
        Ok(())
    }
}
