//! Costly instructions, and what was modelled, of both Sides.

use std::collections::BTreeMap;

use crate::model::{Costly, Counts, Modelled, Sides, Tallied, Tally};

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

fn of<K: Tallied<N> + Ord, const N: usize>(
    kinds: impl IntoIterator<Item = K>,
    counts: &Sides<Counts>,
    tally: fn(&Counts) -> &Tally<K, N>,
) -> BTreeMap<K, Sides<u64>> {
    let of = |kind: K| Sides::of(|side| tally(counts.get(side)).get(kind));
    let kinds = kinds.into_iter().map(|kind| (kind, of(kind)));
    kinds.filter(|(_, counts)| *counts != Sides::default()).collect()
}
