//! Blocks of boots: measures Sides whose kernels the user boots one after the other.

use super::drive;
use crate::analyse::{block_pairs, is_in_planned_order, planned_sides, stop_reason, wants_more};
use crate::engine::noise;
use crate::flow::session::Session;
use crate::flow::{Error, ErrorContext};
use crate::model::{Facts, RunsOn, Side, TimedBlock, TimesPlan, fact};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, RunDir};
use crate::text::shell_path;

/// Number of boots in each block. Each boot is a fresh process, and the median covers all of them.
pub const BOOTS_OF_A_BLOCK: u32 = 20;

/// Measures a block of this Side on the running kernel. Returns the next step, or `None` if the
/// user stopped the block. The caller has locked the directory.
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
        driver.run_block(side, boot_id.trim().to_owned(), BOOTS_OF_A_BLOCK)
    })?;
    Ok(match ended {
        Ended::Cancelled => None,
        Ended::Complete => Some(next_step(dir, &dir.blocks()?)),
    })
}

/// Run directory of Sides that the user boots; other directories are refused.
fn dir_of_blocks(dir: &AnyRunDir) -> Result<&RunDir<TimesPlan>, Error> {
    let reason = match dir {
        AnyRunDir::Times(dir) if dir.plan().method.asked.is_in_blocks() => return Ok(dir),
        AnyRunDir::Times(dir) => {
            format!(
                "--side does not apply, because {}",
                why_no_reboot(dir.plan().method.asked.runs_on)
            )
        }
        AnyRunDir::Counts(_) | AnyRunDir::Guests(_) => {
            "--side only applies to timed runs whose kernels you boot".to_owned()
        }
    };
    Err(Error::user(reason).next(format!("type `ktax run {}`", shell_path(dir.root()))))
}

/// Error of a command that cannot measure Sides whose kernels the user boots.
pub(super) fn booted_sides(next: impl Into<String>) -> Error {
    Error::user("the sides are kernels that you boot").next(next)
}

/// Steps for Sides whose kernels the user boots.
pub(super) fn steps(dir: &RunDir<TimesPlan>) -> String {
    let subjects = &dir.plan().method.asked.subjects;
    let [base, change] = subjects.both().map(|side| {
        side.kernel.as_deref().unwrap_or("the other kernel").escape_default().to_string()
    });
    let path = shell_path(dir.root());
    format!(
        "boot {base} and type `ktax run {path} --side base`; boot {change} and type `ktax run \
         {path} --side change`; repeat both as often as you can; then type `ktax analyse {path}`"
    )
}

/// Refuses a boot of the machine that was already measured, and another kernel than the Side's.
fn check_boot(
    blocks: &[TimedBlock],
    side: Side,
    boot_id: &str,
    facts: &Facts,
) -> Result<(), Error> {
    if let Some(block) = blocks.iter().find(|block| block.boot_id == boot_id) {
        let measured = block.side.name();
        let message = format!("the {measured} was already measured since this machine booted");
        return Err(Error::user(message).next("reboot first"));
    }
    let is_this_kernel = |block: &TimedBlock| {
        let measured = block.boots.first().map(|boot| &boot.facts);
        let is_same = |measured: &Facts, name: &str| measured.get(name) == facts.get(name);
        measured.is_some_and(|measured| KERNEL_FACTS.iter().all(|name| is_same(measured, name)))
    };
    let Some(block) = blocks.iter().find(|block| (block.side == side) != is_this_kernel(block))
    else {
        return Ok(());
    };
    let kernel = facts.get(fact::KERNEL).map_or("(unknown)", String::as_str).escape_default();
    let (measured, side) = (block.side.name(), side.name());
    Err(match measured == side {
        true => Error::user(format!(
            "this is kernel {kernel}, but the {side} was measured on a kernel with another \
             release, build or boot line"
        ))
        .next("boot that kernel"),
        false => {
            Error::user(format!("this is kernel {kernel}, on which the {measured} was measured"))
                .next(format!("boot the kernel of the {side}"))
        }
    })
}

/// Facts that distinguish the kernels of the Sides.
const KERNEL_FACTS: [&str; 3] = [fact::KERNEL, fact::BUILD, fact::BOOT_LINE];

/// Next step after these blocks.
pub(super) fn next_step(dir: &RunDir<TimesPlan>, blocks: &[TimedBlock]) -> String {
    let (plan, path) = (dir.plan(), shell_path(dir.root()));
    let pairs = block_pairs(plan, blocks);
    let why = stop_reason(plan, &pairs);
    let is_last_pair_whole = blocks.len() % 2 == 0 && !pairs.is_empty();
    if is_last_pair_whole && why.is_none() && !wants_more(plan, &pairs) {
        return format!("no more blocks are needed; type `ktax analyse {path}`");
    }
    let warning = why.map(|why| format!("but {why}. To continue anyway: ")).unwrap_or_default();
    let turn = planned_sides(plan).nth(blocks.len()).unwrap_or(Side::Base).name();
    let next_block = match is_in_planned_order(plan, blocks) {
        true => "the next block in the randomized order measures",
        false => {
            "the blocks were not run in the planned order, so there is no verdict; the next block \
             measures"
        }
    };
    format!(
        "{warning}{next_block} the {turn}: boot its kernel and type `ktax run {path} --side \
         {turn}`; `ktax analyse {path}` shows the results so far"
    )
}

/// Reason why the user boots no kernel for a Side.
fn why_no_reboot(runs_on: RunsOn) -> &'static str {
    match runs_on {
        RunsOn::RunningKernel => "both sides run on this kernel",
        RunsOn::Guests => "ktax starts both sides itself",
    }
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
    fn each_block_needs_a_new_boot_of_its_sides_kernel() {
        let (old, new) = (facts("6.1", "quiet"), facts("6.1", "quiet a=1"));
        let blocks = [block(Side::Base, "one", old.clone())];
        let checked = |side, boot_id, facts| check_boot(&blocks, side, boot_id, facts);
        assert_eq!(checked(Side::Base, "two", &old), Ok(()));
        assert_eq!(checked(Side::Change, "two", &new), Ok(()));
        let refused = |side, boot_id, facts| checked(side, boot_id, facts).unwrap_err().to_string();
        assert_eq!(
            refused(Side::Change, "one", &new),
            "the base was already measured since this machine booted; reboot first"
        );
        assert_eq!(
            refused(Side::Base, "two", &new),
            "this is kernel 6.1, but the base was measured on a kernel with another release, build \
             or boot line; boot that kernel"
        );
        assert_eq!(
            refused(Side::Change, "two", &old),
            "this is kernel 6.1, on which the base was measured; boot the kernel of the change"
        );
    }

    #[test]
    fn the_name_of_a_kernel_is_escaped() {
        let there = block(Side::Change, "one", facts("6.1", "quiet"));
        let error = check_boot(&[there], Side::Change, "two", &facts("6.1\u{1b}", ""));
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("this is kernel 6.1\\u{1b}, but the change was"), "{message}");
    }
}
