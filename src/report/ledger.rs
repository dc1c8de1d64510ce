//! What `ktax ledger` prints.

use super::text::{paragraph, table_of_numbers};
use super::{TextOptions, number, view};
use crate::model::{LedgerEntry, LedgerRow, LedgerTable, Verdict};
use crate::stats::tables::share_percent;
use crate::text::escape;

/// A table for each Workload: the additions, the most expensive first, then all together.
pub fn ledger(table: &LedgerTable, options: TextOptions) -> String {
    let (kernel, beside) = &table.base;
    let mut text = paragraph(&escape(&table.title), options);
    let base = format!("base: {kernel} {beside}");
    text += &format!("\n{}", paragraph(&escape(base.trim_end()), options));
    text += &paragraph(&escape(&view::machine(&table.key, table.layouts)), options);
    for row in &table.rows {
        text += &section(row, options);
    }
    let notes = table.not_built.iter().map(|(name, why)| format!("{name} was not built: {why}"));
    let warnings = table
        .warnings
        .iter()
        .map(|(name, warning)| format!("{name}: warning: {}; {}", warning.fact, warning.next_step));
    for note in notes.chain(warnings) {
        text += &format!("\n{}", paragraph(&escape(&note), options));
    }
    let failed = |row: &LedgerRow| row.entries.iter().any(|one| one.verdict == Verdict::Failed);
    if table.rows.iter().any(failed) {
        let next = "`ktax report DIR/ADDED` says why something failed.";
        text += &format!("\n{}", paragraph(next, options));
    }
    let legend = "Instructions per operation in process context beyond the base's, counted \
                  exactly; they are not time. Each is added to the base alone. Would see: the \
                  smallest change in percent that would have got a verdict.";
    text + "\n" + &paragraph(legend, options)
}

fn section(row: &LedgerRow, options: TextOptions) -> String {
    let title = format!("{}, {} instructions", row.row, number::count(row.base));
    let lines = row.entries.iter().chain(&row.together).map(|entry| cells(entry, row.base));
    let header = ["added", "delta", "%", "would\nsee", "verdict"];
    let mut text = format!(
        "\n{}\n{}",
        paragraph(&escape(&title), options),
        table_of_numbers(&header, lines.collect(), 1..4, options)
    );
    if let Some(beyond) = row.interaction {
        let (by, than) = (number::count(beyond.abs()), if beyond < 0.0 { "less" } else { "more" });
        let said = format!(
            "Together they cost {by} instructions {than} than the sum: they are not independent."
        );
        text += &paragraph(&said, options);
    }
    text
}

/// One addition; nothing but the verdict where it was not measured.
fn cells(entry: &LedgerEntry, base: f64) -> Vec<String> {
    let verdict = view::decided(entry.verdict, &entry.decided_by);
    let [delta, percent, would_see] = match entry.verdict {
        Verdict::Failed => <[String; 3]>::default(),
        _ => [
            number::delta(entry.delta),
            number::percent(entry.percent),
            match entry.detectable {
                0.0 => "0".to_owned(),
                detectable => number::limit(share_percent(detectable, base)),
            },
        ],
    };
    vec![entry.name.clone(), delta, percent, would_see, verdict]
}
