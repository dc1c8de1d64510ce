//! The directory of a run of timed pairs.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{
    Result, RunDirError, create, forget_comparison, lock, read_comparison, read_json, remove,
    to_json, write,
};
use crate::disk::Lock;
use crate::model::{FORMAT, Side, Sides, TimedBlock, TimedComparison, TimedPair, TimedPlan};

const PAIRS: &str = "pairs";
const BLOCKS: &str = "blocks";
const CPUS: &str = "cpus.json";
const CONSOLE: &str = "failed.serial.log";

/// A run directory with its Plan. [`TimedDir::lock`] it before writing.
#[derive(Debug)]
pub struct TimedDir {
    root: PathBuf,
    plan: TimedPlan,
}

impl TimedDir {
    /// Whether a directory's Plan is one of timed pairs.
    pub fn is_one(root: &Path) -> bool {
        let plan: Result<Option<serde_json::Value>> = read_json(&root.join("plan.json"));
        matches!(plan, Ok(Some(plan)) if plan.get("engine").is_some())
    }

    /// Makes a new run directory with nothing in it but the Plan.
    pub fn create(root: &Path, plan: TimedPlan) -> Result<TimedDir> {
        create(root, &to_json(&plan))?;
        Ok(TimedDir { root: root.to_owned(), plan })
    }

    /// Opens an existing run directory, finished or not.
    pub fn open(root: &Path) -> Result<TimedDir> {
        let path = root.join("plan.json");
        let plan: TimedPlan = read_json(&path)?
            .ok_or_else(|| RunDirError::NoPlan { path: root.display().to_string() })?;
        match check(&plan) {
            Ok(()) => Ok(TimedDir { root: root.to_owned(), plan }),
            Err(reason) => Err(format_error(&path, reason)),
        }
    }

    /// Takes the right to write, or says that another process has it.
    pub fn lock(&self) -> Result<Lock> {
        let taken = lock(&self.root)?;
        super::tidy(&self.root)?;
        for name in [PAIRS, BLOCKS] {
            let dir = self.root.join(name);
            std::fs::create_dir_all(&dir).map_err(RunDirError::io("cannot create", &dir))?;
            super::tidy(&dir)?;
        }
        Ok(taken)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is to be done.
    pub fn plan(&self) -> &TimedPlan {
        &self.plan
    }

    /// The pairs that are there, in their order and without a gap.
    pub fn pairs(&self) -> Result<Vec<TimedPair>> {
        self.numbered(PAIRS, |pair: &TimedPair| pair.index)
    }

    /// The blocks that are there.
    pub fn blocks(&self) -> Result<Vec<TimedBlock>> {
        self.numbered(BLOCKS, |block: &TimedBlock| block.index)
    }

    fn numbered<T: DeserializeOwned>(&self, dir: &str, index: fn(&T) -> u32) -> Result<Vec<T>> {
        let mut all = Vec::new();
        loop {
            let path = self.path(dir, all.len() as u32);
            match read_json::<T>(&path)? {
                None => return Ok(all),
                Some(one) if index(&one) as usize == all.len() => all.push(one),
                Some(one) => {
                    let reason = format!("it is number {}", index(&one));
                    return Err(format_error(&path, reason));
                }
            }
        }
    }

    /// Records a block.
    pub fn write_block(&self, block: &TimedBlock) -> Result<()> {
        write(&self.path(BLOCKS, block.index), &to_json(block))
    }

    /// Records a pair.
    pub fn write_pair(&self, pair: &TimedPair) -> Result<()> {
        write(&self.path(PAIRS, pair.index), &to_json(pair))
    }

    /// Records the Comparison.
    pub fn write_comparison(&self, comparison: &TimedComparison) -> Result<()> {
        write(&self.root.join("comparison.json"), &to_json(comparison))
    }

    /// Writes a report beside the Comparison.
    pub fn write_report(&self, name: &str, text: &str) -> Result<()> {
        write(&self.root.join(name), text.as_bytes())
    }

    /// Records the CPUs on which vCPUs are kept.
    pub fn write_cpus(&self, cpus: &[u32]) -> Result<()> {
        write(&self.root.join(CPUS), &to_json(&cpus))
    }

    /// The CPUs on which vCPUs are kept, if any was booted.
    pub fn cpus(&self) -> Result<Option<Vec<u32>>> {
        let path = self.root.join(CPUS);
        match read_json::<Vec<u32>>(&path)? {
            Some(cpus) if cpus.is_empty() => Err(format_error(&path, "it names no CPU".into())),
            cpus => Ok(cpus),
        }
    }

    /// Keeps the end of the console of a Boot that failed as a whole, as it is, and says where; not
    /// if it is empty.
    pub fn keep_console(&self, console: &[u8]) -> Result<Option<PathBuf>> {
        let path = self.root.join(CONSOLE);
        match console {
            [] => Ok(None),
            console => write(&path, console).map(|()| Some(path)),
        }
    }

    /// Keeps the end of the console of each Boot of a pair whose guest something ended early.
    pub fn keep_consoles(&self, index: u32, consoles: &Sides<Vec<u8>>) -> Result<()> {
        for side in Side::BOTH {
            let name = format!("{index:04}.{}.serial.log", side.name());
            let path = self.root.join(PAIRS).join(name);
            match consoles.get(side).as_slice() {
                [] => remove(&path)?,
                console => write(&path, console)?,
            }
        }
        Ok(())
    }

    /// Removes what an earlier, failed try has left for people.
    pub fn forget_console(&self) -> Result<()> {
        remove(&self.root.join(CONSOLE))
    }

    /// Removes a Comparison that is about to be out of date.
    pub fn forget_comparison(&self) -> Result<()> {
        forget_comparison(&self.root)
    }

    /// The Comparison; `None` if the directory was not analysed yet.
    pub fn comparison(&self) -> Result<Option<TimedComparison>> {
        read_comparison(&self.root, |comparison: &TimedComparison| comparison.format)
    }

    fn path(&self, dir: &str, index: u32) -> PathBuf {
        self.root.join(dir).join(format!("{index:04}.json"))
    }
}

/// What no Plan of ktax's is, and what would take all memory or never end.
fn check(plan: &TimedPlan) -> std::result::Result<(), String> {
    let TimedPlan { format, loops, pairs, most_pairs, threshold_percent, .. } = plan;
    let within = |value: u32, most: u32| (1..=most).contains(&value);
    let rows = plan.workloads().count();
    if *format != FORMAT {
        Err(format!("it is of format {format}"))
    } else if !within(*loops, 1000) || plan.headline.is_empty() || rows > 10_000 {
        Err("its loops or rows are none, or too many".into())
    } else if !within(*most_pairs, 10_000) || !within(pairs.unwrap_or(1), 10_000) {
        Err("its pairs are none, or too many".into())
    } else if !(*threshold_percent > 0.0 && *threshold_percent <= 100.0) {
        Err("its threshold is not above 0 and at most 100 percent".into())
    } else if plan.workloads().any(|workload| workload.ops == 0) {
        Err("a row has no operations".into())
    } else {
        Ok(())
    }
}

fn format_error(path: &Path, reason: String) -> RunDirError {
    RunDirError::Format { path: path.display().to_string(), reason }
}
