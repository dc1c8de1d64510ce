//! The files of timed pairs and blocks.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use super::dir::RunDir;
use super::error::Result;
use super::files::{damaged, make_dir, read_json, remove, to_json, write};
use ktax_model::{Side, Sides, TimedBlock, TimedPair, TimesPlan};

const PAIRS: &str = "pairs";
const BLOCKS: &str = "blocks";
const CPUS: &str = "cpus.json";
const CONSOLE: &str = "failed.serial.log";

impl RunDir<TimesPlan> {
    /// Makes the directories of pairs and blocks, with nothing half-written in them.
    pub fn prepare_pairs(&self) -> Result<()> {
        [PAIRS, BLOCKS].iter().try_for_each(|name| make_dir(&self.root().join(name)))
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
                    return Err(damaged(&path, &reason));
                }
            }
        }
    }

    /// Records a block.
    pub fn write_block(&self, block: &TimedBlock) -> Result<()> {
        self.seal()?;
        write(&self.path(BLOCKS, block.index), &to_json(block))
    }

    /// Records a pair.
    pub fn write_pair(&self, pair: &TimedPair) -> Result<()> {
        self.seal()?;
        write(&self.path(PAIRS, pair.index), &to_json(pair))
    }

    /// Records the CPUs on which vCPUs are kept.
    pub fn write_cpus(&self, cpus: &[u32]) -> Result<()> {
        write(&self.root().join(CPUS), &to_json(&cpus))
    }

    /// The CPUs on which vCPUs are kept, if any was booted.
    pub fn cpus(&self) -> Result<Option<Vec<u32>>> {
        let path = self.root().join(CPUS);
        match read_json::<Vec<u32>>(&path)? {
            Some(cpus) if cpus.is_empty() => Err(damaged(&path, "it names no CPU")),
            cpus => Ok(cpus),
        }
    }

    /// Keeps the end of the console of a Boot that failed as a whole, as it is, and says where; not
    /// if it is empty.
    pub fn keep_console(&self, console: &[u8]) -> Result<Option<PathBuf>> {
        let path = self.root().join(CONSOLE);
        match console {
            [] => Ok(None),
            console => write(&path, console).map(|()| Some(path)),
        }
    }

    /// Keeps the end of the console of each Boot of a pair whose guest something ended early.
    pub fn keep_consoles(&self, index: u32, consoles: &Sides<Vec<u8>>) -> Result<()> {
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

    /// Removes what an earlier, failed try has left for people.
    pub fn forget_console(&self) -> Result<()> {
        remove(&self.root().join(CONSOLE))
    }

    fn path(&self, dir: &str, index: u32) -> PathBuf {
        self.root().join(dir).join(format!("{index:04}.json"))
    }
}
