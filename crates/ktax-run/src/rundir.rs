//! The only reader and writer of a run directory; `docs/rundir.md` lists every file.
//!
//! Every file is written under a temporary name, synced and renamed, so that an existing file is
//! complete.

mod campaign;
mod files;
pub mod profile;

pub use campaign::CampaignDir;
pub use files::{FILE_MAX, check_free, damaged};

use std::fs;
use std::path::{Path, PathBuf};

use files::{
    check_plan, create, io_error, lock, make_dir, no_plan, read, read_comparison, read_error,
    read_json, read_plan, remove, remove_comparison, remove_unfinished_files, to_json, write,
};
use ktax_host::disk::{Lock, read_own, read_own_text, sha256};
use ktax_model::{
    Boot, Comparison, CountsPlan, Error, GuestsPlan, Plan, PlanMethod, Profile, Result, Run, Saved,
    Side, Sides, Step, TimedBlock, TimedPair, TimesPlan,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A run directory with its Plan. [`RunDir::lock`] it before writing.
#[derive(Debug)]
pub struct RunDir<M> {
    root: PathBuf,
    plan: Plan<M>,
    seal: Seal,
}

/// A run directory of any method.
#[derive(Debug)]
// A process opens few run directories, so their size does not matter.
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
    pub fn open(root: &Path) -> Result<AnyRunDir> {
        let path = root.join("plan.json");
        let (plan, text) = read_plan(&path)?.ok_or_else(|| no_plan(root))?;
        check_plan(&plan).map_err(|reason| damaged(&path, reason))?;
        let seal = Seal::new(&text);
        seal.check(root)?;
        let (root, head) = (root.to_owned(), plan.clone().map_method(drop));
        Ok(match plan.method {
            PlanMethod::Counts(method) => {
                AnyRunDir::Counts(RunDir { root, plan: head.map_method(|()| method), seal })
            }
            PlanMethod::Times(method) => {
                AnyRunDir::Times(RunDir { root, plan: head.map_method(|()| method), seal })
            }
            PlanMethod::Guests(method) => {
                AnyRunDir::Guests(RunDir { root, plan: head.map_method(|()| method), seal })
            }
        })
    }

    /// Makes a run directory that contains only the Plan; an error if the directory is not empty.
    pub fn create(root: &Path, plan: Plan) -> Result<AnyRunDir> {
        create(root, &to_json(&plan))?;
        AnyRunDir::open(root)
    }

    /// A copy of the Plan.
    pub fn plan(&self) -> Plan {
        match self {
            AnyRunDir::Counts(dir) => dir.plan.clone().map_method(Into::into),
            AnyRunDir::Times(dir) => dir.plan.clone().map_method(Into::into),
            AnyRunDir::Guests(dir) => dir.plan.clone().map_method(Into::into),
        }
    }

    pub fn root(&self) -> &Path {
        match self {
            AnyRunDir::Counts(dir) => dir.root(),
            AnyRunDir::Times(dir) => dir.root(),
            AnyRunDir::Guests(dir) => dir.root(),
        }
    }

    /// Locks the directory for writing; an error if another process holds the lock.
    pub fn lock(&self) -> Result<Lock> {
        match self {
            AnyRunDir::Counts(dir) => dir.lock(),
            AnyRunDir::Times(dir) => dir.lock(),
            AnyRunDir::Guests(dir) => dir.lock(),
        }
    }

    /// The Comparison; `None` before the first analysis.
    pub fn comparison(&self) -> Result<Option<Comparison>> {
        read_comparison(self.root())
    }

    pub fn write_comparison(&self, comparison: &Saved) -> Result<()> {
        write(&self.root().join("comparison.json"), &to_json(comparison))
    }

    /// Writes a report into the directory.
    pub fn write_report(&self, name: &str, text: &str) -> Result<()> {
        write(&self.root().join(name), text.as_bytes())
    }
}

impl<M> RunDir<M> {
    /// Makes a run directory that contains only the Plan; an error if the directory is not empty.
    pub fn create(root: &Path, plan: Plan<M>) -> Result<RunDir<M>>
    where
        M: Clone + Into<PlanMethod>,
    {
        let text = to_json(&plan.clone().map_method(Into::into));
        create(root, &text)?;
        Ok(RunDir { root: root.to_owned(), plan, seal: Seal::new(&text) })
    }

    /// Locks the directory for writing; an error if another process holds the lock.
    pub fn lock(&self) -> Result<Lock> {
        let lock = lock(&self.root)?;
        remove_unfinished_files(&self.root)?;
        Ok(lock)
    }

    /// Writes the hash of the Plan, before the first result is written.
    pub(super) fn seal(&self) -> Result<()> {
        self.seal.write(&self.root)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn plan(&self) -> &Plan<M> {
        &self.plan
    }

    /// Removes the Comparison, before a new result makes it out of date.
    pub fn remove_comparison(&self) -> Result<()> {
        remove_comparison(&self.root)
    }
}

impl<M> RunDir<M> {
    /// Directory of a Boot; [`RunDir::prepare`] makes it.
    pub fn boot_dir(&self, step: &Step) -> PathBuf {
        self.root().join("boots").join(step.name())
    }

    /// Makes the directories of a Boot, and removes unfinished files in them.
    pub fn prepare(&self, step: &Step) -> Result<()> {
        for name in ["runs", "orders"] {
            make_dir(&self.boot_dir(step).join(name))?;
        }
        remove_unfinished_files(&self.boot_dir(step))
    }

    /// Writes the order of a Run, for the script in `argv`.
    pub fn write_order(&self, step: &Step, row: &str, order: &str) -> Result<()> {
        self.write_boot_file(step, &format!("orders/{row}"), order.as_bytes())
    }

    /// Writes a file of a Boot. The name must not come from a guest.
    pub fn write_boot_file(&self, step: &Step, name: &str, content: &[u8]) -> Result<()> {
        write(&self.boot_dir(step).join(name), content)
    }

    pub fn write_boot(&self, step: &Step, boot: &Boot) -> Result<()> {
        self.seal()?;
        self.write_boot_file(step, "boot.json", &to_json(boot))
    }

    /// Outcome of a Boot; `None` if the Boot was not made yet.
    pub fn boot(&self, step: &Step) -> Result<Option<Boot>> {
        read_json(&self.boot_dir(step).join("boot.json"))
    }

    /// Writes the output of a guest that could not be read; `text` is escaped.
    pub fn write_wire(&self, step: &Step, row: &str, text: &str) -> Result<()> {
        self.write_boot_file(step, &format!("runs/{row}.wire.log"), text.as_bytes())
    }

    /// Removes the logs of an earlier attempt of a Run.
    pub fn remove_run_logs(&self, step: &Step, row: &str) -> Result<()> {
        let runs = self.boot_dir(step).join("runs");
        let logs = ["wire.log", "stdout", "stderr", "serial.log"];
        logs.iter().try_for_each(|log| remove(&runs.join(format!("{row}.{log}"))))
    }

    /// Writes the console of a Run, unless the console is empty.
    pub fn write_console(&self, step: &Step, row: &str, console: &[u8]) -> Result<()> {
        if console.is_empty() {
            return Ok(());
        }
        self.write_boot_file(step, &format!("runs/{row}.serial.log"), console)
    }

    /// Writes the output of a program unchanged; `output` is `stdout` or `stderr`.
    pub fn write_printed(&self, step: &Step, row: &str, output: &str, text: &[u8]) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.write_boot_file(step, &format!("runs/{row}.{output}"), text)
    }

    /// Writes a Run. The profile is written first, so that each Run on disk has its profile.
    pub fn write_run<S: Serialize>(
        &self,
        step: &Step,
        run: &Run<S>,
        profile: Option<&str>,
    ) -> Result<()> {
        if let Some(profile) = profile {
            let name = format!("runs/{}.profile.tsv", run.row);
            self.write_boot_file(step, &name, profile.as_bytes())?;
        }
        self.write_boot_file(step, &format!("runs/{}.json", run.row), &to_json(run))
    }

    /// A Run; `None` if the Run was not made yet.
    pub fn run<S: DeserializeOwned>(&self, step: &Step, row: &str) -> Result<Option<Run<S>>> {
        read_json(&self.boot_dir(step).join(format!("runs/{row}.json")))
    }
}

impl RunDir<CountsPlan> {
    pub fn profile_text(&self, step: &Step, row: &str) -> Result<String> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        read_own_text(&path, FILE_MAX).map_err(|error| read_error(&path, error))
    }

    /// Profile of a Run that has a Sample.
    pub fn profile(&self, step: &Step, row: &str) -> Result<Profile> {
        let path = self.boot_dir(step).join(format!("runs/{row}.profile.tsv"));
        let text = self.profile_text(step, row)?;
        let parsed = profile::parse(&text).map_err(|error| damaged(&path, &error.to_string()))?;
        Ok(parsed.profile)
    }
}

const PAIRS: &str = "pairs";
const BLOCKS: &str = "blocks";
const CPUS: &str = "cpus.json";
const FAILED_CONSOLE: &str = "failed.serial.log";

impl RunDir<TimesPlan> {
    /// Makes the directories of pairs and blocks, and removes unfinished files in them.
    pub fn prepare_pairs(&self) -> Result<()> {
        [PAIRS, BLOCKS].iter().try_for_each(|name| make_dir(&self.root().join(name)))
    }

    /// All pairs in order; an error if an index is missing.
    pub fn pairs(&self) -> Result<Vec<TimedPair>> {
        self.read_numbered(PAIRS, |pair: &TimedPair| pair.index)
    }

    pub fn blocks(&self) -> Result<Vec<TimedBlock>> {
        self.read_numbered(BLOCKS, |block: &TimedBlock| block.index)
    }

    /// Reads the files 0000.json, 0001.json and so on, each of which has its index.
    fn read_numbered<T: DeserializeOwned>(
        &self,
        dir: &str,
        index: fn(&T) -> u32,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        loop {
            let path = self.numbered_path(dir, items.len() as u32);
            match read_json::<T>(&path)? {
                None => return Ok(items),
                Some(item) if index(&item) as usize == items.len() => items.push(item),
                Some(item) => {
                    let reason = format!("it has the index {}", index(&item));
                    return Err(damaged(&path, &reason));
                }
            }
        }
    }

    pub fn write_block(&self, block: &TimedBlock) -> Result<()> {
        self.seal()?;
        write(&self.numbered_path(BLOCKS, block.index), &to_json(block))
    }

    pub fn write_pair(&self, pair: &TimedPair) -> Result<()> {
        self.seal()?;
        write(&self.numbered_path(PAIRS, pair.index), &to_json(pair))
    }

    /// Writes the CPUs to which vCPUs are pinned.
    pub fn write_cpus(&self, cpus: &[u32]) -> Result<()> {
        write(&self.root().join(CPUS), &to_json(&cpus))
    }

    /// CPUs to which vCPUs are pinned; `None` before the first Boot.
    pub fn cpus(&self) -> Result<Option<Vec<u32>>> {
        let path = self.root().join(CPUS);
        match read_json::<Vec<u32>>(&path)? {
            Some(cpus) if cpus.is_empty() => Err(damaged(&path, "it names no CPU")),
            cpus => Ok(cpus),
        }
    }

    /// Writes the end of the console of a failed Boot, and returns the path; `None` if the console
    /// is empty.
    pub fn write_failed_console(&self, console: &[u8]) -> Result<Option<PathBuf>> {
        let path = self.root().join(FAILED_CONSOLE);
        match console {
            [] => Ok(None),
            console => write(&path, console).map(|()| Some(path)),
        }
    }

    /// Writes the end of the console of each Boot of a pair that ended early.
    pub fn write_consoles(&self, index: u32, consoles: &Sides<Vec<u8>>) -> Result<()> {
        for side in Side::BOTH {
            let name = format!("{index:04}.{}.serial.log", side.name());
            let path = self.root().join(PAIRS).join(name);
            match consoles.get(side).as_slice() {
                [] => remove(&path)?,
                console => write(&path, console)?,
            }
        }
        Ok(())
    }

    /// Removes the console of an earlier, failed attempt.
    pub fn remove_failed_console(&self) -> Result<()> {
        remove(&self.root().join(FAILED_CONSOLE))
    }

    fn numbered_path(&self, dir: &str, index: u32) -> PathBuf {
        self.root().join(dir).join(format!("{index:04}.json"))
    }
}

impl AnyRunDir {
    /// Copies the base's Boots from another run directory, if it has the same base, rows and
    /// Layouts. Boots that this directory already has are not replaced.
    pub fn adopt_base(&self, other: &AnyRunDir) -> Result<()> {
        if !has_same_base(&self.plan().method, &other.plan().method) {
            return Ok(());
        }
        match (self, other) {
            (AnyRunDir::Counts(dir), AnyRunDir::Counts(other)) => {
                dir.copy_base_boots(other, &dir.plan().method.steps)
            }
            (AnyRunDir::Guests(dir), AnyRunDir::Guests(other)) => {
                dir.copy_base_boots(other, &dir.plan().method.steps)
            }
            // Times that were measured at different times cannot be compared.
            _ => Ok(()),
        }
    }
}

/// Returns true if two plans differ only in their change.
fn has_same_base(first: &PlanMethod, other: &PlanMethod) -> bool {
    match (first, other) {
        (PlanMethod::Counts(first), PlanMethod::Counts(other)) => {
            let mut other = other.clone();
            other.asked.subjects.change = first.asked.subjects.change.clone();
            other.kernels.change = first.kernels.change.clone();
            other == *first
        }
        (PlanMethod::Guests(first), PlanMethod::Guests(other)) => {
            let mut other = other.clone();
            other.asked.change = first.asked.change.clone();
            other == *first
        }
        _ => false,
    }
}

impl<M> RunDir<M> {
    fn copy_base_boots(&self, other: &RunDir<M>, steps: &[Step]) -> Result<()> {
        for step in steps.iter().filter(|step| step.side == Side::Base) {
            let has_booted = other.boot(step)?.is_some_and(|boot| boot.failure.is_none());
            if has_booted && self.boot(step)?.is_none() {
                self.prepare(step)?;
                self.seal()?;
                // A directory with boot.json is a complete Boot, so boot.json is copied last.
                for folder in ["orders", "runs", ""] {
                    let (from, to) = (other.boot_dir(step), self.boot_dir(step));
                    copy_files(&from.join(folder), &to.join(folder))?;
                }
            }
        }
        Ok(())
    }
}

/// Copies the files of a directory, without its subdirectories; boot.json last.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(io_error("cannot read", from))? {
        let entry = entry.map_err(io_error("cannot read", from))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.push(entry.file_name());
        }
    }
    names.sort_by_key(|name| name == "boot.json");
    for name in names {
        let path = from.join(&name);
        let content = read_own(&path, FILE_MAX).map_err(|error| read_error(&path, error))?;
        write(&to.join(&name), &content)?;
    }
    Ok(())
}

/// Name of the seal's file, in the format of `sha256sum`.
const SEAL: &str = "plan.sha256";

/// Hash of `plan.json`, which ties the results of a run directory to their Plan.
#[derive(Debug)]
pub(super) struct Seal(String);

impl Seal {
    /// Hashes the text of a `plan.json`.
    pub fn new(plan: &[u8]) -> Seal {
        Seal(format!("{}  plan.json\n", sha256(plan)))
    }

    /// Refuses a directory whose results belong to another Plan. Directories without results, and
    /// those of an older ktax, have no seal.
    pub fn check(&self, root: &Path) -> Result<()> {
        match read(&root.join(SEAL))? {
            Some(text) if text != self.0.as_bytes() => Err(Error::user(format!(
                "{} has results of another plan, because plan.json was changed after the \
                     first boot",
                root.display()
            ))
            .next("undo the change, or copy plan.json into an empty directory and run that")),
            _ => Ok(()),
        }
    }

    /// Writes the seal, or checks the seal that the directory has.
    pub fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(SEAL);
        match read(&path)? {
            None => write(&path, self.0.as_bytes()),
            Some(_) => self.check(root),
        }
    }
}
