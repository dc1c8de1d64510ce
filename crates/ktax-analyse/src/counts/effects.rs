//! What each Metric did between the Sides of a row, and which of them decides.

use super::gather::Pair;
use crate::effect::{Values, effect};
use ktax_model::{
    AWAITED, Effect, MAKESPAN, METRICS, Metric, Side, Sides, Verdict, Workload, metric,
};

/// The pair of an Effect's Layout.
pub(super) fn pair_of<'a>(effect: &Effect, pairs: &'a [Pair<'a>]) -> &'a Pair<'a> {
    // One pair for each Layout, so an index of the one is an index of the other.
    &pairs[effect.layout]
}

/// What each Metric did between the Sides.
pub(super) fn effects(
    metrics: &[&Metric],
    workload: &Workload,
    pairs: &[Pair<'_>],
    threshold_percent: f64,
) -> Vec<Effect> {
    let one = |metric: &&Metric| {
        let values = Values {
            metric: metric.name,
            samples: Sides::of(|side| raw(metric, pairs, side)),
            layouts: pairs.iter().map(|pair| pair.layout).collect(),
            ops: workload.ops,
        };
        let whole = |pair: usize| metric.whole(&pairs[pair].samples.base) as f64;
        effect(values, |pair| threshold_percent / 100.0 * whole(pair))
    };
    metrics.iter().filter_map(one).collect()
}

fn raw(metric: &Metric, pairs: &[Pair<'_>], side: Side) -> Vec<u64> {
    pairs.iter().map(|pair| metric.raw(pair.samples.get(side))).collect()
}

/// The Metrics of a row, the headline first: of several CPUs that is the makespan. What most rows
/// do not have is left out where no Sample has it.
pub(super) fn metrics_of(pairs: &[Pair<'_>]) -> Vec<&'static Metric> {
    let samples = || pairs.iter().flat_map(|pair| [&pair.samples.base, &pair.samples.change]);
    let is_there = |metric: &&Metric| {
        let is_rare = metric.costly.is_some() || metric.name == AWAITED;
        !is_rare || samples().any(|sample| metric.raw(sample) > 0)
    };
    let first = &pairs[0].samples.base;
    let all = METRICS.iter().filter(|metric| (metric.is_in)(first)).filter(is_there);
    let (makespan, others): (Vec<_>, Vec<_>) = all.partition(|metric| metric.name == MAKESPAN);
    [makespan, others].concat()
}

/// A row changed if its headline did, or else, of several CPUs, what they executed; or else its REP
/// iterations in process context: clearing and copying memory is work that hardware retires as a
/// single instruction; or else what kernel threads did while the process waited for them; or else
/// what several CPUs waited for each other. Other Contexts are shown and decide nothing.
pub(super) fn decide(effects: &[Effect]) -> (Verdict, String) {
    let decides = |effect: &Effect| metric(&effect.metric).is_some_and(Metric::decides);
    let mut changed = effects.iter().filter(|effect| effect.verdict.is_change());
    let changed = changed.find(|effect| decides(effect));
    match changed.or(effects.first()) {
        Some(effect) => (effect.verdict, effect.metric.clone()),
        None => (Verdict::TooFewBoots, String::new()),
    }
}
