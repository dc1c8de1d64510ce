//! What the store answers without a boot: log, show, diff, tag, history, site.

mod diff;
pub mod generated;
mod history;
mod hostile;
mod index;
mod mounts;
mod names;
mod prune;
mod site;

use std::path::Path;
use std::process::Command;

use ktax::store::Store;

use tempfile::TempDir;

use crate::common::{Ran, ktax, run, scratch};

/// A store and a cache of its own.
struct Asked {
    dir: TempDir,
    store: Store,
}

impl Asked {
    fn new() -> Asked {
        let dir = scratch();
        let store = Store::new(dir.path().join("store"));
        Asked { dir, store }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `ktax` with these words, on this store.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = ktax();
        command.args(words).env("KTAX_STORE", self.store.root());
        command.env("KTAX_CACHE", self.path().join("cache"));
        command
    }

    /// What came of it.
    fn ktax(&self, words: &[&str]) -> Ran {
        run(&mut self.command(words))
    }

    /// What it prints, if it ends as it should.
    fn said(&self, words: &[&str]) -> String {
        let ran = self.ktax(words);
        assert!([0, 3].contains(&ran.status), "{words:?}: {}", ran.stderr);
        ran.stdout
    }

    /// Why it refuses.
    fn refused(&self, words: &[&str]) -> String {
        let ran = self.ktax(words);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{words:?}: {}", ran.stderr);
        ran.stderr
    }
}
