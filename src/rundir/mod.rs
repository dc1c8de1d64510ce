//! The only reader and writer of a run directory; `docs/rundir.md` lists every file.
//!
//! Every file is written beside its place, synced and renamed, so that a file that is there is
//! whole.

mod check;
mod files;
pub mod profile;
mod timed;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use crate::disk::Lock;
use crate::model::{Boot, Comparison, FORMAT, Plan, Profile, Run, Step};

use files::{
    create, forget_comparison, lock, read_comparison, read_json, remove, tidy, to_json, write,
};

pub use files::check_free;
pub use timed::TimedDir;

/// Why a run directory cannot be used.
#[derive(Debug, Error)]
pub enum RunDirError {
    #[error(
        "{path} exists and is not empty; give --out a new name, or resume with `ktax run {path}`"
    )]
    Exists { path: String },
    #[error(
        "{path} is no run directory (it has no plan.json); make one with `ktax plan --out {path}`"
    )]
    NoPlan { path: String },
    #[error("cannot create {path}: {reason}; give --out another place")]
    Create { path: String, reason: io::Error },
    #[error("{path} is in use by another ktax; wait for it to end, or give --out a new name")]
    InUse { path: String },
    #[error("{path} is not of format {FORMAT}: {reason}; plan again with this version of ktax")]
    Format { path: String, reason: String },
    #[error("{operation} {path}: {reason}; check the permissions and the space left")]
    Io { operation: &'static str, path: String, reason: io::Error },
}

impl RunDirError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |reason| RunDirError::Io { operation, path, reason }
    }
}

type Result<T> = std::result::Result<T, RunDirError>;

/// A run directory with its Plan. [`RunDir::lock`] it before writing.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    plan: Plan,
}

impl RunDir {
    /// Makes a new run directory with nothing in it but the Plan.
    pub fn create(root: &Path, plan: Plan) -> Result<RunDir> {
        create(root, &to_json(&plan))?;
        Ok(RunDir { root: root.to_owned(), plan })
    }

    /// Opens an existing run directory, finished or not.
    pub fn open(root: &Path) -> Result<RunDir> {
        let plan = read_json(&root.join("plan.json"))?
            .ok_or_else(|| RunDirError::NoPlan { path: root.display().to_string() })?;
        check::check(&plan).map_err(|reason| RunDirError::Format {
            path: root.join("plan.json").display().to_string(),
            reason: reason.into(),
        })?;
        Ok(RunDir { root: root.to_owned(), plan })
    }

    /// Takes the right to write, or says that another process has it.
    pub fn lock(&self) -> Result<Lock> {
        let taken = lock(&self.root)?;
        tidy(&self.root)?;
        Ok(taken)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The directory of one Boot; it exists once [`RunDir::prepare`] has been called.
    pub fn boot_dir(&self, step: &Step) -> PathBuf {
        self.root.join("boots").join(step.name())
    }

    /// Makes the directories of one Boot, with nothing half-written in them.
    pub fn prepare(&self, step: &Step) -> Result<()> {
        for name in ["runs", "orders"] {
            let path = self.boot_dir(step).join(name);
            fs::create_dir_all(&path).map_err(RunDirError::io("cannot create", &path))?;
            tidy(&path)?;
        }
        tidy(&self.boot_dir(step))
    }

    /// Keeps the order that a Run was given, for the script in `argv`.
    pub fn write_order(&self, step: &Step, row: &str, order: &str) -> Result<()> {
        self.write_boot_file(step, &format!("orders/{row}"), order.as_bytes())
    }

    /// Writes one file of one Boot; `name` is ktax's own, never the guest's.
    pub fn write_boot_file(&self, step: &Step, name: &str, content: &[u8]) -> Result<()> {
        write(&self.boot_dir(step).join(name), content)
    }

    /// Records how a Boot went.
    pub fn write_boot(&self, step: &Step, boot: &Boot) -> Result<()> {
        self.write_boot_file(step, "boot.json", &to_json(boot))
    }

    /// How a Boot went; `None` if it was not made yet.
    pub fn boot(&self, step: &Step) -> Result<Option<Boot>> {
        read_json(&self.boot_dir(step).join("boot.json"))
    }

    /// Keeps what a guest printed that could not be read; `text` is escaped.
    pub fn write_wire(&self, step: &Step, row: &str, text: &str) -> Result<()> {
        self.write_boot_file(step, &format!("runs/{row}.wire.log"), text.as_bytes())
    }

    /// Removes what an earlier, failed try of a Run has left for people.
    pub fn forget_run(&self, step: &Step, row: &str) -> Result<()> {
        let runs = self.boot_dir(step).join("runs");
        remove(&runs.join(format!("{row}.wire.log")))?;
        remove(&runs.join(format!("{row}.serial.log")))
    }

    /// Keeps the end of the console of a Run that failed, if there was one.
    pub fn write_console(&self, step: &Step, row: &str, console: &[u8]) -> Result<()> {
        if console.is_empty() {
            return Ok(());
        }
        self.write_boot_file(step, &format!("runs/{row}.serial.log"), console)
    }

    /// Records a Run; the profile first, so that a Run that is there has its profile.
    pub fn write_run(&self, step: &Step, run: &Run, profile: Option<&str>) -> Result<()> {
        if let Some(profile) = profile {
            let name = format!("runs/{}.profile.tsv", run.row);
            self.write_boot_file(step, &name, profile.as_bytes())?;
        }
        self.write_boot_file(step, &format!("runs/{}.json", run.row), &to_json(run))
    }

    /// A Run; `None` if it was not made yet.
    pub fn run(&self, step: &Step, row: &str) -> Result<Option<Run>> {
        read_json(&self.boot_dir(step).join(format!("runs/{row}.json")))
    }

    /// The profile of a Run that has a Sample.
    pub fn profile(&self, step: &Step, row: &str) -> Result<Profile> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        let text = fs::read_to_string(&path).map_err(RunDirError::io("cannot read", &path))?;
        profile::parse(&text).map(|parsed| parsed.profile).map_err(|reason| RunDirError::Format {
            path: path.display().to_string(),
            reason: reason.to_string(),
        })
    }

    /// Records the Comparison.
    pub fn write_comparison(&self, comparison: &Comparison) -> Result<()> {
        self.write_json("comparison.json", comparison)
    }

    /// Writes a report beside the Comparison.
    pub fn write_report(&self, name: &str, text: &str) -> Result<()> {
        write(&self.root.join(name), text.as_bytes())
    }

    /// Removes a Comparison that is about to be out of date.
    pub fn forget_comparison(&self) -> Result<()> {
        forget_comparison(&self.root)
    }

    /// How many Boots and Runs have failed.
    pub fn failures(&self) -> Result<usize> {
        let mut failures = 0;
        for step in &self.plan.steps {
            failures += usize::from(self.boot(step)?.is_some_and(|boot| boot.failure.is_some()));
            for workload in &self.plan.workloads {
                let run = self.run(step, &workload.row)?;
                let failed = |run: Run| matches!(run.outcome, crate::model::Outcome::Failed(_));
                failures += usize::from(run.is_some_and(failed));
            }
        }
        Ok(failures)
    }

    /// The Comparison; `None` if the directory was not analysed yet.
    pub fn comparison(&self) -> Result<Option<Comparison>> {
        read_comparison(&self.root, |comparison: &Comparison| comparison.format)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        write(&self.root.join(name), &to_json(value))
    }
}
