//! Where kernels are built: a check-out and its object tree, kept so that the next build of a like
//! source does little: one for each version and target, whatever the sources. One build at a
//! time in each; the lock is held by make too, so that a build that outlives ktax is not joined by
//! another.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::{FdFlags, fcntl_setfd};

use super::error::BuildError;
use super::git::{Tree, Trees};
use super::make::LOOK;
use crate::kernel::Talk;
use crate::kernel::spec::printable;

/// What a check-out and a small object tree take.
const NEEDED_MIB: u64 = 3000;

/// What the next build there takes.
const AGAIN_MIB: u64 = 300;

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
            while !is_ours() {
                if (talk.is_cancelled)() {
                    return Err(BuildError::Stopped { why: "as asked for".into() });
                }
                std::thread::sleep(LOOK);
            }
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

    /// Where it is kept of what the .config there was made.
    pub fn configured(&self) -> PathBuf {
        self.root.join("configured")
    }

    /// Makes the check-out hold this tree.
    pub fn check_out(&self, trees: &Trees, tree: &Tree) -> Result<(), BuildError> {
        trees.check_out(tree, &self.source(), &self.root.join("index"))
    }

    fn check_space(&self) -> Result<(), BuildError> {
        // What is there already need not be written again.
        let needed_mib = if self.root.join("index").exists() { AGAIN_MIB } else { NEEDED_MIB };
        match free_mib(&self.root)? {
            free_mib if free_mib < needed_mib => {
                let path = printable(&self.root);
                Err(BuildError::DiskFull { free_mib, needed_mib, path })
            }
            _ => Ok(()),
        }
    }
}

fn free_mib(path: &Path) -> Result<u64, BuildError> {
    let space = statvfs(path).map_err(|error| BuildError::Cache {
        action: "look at",
        path: printable(path),
        error: error.into(),
    })?;
    Ok((space.f_bavail * space.f_frsize) >> 20)
}

/// What a build says that had no room.
pub(super) fn disk_full(path: &Path) -> BuildError {
    match free_mib(path) {
        Ok(free_mib) => {
            BuildError::DiskFull { free_mib, needed_mib: NEEDED_MIB, path: printable(path) }
        }
        Err(error) => error,
    }
}
