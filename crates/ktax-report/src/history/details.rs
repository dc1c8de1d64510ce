//! What is known of each row, and the commands that measure it again: a page folds both.

use super::headline::answer;
use super::levels::picture;
use super::steps::{CostStep, by_size, largest, short, steps};
use super::table::points;
use crate::again;
use crate::view::{Cell, Kind, Line, RowDetail, Section, Table};
use ktax_host::text::shell_line;
use ktax_model::{History, HistoryLine, Verdict};

/// One for each row and lineage, in the order of the overview; of few lines the points stand on the
/// page already.
pub fn details(history: &History, has_points: bool) -> Section {
    let detail = |lines: &[HistoryLine]| {
        let mut sections = Vec::new();
        if has_points {
            sections.push(picture(history, lines));
            sections.extend(lines.iter().map(|line| line_points(history, line)));
        }
        sections.extend(lines.iter().flat_map(|line| step_commands(history, line)));
        sections.extend(lines.iter().map(|line| commands(history, line)));
        sections.retain(|section| !section.is_empty());
        let longest = lines.iter().max_by_key(|line| line.points.len());
        RowDetail {
            row: named(&lines[0]),
            answer: longest.map(answer).unwrap_or_default(),
            verdict: longest.map(verdict).unwrap_or_default(),
            sections,
            again: Vec::new(),
        }
    };
    let rows = by_size(history).into_iter().map(detail).collect();
    Section::Rows { rows, how: String::new() }
}

/// The verdict of the largest step, without a step `no detected change`; empty of one kernel.
fn verdict(line: &HistoryLine) -> Cell {
    match largest(line, false).or_else(|| largest(line, true)) {
        Some(step) => Cell::verdict(step.verdict, ""),
        None if line.points.len() > 1 => Cell::verdict(Verdict::NoDetectedChange, ""),
        None => Cell::default(),
    }
}

/// The points of a line, below its name.
pub fn line_points(history: &History, line: &HistoryLine) -> Section {
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

/// The command that shows all functions of a step: whoever has the kernels' packages measures
/// again, else it asks the store.
pub fn step_command(history: &History, step: &CostStep<'_>) -> Section {
    let words = again::between_points(step.line, step.base, step.point, history.threshold_percent);
    let words = match words.is_empty() {
        false => words,
        true => {
            let words = ["ktax", "diff", &step.base.name, &step.point.name, "-w", &step.line.row];
            words.map(str::to_owned).to_vec()
        }
    };
    let [from, to] = [step.base, step.point].map(|point| short(step.line, &point.kernel));
    let functions = match step.carried_by(5) {
        functions if functions.is_empty() => functions,
        functions => format!(", carried most by {functions}"),
    };
    Section::Again {
        sentence: format!(
            "{} → {}: {}{functions}. To see all functions of this step:",
            from,
            to,
            step.shown_percent()
        ),
        words,
    }
}

fn step_commands<'a>(
    history: &'a History,
    line: &'a HistoryLine,
) -> impl Iterator<Item = Section> + 'a {
    steps(line).map(|step| step_command(history, &step))
}

/// A command for each kernel but the first: it counts that kernel and the one before it.
fn commands(history: &History, line: &HistoryLine) -> Section {
    let command = |pair: &[ktax_model::HistoryPoint]| {
        let words = again::between_points(line, &pair[0], &pair[1], history.threshold_percent);
        let shown = |words: Vec<String>| Line::of([pair[1].kernel.clone(), shell_line(words)]);
        (!words.is_empty()).then(|| shown(words))
    };
    let columns = [("kernel", Kind::Name), ("command", Kind::Name)];
    let table = Table::of(columns).with(line.points.windows(2).filter_map(command));
    if table.lines.is_empty() {
        return Section::Sentences(Vec::new());
    }
    let shown = shell_line(again::of_history(history, line));
    Section::Folded {
        summary: "Commands that count each kernel again".to_owned(),
        sections: vec![Section::Table {
            title: String::new(),
            table,
            notes: vec![format!(
                "Each command compares a kernel with the one before it, from packages of Debian. \
                 After all of them, `{shown}` prints these numbers from the store."
            )],
        }],
    }
}
