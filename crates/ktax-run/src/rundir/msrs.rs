//! The lines of a profile that say which model-specific registers were accessed.

use std::collections::BTreeMap;

use super::fields::{self, decimal, hexadecimal, is_function_name};
use ktax_model::{Context, Costly, Msr, MsrLine, ProfileLine, Tallied};

/// The instructions that access them.
const KINDS: [Costly; 2] = [Costly::Wrmsr, Costly::Rdmsr];

/// A line `msr`.
pub(super) fn msr(fields: &[&str]) -> Option<MsrLine> {
    let ["msr", context, kind, number, count, function] = fields else { return None };
    let context = fields::context(context)?;
    let kind = Costly::named(kind).filter(|kind| KINDS.contains(kind))?;
    let msr = Msr(u32::try_from(hexadecimal(number, 8)?).ok()?);
    let count = decimal(count).filter(|count| *count > 0)?;
    let function = is_function_name(function).then(|| (*function).to_owned())?;
    Some(MsrLine { context, kind, msr, count, function })
}

/// Whether no function accessed registers more often than it executed such instructions.
pub(super) fn are_of(msrs: &[MsrLine], lines: &[ProfileLine]) -> bool {
    if msrs.is_empty() {
        return true;
    }
    let mut left: BTreeMap<(Context, &str, Costly), u64> = BTreeMap::new();
    for line in lines {
        for kind in KINDS {
            let left = left.entry((line.context, &line.function, kind)).or_default();
            *left = left.saturating_add(line.counts.costly.get(kind));
        }
    }
    msrs.iter().all(|of| {
        let left = left.entry((of.context, &of.function, of.kind)).or_default();
        let rest = left.checked_sub(of.count);
        *left = rest.unwrap_or_default();
        rest.is_some()
    })
}
