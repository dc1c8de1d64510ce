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
    let count = decimal(count).filter(|count| *count > 0)?;
    Some(MsrLine { context, kind, msr, count, function: (*function).to_owned() })
}

/// Whether no function accessed registers more often than it executed such instructions.
pub(super) fn are_of(msrs: &[MsrLine], lines: &[ProfileLine]) -> bool {
    let mut sums: BTreeMap<(Context, &str, Costly), u64> = BTreeMap::new();
    for of in msrs {
        let sum = sums.entry((of.context, &of.function, of.kind)).or_default();
        *sum = sum.saturating_add(of.count);
    }
    let mut counted: BTreeMap<(Context, &str, Costly), u64> = BTreeMap::new();
    for line in lines {
        for (kind, count) in line.counts.costly.iter() {
            let sum = counted.entry((line.context, &line.function, kind)).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums.into_iter().all(|(of, sum)| counted.get(&of).is_some_and(|counted| sum <= *counted))
}
