//! Sections below the table of a comparison: changes of other Metrics, different work, failures.

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
    // Starts of string instructions are left out: their iterations have lines of their own.
    let is_wanted =
        |metric: &Metric| metric.costly().is_some_and(|kind| !Costly::STRINGS.contains(&kind));
    let notes = change_notes(rows, is_wanted, metric_from_to);
    Section::notes(title, notes)
}

/// Names a Metric with its values of both sides: `verw 1.00 → 2.00`.
fn metric_from_to(effect: &Effect) -> String {
    let [base, change] = [effect.base, effect.change].map(number::count);
    format!("{} {base} → {change}", effect.metric)
}

/// Returns a note for each row that has changes of the Metrics that `is_wanted` selects.
fn change_notes(
    rows: &[Row],
    is_wanted: fn(&Metric) -> bool,
    effect_text: impl Fn(&Effect) -> String,
) -> Vec<Note> {
    let note = |row: &Row| {
        let effects = changed_effects(std::slice::from_ref(row), is_wanted);
        let texts: Vec<String> = effects.map(|(_, effect)| effect_text(effect)).collect();
        (!texts.is_empty()).then(|| Note { row: row.row.clone(), text: texts.join(", ") })
    };
    rows.iter().filter_map(note).collect()
}

/// Section of the counters of a machine model that changed, with a line for each row.
pub fn modelled(rows: &[Row], model: &str) -> Section {
    let effect_text = |effect: &Effect| {
        // A large percentage of nearly nothing misleads; the two numbers are enough.
        let percent = effect.percent.filter(|percent| *percent <= 1000.0);
        let percent = percent.map(|percent| number::percent(Some(percent)));
        let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
        format!("{}{percent}", metric_from_to(effect))
    };
    let title = format!(
        "Counters of the model {model} that changed, per operation (no verdict rests on them):"
    );
    Section::notes(title, change_notes(rows, |metric| metric.modelled().is_some(), effect_text))
}

/// Section of the deciding Metrics that changed, except the headline's Metric.
pub fn also_changed(rows: &[Row]) -> Section {
    let changes = changed_effects(rows, Metric::is_deciding).map(|(row, effect)| {
        let verdict = Cell::verdict(effect.verdict, "");
        metric_change(row, effect, effect.percent, verdict)
    });
    let title = "Also changed, per operation (rep-iterations: repeats of string instructions):";
    Section::AlsoChanged { title: title.to_owned(), changes: changes.collect() }
}

/// Section of the interrupts and kernel threads that executed more or less. Their verdict is `more`
/// or `less`, not slower or faster, because they may work for this row, for an earlier row or for
/// the machine.
pub fn background(rows: &[Row]) -> Section {
    let changes = changed_effects(rows, Metric::is_background).map(|(row, effect)| {
        let headline = row.effects().first().map_or(0.0, |headline| headline.base);
        let percent = (headline != 0.0).then(|| effect.delta / headline * 100.0);
        metric_change(row, effect, percent, Cell::from(more_or_less(effect)))
    });
    let title = "In the background, instructions per operation, in percent of the row's base (no \
                 verdict rests on them):"
        .to_owned();
    Section::AlsoChanged { title, changes: changes.collect() }
}

/// Word for the verdict of an Effect that decides nothing: `more`, `less`, or the verdict's text if
/// it is no change.
pub fn more_or_less(effect: &Effect) -> &'static str {
    match effect.verdict.is_change() {
        true if effect.delta < 0.0 => "less",
        true => "more",
        false => effect.verdict.text(),
    }
}

/// Returns the changes of the Metrics that `is_wanted` selects, except the headline's Metric.
fn changed_effects(
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
        let texts = texts.chain(made_other_requests(row).then(|| OTHER_WORK.to_owned()));
        texts.map(|text| Note { row: row.row.clone(), text })
    });
    let notes = notes.filter(|note| !note.text.is_empty());
    Section::notes("The sides did different work; these numbers do not compare:", notes)
}

/// Advice for a program whose sides made different system calls.
const OTHER_WORK: &str = "make the program do a fixed number of operations, or divide by the count \
                          that it prints (--ops-from); if both sides did the same N operations, \
                          give their number (--ops N)";

/// Tells whether the system calls of the two sides differ.
fn made_other_requests(row: &Row) -> bool {
    let work = row.counts().and_then(|counts| counts.work.as_ref());
    work.is_some_and(|work| work.requests().next().is_some())
}

/// Section of the operations that programs counted, with a line for each row.
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

/// Returns the last lines that a program printed on each side, if these differ.
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

/// Section of work that differs in programs whose number of operations is the same.
pub fn program_work(rows: &[Row]) -> Section {
    let note = |row: &Row| {
        let work = row.counts()?.work.as_ref()?;
        let difference_text = |difference: &WorkDifference| {
            let [base, change] =
                Side::BOTH.map(|side| number::whole(*difference.count.get(side) as f64));
            format!("{} {base} → {change}", difference.kind)
        };
        let is_listed = row.verdict != Verdict::DifferentWork && !work.differences.is_empty();
        let text = work.differences.iter().map(difference_text).collect::<Vec<_>>().join(", ");
        is_listed.then(|| Note { row: row.row.clone(), text })
    };
    let title =
        "Differences in the work of these programs, in the whole run (no verdict rests on them):";
    Section::notes(title, rows.iter().filter_map(note))
}

fn with_next_step(row: &Row, text: &str) -> String {
    match UserProgram::is_program_row(&row.row) && text.starts_with("stdout ") {
        true => format!("{text}: a hash of the program's output; --any-output ignores it"),
        false => text.to_owned(),
    }
}

/// Returns the noun and the name of the Boot that failed. Boots that were skipped because another
/// Boot of their side had failed have no name.
pub fn failed_boot(failed: &RowFailure) -> (String, String) {
    match failed.failure {
        Failure::NotBooted { .. } => {
            (format!("other boots of the {}", failed.side.name()), String::new())
        }
        _ => ("boot".to_owned(), failed.boot.clone()),
    }
}

/// Section of the Boots that failed, with the rows that have no result for this reason. Equal
/// failures are listed once.
pub fn failures<'a>(
    rows: &'a [Row],
    boots: impl Fn(&RowFailure) -> (String, String),
    next_step: impl Fn(&RowFailure) -> Cow<'static, str>,
) -> Section {
    let mut failures: Vec<(FailureReason, &'a Failure)> = Vec::new();
    for (row, failed) in
        rows.iter().flat_map(|row| row.failures.iter().map(move |failed| (row, failed)))
    {
        let (noun, name) = boots(failed);
        let is_same = |(known, failure): &&mut (FailureReason, &Failure)| {
            known.boots == noun && known.name == name && **failure == failed.failure
        };
        match failures.iter_mut().find(is_same) {
            Some((known, _)) if known.rows.contains(&row.row) => {}
            Some((known, _)) => known.rows.push(row.row.clone()),
            None => {
                let (why, next_step) = (failed.failure.to_string(), next_step(failed).into_owned());
                let rows = vec![row.row.clone()];
                let new = FailureReason { boots: noun, name, rows, why, next_step };
                failures.push((new, &failed.failure));
            }
        }
    }
    let reasons =
        failures.into_iter().fold(Vec::new(), |reasons, (reason, _)| add_reason(reasons, reason));
    Section::Reasons { title: "Failed, so not compared:".to_owned(), reasons }
}

/// Adds a reason. If a known reason differs only in the Boot, the Boot's name is added to the known
/// reason instead.
fn add_reason(mut reasons: Vec<FailureReason>, new: FailureReason) -> Vec<FailureReason> {
    let is_same = |known: &&mut FailureReason| {
        let are_named = known.boots.starts_with("boot") && new.boots == "boot";
        let known_text = (&known.rows, &known.why, &known.next_step);
        are_named && known_text == (&new.rows, &new.why, &new.next_step)
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
