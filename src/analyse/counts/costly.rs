//! Costly instructions of both Sides.

use std::collections::BTreeMap;

use crate::model::{Costly, Counts, Sides};

/// Of these kinds what there is.
pub(super) fn costly(
    kinds: impl IntoIterator<Item = Costly>,
    counts: &Sides<Counts>,
) -> BTreeMap<Costly, Sides<u64>> {
    let of = |kind: Costly| Sides::of(|side| counts.get(side).costly.get(kind));
    let kinds = kinds.into_iter().map(|kind| (kind, of(kind)));
    kinds.filter(|(_, counts)| *counts != Sides::default()).collect()
}
