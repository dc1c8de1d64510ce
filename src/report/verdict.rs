//! Verdicts of counts, which two Metrics may decide.

use crate::model::{Effect, Row, Verdict};

use super::view::Cell;

/// The Metric of REP iterations in process context.
const REP: &str = "rep-iterations";

/// A row's Verdict; `slower (REP)` where REP iterations decided, `faster, REP slower` where
/// instructions did and REP iterations went the other way.
pub fn of_row(row: &Row) -> Cell {
    let rep = row.effects().iter().find(|effect| is_rep(effect));
    match rep.map(|rep| rep.verdict) {
        _ if is_by_rep(row) => decided(row.verdict, REP),
        Some(rep) if rep.is_change() && row.verdict.is_change() && rep != row.verdict => {
            Cell::verdict(row.verdict, &format!(", REP {}", rep.text()))
        }
        _ => Cell::verdict(row.verdict, ""),
    }
}

/// Whether REP iterations decided.
pub fn is_by_rep(row: &Row) -> bool {
    row.counts().is_some_and(|counts| counts.decided_by == REP)
}

/// A Verdict, marked where REP iterations decided.
pub fn decided(verdict: Verdict, by: &str) -> Cell {
    Cell::verdict(verdict, if by == REP { " (REP)" } else { "" })
}

/// Whether the Effect is one of REP iterations.
pub fn is_rep(effect: &Effect) -> bool {
    effect.metric == REP
}
