//! Guests of a host: each row's table, or what changed in it.

use super::diff::reasons;
use super::{PARTS, US, body, legend};
use crate::model::ExitRun;
use crate::report::text::{paragraph, table_of_numbers};
use crate::report::{TextOptions, number};
use crate::stats::tables::{change_percent, share_percent};
use crate::text::escape;

/// The tables of one Side, and what of bare metal they come to.
pub fn guests(runs: &[ExitRun], options: TextOptions) -> String {
    let mut text = String::new();
    for run in runs {
        text += &format!("\n{}\n{}", escape(&run.row), body(&run.table, options));
    }
    let first = runs.first().map(|run| legend(&run.table)).unwrap_or_default();
    text += &format!("\n{}{}", paragraph(&first, options), paragraph(PARTS, options));
    let native = runs.iter().filter_map(|run| {
        let (guest, native) = (run.guest_ns? as f64, run.native_ns? as f64);
        Some(vec![
            escape(&run.row),
            number::whole(native),
            number::whole(guest),
            format!("{:.1}", share_percent(native, guest)),
        ])
    });
    let native: Vec<Vec<String>> = native.collect();
    if !native.is_empty() {
        let header = ["row", "host", "guest", "% of bare\nmetal"];
        let legend = "Instructions of the host's machine for the work itself: by a process of the \
                      host, and by the guest with all that the host does for it.";
        text += &format!("\n{}", table_of_numbers(&header, native, 1..4, options));
        text += &format!("\n{}", paragraph(legend, options));
    }
    text
}

/// Both Sides: each row's reasons, and the rows beside each other.
pub fn guests_compared(base: &[ExitRun], change: &[ExitRun], options: TextOptions) -> String {
    let mut text = String::new();
    let mut rows = Vec::new();
    for (base, change) in base.iter().zip(change) {
        text += &format!("\n{}\n\n", escape(&base.row));
        text += &reasons(&base.table, &change.table, options);
        let whole = |run: &ExitRun| run.table.sum_ns() as f64 / US;
        rows.push(vec![
            escape(&base.row),
            number::whole(base.table.exits() as f64),
            number::whole(change.table.exits() as f64),
            number::whole(whole(base)),
            number::whole(whole(change)),
            number::percent(change_percent(whole(base), whole(change))),
        ]);
    }
    let header = ["row", "exits\nbase", "exits\nchange", "µs\nbase", "µs\nchange", "µs\n%"];
    let legend = "Counted in an exact host: a microsecond is a thousand instructions of its one \
                  CPU, guest and host together.";
    format!(
        "{text}\n{}\n{}",
        table_of_numbers(&header, rows, 1..6, options),
        paragraph(legend, options)
    )
}
