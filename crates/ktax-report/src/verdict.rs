//! The verdict of a row, and the answer of a comparison in one sentence.

use crate::view::Cell;
use crate::{effect, number};
use ktax_host::text::counted;
use ktax_model::{AWAITED, MAKESPAN, METRICS, Row, SPIN_WAIT, TRANSFERS, Verdict};

/// Metric of REP iterations in process context.
pub const REP: &str = "rep-iterations";

/// Cell with a row's Verdict; `slower (REP)` where REP iterations decided, `faster, REP slower`
/// where instructions did and REP iterations went the other way.
pub fn cell(row: &Row) -> Cell {
    let rep = row.effect(REP);
    let decided_by = row.counts().map_or("", |counts| &counts.decided_by);
    let headline = row.effects().first().map_or("", |effect| &effect.metric);
    if headline == MAKESPAN && decided_by == METRICS[0].name && row.verdict.is_change() {
        return Cell::verdict(row.verdict, " (instructions)");
    }
    decided_cell(row.verdict, decided_by, rep.map(|rep| rep.verdict))
}

pub fn decided_cell(verdict: Verdict, decided_by: &str, rep: Option<Verdict>) -> Cell {
    match rep {
        _ if decided_by == REP => Cell::verdict(verdict, " (REP)"),
        _ if decided_by == SPIN_WAIT && verdict.is_change() => {
            Cell::verdict(verdict, " (spin-wait)")
        }
        _ if decided_by == AWAITED && verdict.is_change() => {
            Cell::verdict(verdict, " (kernel threads)")
        }
        _ if decided_by == TRANSFERS && verdict.is_change() => {
            Cell::verdict(verdict, " (transfers)")
        }
        Some(rep) if rep.is_change() && verdict.is_change() && rep != verdict => {
            Cell::verdict(verdict, &format!(", REP {}", rep.text()))
        }
        _ => Cell::verdict(verdict, ""),
    }
}

pub fn is_by_rep(row: &Row) -> bool {
    is_by(row, REP)
}

pub fn is_by(row: &Row, metric: &str) -> bool {
    row.counts().is_some_and(|counts| counts.decided_by == metric)
}

/// Verdicts in the order of the headline.
const VERDICTS: [Verdict; 8] = [
    Verdict::Slower,
    Verdict::Faster,
    Verdict::Failed,
    Verdict::DifferentWork,
    Verdict::TooFewBoots,
    Verdict::Inconclusive,
    Verdict::BelowThreshold,
    Verdict::NoDetectedChange,
];

/// Answer of a comparison: `14 of 42 rows slower (worst write-1 +24.00 %), 1 faster, 27 unchanged
/// (would have seen 0.10 to 3.50 %)`; of one row its name and its answer. Secondary rows are
/// counted apart, and rows of one side not at all.
pub fn headline(rows: &[Row]) -> String {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let (deciding, secondary): (Vec<&Row>, Vec<&Row>) = compared.partition(|row| row.headline);
    match (tally(&deciding, "row"), tally(&secondary, "secondary row")) {
        (rows, secondary) if secondary.is_empty() => rows,
        (rows, secondary) if rows.is_empty() => secondary,
        (rows, secondary) => format!("{rows}; {secondary}"),
    }
}

fn tally(rows: &[&Row], what: &str) -> String {
    if let [row] = rows {
        return format!("{}: {}", row.row, verdict_words(row.verdict, rows, true));
    }
    let with_verdict = |verdict| -> Vec<&Row> {
        rows.iter().copied().filter(|row| row.verdict == verdict).collect()
    };
    let found = VERDICTS.map(|verdict| (verdict, with_verdict(verdict))).into_iter();
    let found = found.filter(|(_, rows)| !rows.is_empty());
    let all = counted(rows.len(), what);
    let parts = found.enumerate().map(|(index, (verdict, found))| {
        let total = if index == 0 { format!(" of {all}") } else { String::new() };
        format!("{}{total} {}", found.len(), verdict_words(verdict, &found, false))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Verdict of these rows, and what is behind it; with a row's name unless `is_named`.
fn verdict_words(verdict: Verdict, rows: &[&Row], is_named: bool) -> String {
    let (word, detail) = match verdict {
        Verdict::Slower => ("slower", extremes("worst ", rows, 1.0, is_named)),
        Verdict::Faster => {
            ("faster", join_details(extremes("best ", rows, -1.0, is_named), rep_slower(rows)))
        }
        Verdict::NoDetectedChange => ("unchanged", detectable_range(rows)),
        other => (other.text(), None),
    };
    match detail {
        Some(detail) => format!("{word} ({detail})"),
        None => word.to_owned(),
    }
}

/// Names the rows that changed most in the direction of `sign`: one by instructions, one by REP
/// iterations, which are no smaller or larger than the other.
fn extremes(which: &str, rows: &[&Row], sign: f64, is_named: bool) -> Option<String> {
    let (rep, instructions): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| is_by_rep(row));
    // Counts come before the numbers of a model.
    let is_modelled = |row: &&Row| row.deciding().is_some_and(|effect| effect.metric == TRANSFERS);
    let (modelled, counted): (Vec<&Row>, Vec<&Row>) =
        instructions.into_iter().partition(is_modelled);
    let instructions = if counted.is_empty() { modelled } else { counted };
    let which = if rows.len() == 1 { "" } else { which };
    let by_instructions = extreme(which, &instructions, sign, is_named);
    let which = if by_instructions.is_some() { "" } else { which };
    join_details(by_instructions, extreme(which, &rep, sign, is_named))
}

/// Names the row of one of these kinds that changed most.
fn extreme(which: &str, rows: &[&Row], sign: f64, is_named: bool) -> Option<String> {
    // New costs have no percentage, and are more than any.
    let size = |row: &Row| row_percent(row).map_or(f64::INFINITY, |percent| sign * percent);
    let row = rows.iter().copied().max_by(|one, other| size(one).total_cmp(&size(other)))?;
    let unit = match row.deciding().map_or("", |effect| &effect.metric) {
        REP => " REP iterations",
        MAKESPAN => " makespan",
        SPIN_WAIT => " spin-wait",
        TRANSFERS => " model transfers",
        _ => "",
    };
    let changed = match row_percent(row) {
        None => format!("new{unit}"),
        known => format!("{} %{unit}", number::percent(known)),
    };
    Some(if is_named { changed } else { format!("{which}{} {changed}", row.row) })
}

/// Counts rows that are faster, and have more REP iterations: the exit status calls them slower.
fn rep_slower(rows: &[&Row]) -> Option<String> {
    let is_rep_slower = |row: &&&Row| {
        let rep = row.effect(REP);
        rep.is_some_and(|rep| rep.verdict == Verdict::Slower)
    };
    match rows.iter().filter(is_rep_slower).count() {
        0 => None,
        _ if rows.len() == 1 => Some("REP slower".to_owned()),
        count => Some(format!("{count} with REP slower")),
    }
}

fn join_details(one: Option<String>, other: Option<String>) -> Option<String> {
    let both: Vec<String> = one.into_iter().chain(other).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

/// Says how small a change these rows would have shown.
fn detectable_range(rows: &[&Row]) -> Option<String> {
    let known: Vec<f64> = rows.iter().filter_map(|row| row_detectable_percent(row)).collect();
    let least = known.iter().copied().reduce(f64::min)?;
    let most = known.iter().copied().reduce(f64::max)?;
    let shown = |percent: f64| match percent {
        0.0 => "0".to_owned(),
        percent => number::limit(percent),
    };
    Some(match (shown(least), shown(most)) {
        (_, most) if most == "0" => "would have seen any change".to_owned(),
        (least, most) if least == most => format!("would have seen {most} %"),
        (least, most) => format!("would have seen {least} to {most} %"),
    })
}

/// Returns the change of a row by the deciding Metric, in percent.
fn row_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.ratio.map(|ratio| (ratio.estimate - 1.0) * 100.0),
        None => row.deciding()?.percent,
    }
}

fn row_detectable_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.detectable_percent,
        None => row.effects().first().and_then(effect::detectable_percent),
    }
}
