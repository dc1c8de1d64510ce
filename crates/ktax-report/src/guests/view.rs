use super::header::{HEADS, how, sides};
use super::{alone, compared};
use crate::view::{Legend, Section, View};
use crate::{changes, exits, forest, headline, words};
use ktax_model::{Comparison, GuestsComparison};

/// What the time is; below the first table, because it is no other machine's time.
const TIME: &str = "1 µs is 1 000 instructions of the host's one CPU: the host counts \
                    instructions, not time.";

/// The table, what failed, and then where each row's time went.
pub fn view(comparison: &Comparison, guests: &GuestsComparison) -> View {
    let rows = &comparison.rows;
    let threshold = comparison.threshold_percent;
    let is_alone = guests.plan.change.is_none();
    let table = if is_alone { alone::table(rows) } else { compared::table(rows) };
    let mut sections = vec![
        forest::forest(&rows.iter().collect::<Vec<_>>(), threshold, forest::LAYOUTS),
        Section::Table { title: String::new(), table, notes: vec![TIME.to_owned()] },
        changes::different_work(rows),
        changes::failures(rows, changes::boot, |failed| failed.failure.next_step()),
    ];
    match is_alone {
        true => {
            sections.push(exits::bars(
                alone::runs(rows).map(|(row, run)| (row.row.clone(), &run.table)),
            ));
            sections.extend(alone::tables(rows));
            sections.push(exits::remarks(alone::runs(rows).map(|(_, run)| &run.table)));
        }
        false => {
            sections.push(compared::details(rows));
            sections.extend(compared::tables(rows));
        }
    }
    View {
        title: comparison.title.clone(),
        headline: match is_alone {
            true => alone::headline(rows),
            false => headline::of_rows(rows),
        },
        sides: sides(&guests.plan),
        side_heads: HEADS,
        how: how(&guests.plan),
        measured_by: String::new(),
        again: Vec::new(),
        sections,
        warnings: comparison.warnings.clone(),
        legend: match is_alone {
            true => of_one_side(comparison),
            false => of_both_sides(comparison, guests.plan.layouts.len()),
        },
    }
}

fn of_both_sides(comparison: &Comparison, layouts: usize) -> Legend {
    Legend::of([
        "base and change are the time of all vCPUs, in the guest and out of it, of the layout with \
         the median delta.",
    ])
    .with(words::over_layouts(comparison.threshold_percent, layouts))
}

fn of_one_side(comparison: &Comparison) -> Legend {
    let tables = alone::runs(&comparison.rows).map(|(_, run)| &run.table);
    let of_tables = exits::legend(tables);
    let host = alone::has_host(&comparison.rows).then_some([
        ("host", "one operation in a process of the host itself"),
        ("guest", "the same in the guest, with all that the host does for it"),
        ("bare metal %", "host in percent of guest"),
    ]);
    let range = "the shortest and the longest time over all layouts, against the one that is shown";
    Legend::of(of_tables.sentences)
        .with([("time", "all vCPUs, in the guest and out of it"), ("range %", range)])
        .with(host.into_iter().flatten())
        .with(of_tables.terms)
}
