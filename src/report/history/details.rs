//! What is known of each row, and the commands that measure it again: a page folds both.

use super::headline::answer;
use super::levels::{lineages, picture};
use super::table::points;
use crate::model::{History, HistoryLine};
use crate::report::again;
use crate::report::view::{Cell, Kind, Line, RowDetail, Section, Table};
use crate::text::shell_line;

/// One for each row and lineage; of few lines the points stand on the page already.
pub fn details(history: &History, has_points: bool) -> Section {
    let detail = |lines: &[HistoryLine]| {
        let mut sections = Vec::new();
        if has_points {
            sections.push(picture(history, lines));
            sections.extend(lines.iter().map(|line| of_line(history, line)));
        }
        sections.extend(lines.iter().map(|line| commands(history, line)));
        sections.retain(|it| !it.is_empty());
        let longest = lines.iter().max_by_key(|line| line.points.len());
        RowDetail {
            row: named(&lines[0]),
            answer: longest.map(answer).unwrap_or_default(),
            verdict: Cell::default(),
            sections,
            again: Vec::new(),
        }
    };
    let rows = lineages(&history.lines).map(detail).filter(|it| !it.sections.is_empty());
    Section::Rows { rows: rows.collect(), how: String::new() }
}

/// The points of a line, below what they are of.
pub fn of_line(history: &History, line: &HistoryLine) -> Section {
    Section::Table {
        title: format!("{}:", named(line)),
        table: points(history, line),
        notes: vec![format!("Measured with {}.", line.measured)],
    }
}

fn named(line: &HistoryLine) -> String {
    let lineage = if line.lineage.is_empty() { "" } else { " · " };
    format!("{}{lineage}{}", line.row, line.lineage)
}

/// A command for each point that has an anchor: it counts both.
fn commands(history: &History, line: &HistoryLine) -> Section {
    let command = |point| {
        let words = again::of_point(line, point, history.threshold_percent);
        let shown = |words: Vec<String>| Line::of([point.kernel.clone(), shell_line(words)]);
        (!words.is_empty()).then(|| shown(words))
    };
    let columns = [("kernel", Kind::Name), ("command", Kind::Name)];
    let shown = shell_line(again::of_history(history, line));
    Section::Table {
        title: "To count these again".to_owned(),
        table: Table::of(columns).with(line.points.iter().filter_map(command)),
        notes: vec![format!(
            "Each command compares a kernel with its anchor, from packages of Debian. After all of \
             them, `{shown}` prints these numbers from the store."
        )],
    }
}
