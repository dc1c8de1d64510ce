//! The parts of an article: sections, tables, folded rows, figures.

use maud::{Markup, Render, html};

use crate::formats::html::{Spot, svg, t};
use crate::view::{
    Cell, Details, FailureReason, Functions, Kind, Line, MetricChange, Picture, Section, Table,
};
use ktax_host::text::shell_line;
use ktax_model::Verdict;

/// Number of functions of a row without a bridge.
const FUNCTIONS: usize = 20;

/// Renders a part of an article, below a heading of this level where it has one.
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
            // A page shows the picture before it instead, and the details of its report.
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

/// Renders the functions of a row without a bridge.
fn functions_table(carried: &Functions, spot: Spot) -> Markup {
    let Functions { row, effect, operation, .. } = carried;
    let title = format!("{row}: {effect} per operation ({operation})");
    let columns = [
        ("delta", Kind::Number),
        ("function", Kind::Name),
        ("base → change", Kind::Number),
        ("beside", Kind::Words),
    ];
    let lines = carried.largest(FUNCTIONS).into_iter().map(Line::new);
    table(&title, &Table::new(columns).with(lines), spot)
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

/// Rows are folded away; a click, a link or printing opens them.
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

/// Renders a table with its caption; a narrow page scrolls it sideways. Lines that lead to the
/// details of a row link to them. Such a table leaves out on a narrow page what gives way, for the
/// details have it.
fn table(title: &str, table: &Table, spot: Spot) -> Markup {
    let leads = table.lines.iter().any(|line| line.leads_to.is_some());
    let mut gives_way = if leads { table.gives_way.concat() } else { Vec::new() };
    gives_way.retain(|column| table.columns[*column].kind != Kind::Verdict);
    html! {
        div.wide tabindex="0" {
            table.sortable[table.lines.len() > 2 && table.has_header()] {
                @if !title.is_empty() { caption { (t(title)) } }
                @if table.has_header() {
                    thead { tr { @for (index, column) in table.columns.iter().enumerate() {
                        @match column.head_line().as_str() {
                            "" => td {},
                            text => th.dense[gives_way.contains(&index)]
                                .l[column.kind != Kind::Number] { (t(text)) },
                        }
                    } } }
                }
                tbody { @for line in &table.lines { (table_line(line, table, &gives_way, spot)) } }
            }
        }
    }
}

fn table_line(line: &Line, table: &Table, gives_way: &[usize], spot: Spot) -> Markup {
    let found = line.cells.iter().find_map(|cell| cell.verdict);
    let is_name = |kind: Kind| matches!(kind, Kind::Row | Kind::Name | Kind::Words);
    html! {
        tr class=[line.is_part.then_some("part")] data-v=[found.map(verdict_class)] {
            @for (index, (cell, column)) in line.cells.iter().zip(&table.columns).enumerate() {
                @let is_dense = gives_way.contains(&index);
                @let is_one = column.kind == Kind::Name;
                @match (column.kind, &line.leads_to) {
                    (kind, Some(row)) if index == 0 && is_name(kind) => {
                        th.one[is_one] scope="row" {
                            a href={ "#" (spot.id(*row)) } { (name(&cell.text)) }
                        }
                    },
                    (kind, None) if index == 0 && is_name(kind) => {
                        th.one[is_one] scope="row" { (name(&cell.text)) }
                    },
                    (Kind::Row | Kind::Name, _) => td.l.one[is_one].dense[is_dense] {
                        (name(&cell.text))
                    },
                    (Kind::Words, _) => td.l.dense[is_dense] { (t(&cell.text)) },
                    (Kind::Number, _) => td class=[shade_class(cell.shade)].dense[is_dense] {
                        (t(&cell.text))
                    },
                    (Kind::Verdict, _) => (verdict_cell(cell)),
                }
            }
        }
    }
}

/// Renders a name that may break where its parameters are, and before a distribution's suffix.
pub fn name(text: &str) -> Name<'_> {
    Name(text)
}

pub struct Name<'a>(&'a str);

impl Render for Name<'_> {
    fn render_to(&self, buffer: &mut String) {
        let mut rest = self.0;
        while let Some(last) = rest.bytes().position(|byte| matches!(byte, b':' | b',' | b'+')) {
            let (part, behind) = rest.split_at(last + 1);
            t(part).render_to(buffer);
            if !behind.is_empty() {
                buffer.push_str("<wbr>");
            }
            rest = behind;
        }
        t(rest).render_to(buffer);
    }
}

/// Returns the class that repeats a number as a colour.
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

/// Names a verdict's class, which is also its mark and its value in the filter. The style has a
/// shape for each: no reader needs the colour.
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

/// Renders a cell with word and colour; the style puts the shape before it.
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
