//! Parts of an article: sections, tables, folded rows, figures.

use maud::{Markup, Render, html};

use crate::formats::html::{Spot, svg, t};
use crate::view::{
    Cell, ColumnKind, Details, FailureReason, Line, MetricChange, Picture, RowFunctions, Section,
    Table,
};
use ktax_host::text::shell_line;
use ktax_model::Verdict;

/// Maximum number of functions of a row without a waterfall chart.
const MAX_FUNCTIONS: usize = 20;

/// Renders a section. Headings have the level that follows from `spot`.
pub fn section(part: &Section, spot: Spot) -> Markup {
    html! {
        @match part {
            Section::Sentences(sentences) => @for sentence in sentences { p { (t(sentence)) } },
            Section::Table { title, table: lines, notes } => {
                (table(title.trim_end_matches(':'), lines, spot))
                @for note in notes { p.note { (t(note)) } }
            },
            Section::Functions(carried) => (functions_table(carried, spot)),
            Section::AlsoChanged { title, changes } => {
                (table(title.trim_end_matches(':'), &MetricChange::table(changes), spot))
            },
            Section::Notes { title, notes } => {
                p { (t(title)) }
                ul { @for note in notes { li { code { (name(&note.row)) } ": " (t(&note.text)) } } }
            },
            Section::Reasons { title, reasons } => {
                p { (t(title)) }
                ul { @for reason in reasons { li { (reason_item(reason)) } } }
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
            // A page shows the picture instead. `article` renders the rows.
            Section::InWords(_) | Section::Rows => {},
            Section::Folded { summary, sections } => details.again {
                summary { (t(summary)) }
                @for part in sections { (section(part, spot)) }
            },
        }
    }
}

pub fn command(words: &[String]) -> Markup {
    html! { pre { (t(&shell_line(words))) } }
}

/// Renders the functions of a row without a waterfall chart.
fn functions_table(carried: &RowFunctions, spot: Spot) -> Markup {
    let RowFunctions { row, effect, operation, .. } = carried;
    let title = format!("{row}: {effect} per operation ({operation})");
    let columns = [
        ("delta", ColumnKind::Number),
        ("function", ColumnKind::Name),
        ("base → change", ColumnKind::Number),
        ("other", ColumnKind::Words),
    ];
    let lines = carried.largest(MAX_FUNCTIONS).into_iter().map(Line::new);
    table(&title, &Table::new(columns).with_lines(lines), spot)
}

fn reason_item(reason: &FailureReason) -> Markup {
    html! {
        @if !reason.boots.is_empty() {
            (t(&reason.boots))
            @if !reason.name.is_empty() { " " code { (t(&reason.name)) } }
            ": "
        }
        @for (index, row) in reason.rows.iter().enumerate() {
            @if index > 0 { ", " }
            code { (name(row)) }
        }
        ": " (t(&reason.why))
        @if !reason.next_step.is_empty() { " → " (t(&reason.next_step)) }
    }
}

/// Renders the rows folded away; a click, a link or printing opens them.
pub fn row_details(Details { rows, how }: &Details, spot: Spot) -> Markup {
    html! { @if !rows.is_empty() {
        (spot.heading("Each row"))
        p.note { (t(how)) }
        @for (index, row) in rows.iter().enumerate() {
            details.row id=(spot.id(index)) data-v=[row.verdict.verdict.map(verdict_class)] {
                summary {
                    span.name { (name(&row.row)) }
                    span.answer { (t(&row.answer)) }
                    @if let Some(verdict) = row.verdict.verdict {
                        span.v.(verdict_class(verdict)) { (t(&row.verdict.text)) }
                    }
                }
                @for part in row.sections.iter().filter(|part| !part.is_empty()) {
                    (section(part, spot.inner()))
                }
                @if !row.again.is_empty() {
                    p { "To measure this row again:" }
                    (command(&row.again))
                }
            }
        }
    } }
}

/// Renders a table with its caption; a narrow page scrolls the table sideways. If lines link to the
/// details of a row, a narrow page leaves out the columns that may be left out, because the details
/// have their content.
fn table(title: &str, table: &Table, spot: Spot) -> Markup {
    let has_links = table.lines.iter().any(|line| line.linked_detail.is_some());
    let mut dropped = if has_links { table.drop_groups.concat() } else { Vec::new() };
    dropped.retain(|column| table.columns[*column].kind != ColumnKind::Verdict);
    html! {
        div.wide tabindex="0" {
            table.sortable[table.lines.len() > 2 && table.has_header()] {
                @if !title.is_empty() { caption { (t(title)) } }
                @if table.has_header() {
                    thead { tr { @for (index, column) in table.columns.iter().enumerate() {
                        @match column.head_line().as_str() {
                            "" => td {},
                            text => th.dense[dropped.contains(&index)]
                                .l[column.kind != ColumnKind::Number] { (t(text)) },
                        }
                    } } }
                }
                tbody { @for line in &table.lines { (table_line(line, table, &dropped, spot)) } }
            }
        }
    }
}

fn table_line(line: &Line, table: &Table, dropped: &[usize], spot: Spot) -> Markup {
    let verdict = line.cells.iter().find_map(|cell| cell.verdict);
    let is_name =
        |kind: ColumnKind| matches!(kind, ColumnKind::Row | ColumnKind::Name | ColumnKind::Words);
    html! {
        tr class=[line.is_part.then_some("part")] data-v=[verdict.map(verdict_class)] {
            @for (index, (cell, column)) in line.cells.iter().zip(&table.columns).enumerate() {
                @let is_dense = dropped.contains(&index);
                @let is_one = column.kind == ColumnKind::Name;
                @match (column.kind, &line.linked_detail) {
                    (kind, Some(row)) if index == 0 && is_name(kind) => {
                        th.one[is_one] scope="row" {
                            a href={ "#" (spot.id(*row)) } { (name(&cell.text)) }
                        }
                    },
                    (kind, None) if index == 0 && is_name(kind) => {
                        th.one[is_one] scope="row" { (name(&cell.text)) }
                    },
                    (ColumnKind::Row | ColumnKind::Name, _) => td.l.one[is_one].dense[is_dense] {
                        (name(&cell.text))
                    },
                    (ColumnKind::Words, _) => td.l.dense[is_dense] { (t(&cell.text)) },
                    (ColumnKind::Number, _) => td class=[shade_class(cell.shade)].dense[is_dense] {
                        (t(&cell.text))
                    },
                    (ColumnKind::Verdict, _) => (verdict_cell(cell)),
                }
            }
        }
    }
}

/// Renders a name that may be broken after `:`, `,` and `+`: before parameters, and before the
/// suffix of a distribution's version.
pub fn name(text: &str) -> Name<'_> {
    Name(text)
}

pub struct Name<'a>(&'a str);

impl Render for Name<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut rest = self.0;
        while let Some(last) = rest.bytes().position(|byte| matches!(byte, b':' | b',' | b'+')) {
            let (part, after) = rest.split_at(last + 1);
            t(part).render_to(buffer);
            if !after.is_empty() {
                buffer.push_str("<wbr>");
            }
            rest = after;
        }
        t(rest).render_to(buffer);
    }
}

/// Returns the CSS class of a shade; `None` for no shade.
fn shade_class(shade: i8) -> Option<&'static str> {
    Some(match shade {
        ..=-3 => "c3",
        -2 => "c2",
        -1 => "c1",
        0 => return None,
        1 => "h1",
        2 => "h2",
        3 => "h3",
        4.. => "h4",
    })
}

/// Returns the CSS class of a verdict, which is also the name of its mark and its value in the
/// filter. Each class has a shape, so that readers who see no colours can tell the verdicts apart.
pub fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::BelowThreshold => "below",
        Verdict::NoDetectedChange => "none",
        Verdict::TooFewBoots | Verdict::Inconclusive => "unsure",
        Verdict::DifferentWork | Verdict::Failed => "failed",
        Verdict::OneSide => "alone",
    }
}

/// Renders a cell with the verdict's text; the style adds the colour and the shape.
pub fn verdict_cell(cell: &Cell) -> Markup {
    html! {
        @match cell.verdict {
            Some(verdict) => td.v.(verdict_class(verdict)) { (t(&cell.text)) },
            None => td.l { (t(&cell.text)) },
        }
    }
}

/// Renders a picture with its numbers as text, and how to read it.
fn picture(title: &str, picture: &Picture, how: &str, spot: Spot) -> Markup {
    html! {
        figure {
            @match picture {
                Picture::Forest(forest) => (svg::forest(title, forest, spot)),
                Picture::Bridge(bridge) => (svg::bridge(title, bridge)),
                Picture::Flame(flame) => (svg::flame(title, flame, None)),
                Picture::Dots(dots) => (svg::dots(dots)),
                Picture::Curves(curves) => (svg::curves(title, curves)),
                Picture::Trail(trail) => (svg::trail(title, trail)),
                Picture::Bars(bars) => (svg::bars(title, bars)),
                Picture::Levels(levels) => (svg::levels(title, levels)),
                Picture::Steps(steps) => (svg::steps(title, steps)),
            }
            @if !how.is_empty() { figcaption { (t(how)) } }
        }
    }
}
