//! What is known of each timed row: its pairs in the order of time.

use super::remarks::TimedRow;
use super::table::ratio;
use crate::again;
use crate::view::{Cell, Kind, Line, Picture, RowDetail, Section, Table, Trail};
use ktax_host::text::counted;
use ktax_model::{Comparison, TimesComparison, TimesEvidence};

const TRAIL: &str = "Each mark is one pair, in the order of time: filled ones are change over \
                     base, hollow ones are A/A pairs, base over base. The band is the interval of \
                     the ratio. A dashed line marks where the results so far were tested. A drift \
                     of the machine shows as a slope of the hollow marks.";

/// One for each row, in the Plan's order.
pub fn details(comparison: &Comparison, times: &TimesComparison, rows: &[TimedRow<'_>]) -> Section {
    let rows = rows.iter().map(|row| detail(comparison, times, row)).collect();
    Section::Rows { rows, how: TRAIL.to_owned() }
}

fn detail(
    comparison: &Comparison,
    times: &TimesComparison,
    (row, evidence): &TimedRow<'_>,
) -> RowDetail {
    let trail =
        Trail { pairs: evidence.series.clone(), looks: times.looks.clone(), ratio: evidence.ratio };
    let mut said = vec![format!("{}. One operation: {}.", row.title, row.operation)];
    said.extend(row.reason.iter().map(|reason| format!("{}: {reason}.", row.verdict.text())));
    RowDetail {
        row: row.row.clone(),
        answer: evidence.ratio.map(|it| format!("ratio {}", ratio(it))).unwrap_or_default(),
        verdict: Cell::verdict(row.verdict, ""),
        sections: vec![
            Section::Sentences(said),
            Section::Picture {
                title: "Pairs in the order of time".to_owned(),
                picture: Picture::Trail(trail),
                how: String::new(),
            },
            numbers(evidence),
        ],
        again: again::of_times(std::slice::from_ref(*row), comparison.threshold_percent, times),
    }
}

fn numbers(times: &TimesEvidence) -> Section {
    let line = |name: &str, value: String| Line::of([name.to_owned(), value]);
    let control = times.control.map(|control| {
        let pairs = counted(control.pairs, "A/A pair");
        line("base over base", format!("{} over {pairs}", ratio(control.ratio)))
    });
    let p = format!("{:.4} (corrected over {})", times.p_adjusted, counted(times.family, "row"));
    let lines = [line("p", p)].into_iter().chain(control);
    Section::table(Table::of([("", Kind::Words), ("", Kind::Words)]).with(lines))
}
