use std::path::{Path, PathBuf};

use super::check;
use super::error::Result;
use super::files::{
    create, damaged, forget_comparison, lock, no_plan, read_comparison, read_plan, tidy, to_json,
    write,
};
use super::seal::Seal;
use ktax_host::disk::Lock;
use ktax_model::{Comparison, CountsPlan, GuestsPlan, Plan, PlanMethod, Saved, TimesPlan};

/// A run directory with its Plan. [`RunDir::lock`] it before writing.
#[derive(Debug)]
pub struct RunDir<M> {
    root: PathBuf,
    plan: Plan<M>,
    seal: Seal,
}

/// A run directory of whichever method its Plan has.
#[derive(Debug)]
// There are few of them at a time: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum AnyRunDir {
    /// Instructions, counted exactly.
    Counts(RunDir<CountsPlan>),
    /// Times of pairs.
    Times(RunDir<TimesPlan>),
    /// Exits of guests of a KVM host.
    Guests(RunDir<GuestsPlan>),
}

impl AnyRunDir {
    /// Opens an existing run directory, finished or not.
    ///
    /// # Errors
    /// There is no Plan, or one that this ktax does not make.
    pub fn open(root: &Path) -> Result<AnyRunDir> {
        let path = root.join("plan.json");
        let (plan, text) = read_plan(&path)?.ok_or_else(|| no_plan(root))?;
        check::check(&plan).map_err(|reason| damaged(&path, reason))?;
        let seal = Seal::of(&text);
        seal.check(root)?;
        let (root, head) = (root.to_owned(), plan.clone().with(drop));
        Ok(match plan.method {
            PlanMethod::Counts(method) => {
                AnyRunDir::Counts(RunDir { root, plan: head.with(|()| method), seal })
            }
            PlanMethod::Times(method) => {
                AnyRunDir::Times(RunDir { root, plan: head.with(|()| method), seal })
            }
            PlanMethod::Guests(method) => {
                AnyRunDir::Guests(RunDir { root, plan: head.with(|()| method), seal })
            }
        })
    }

    /// Makes a new run directory with nothing in it but the Plan.
    ///
    /// # Errors
    /// There is something in it already, or it cannot be written.
    pub fn create(root: &Path, plan: Plan) -> Result<AnyRunDir> {
        create(root, &to_json(&plan))?;
        AnyRunDir::open(root)
    }

    /// What was planned.
    pub fn plan(&self) -> Plan {
        match self {
            AnyRunDir::Counts(dir) => dir.plan.clone().with(Into::into),
            AnyRunDir::Times(dir) => dir.plan.clone().with(Into::into),
            AnyRunDir::Guests(dir) => dir.plan.clone().with(Into::into),
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        match self {
            AnyRunDir::Counts(dir) => dir.root(),
            AnyRunDir::Times(dir) => dir.root(),
            AnyRunDir::Guests(dir) => dir.root(),
        }
    }

    /// Takes the right to write, or says that another process has it.
    pub fn lock(&self) -> Result<Lock> {
        match self {
            AnyRunDir::Counts(dir) => dir.lock(),
            AnyRunDir::Times(dir) => dir.lock(),
            AnyRunDir::Guests(dir) => dir.lock(),
        }
    }

    /// The Comparison; `None` if the directory was not analysed yet.
    pub fn comparison(&self) -> Result<Option<Comparison>> {
        read_comparison(self.root())
    }

    /// Records the Comparison.
    pub fn write_comparison(&self, comparison: &Saved) -> Result<()> {
        write(&self.root().join("comparison.json"), &to_json(comparison))
    }

    /// Writes a report beside the Comparison.
    pub fn write_report(&self, name: &str, text: &str) -> Result<()> {
        write(&self.root().join(name), text.as_bytes())
    }
}

impl<M> RunDir<M> {
    /// Makes a new run directory with nothing in it but the Plan.
    ///
    /// # Errors
    /// There is something in it already, or it cannot be written.
    pub fn create(root: &Path, plan: Plan<M>) -> Result<RunDir<M>>
    where
        M: Clone + Into<PlanMethod>,
    {
        let text = to_json(&plan.clone().with(Into::into));
        create(root, &text)?;
        Ok(RunDir { root: root.to_owned(), plan, seal: Seal::of(&text) })
    }

    /// Takes the right to write, or says that another process has it.
    pub fn lock(&self) -> Result<Lock> {
        let taken = lock(&self.root)?;
        tidy(&self.root)?;
        Ok(taken)
    }

    /// Ties the directory to its Plan, before the first result is there.
    pub(super) fn seal(&self) -> Result<()> {
        self.seal.write(&self.root)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was planned.
    pub fn plan(&self) -> &Plan<M> {
        &self.plan
    }

    /// Removes a Comparison that is about to be out of date.
    pub fn forget_comparison(&self) -> Result<()> {
        forget_comparison(&self.root)
    }
}
