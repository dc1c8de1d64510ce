//! Sides that the user boots one after the other.

use super::drive::drive;
use crate::analyse::{is_drawn, of_blocks, turns, wants_more, why_ended};
use crate::engine::noise;
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::{Facts, RunsOn, Side, TimedBlock, TimesPlan, fact};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, RunDir};

/// Boots of a Side in each block: fresh processes, so that a block's median is of more than one.
pub const BOOTS: u32 = 20;

/// Measures a block of this Side on the kernel that runs now; what comes next, or `None` where the
/// user stopped it. The caller has locked the directory.
///
/// # Errors
/// The Sides are not kernels that the user boots, or the kernel that runs is not this Side's.
pub fn run_block(
    dir: &AnyRunDir,
    side: Side,
    session: &Session<'_>,
) -> Result<Option<String>, Error> {
    let path = dir.root().display();
    let dir = match dir {
        AnyRunDir::Times(dir) if dir.plan().method.is_in_blocks() => dir,
        AnyRunDir::Times(dir) => {
            let text = match dir.plan().method.runs_on {
                RunsOn::RunningKernel => "both sides run on this kernel",
                RunsOn::Guests => "ktax starts both sides itself",
            };
            return Err(Error::usage(format!(
                "--side does not apply, because {text}; type `ktax run {path}`"
            )));
        }
        AnyRunDir::Counts(_) | AnyRunDir::Guests(_) => {
            return Err(Error::usage(format!(
                "--side only applies to timed runs whose kernels you boot; type `ktax run {path}`"
            )));
        }
    };
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context("cannot read the boot ID", "mount /proc")?;
    dir.prepare_pairs()?;
    check(&dir.blocks()?, side, boot_id.trim(), &noise::facts())?;
    let ended = drive(dir, session, &|_| true, |driver| {
        driver.block(side, boot_id.trim().to_owned(), BOOTS)
    })?;
    Ok(match ended {
        Ended::Cancelled => None,
        Ended::Complete => Some(next(dir, &dir.blocks()?)),
    })
}

/// What to do for Sides that are kernels to be booted.
pub(super) fn how(dir: &RunDir<TimesPlan>) -> String {
    let subjects = &dir.plan().method.subjects;
    let [base, change] = [&subjects.base, &subjects.change].map(|side| {
        side.kernel.as_deref().unwrap_or("the other kernel").escape_default().to_string()
    });
    let path = dir.root().display();
    format!(
        "boot {base} and type `ktax run {path} --side base`; boot {change} and type `ktax run \
         {path} --side change`; repeat both as often as you can; then type `ktax analyse {path}`"
    )
}

/// Refuses what cannot be a block of this Side: a boot of the machine that is measured already, or
/// another kernel than its Side's.
fn check(blocks: &[TimedBlock], side: Side, boot_id: &str, facts: &Facts) -> Result<(), Error> {
    if let Some(block) = blocks.iter().find(|block| block.boot_id == boot_id) {
        return Err(Error::usage(format!(
            "the {} was already measured since this machine booted; reboot first",
            block.side.name()
        )));
    }
    let is_here = |block: &TimedBlock| {
        let there = block.boots.first().map(|boot| &boot.facts);
        there.is_some_and(|there| KERNEL.iter().all(|name| there.get(*name) == facts.get(*name)))
    };
    let here = facts.get(fact::KERNEL).map_or("(unknown)", String::as_str).escape_default();
    match blocks.iter().find(|block| (block.side == side) != is_here(block)) {
        None => Ok(()),
        Some(block) if block.side == side => Err(Error::usage(format!(
            "this is kernel {here}, but the {} was measured on a kernel with another release, \
             build or boot line; boot that one",
            side.name()
        ))),
        Some(block) => Err(Error::usage(format!(
            "this is kernel {here}, on which the {} was measured; boot the kernel of the {}",
            block.side.name(),
            side.name()
        ))),
    }
}

/// What tells one Side's kernel from the other's.
const KERNEL: [&str; 3] = [fact::KERNEL, fact::BUILD, fact::BOOT_LINE];

/// What comes next.
pub(super) fn next(dir: &RunDir<TimesPlan>, blocks: &[TimedBlock]) -> String {
    let (plan, path) = (dir.plan(), dir.root().display());
    let pairs = of_blocks(plan, blocks);
    let why = why_ended(plan, &pairs);
    let is_whole = blocks.len() % 2 == 0 && !pairs.is_empty();
    if is_whole && why.is_none() && !wants_more(plan, &pairs) {
        return format!("no more blocks are needed; type `ktax analyse {path}`");
    }
    let but = why.map(|why| format!("but {why}. To continue anyway: ")).unwrap_or_default();
    let turn = turns(plan).nth(blocks.len()).unwrap_or(Side::Base).name();
    let drawn = match is_drawn(plan, blocks) {
        true => "the next block in the randomized order measures",
        false => {
            "the blocks were not run in the planned order, so there is no verdict; the next block \
             measures"
        }
    };
    format!(
        "{but}{drawn} the {turn}: boot its kernel and type `ktax run {path} --side {turn}`; `ktax \
         analyse {path}` shows the results so far"
    )
}
