//! Same work or no verdict.

use ktax_model::{Failure, Signature};

/// How the work differed, Layout by Layout: `faults 400 in base, 401 in change`. Every entry
/// counts: none may legitimately differ. What is the same in several Layouts is said once.
pub(super) fn differences<'a>(pairs: impl Iterator<Item = [&'a Signature; 2]>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for [base, change] in pairs {
        for text in between(base, change) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}

fn between(base: &Signature, change: &Signature) -> Vec<String> {
    let only_in_change = change.keys().filter(|name| !base.contains_key(*name));
    let say = |value: Option<&u64>| value.map_or("missing".to_owned(), u64::to_string);
    base.keys()
        .chain(only_in_change)
        .map(|name| (name, base.get(name), change.get(name)))
        .filter(|(_, base, change)| base != change)
        .map(|(name, base, change)| {
            format!("{name} {} in base, {} in change", say(base), say(change))
        })
        .collect()
}

/// A Sample of another number of operations than planned cannot be divided by the planned one.
pub(super) fn wrong_ops(found: u64, planned: u64) -> Failure {
    Failure::WrongWork { deviations: format!("operations {found}, expected {planned}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_entry_is_a_difference() {
        let signature = |entries: &[(&str, u64)]| -> Signature {
            entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let base = signature(&[("calls", 5), ("faults", 400), ("same", 1)]);
        let change = signature(&[("bytes", 9), ("faults", 401), ("same", 1)]);
        assert_eq!(
            between(&base, &change),
            [
                "calls 5 in base, missing in change",
                "faults 400 in base, 401 in change",
                "bytes missing in base, 9 in change",
            ]
        );
        assert!(between(&base, &base).is_empty());
    }
}
