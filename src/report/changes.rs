//! What counts and guests say below their tables.

use std::borrow::Cow;

use super::number;
use super::view::{Cell, FailureReason, MetricChange, Note, Section};
use crate::model::{Failure, Row, RowFailure, Verdict};

/// The Metrics beside the headline that changed.
pub fn also_changed(rows: &[Row], title: &str) -> Section {
    let effects = rows.iter().flat_map(|row| row.effects().iter().skip(1).map(move |it| (row, it)));
    let changes = effects.filter(|(_, effect)| effect.verdict.is_change());
    let changes = changes.map(|(row, effect)| MetricChange {
        row: row.row.clone(),
        metric: effect.metric.clone(),
        from_to: format!("{} → {}", number::count(effect.base), number::count(effect.change)),
        delta: number::delta(effect.delta),
        percent: number::percent(effect.percent),
        verdict: Cell::verdict(effect.verdict, ""),
    });
    Section::AlsoChanged { title: title.to_owned(), changes: changes.collect() }
}

/// How the work differed.
pub fn different_work(rows: &[Row]) -> Section {
    let differing = rows.iter().filter(|row| row.verdict == Verdict::DifferentWork);
    let notes = differing.flat_map(|row| {
        let parts = row.reason.as_deref().unwrap_or_default().split("; ");
        parts.map(|text| Note { row: row.row.clone(), text: text.to_owned() })
    });
    let title = "The sides did different work; these numbers do not compare:".to_owned();
    Section::Notes { title, notes: notes.filter(|note| !note.text.is_empty()).collect() }
}

/// Which Boot failed; or all that were spared together, since one of their Side had failed.
pub fn boot(failed: &RowFailure) -> (String, String) {
    match failed.failure {
        Failure::NotBooted { .. } => {
            (format!("other boots of the {}", failed.side.name()), String::new())
        }
        _ => ("boot".to_owned(), failed.boot.clone()),
    }
}

/// Boots that failed, each with all rows that it took: a Boot that failed is said once.
pub fn failures<'a>(
    rows: &'a [Row],
    boots: impl Fn(&RowFailure) -> (String, String),
    next_step: impl Fn(&RowFailure) -> Cow<'static, str>,
) -> Section {
    let mut failures: Vec<(FailureReason, &'a Failure)> = Vec::new();
    for row in rows {
        for failed in &row.failures {
            let (which, name) = boots(failed);
            let same = |(known, failure): &&mut (FailureReason, &Failure)| {
                known.boots == which && known.name == name && **failure == failed.failure
            };
            match failures.iter_mut().find(same) {
                Some((known, _)) if known.rows.contains(&row.row) => {}
                Some((known, _)) => known.rows.push(row.row.clone()),
                None => {
                    let (why, next_step) = (failed.failure.to_string(), next_step(failed));
                    let rows = vec![row.row.clone()];
                    let next_step = next_step.into_owned();
                    let new = FailureReason { boots: which, name, rows, why, next_step };
                    failures.push((new, &failed.failure));
                }
            }
        }
    }
    let title = "Failed, so not compared:".to_owned();
    Section::Reasons { title, reasons: failures.into_iter().map(|(reason, _)| reason).collect() }
}
