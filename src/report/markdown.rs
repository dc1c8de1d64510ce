//! For a mail or a review, as GitHub renders it.

use std::fmt::Write;

use crate::model::{Comparison, Effect, Failure, Row, Side};
use crate::text::{code, html, markdown};

use super::{number, view};

const FUNCTIONS: usize = 20;

/// A table, and below it what is behind it.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut out = format!("### {}\n\n", markdown(&comparison.title));
    out.push_str("| side | kernel | boot line |\n|---|---|---|\n");
    for side in Side::BOTH {
        let kernel = code(&view::kernel(comparison, side));
        let beside = code(&comparison.subjects.get(side).subject.beside_kernel());
        let cells = [side.name(), &kernel, &beside];
        out.push_str(&table_line(&cells));
    }
    let _ = writeln!(out, "\n{}\n", markdown(&view::key(comparison)));
    out.push_str(&table_line(&view::HEADER));
    out.push_str("|---|--:|--:|--:|--:|--:|--:|---|\n");
    for row in &comparison.rows {
        let (name, cells) = (code(&row.row), view::cells(row).map(|cell| markdown(&cell)));
        let cells: Vec<&str> =
            std::iter::once(name.as_str()).chain(cells.iter().map(String::as_str)).collect();
        out.push_str(&table_line(&cells));
    }
    for row in &comparison.rows {
        if let Some(effect) = row.deciding().filter(|effect| !effect.functions.is_empty()) {
            functions(&mut out, row, effect);
        }
    }
    let sections = [
        (view::ALSO_CHANGED, also_changed(comparison)),
        ("The sides did different work; these numbers do not compare:", work(comparison)),
        ("Failed, so not compared:", failures(comparison)),
        ("Warnings:", warnings(comparison)),
    ];
    for (title, items) in sections.iter().filter(|(_, items)| !items.is_empty()) {
        let _ = writeln!(out, "\n{title}\n\n- {}", items.join("\n- "));
    }
    let _ = writeln!(out, "\n{}", markdown(&view::legend(comparison)));
    out
}

fn table_line(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn functions(out: &mut String, row: &Row, effect: &Effect) {
    let (largest, rest) = view::largest(effect, FUNCTIONS);
    let delta = format!(": {}", html(&view::headline(effect)));
    let (name, operation) = (html(&row.row), html(&row.operation));
    let _ =
        writeln!(out, "\n<details><summary>{name}{delta} per operation ({operation})</summary>");
    out.push_str("\n| delta | function | base → change | beside |\n|--:|---|--:|--:|\n");
    for function in largest {
        let [delta, from_to, other] =
            view::carried(effect, function, row.ops).map(|cell| markdown(&cell));
        out.push_str(&table_line(&[&delta, &code(&function.function), &from_to, &other]));
    }
    if let Some((count, delta, rep)) = rest {
        let [delta, other] = view::both(effect, delta, rep).map(|cell| markdown(&cell));
        out.push_str(&table_line(&[&delta, &view::more(count), "", &other]));
    }
    out.push_str("\n</details>\n");
}

fn also_changed(comparison: &Comparison) -> Vec<String> {
    let item = |(row, effect): (&Row, &Effect)| {
        format!(
            "{}, {}: {} → {}, {} ({} %), {}",
            code(&row.row),
            markdown(&effect.metric),
            markdown(&number::count(effect.base)),
            markdown(&number::count(effect.change)),
            markdown(&number::delta(effect.delta)),
            markdown(&number::percent(effect.percent)),
            effect.verdict.text(),
        )
    };
    view::also_changed(comparison).into_iter().map(item).collect()
}

fn work(comparison: &Comparison) -> Vec<String> {
    let of = |row: &Row| {
        let name = code(&row.row);
        row.different_work.iter().map(|text| format!("{name}: {}", markdown(text))).collect()
    };
    comparison.rows.iter().flat_map(|row| -> Vec<String> { of(row) }).collect()
}

fn failures(comparison: &Comparison) -> Vec<String> {
    let item = |(boot, failure, rows): (&str, &Failure, Vec<&str>)| {
        let rows = rows.into_iter().map(code).collect::<Vec<_>>().join(", ");
        let (why, next) = (markdown(&failure.to_string()), markdown(failure.next_step()));
        format!("boot {}: {rows}: {why} → {next}", code(boot))
    };
    view::failures(comparison).into_iter().map(item).collect()
}

fn warnings(comparison: &Comparison) -> Vec<String> {
    let warnings = comparison.warnings.iter();
    warnings.map(|w| format!("{} → {}", markdown(&w.fact), markdown(&w.next_step))).collect()
}
