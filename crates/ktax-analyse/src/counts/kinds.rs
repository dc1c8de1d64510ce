//! Costly instructions, and what was modelled, of both Sides.

use std::collections::BTreeMap;

use super::plain::plain;
use ktax_model::{
    Costly, Counts, Metric, Modelled, Msr, MsrLine, Profile, Side, Sides, Tallied, Tally,
};

/// Of these kinds what there is.
pub(super) fn costly(
    kinds: impl IntoIterator<Item = Costly>,
    counts: &Sides<Counts>,
) -> BTreeMap<Costly, Sides<u64>> {
    of(kinds, counts, |counts| &counts.costly)
}

/// The same of the model of a machine.
pub(super) fn modelled(
    kinds: impl IntoIterator<Item = Modelled>,
    counts: &Sides<Counts>,
) -> BTreeMap<Modelled, Sides<u64>> {
    of(kinds, counts, |counts| &counts.modelled)
}

/// Which registers functions accessed, if the Metric is of such instructions.
pub(super) fn msrs<'a>(
    profiles: &Sides<&'a Profile>,
    metric: &Metric,
) -> BTreeMap<&'a str, BTreeMap<Msr, Sides<u64>>> {
    let mut functions: BTreeMap<&str, BTreeMap<Msr, Sides<u64>>> = BTreeMap::new();
    for side in Side::BOTH {
        let lines = profiles.get(side).msrs.iter();
        let is_of =
            |line: &&MsrLine| line.context == metric.context && Some(line.kind) == metric.costly;
        for line in lines.filter(is_of) {
            let msrs = functions.entry(plain(&line.function)).or_default();
            let count = msrs.entry(line.msr).or_default().get_mut(side);
            *count = count.saturating_add(line.count);
        }
    }
    functions
}

fn of<K: Tallied<N> + Ord, const N: usize>(
    kinds: impl IntoIterator<Item = K>,
    counts: &Sides<Counts>,
    tally: fn(&Counts) -> &Tally<K, N>,
) -> BTreeMap<K, Sides<u64>> {
    let of = |kind: K| Sides::of(|side| tally(counts.get(side)).get(kind));
    let kinds = kinds.into_iter().map(|kind| (kind, of(kind)));
    kinds.filter(|(_, counts)| *counts != Sides::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Context, metric};

    #[test]
    fn registers_are_of_the_metrics_kind_context_and_function() {
        let line = |context, kind, msr, function: &str| MsrLine {
            context,
            kind,
            msr: Msr(msr),
            count: 5,
            function: function.to_owned(),
        };
        let base = Profile::default();
        let change = Profile {
            msrs: vec![
                line(Context::Process, Costly::Wrmsr, 0x10, "f"),
                line(Context::Process, Costly::Wrmsr, 0x10, "f.isra.0"),
                line(Context::Process, Costly::Wrmsr, 0x11, "g"),
                line(Context::Process, Costly::Rdmsr, 0x12, "f"),
                line(Context::Interrupt, Costly::Wrmsr, 0x13, "f"),
            ],
            ..Profile::default()
        };
        let metric = metric(Costly::Wrmsr.name()).unwrap();
        let found = msrs(&Sides { base: &base, change: &change }, metric);
        assert_eq!(found["f"], [(Msr(0x10), Sides { base: 0, change: 10 })].into());
    }
}
