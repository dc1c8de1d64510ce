//! Comparisons of several additions with one base become a table that ranks them.

use crate::model::{Comparison, LedgerEntry, LedgerRow, LedgerTable, Row, Side, Verdict};

/// Ranks the additions for each Workload. `together` is the Comparison of all at once, `not_built`
/// has those that have none, with the reason. Nothing if no addition could be built.
pub fn ledger(
    title: &str,
    each: &[(String, Comparison)],
    together: Option<&Comparison>,
    not_built: Vec<(String, String)>,
) -> Option<LedgerTable> {
    let (_, first) = each.first()?;
    let counts = first.counts()?;
    let warnings = each.iter().flat_map(|(name, comparison)| {
        comparison.warnings.iter().map(|warning| (name.clone(), warning.clone()))
    });
    let base = counts.subjects.get(Side::Base);
    let rows = (0..first.rows.len()).map(|at| ranked(at, each, together));
    Some(LedgerTable {
        title: title.to_owned(),
        key: counts.key.clone(),
        layouts: counts.layouts,
        base: (base.kernel.name().to_owned(), base.subject.beside_kernel()),
        rows: rows.collect(),
        not_built,
        warnings: warnings.collect(),
    })
}

fn ranked(at: usize, each: &[(String, Comparison)], together: Option<&Comparison>) -> LedgerRow {
    let entry =
        |name: &str, comparison: &Comparison| comparison.rows.get(at).map(|row| of(name, row));
    let mut entries: Vec<LedgerEntry> =
        each.iter().filter_map(|(name, comparison)| entry(name, comparison)).collect();
    let together = together.and_then(|comparison| entry("together", comparison));
    let interaction = together.as_ref().and_then(|together| interaction(&entries, together));
    entries.sort_by(|a, b| b.delta.total_cmp(&a.delta));
    // Of an addition with which nothing runs there is no number, of the base neither.
    let rows = || each.iter().filter_map(|(_, comparison)| comparison.rows.get(at));
    let base = rows().find_map(|row| row.effects().first()).map_or(0.0, |effect| effect.base);
    let row = rows().next().map_or(String::new(), |row| row.row.clone());
    LedgerRow { row, base, entries, together, interaction }
}

fn of(name: &str, row: &Row) -> LedgerEntry {
    let headline = row.effects().first();
    LedgerEntry {
        name: name.to_owned(),
        delta: headline.map_or(0.0, |effect| effect.delta),
        percent: headline.and_then(|effect| effect.percent),
        detectable: headline.and_then(|effect| effect.detectable),
        verdict: row.verdict,
        decided_by: row.counts().map(|it| it.decided_by.clone()).unwrap_or_default(),
    }
}

/// Costs that are independent add up; each is known to what its row could have detected.
fn interaction(entries: &[LedgerEntry], together: &LedgerEntry) -> Option<f64> {
    let all = || entries.iter().chain([together]);
    let measured =
        |entry: &LedgerEntry| !matches!(entry.verdict, Verdict::Failed | Verdict::DifferentWork);
    let sum: f64 = entries.iter().map(|entry| entry.delta).sum();
    let beyond = together.delta - sum;
    let unsure: f64 = all().filter_map(|entry| entry.detectable).sum();
    (all().all(measured) && beyond.abs() > unsure).then_some(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(delta: f64) -> LedgerEntry {
        LedgerEntry {
            name: String::new(),
            delta,
            percent: None,
            detectable: Some(1.0),
            verdict: Verdict::Slower,
            decided_by: String::new(),
        }
    }

    #[test]
    fn what_does_not_add_up_is_an_interaction_if_it_is_more_than_noise() {
        let parts = [entry(10.0), entry(20.0)];
        assert_eq!(interaction(&parts, &entry(30.0)), None);
        assert_eq!(interaction(&parts, &entry(33.0)), None);
        assert_eq!(interaction(&parts, &entry(24.0)), Some(-6.0));
        let failed = LedgerEntry { verdict: Verdict::Failed, ..entry(100.0) };
        assert_eq!(interaction(&parts, &failed), None);
    }
}
