//! What the noise facts of timed pairs say of their comparison: what to warn of, what differs that
//! should not, and when the machine cannot measure at all.

mod declared;
mod warnings;

#[cfg(test)]
mod tests;

use crate::model::fact::PARTS;
use crate::model::{Noise, Side, TimedBoot, TimedPair};

pub use declared::undeclared;
pub use warnings::{CHANGED_MENDS, warnings};

/// Above this share of the time of all CPUs a hypervisor leaves nothing that can be measured.
const MOST_STEAL_PERCENT: f64 = 10.0;

/// Why this machine cannot measure, with the figures and the next step: a hypervisor that takes
/// its CPUs away, or others that are busy on all of them.
pub fn cannot_measure(pairs: &[TimedPair]) -> Option<String> {
    let Average { steal_percent, others_percent, limit_percent, cpus, .. } = Average::of(pairs)?;
    if steal_percent > MOST_STEAL_PERCENT {
        return Some(format!(
            "a hypervisor ran something else for {steal_percent:.1} % of the time, and above \
             {MOST_STEAL_PERCENT} % times say nothing; measure on a machine that has its CPUs to \
             itself"
        ));
    }
    (others_percent > limit_percent).then(|| {
        format!(
            "others' work took {others_percent:.1} % of the time of all CPUs ({cpus}), and above \
             {limit_percent:.1} % none is left to what is measured; end what else runs, and \
             measure again"
        )
    })
}

/// Others' share of the time of `cpus` CPUs from which all of them are busy with others' work, in
/// percent. Beside one task of ours, as many busy loops as CPUs get N/(N+1) of the time, and one
/// less, which leaves us a CPU, (N-1)/N; this is the middle.
fn busy_limit_percent(cpus: u32) -> f64 {
    let cpus = f64::from(cpus.max(1));
    100.0 * ((cpus - 1.0) / cpus + cpus / (cpus + 1.0)) / 2.0
}

/// What there was meanwhile, over all pairs, by their CPU time.
struct Average {
    steal_percent: f64,
    others_percent: f64,
    /// [`busy_limit_percent`].
    limit_percent: f64,
    /// Of one CPU's time, so it can be more than 100.
    others_of_one_percent: f64,
    throttled: u64,
    /// The most that there were.
    cpus: u32,
}

impl Average {
    /// Nothing of pairs that took no time.
    fn of(pairs: &[TimedPair]) -> Option<Average> {
        let noises = || pairs.iter().map(|pair| &pair.noise).filter(|noise| noise.seconds > 0.0);
        let cpu_time = noises().map(|noise| noise.seconds * f64::from(noise.cpus)).sum::<f64>();
        let time: f64 = noises().map(|noise| noise.seconds).sum();
        if cpu_time <= 0.0 {
            return None;
        }
        let cpu_seconds = |share: &dyn Fn(&Noise) -> f64| -> f64 {
            noises().map(|noise| share(noise) * noise.seconds * f64::from(noise.cpus)).sum()
        };
        let others = cpu_seconds(&|noise| noise.others_percent);
        Some(Average {
            steal_percent: cpu_seconds(&|noise| noise.steal_percent) / cpu_time,
            others_percent: others / cpu_time,
            limit_percent: cpu_seconds(&|noise| busy_limit_percent(noise.cpus)) / cpu_time,
            others_of_one_percent: others / time,
            throttled: noises().fold(0, |sum, noise| sum.saturating_add(noise.throttled)),
            cpus: noises().map(|noise| noise.cpus).max()?,
        })
    }
}

/// All Boots in the order in which they were made, with the pair and the Side that they are of: an
/// A/A pair's are both of the base. Boots of which nothing is known are left out.
fn boots(pairs: &[TimedPair]) -> impl Iterator<Item = (&TimedPair, Side, &TimedBoot)> {
    let both = pairs.iter().flat_map(|pair| {
        let change = if pair.is_control { Side::Base } else { Side::Change };
        let mut both = [(pair, Side::Base, &pair.boots.base), (pair, change, &pair.boots.change)];
        if pair.change_first {
            both.reverse();
        }
        both
    });
    both.filter(|(_, _, boot)| !boot.facts.is_empty())
}

/// Of two values the parts that the other has not; an empty one is nothing.
fn only_what_differs(one: &str, other: &str) -> [String; 2] {
    let without = |one: &str, other: &str| {
        let parts = one.split(PARTS).filter(|part| !other.split(PARTS).any(|o| o == *part));
        parts.collect::<Vec<_>>().join(PARTS)
    };
    match [without(one, other), without(other, one)] {
        // The same parts in another order.
        [a, b] if a.is_empty() && b.is_empty() => [one.to_owned(), other.to_owned()],
        different => different,
    }
}
