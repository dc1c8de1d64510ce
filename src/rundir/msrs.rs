//! The lines of a profile that say which model-specific registers were accessed.

use std::collections::BTreeMap;

use super::fields::{decimal, is_function_name};
use crate::model::{Context, Costly, Msr, MsrLine, ProfileLine, Tallied};

/// A line `msr`.
pub(super) fn msr(fields: &[&str]) -> Option<MsrLine> {
    let ["msr", context, kind, number, count, function] = fields else { return None };
    let context = Context::ALL.into_iter().find(|known| known.name() == *context)?;
    let kind = Costly::named(kind).filter(|kind| [Costly::Wrmsr, Costly::Rdmsr].contains(kind))?;
    let is_hex = (1..=8).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex && is_function_name(function)).then_some(())?;
    let msr = Msr(u32::from_str_radix(number, 16).ok()?);
    Some(MsrLine { context, kind, msr, count: decimal(count)?, function: (*function).to_owned() })
}

/// Whether no function accessed registers more often than it executed such instructions.
pub(super) fn are_of(msrs: &[MsrLine], lines: &[ProfileLine]) -> bool {
    let mut sums: BTreeMap<(Context, &str, Costly), u64> = BTreeMap::new();
    for of in msrs {
        let sum = sums.entry((of.context, &of.function, of.kind)).or_default();
        *sum = sum.saturating_add(of.count);
    }
    sums.into_iter().all(|((context, function, kind), sum)| {
        let of = lines.iter().filter(|it| it.context == context && it.function == function);
        let counted = of.fold(0_u64, |all, it| all.saturating_add(it.counts.costly.get(kind)));
        sum <= counted
    })
}
