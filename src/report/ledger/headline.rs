use super::matrix;
use crate::model::{LedgerCosts, LedgerEntry, LedgerRow, LedgerTable, Verdict};
use crate::report::number;
use crate::stats::exact::MIN_LAYOUTS;
use crate::text::counted;

/// What most readers want to know, before any table: who costs most and where, who costs nothing,
/// what all cost together, and whether that is the sum.
pub fn headline(ledger: &LedgerTable) -> Vec<String> {
    let names = matrix::names(ledger);
    let any = |name: &str, of: fn(&LedgerCosts) -> bool| {
        entries(ledger, name).any(|(_, entry)| entry.costs.as_ref().is_some_and(of))
    };
    let slower: Vec<&str> = names.iter().copied().filter(|name| any(name, is_slower)).collect();
    let mut found = who_is_slower(ledger, slower.len(), names.len());
    // Without verdicts the figures still have an order.
    let dearest_of = match ledger.layouts < MIN_LAYOUTS {
        true => names.first(),
        false => slower.first(),
    };
    if let Some((name, (row, percent))) =
        dearest_of.and_then(|name| Some((name, most(entries(ledger, name))?)))
    {
        if percent > 0.0 {
            let percent = number::percent(Some(percent));
            found += &format!(" The most expensive is {name}: {percent} % ({row}).");
        }
    }
    found.extend(saves_most(ledger, &names));
    let is_free = |name: &&str| {
        !any(name, is_change) && entries(ledger, name).all(|(_, entry)| is_judged(entry))
    };
    let free: Vec<&str> = names.iter().copied().filter(is_free).collect();
    if !free.is_empty() {
        found += &format!(" No change was detected with {}.", free.join(", "));
    }
    let is_lost = |name: &&str| {
        let lost =
            |entry: &LedgerEntry| matches!(entry.verdict, Verdict::Failed | Verdict::DifferentWork);
        entries(ledger, name).any(|(_, entry)| lost(entry))
    };
    let lost: Vec<&str> = names.iter().copied().filter(is_lost).collect();
    if !lost.is_empty() {
        found += &format!(" Not measured in every row: {}.", lost.join(", "));
    }
    [found].into_iter().chain(together(ledger)).collect()
}

/// The addition that makes a row faster than any other does.
fn saves_most(ledger: &LedgerTable, names: &[&str]) -> Option<String> {
    let faster = |name: &&str| {
        let is_faster = |(_, entry): &(&str, &LedgerEntry)| {
            entry.costs.as_ref().is_some_and(|it| it.any(|verdict| verdict == Verdict::Faster))
        };
        let (row, percent) = least(entries(ledger, name).filter(is_faster))?;
        Some((name.to_string(), row.to_owned(), percent))
    };
    let (name, row, percent) =
        names.iter().filter_map(faster).min_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!(" {name} saves most: {} % ({row}).", number::percent(Some(percent))))
}

fn who_is_slower(ledger: &LedgerTable, slower: usize, all: usize) -> String {
    let layouts = ledger.layouts;
    match slower {
        _ if layouts < MIN_LAYOUTS => {
            format!("A verdict needs {MIN_LAYOUTS} layouts; this ledger has {layouts}.")
        }
        0 => "No addition is slower.".to_owned(),
        _ => {
            let are = if slower == 1 { "is" } else { "are" };
            let rows = if ledger.rows.len() == 1 { "the row" } else { "at least one row" };
            format!("{slower} of {} {are} slower in {rows}.", counted(all, "addition"))
        }
    }
}

/// Whether a verdict was possible, and there is one.
fn is_judged(entry: &LedgerEntry) -> bool {
    let has_limit = |costs: &LedgerCosts| costs.all.detectable.is_some();
    entry.verdict.is_answer() && entry.costs.as_ref().is_some_and(has_limit)
}

fn together(ledger: &LedgerTable) -> Option<String> {
    let rows = || ledger.rows.iter().filter_map(|row| Some((&*row.row, row.together.as_ref()?)));
    let changes = |(_, entry): &(&str, &LedgerEntry)| entry.costs.as_ref().is_some_and(is_change);
    let has_verdicts = ledger.layouts >= MIN_LAYOUTS;
    let changed: Vec<_> = rows().filter(|row| !has_verdicts || changes(row)).collect();
    rows().next()?;
    let said = match (most(changed.iter().copied()), least(changed.iter().copied())) {
        (Some((row, most)), _) if most > 0.0 => {
            format!("All together cost at most {} % ({row}).", number::percent(Some(most)))
        }
        (_, Some((row, least))) => {
            format!("All together save most in {row}: {} %.", number::percent(Some(least)))
        }
        _ => "No change was detected with all together.".to_owned(),
    };
    let has_sum =
        |row: &&LedgerRow| row.interactions.iter().any(|one| one.beyond.detectable.is_some());
    let is_more =
        |row: &&LedgerRow| row.interactions.iter().any(|one| one.beyond.verdict.is_change());
    let judged = ledger.rows.iter().filter(has_sum).count();
    let adds_up = match (ledger.rows.iter().filter(is_more).count(), judged) {
        (_, 0) => String::new(),
        (0, _) => " No interaction was detected.".to_owned(),
        (count, judged) => {
            format!(" Their costs do not add up in {count} of {}.", counted(judged, "row"))
        }
    };
    Some(said + &adds_up)
}

fn is_slower(costs: &LedgerCosts) -> bool {
    costs.any(|verdict| verdict == Verdict::Slower)
}

fn is_change(costs: &LedgerCosts) -> bool {
    costs.any(Verdict::is_change)
}

fn entries<'a>(
    ledger: &'a LedgerTable,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a LedgerEntry)> {
    let named = name.to_owned();
    ledger.rows.iter().filter_map(move |row| {
        Some((&*row.row, row.entries.iter().find(|entry| entry.name == named)?))
    })
}

/// The largest cost, in percent, and the row that has it.
fn most<'a>(entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>) -> Option<(&'a str, f64)> {
    entries.filter_map(cost).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The smallest.
fn least<'a>(entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>) -> Option<(&'a str, f64)> {
    entries.filter_map(cost).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn cost<'a>((row, entry): (&'a str, &'a LedgerEntry)) -> Option<(&'a str, f64)> {
    Some((row, entry.costs.as_ref()?.all.percent?))
}
