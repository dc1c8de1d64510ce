use maud::{Markup, html};

use super::picture::picture;
use super::spot::Spot;
use super::table::{name, table};
use super::text::t;
use super::verdict::class;
use crate::view::{FailureReason, Functions, Kind, Line, MetricChange, RowDetail, Section, Table};
use ktax_host::text::shell_line;

/// So many functions of a row, where it has no bridge.
const FUNCTIONS: usize = 20;

/// A part of an article, below a heading of this level where it has one.
pub fn section(part: &Section, spot: Spot) -> Markup {
    html! {
        @match part {
            Section::Sentences(sentences) => @for one in sentences { p { (t(one)) } },
            Section::Table { title, table: lines, notes } => {
                (table(title.trim_end_matches(':'), lines, spot))
                @for note in notes { p.note { (t(note)) } }
            },
            Section::Functions(carried) => (functions(carried, spot)),
            Section::AlsoChanged { title, changes } => {
                (table(title.trim_end_matches(':'), &MetricChange::table(changes), spot))
            },
            Section::Notes { title, notes } => {
                p { (t(title)) }
                ul { @for note in notes { li { code { (name(&note.row)) } ": " (t(&note.text)) } } }
            },
            Section::Reasons { title, reasons } => {
                p { (t(title)) }
                ul { @for one in reasons { li { (reason(one)) } } }
            },
            Section::Items { title, items } => {
                p { (t(title)) }
                ul { @for item in items { li { (t(item)) } } }
            },
            Section::Command { sentence, command: line } => {
                p { (t(sentence)) }
                pre { (t(line)) }
            },
            Section::Again { sentence, words } => {
                p { (t(sentence)) }
                (command(words))
            },
            Section::Picture { title, picture: drawn, how } => {
                (spot.heading(title))
                (picture(title, drawn, how, spot))
            },
            // The picture before it has the same.
            Section::InWords(_) => {},
            Section::Rows { rows, how } => (details(rows, how, spot)),
            Section::Folded { summary, sections } => details.again {
                summary { (t(summary)) }
                @for one in sections { (section(one, spot)) }
            },
        }
    }
}

/// The words of a command line, as a shell takes them.
pub fn command(words: &[String]) -> Markup {
    html! { pre { (t(&shell_line(words))) } }
}

/// The functions of a row without a bridge.
fn functions(carried: &Functions, spot: Spot) -> Markup {
    let Functions { row, effect, operation, .. } = carried;
    let title = format!("{row}: {effect} per operation ({operation})");
    let columns = [
        ("delta", Kind::Number),
        ("function", Kind::Name),
        ("base → change", Kind::Number),
        ("beside", Kind::Words),
    ];
    let lines = carried.largest(FUNCTIONS).into_iter().map(Line::of);
    table(&title, &Table::of(columns).with(lines), spot)
}

fn reason(reason: &FailureReason) -> Markup {
    html! {
        @if !reason.boots.is_empty() {
            (t(&reason.boots))
            @if !reason.name.is_empty() { " " code { (t(&reason.name)) } }
            ": "
        }
        @for (at, row) in reason.rows.iter().enumerate() {
            @if at > 0 { ", " }
            code { (name(row)) }
        }
        ": " (t(&reason.why))
        @if !reason.next_step.is_empty() { " → " (t(&reason.next_step)) }
    }
}

/// Each row folded away, to be opened by a click, by a link to it, or before the page is printed.
fn details(rows: &[RowDetail], how: &str, spot: Spot) -> Markup {
    html! {
        (spot.heading("Each row"))
        p.note { (t(how)) }
        @for (at, row) in rows.iter().enumerate() {
            details.row id=(spot.id(at)) data-v=[row.verdict.verdict.map(class)] {
                summary {
                    span.name { (name(&row.row)) }
                    span.answer { (t(&row.answer)) }
                    @if let Some(verdict) = row.verdict.verdict {
                        span.v.(class(verdict)) { (t(&row.verdict.text)) }
                    }
                }
                @for one in row.sections.iter().filter(|one| !one.is_empty()) {
                    (section(one, spot.inner()))
                }
                @if !row.again.is_empty() {
                    p { "To measure this row again:" }
                    (command(&row.again))
                }
            }
        }
    }
}
