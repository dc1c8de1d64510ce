//! Verdicts of counts, which two Metrics may decide.

use ktax_model::{AWAITED, MAKESPAN, METRICS, Row, SPIN_WAIT, TRANSFERS, Verdict};

use super::view::Cell;

/// The Metric of REP iterations in process context.
pub const REP: &str = "rep-iterations";

/// A row's Verdict; `slower (REP)` where REP iterations decided, `faster, REP slower` where
/// instructions did and REP iterations went the other way.
pub fn of_row(row: &Row) -> Cell {
    let rep = row.effect(REP);
    let decided_by = row.counts().map_or("", |counts| &counts.decided_by);
    let headline = row.effects().first().map_or("", |effect| &effect.metric);
    if headline == MAKESPAN && decided_by == METRICS[0].name && row.verdict.is_change() {
        return Cell::verdict(row.verdict, " (instructions)");
    }
    of_both(row.verdict, decided_by, rep.map(|rep| rep.verdict))
}

/// The same of what decided, and of the Verdict of REP iterations.
pub fn of_both(verdict: Verdict, decided_by: &str, rep: Option<Verdict>) -> Cell {
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

/// Whether REP iterations decided.
pub fn is_by_rep(row: &Row) -> bool {
    is_by(row, REP)
}

/// Whether this Metric decided.
pub fn is_by(row: &Row, metric: &str) -> bool {
    row.counts().is_some_and(|counts| counts.decided_by == metric)
}
