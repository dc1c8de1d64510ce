//! Sides that the user boots one after the other.

use super::super::exit::UsageError;
use crate::analyse::{is_drawn, of_blocks, turns, wants_more, why_ended};
use crate::model::{Facts, Side, TimedBlock, TimedEngine, TimedPlan, fact};
use crate::rundir::TimedDir;

/// Boots of a Side in each block: fresh processes, so that a block's median is of more than one.
pub const BOOTS: u32 = 20;

/// Which Side is to be measured now: as asked for, if that can be.
pub fn side(dir: &TimedDir, asked: Option<Side>) -> Result<Option<Side>, UsageError> {
    let (plan, path) = (dir.plan(), dir.root().display());
    let refuse = |text: String| Err(UsageError::Text(text));
    match (plan.is_in_blocks(), asked) {
        (false, None) => Ok(None),
        (true, Some(side)) => Ok(Some(side)),
        (true, None) => refuse(format!("say which side this machine is now: {}", how(plan, dir))),
        (false, Some(_)) => {
            let text = match plan.engine {
                TimedEngine::Host => "both sides run on this kernel",
                TimedEngine::Kvm => "ktax starts both sides itself",
            };
            refuse(format!("{text}; leave --side out: `ktax run {path}`"))
        }
    }
}

/// What to do for Sides that are kernels to be booted.
pub fn how(plan: &TimedPlan, dir: &TimedDir) -> String {
    let [base, change] = [&plan.subjects.base, &plan.subjects.change]
        .map(|side| side.kernel.as_deref().unwrap_or("the other one").escape_default().to_string());
    let path = dir.root().display();
    format!(
        "boot {base}, `ktax run {path} --side base`; boot {change}, `ktax run {path} --side \
         change`; and in turns again, as often as you can; then `ktax analyse {path}`"
    )
}

/// Refuses what cannot be a block of this Side: a boot of the machine that is measured already, or
/// another kernel than its Side's.
pub fn check(
    blocks: &[TimedBlock],
    side: Side,
    boot_id: &str,
    facts: &Facts,
) -> Result<(), UsageError> {
    if let Some(block) = blocks.iter().find(|block| block.boot_id == boot_id) {
        return Err(UsageError::Text(format!(
            "this is still the boot in which the {} was measured; reboot first",
            block.side.name()
        )));
    }
    let is_here = |block: &TimedBlock| {
        let there = block.boots.first().map(|boot| &boot.facts);
        there.is_some_and(|there| KERNEL.iter().all(|name| there.get(*name) == facts.get(*name)))
    };
    let here = facts.get(fact::KERNEL).map_or("no known", String::as_str).escape_default();
    match blocks.iter().find(|block| (block.side == side) != is_here(block)) {
        None => Ok(()),
        Some(block) if block.side == side => Err(UsageError::Text(format!(
            "this is kernel {here}, and not the one (with its build and boot line) that the {} was \
             measured on before; boot that one",
            side.name()
        ))),
        Some(block) => Err(UsageError::Text(format!(
            "this is kernel {here}, on which the {} was measured; boot the {}",
            block.side.name(),
            side.name()
        ))),
    }
}

/// What tells one Side's kernel from the other's.
const KERNEL: [&str; 3] = [fact::KERNEL, fact::BUILD, fact::BOOT_LINE];

/// What comes next.
pub fn next(dir: &TimedDir, blocks: &[TimedBlock]) -> String {
    let (plan, path) = (dir.plan(), dir.root().display());
    let pairs = of_blocks(plan, blocks);
    let why = why_ended(plan, &pairs);
    let is_whole = blocks.len() % 2 == 0 && !pairs.is_empty();
    if is_whole && why.is_none() && !wants_more(plan, &pairs) {
        return format!("that is enough: `ktax analyse {path}`");
    }
    let but = why.map(|why| format!("but {why}. For whoever goes on, ")).unwrap_or_default();
    let turn = turns(plan).nth(blocks.len()).unwrap_or(Side::Base).name();
    let drawn = match is_drawn(plan, blocks) {
        true => "next by lot is",
        false => "the lot had drawn another order, without which there is no verdict; next is",
    };
    format!(
        "{but}{drawn} the {turn}: boot it and type `ktax run {path} --side {turn}`; `ktax analyse \
         {path}` says what is known"
    )
}
