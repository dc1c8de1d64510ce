//! The lanes, in which kernels are built: a check-out and its object tree for each kernel version
//! and target. ktax keeps them, so the next build of a similar source compiles little.
//!
//! Each lane has one build at a time. make holds the lock too: if ktax is killed and make goes on,
//! no other build begins there, and no cleaner removes the lane.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::trees::{Tree, Trees};
use super::{space, tools};
use crate::error::BuildError;
use crate::talk::{PAUSE, Talk};
use ktax_host::cache::{Holder, touch};
use ktax_host::disk::{Lock, lock_file};
use ktax_host::text::escape_path;

/// A locked lane. Dropping it unlocks the lane.
pub(super) struct Lane {
    root: PathBuf,
    _lock: Lock,
    ccache: Option<(PathBuf, Holder)>,
}

impl Lane {
    /// Locks the lane `name`, and waits while another build has it.
    pub(super) fn take(builds: &Path, name: &str, talk: &Talk<'_>) -> Result<Lane, BuildError> {
        let root = builds.join("lanes").join(name);
        let failed = |action, error| BuildError::Cache { action, path: escape_path(&root), error };
        let mut lock = loop {
            match lock(&root, talk) {
                // A cleaner has removed the lane meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                taken => break taken.map_err(|error| failed("lock", error))?,
            }
        }
        .ok_or(BuildError::Cancelled)?;
        lock.inherit().map_err(|error| failed("lock", error))?;
        for directory in ["source", "objects"] {
            fs::create_dir_all(root.join(directory)).map_err(|error| failed("create", error))?;
        }
        touch(&root);
        // A check-out that exists needs no space.
        space::check(&root, root.join("index").exists())?;
        let ccache = tools::has_ccache().then(|| builds.join("ccache"));
        let ccache =
            ccache.map(|path| Holder::of_directory(&path).map(|holder| (path, holder))).transpose();
        let ccache = ccache.map_err(|error| failed("lock", error))?;
        Ok(Lane { root, _lock: lock, ccache })
    }

    /// The directory of ccache, if it is installed.
    pub(super) fn ccache(&self) -> Option<PathBuf> {
        self.ccache.as_ref().map(|(path, _)| path.clone())
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

impl Drop for Lane {
    /// Its size is another one than when the build began.
    fn drop(&mut self) {
        touch(&self.root);
    }
}

/// The lock of a lane, which is made if it does not exist; `None` if the user has cancelled. An
/// error `NotFound` if the lane is removed meanwhile.
fn lock(root: &Path, talk: &Talk<'_>) -> io::Result<Option<Lock>> {
    fs::create_dir_all(root)?;
    let path = root.join("lock");
    match lock_file(&path).and_then(Lock::take) {
        Ok(lock) if lock.is_of(&path)? => Ok(Some(lock)),
        Ok(_) => Err(ErrorKind::NotFound.into()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            (talk.note)("waiting for another build of the same kernel version");
            Lock::wait_at(&path, PAUSE, talk.is_cancelled)
        }
        Err(error) => Err(error),
    }
}
