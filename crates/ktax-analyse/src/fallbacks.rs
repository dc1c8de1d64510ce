//! What rows differ by because the CPU lacks a feature that only one of the kernels asks for.

use std::collections::BTreeSet;

use ktax_model::{Effect, Fallback, Row, Warning};

/// What the slow ways carry of the rows, if there is anything.
pub(super) fn warning(rows: &[Row]) -> Option<Warning> {
    let (mut functions, mut features) = (BTreeSet::new(), BTreeSet::new());
    let mut largest: Option<(f64, &str)> = None;
    let mut count = 0;
    for row in rows {
        let Some(effect) = row.effects().first() else { continue };
        let slow: Vec<&Fallback> = effect.fallbacks().collect();
        functions.extend(slow.iter().map(|way| way.function));
        features.extend(slow.iter().map(|way| way.feature));
        let Some(share) = share_percent(effect).filter(|_| !slow.is_empty()) else { continue };
        count += 1;
        largest = largest.filter(|(most, _)| *most >= share).or(Some((share, &row.row)));
    }
    let (share, row) = largest?;
    let names = |all: BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join(", ");
    let features = names(features);
    Some(Warning {
        fact: format!(
            "the CPU lacks {features}, which processors of the last years have, so one side alone \
             executes {} in {count} of {} rows: with what they replace they carry up to \
             {share:.0} % of a row's delta ({row}), and stand last among a row's functions",
            names(functions),
            rows.len()
        ),
        next_step: "measure with QEMU 8.1 or newer, whose CPU has these features: `ktax doctor \
                    --newer-qemu qemu-10`, then --qemu qemu-10/qemu-system-x86_64"
            .into(),
    })
}

/// What the slow ways and those that they replace carry of an Effect's delta together, in percent.
fn share_percent(effect: &Effect) -> Option<f64> {
    let slow = effect.functions.iter().filter(|delta| effect.lacking(&delta.function).is_some());
    let sum: f64 = slow.map(|delta| delta.delta).sum();
    (effect.delta != 0.0).then(|| (sum / effect.delta * 100.0).abs())
}
