//! Blocks: each Side in boots of the machine of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::noise::CHANGED_MENDS;
use super::{median_loop, too_many_failed};
use super::{times, wants_more};
use ktax_model::{
    Comparison, ComparisonMethod, Noise, Plan, Side, Sides, TimedBlock, TimedBoot, TimedPair,
    TimedRun, TimesPlan, Verdict, Warning,
};
use ktax_stats::timed::Order;

/// The blocks as pairs, so that a boot of the machine is what is counted: two neighbours of
/// different Sides are a pair, two of the base an A/A pair. A block's loops are the medians of its
/// Boots. What was measured after the Plan had enough is left out: who looks often enough finds
/// something.
pub fn of_blocks(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Vec<TimedPair> {
    let mut pairs = Vec::new();
    let mut left = blocks;
    while let [first, second, rest @ ..] = left {
        left = rest;
        let (base, change, is_control) = match (first.side, second.side) {
            (Side::Base, Side::Change) => (first, second, false),
            (Side::Change, Side::Base) => (second, first, false),
            (Side::Base, Side::Base) => (first, second, true),
            (Side::Change, Side::Change) => {
                left = &blocks[blocks.len() - rest.len() - 1..];
                continue;
            }
        };
        if !wants_more(plan, &pairs) {
            break;
        }
        pairs.push(TimedPair {
            index: pairs.len() as u32,
            is_control,
            change_first: first.side == Side::Change,
            boots: Sides { base: block_as_boot(base), change: block_as_boot(change) },
            noise: combined_noise(&base.noise, &change.noise),
        });
    }
    pairs
}

/// The Sides in the Plan's randomized order, without end: of an A/A pair the base twice.
pub fn turns(plan: &Plan<TimesPlan>) -> impl Iterator<Item = Side> + use<> {
    Order::new(plan.seed).flat_map(|slot| match (slot.is_control, slot.change_first) {
        (true, _) => [Side::Base, Side::Base],
        (false, false) => [Side::Base, Side::Change],
        (false, true) => [Side::Change, Side::Base],
    })
}

/// Whether the blocks are in that order.
pub fn is_drawn(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> bool {
    turns(plan).zip(blocks).all(|(turn, block)| turn == block.side)
}

/// Compares Sides that were measured in blocks. In any other order there is no verdict: what
/// drifts from boot to boot could look like the change.
pub fn in_blocks(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Comparison {
    let mut comparison = times(plan, &of_blocks(plan, blocks));
    comparison.warnings.extend(blocks.iter().flat_map(changed_fact_warnings));
    if !is_drawn(plan, blocks) {
        let why = "the blocks are not in the order that `ktax run` draws, so that a drift could \
                   look like the change; measure in that order, into a new directory";
        for row in comparison.rows.iter_mut().filter(|row| row.verdict.is_answer()) {
            row.verdict = Verdict::Inconclusive;
            row.reason = Some(why.to_owned());
        }
        if let ComparisonMethod::Times(times) = &mut comparison.method {
            times.crossings.clear();
            times.unfit.get_or_insert(why.to_owned());
        }
    }
    comparison
}

/// A row has failed in a block if it has in too many of its Boots, and did other work if it has in
/// one of them.
fn block_as_boot(block: &TimedBlock) -> TimedBoot {
    let mut runs: BTreeMap<String, TimedRun> = BTreeMap::new();
    for row in block.boots.iter().flat_map(|boot| boot.runs.keys()) {
        if runs.contains_key(row) {
            continue;
        }
        let runs_of_row = || block.boots.iter().filter_map(|boot| boot.runs.get(row));
        let failures: Vec<_> = runs_of_row().filter_map(|run| run.failure.as_ref()).collect();
        let too_many = too_many_failed(failures.len(), block.boots.len());
        let signatures =
            || runs_of_row().filter(|run| run.failure.is_none()).map(|run| &run.signature);
        let first = signatures().next();
        let signature = signatures().find(|signature| Some(*signature) != first).or(first).cloned();
        runs.insert(
            row.clone(),
            TimedRun {
                loops_ns: block.boots.iter().filter_map(|boot| median_loop(boot, row)).collect(),
                signature: signature.unwrap_or_default(),
                failure: failures.first().filter(|_| too_many).map(|failure| (*failure).clone()),
            },
        );
    }
    let facts = block.boots.first().map(|boot| boot.facts.clone()).unwrap_or_default();
    TimedBoot { facts, runs, lost: None }
}

/// Facts that were not the same in all Boots of a block, of which the first one's are kept.
fn changed_fact_warnings(block: &TimedBlock) -> Vec<Warning> {
    let facts = || block.boots.iter().map(|boot| &boot.facts);
    let names: BTreeSet<&String> = facts().flat_map(|facts| facts.keys()).collect();
    let value = |name: &String| facts().map(|facts| facts.get(name)).collect::<BTreeSet<_>>();
    let changed = names.into_iter().filter(|name| value(name).len() > 1);
    let warning = |name: &String| Warning {
        fact: format!("{name} changed while block {} was measured", block.index),
        next_step: CHANGED_MENDS.into(),
    };
    changed.map(warning).collect()
}

/// The noise of two, by their time.
fn combined_noise(one: &Noise, other: &Noise) -> Noise {
    let seconds = one.seconds + other.seconds;
    let mean = |share: fn(&Noise) -> f64| match seconds > 0.0 {
        true => (share(one) * one.seconds + share(other) * other.seconds) / seconds,
        false => 0.0,
    };
    Noise {
        seconds,
        cpus: one.cpus.max(other.cpus),
        steal_percent: mean(|noise| noise.steal_percent),
        others_percent: mean(|noise| noise.others_percent),
        throttled: one.throttled.saturating_add(other.throttled),
    }
}
