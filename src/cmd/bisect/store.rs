//! The directory of a search: `bisection.json`, `bounds/` with the whole difference, and a run
//! directory for each place that was measured.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cmd::exit::UsageError;
use crate::disk::write_atomically;
use crate::model::{Bisection, Chain, FORMAT, metric};

pub struct Store {
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
    pub fn config(&self, place: usize) -> anyhow::Result<PathBuf> {
        // The plan has it, and is to be the same wherever ktax is started.
        let root = std::path::absolute(&self.root)?;
        Ok(root.join(format!("{place:05}.config")))
    }

    /// Keeps a configuration.
    pub fn write_config(&self, place: usize, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.config(place)?;
        write_atomically(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}; make room", path.display()))?;
        Ok(path)
    }

    /// Refuses a directory that has a search.
    pub fn check_free(&self) -> anyhow::Result<()> {
        match self.path().exists() {
            false => Ok(()),
            true => Err(UsageError::Text(format!(
                "{0} has a search; go on with `ktax bisect run {0}`, or give --out a new name",
                self.root.display()
            ))
            .into()),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.join("bisection.json")
    }

    pub fn write(&self, bisection: &Bisection) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(bisection)? + "\n";
        write_atomically(&self.path(), text.as_bytes())
            .with_context(|| format!("cannot write {}; make room", self.path().display()))
    }

    pub fn read(&self) -> anyhow::Result<Bisection> {
        let refuse = |reason: String| {
            let path = self.root.display();
            UsageError::Text(format!(
                "{path} holds no search: {reason}; begin one with `ktax bisect start`"
            ))
        };
        let text = std::fs::read_to_string(self.path()).map_err(|e| refuse(e.to_string()))?;
        let bisection: Bisection =
            serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
        let last = bisection.elements.len();
        // A commit's name goes into a line that is there to be copied.
        let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sound = bisection.format == FORMAT
            && last > 0
            && bisection.ends().is_some()
            && bisection.negligible >= 0.0
            && metric(&bisection.metric).is_some()
            && bisection.points.keys().all(|place| *place <= last)
            && (bisection.chain != Chain::Commits
                || bisection.elements.iter().all(|element| is_id(&element.name)));
        match is_sound {
            true => Ok(bisection),
            false => Err(refuse("it is of another version of ktax, or damaged".into()).into()),
        }
    }
}
