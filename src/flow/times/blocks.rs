//! Blocks: Sides whose kernels the user boots one after the other.

use thiserror::Error;

use super::drive;
use crate::analyse::{block_pairs, is_drawn, turns, wants_more, why_ended};
use crate::engine::noise;
use crate::flow::error::{Error, ErrorContext};
use crate::flow::session::Session;
use crate::model::{Facts, RunsOn, Side, TimedBlock, TimesPlan, fact};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, RunDir};
use crate::text::shell_path;

/// Boots of a Side in each block, so that its median covers several fresh processes.
pub const BOOTS_OF_A_BLOCK: u32 = 20;

/// Measures a block of this Side on the running kernel. Returns the next step, or `None` if the
/// user stopped it. The caller has locked the directory.
pub fn run_block(
    dir: &AnyRunDir,
    side: Side,
    session: &Session<'_>,
) -> Result<Option<String>, Error> {
    let dir = dir_of_blocks(dir)?;
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .or_host("cannot read the boot ID", "mount /proc")?;
    dir.prepare_pairs()?;
    check_boot(&dir.blocks()?, side, boot_id.trim(), &noise::facts())?;
    let ended = drive(dir, session, &|_| true, |driver| {
        driver.block(side, boot_id.trim().to_owned(), BOOTS_OF_A_BLOCK)
    })?;
    Ok(match ended {
        Ended::Cancelled => None,
        Ended::Complete => Some(next_step(dir, &dir.blocks()?)),
    })
}

/// Run directory of Sides that the user boots; other directories are refused.
fn dir_of_blocks(dir: &AnyRunDir) -> Result<&RunDir<TimesPlan>, BlockError> {
    let path = dir.root().display().to_string();
    match dir {
        AnyRunDir::Times(dir) if dir.plan().method.is_in_blocks() => Ok(dir),
        AnyRunDir::Times(dir) => {
            Err(BlockError::NotBooted { path, runs_on: dir.plan().method.runs_on })
        }
        AnyRunDir::Counts(_) | AnyRunDir::Guests(_) => Err(BlockError::NotTimed { path }),
    }
}

/// Steps for Sides that the user boots.
pub(super) fn steps(dir: &RunDir<TimesPlan>) -> String {
    let subjects = &dir.plan().method.subjects;
    let [base, change] = [&subjects.base, &subjects.change].map(|side| {
        side.kernel.as_deref().unwrap_or("the other kernel").escape_default().to_string()
    });
    let path = shell_path(dir.root());
    format!(
        "boot {base} and type `ktax run {path} --side base`; boot {change} and type `ktax run \
         {path} --side change`; repeat both as often as you can; then type `ktax analyse {path}`"
    )
}

/// Refuses a boot of the machine that is already measured, and a kernel that is not the Side's.
fn check_boot(
    blocks: &[TimedBlock],
    side: Side,
    boot_id: &str,
    facts: &Facts,
) -> Result<(), BlockError> {
    if let Some(block) = blocks.iter().find(|block| block.boot_id == boot_id) {
        return Err(BlockError::SameBoot { side: block.side });
    }
    let is_here = |block: &TimedBlock| {
        let there = block.boots.first().map(|boot| &boot.facts);
        there.is_some_and(|there| KERNEL.iter().all(|name| there.get(*name) == facts.get(*name)))
    };
    let kernel = || facts.get(fact::KERNEL).cloned().unwrap_or_else(|| "(unknown)".to_owned());
    match blocks.iter().find(|block| (block.side == side) != is_here(block)) {
        None => Ok(()),
        Some(block) if block.side == side => {
            Err(BlockError::OtherKernel { kernel: kernel(), side })
        }
        Some(block) => Err(BlockError::OtherSide { kernel: kernel(), measured: block.side, side }),
    }
}

/// Facts that distinguish the kernels of the Sides.
const KERNEL: [&str; 3] = [fact::KERNEL, fact::BUILD, fact::BOOT_LINE];

pub(super) fn next_step(dir: &RunDir<TimesPlan>, blocks: &[TimedBlock]) -> String {
    let (plan, path) = (dir.plan(), shell_path(dir.root()));
    let pairs = block_pairs(plan, blocks);
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

/// Reasons why a block cannot be measured, or why only blocks can be.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum BlockError {
    /// One command cannot boot another kernel in the middle.
    #[error("the sides are kernels that you boot; {next}")]
    Booted { next: String },
    #[error(
        "--side does not apply, because {}; type `ktax run {}`",
        both_sides(*.runs_on),
        shell_path(.path)
    )]
    NotBooted { path: String, runs_on: RunsOn },
    #[error(
        "--side only applies to timed runs whose kernels you boot; type `ktax run {}`",
        shell_path(.path)
    )]
    NotTimed { path: String },
    #[error("the {} was already measured since this machine booted; reboot first", .side.name())]
    SameBoot { side: Side },
    /// The running kernel is not the one on which the Side was measured first.
    #[error(
        "this is kernel {}, but the {} was measured on a kernel with another release, build or \
         boot line; boot that one",
        .kernel.escape_default(),
        .side.name()
    )]
    OtherKernel { kernel: String, side: Side },
    /// The running kernel is that of the other Side.
    #[error(
        "this is kernel {}, on which the {} was measured; boot the kernel of the {}",
        .kernel.escape_default(),
        .measured.name(),
        .side.name()
    )]
    OtherSide { kernel: String, measured: Side, side: Side },
}

fn both_sides(runs_on: RunsOn) -> &'static str {
    match runs_on {
        RunsOn::RunningKernel => "both sides run on this kernel",
        RunsOn::Guests => "ktax starts both sides itself",
    }
}

/// Reasons why the vCPUs cannot run on the wanted CPUs.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum CpuError {
    #[error(
        "--cores (machine.cores) is {cores}, but this machine has {there} CPUs; use at most {there}"
    )]
    TooFew { cores: usize, there: usize },
    #[error(
        "--cores (machine.cores) is {cores}, but ktax may use only {allowed} of this machine's \
         {there} CPUs; use at most {allowed}, or allow ktax more CPUs (taskset, cpusets)"
    )]
    TooFewAllowed { cores: usize, allowed: usize, there: usize },
    #[error(
        "CPU {cpu}, on which this run began, is not among those that ktax may use ({}); let ktax \
         use it, or measure again into a new directory",
        noise::list(.allowed)
    )]
    NotAllowed { cpu: u32, allowed: Vec<u32> },
    #[error(
        "CPU {cpu}, on which this run began, is offline; bring it online, or measure again into a \
         new directory"
    )]
    Offline { cpu: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Noise, TimedBoot};

    fn facts(kernel: &str, line: &str) -> Facts {
        [(fact::KERNEL, kernel), (fact::BOOT_LINE, line)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// Block that was measured in this boot of the machine.
    fn block(side: Side, boot_id: &str, facts: Facts) -> TimedBlock {
        let boots = vec![TimedBoot { facts, ..TimedBoot::default() }];
        let boot_id = boot_id.to_owned();
        TimedBlock { index: 0, side, boot_id, boots, noise: Noise::default() }
    }

    #[test]
    fn a_block_is_of_a_boot_of_its_own_on_the_kernel_of_its_side() {
        let (old, new) = (facts("6.1", "quiet"), facts("6.1", "quiet a=1"));
        let blocks = [block(Side::Base, "one", old.clone())];
        let checked = |side, boot_id, facts| check_boot(&blocks, side, boot_id, facts);
        assert_eq!(checked(Side::Base, "two", &old), Ok(()));
        assert_eq!(checked(Side::Change, "two", &new), Ok(()));
        let same = BlockError::SameBoot { side: Side::Base };
        assert_eq!(checked(Side::Change, "one", &new), Err(same));
        let kernel = || "6.1".to_owned();
        let other = BlockError::OtherKernel { kernel: kernel(), side: Side::Base };
        assert_eq!(checked(Side::Base, "two", &new), Err(other));
        let measured = Side::Base;
        let other = BlockError::OtherSide { kernel: kernel(), measured, side: Side::Change };
        assert_eq!(checked(Side::Change, "two", &old), Err(other));
    }

    #[test]
    fn the_name_of_a_kernel_is_escaped() {
        let kernel = "6.1\u{1b}".to_owned();
        let message = BlockError::OtherKernel { kernel, side: Side::Change }.to_string();
        assert!(message.starts_with("this is kernel 6.1\\u{1b}, but the change was"), "{message}");
    }

    #[test]
    fn cpus_have_their_numbers_and_what_to_do() {
        let (cores, there) = (3, 2);
        for (error, message) in [
            (CpuError::TooFew { cores, there }, "is 3, but this machine has 2 CPUs; use at most 2"),
            (
                CpuError::TooFewAllowed { cores, allowed: 1, there },
                "is 3, but ktax may use only 1 of this machine's 2 CPUs; use at most 1, or",
            ),
            (
                CpuError::NotAllowed { cpu: 0, allowed: vec![2, 3] },
                "CPU 0, on which this run began, is not among those that ktax may use (2-3); let",
            ),
            (CpuError::Offline { cpu: 5 }, "CPU 5, on which this run began, is offline; bring it"),
        ] {
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
