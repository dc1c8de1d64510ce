//! The directory of a search: `bisection.json`, `bounds/` with the whole difference, and a run
//! directory for each place that was measured.

use std::path::{Path, PathBuf};

use super::error::BisectError;
use crate::disk::{read_own_text, write_atomically};
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::flow::file::RESULT_MAX;
use crate::flow::kept::BISECTION;
use crate::model::{Bisection, SavedResult, read_results};
use crate::report::{JSON, TextOptions, render};
use crate::text::escape;

pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    pub fn of(root: &Path) -> Store {
        Store { root: root.to_owned() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The run directory that compares base and change.
    pub fn bounds(&self) -> PathBuf {
        self.root.join("bounds")
    }

    /// The run directory of a place.
    pub fn place(&self, place: usize) -> PathBuf {
        self.root.join(format!("{place:05}"))
    }

    /// The configuration of a place; `base` is 0.
    pub fn config(&self, place: usize) -> Result<PathBuf, Error> {
        // The plan has it, and is to be the same wherever ktax is started.
        let root = std::path::absolute(&self.root)?;
        Ok(root.join(format!("{place:05}.config")))
    }

    /// Keeps a configuration.
    pub fn write_config(&self, place: usize, text: &str) -> Result<PathBuf, Error> {
        let path = self.config(place)?;
        write_atomically(&path, text.as_bytes())
            .context(format!("cannot write {}", path.display()), "free some disk space")?;
        Ok(path)
    }

    /// Refuses a directory that has a search.
    pub fn check_free(&self) -> Result<(), BisectError> {
        match self.has_search() {
            false => Ok(()),
            true => Err(BisectError::Begun { path: self.root.display().to_string() }),
        }
    }

    /// Whether a search began here.
    pub fn has_search(&self) -> bool {
        self.path().exists()
    }

    fn path(&self) -> PathBuf {
        self.root.join(BISECTION)
    }

    pub fn write(&self, bisection: &Bisection) -> Result<(), Error> {
        let text = render(bisection, JSON, TextOptions::default())?;
        write_atomically(&self.path(), text.as_bytes())
            .context(format!("cannot write {}", self.path().display()), "free some disk space")
    }

    pub fn read(&self) -> Result<Bisection, BisectError> {
        let refuse = |reason: String| {
            let path = self.root.display().to_string();
            BisectError::NotASearch { path, reason }
        };
        let text = read_own_text(&self.path(), RESULT_MAX).map_err(|e| refuse(e.to_string()))?;
        let saved = read_results(&text).map_err(|e| refuse(escape(&e.to_string())))?.pop();
        match saved.map(|saved| saved.result) {
            Some(SavedResult::Bisection(bisection)) => Ok(*bisection),
            _ => Err(refuse("its bisection.json is another result".into())),
        }
    }
}
