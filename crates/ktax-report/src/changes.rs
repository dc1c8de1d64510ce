//! Sections below the table of a comparison: changes beside the headline, different work, failures.

use std::borrow::Cow;

use crate::number;
use crate::view::{Cell, FailureReason, MetricChange, Note, Section};
use ktax_model::{
    Costly, Effect, Failure, Metric, Row, RowFailure, Side, UserProgram, Verdict, WorkDifference,
    metric,
};

/// Section of the costly instructions of the process that changed, with a line for each row.
pub fn costly(rows: &[Row]) -> Section {
    let title = "Costly instructions that changed, per operation (no verdict rests on them):";
    // Starts of string instructions say less than their iterations, which have lines of their own.
    let is_wanted =
        |metric: &Metric| metric.costly().is_some_and(|kind| !Costly::STRINGS.contains(&kind));
    let notes = change_notes(rows, is_wanted, metric_from_to);
    Section::notes(title, notes)
}

/// Names a Metric with its value on either side: `verw 1.00 → 2.00`.
fn metric_from_to(effect: &Effect) -> String {
    let [base, change] = [effect.base, effect.change].map(number::count);
    format!("{} {base} → {change}", effect.metric)
}

/// Returns a note for each row with a wanted Metric that changed.
fn change_notes(
    rows: &[Row],
    is_wanted: fn(&Metric) -> bool,
    one: impl Fn(&Effect) -> String,
) -> Vec<Note> {
    let note = |row: &Row| {
        let changed: Vec<String> =
            changed(std::slice::from_ref(row), is_wanted).map(|(_, effect)| one(effect)).collect();
        (!changed.is_empty()).then(|| Note { row: row.row.clone(), text: changed.join(", ") })
    };
    rows.iter().filter_map(note).collect()
}

/// Section of the counters of a machine model that changed, with a line for each row.
pub fn modelled(rows: &[Row], model: &str) -> Section {
    let one = |effect: &Effect| {
        // A factor of ten over nearly nothing says less than the two numbers.
        let percent = effect.percent.filter(|percent| *percent <= 1000.0);
        let percent = percent.map(|percent| number::percent(Some(percent)));
        let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
        format!("{}{percent}", metric_from_to(effect))
    };
    let title = format!(
        "Counters of the model {model} that changed, per operation (no verdict rests on them):"
    );
    Section::notes(title, change_notes(rows, |metric| metric.modelled().is_some(), one))
}

/// Section of the deciding Metrics beside the headline that changed.
pub fn also_changed(rows: &[Row]) -> Section {
    let changes = changed(rows, Metric::is_deciding).map(|(row, effect)| {
        let verdict = Cell::verdict(effect.verdict, "");
        metric_change(row, effect, effect.percent, verdict)
    });
    let title = "Also changed, per operation (rep-iterations: repeats of string instructions):";
    Section::AlsoChanged { title: title.to_owned(), changes: changes.collect() }
}

/// Section of the interrupts and kernel threads that did more or less. It is no effect on the row:
/// they may belong to the row, to an earlier one or to the machine. So it is neither slower nor
/// faster.
pub fn background(rows: &[Row]) -> Section {
    let changes = changed(rows, Metric::is_background).map(|(row, effect)| {
        let headline = row.effects().first().map_or(0.0, |headline| headline.base);
        let percent = (headline != 0.0).then(|| effect.delta / headline * 100.0);
        metric_change(row, effect, percent, Cell::from(more_or_less(effect)))
    });
    let title = "In the background, instructions per operation, in percent of the row's base (no \
                 verdict rests on them):"
        .to_owned();
    Section::AlsoChanged { title, changes: changes.collect() }
}

/// Word for an Effect that decides nothing: `more`, `less`, or its verdict.
pub fn more_or_less(effect: &Effect) -> &'static str {
    match effect.verdict.is_change() {
        true if effect.delta < 0.0 => "less",
        true => "more",
        false => effect.verdict.text(),
    }
}

fn changed(
    rows: &[Row],
    is_wanted: impl Fn(&Metric) -> bool,
) -> impl Iterator<Item = (&Row, &Effect)> {
    let effects =
        rows.iter().flat_map(|row| row.effects().iter().skip(1).map(move |effect| (row, effect)));
    effects.filter(move |(_, effect)| {
        effect.verdict.is_change() && metric(&effect.metric).is_some_and(&is_wanted)
    })
}

fn metric_change(row: &Row, effect: &Effect, percent: Option<f64>, verdict: Cell) -> MetricChange {
    MetricChange {
        row: row.row.clone(),
        metric: effect.metric.clone(),
        from_to: format!("{} → {}", number::count(effect.base), number::count(effect.change)),
        delta: number::delta(effect.delta),
        percent: number::percent(percent),
        verdict,
    }
}

/// Section of the rows whose sides did different work, with the differences.
pub fn different_work(rows: &[Row]) -> Section {
    let differing = rows.iter().filter(|row| row.verdict == Verdict::DifferentWork);
    let notes = differing.flat_map(|row| {
        let parts = row.reason.as_deref().unwrap_or_default().split("; ");
        let texts = parts.map(|text| with_next_step(row, text));
        let texts = texts.chain(printed_lines(row));
        let texts = texts.chain(asked_for_other_work(row).then(|| OTHER_WORK.to_owned()));
        texts.map(|text| Note { row: row.row.clone(), text })
    });
    let notes = notes.filter(|note| !note.text.is_empty());
    Section::notes("The sides did different work; these numbers do not compare:", notes)
}

/// Advice for a program whose sides made different system calls.
const OTHER_WORK: &str = "let it do a fixed number of operations, or divide by the count that it \
                          prints (--ops-from); if both sides did the same N operations, say so \
                          (--ops N)";

fn asked_for_other_work(row: &Row) -> bool {
    let work = row.counts().and_then(|counts| counts.work.as_ref());
    work.is_some_and(|work| work.requests().next().is_some())
}

/// Section of the operations that programs counted themselves, with a line for each row.
pub fn operations(rows: &[Row]) -> Section {
    let note = |row: &Row| {
        let counted = row.counts()?.operations.as_ref()?;
        let [base, change] = Side::BOTH.map(|side| number::whole(*counted.count.get(side) as f64));
        let suite = counted.suite.as_deref().map(|suite| match suite {
            "unixbench" => "UnixBench",
            other => other,
        });
        let from = suite.map_or(String::new(), |suite| format!(" (recognised: {suite})"));
        let text = format!("operations: {base} → {change}{from}");
        Some(Note { row: row.row.clone(), text })
    };
    let title = "Costs are per operation that the program counted itself, in the whole run:";
    Section::notes(title, rows.iter().filter_map(note))
}

/// Returns the last lines that a program printed on both sides, where they differ.
fn printed_lines(row: &Row) -> Vec<String> {
    let Some(printed) = row.counts().and_then(|counts| counts.printed.as_ref()) else {
        return Vec::new();
    };
    let side_lines = |side: Side| {
        let lines = printed.get(side).stdout.iter();
        lines.map(move |line| format!("the {} printed: {line}", side.name()))
    };
    Side::BOTH.into_iter().flat_map(side_lines).collect()
}

/// Section of work that differs although the number of operations is the same.
pub fn program_work(rows: &[Row]) -> Section {
    let note = |row: &Row| {
        let work = row.counts()?.work.as_ref()?;
        let one = |difference: &WorkDifference| {
            let [base, change] =
                Side::BOTH.map(|side| number::whole(*difference.count.get(side) as f64));
            format!("{} {base} → {change}", difference.kind)
        };
        let is_listed = row.verdict != Verdict::DifferentWork && !work.differences.is_empty();
        let text = work.differences.iter().map(one).collect::<Vec<_>>().join(", ");
        is_listed.then(|| Note { row: row.row.clone(), text })
    };
    let title = "What these programs did differs, in the whole run (no verdict rests on it):";
    Section::notes(title, rows.iter().filter_map(note))
}

fn with_next_step(row: &Row, text: &str) -> String {
    match UserProgram::is_program_row(&row.row) && text.starts_with("stdout ") {
        true => format!("{text}: a hash of what it printed, which --any-output leaves out"),
        false => text.to_owned(),
    }
}

/// Names the Boot that failed, or all Boots that were spared because one of their side had failed.
pub fn failed_boot(failed: &RowFailure) -> (String, String) {
    match failed.failure {
        Failure::NotBooted { .. } => {
            (format!("other boots of the {}", failed.side.name()), String::new())
        }
        _ => ("boot".to_owned(), failed.boot.clone()),
    }
}

/// Section of the Boots that failed, with the rows that they took; equal failures once.
pub fn failures<'a>(
    rows: &'a [Row],
    boots: impl Fn(&RowFailure) -> (String, String),
    next_step: impl Fn(&RowFailure) -> Cow<'static, str>,
) -> Section {
    let mut failures: Vec<(FailureReason, &'a Failure)> = Vec::new();
    for (row, failed) in rows.iter().flat_map(|row| row.failures.iter().map(move |one| (row, one)))
    {
        let (which, name) = boots(failed);
        let same = |(known, failure): &&mut (FailureReason, &Failure)| {
            known.boots == which && known.name == name && **failure == failed.failure
        };
        match failures.iter_mut().find(same) {
            Some((known, _)) if known.rows.contains(&row.row) => {}
            Some((known, _)) => known.rows.push(row.row.clone()),
            None => {
                let (why, next_step) = (failed.failure.to_string(), next_step(failed).into_owned());
                let rows = vec![row.row.clone()];
                let new = FailureReason { boots: which, name, rows, why, next_step };
                failures.push((new, &failed.failure));
            }
        }
    }
    let reasons =
        failures.into_iter().fold(Vec::new(), |reasons, (reason, _)| add_reason(reasons, reason));
    Section::Reasons { title: "Failed, so not compared:".to_owned(), reasons }
}

/// Adds a reason, or its boot's name to a known reason that is the same for other Boots.
fn add_reason(mut reasons: Vec<FailureReason>, new: FailureReason) -> Vec<FailureReason> {
    let is_same = |known: &&mut FailureReason| {
        let are_named = known.boots.starts_with("boot") && new.boots == "boot";
        let says = (&known.rows, &known.why, &known.next_step);
        are_named && says == (&new.rows, &new.why, &new.next_step)
    };
    match reasons.iter_mut().find(is_same) {
        Some(known) => {
            known.boots = "boots".to_owned();
            known.name += &format!(", {}", new.name);
        }
        None => reasons.push(new),
    }
    reasons
}
