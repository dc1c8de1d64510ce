use maud::{Markup, html};

use super::text::t;
use super::verdict::{class, verdict};
use crate::report::view::{Cell, Column, Kind, Line, Table};

/// A table with its caption, which a narrow page scrolls sideways by itself.
pub fn table(title: &str, table: &Table) -> Markup {
    html! {
        div.wide tabindex="0" {
            table.sortable[table.lines.len() > 2 && table.has_header()] {
                @if !title.is_empty() { caption { (t(title)) } }
                @if table.has_header() {
                    thead { tr { @for column in &table.columns { (head(column)) } } }
                }
                tbody { @for one in &table.lines { (line(one, table)) } }
            }
        }
    }
}

fn head(column: &Column) -> Markup {
    let text = column.head_line();
    html! {
        @match text.is_empty() {
            true => td {},
            false => th class=[words(column)] { (t(&text)) },
        }
    }
}

fn line(line: &Line, table: &Table) -> Markup {
    let found = line.cells.iter().find_map(|cell| cell.verdict);
    html! {
        tr class=[line.is_part.then_some("part")] data-v=[found.map(class)] {
            @for (at, (cell, column)) in line.cells.iter().zip(&table.columns).enumerate() {
                (one(cell, column, at == 0))
            }
        }
    }
}

fn one(cell: &Cell, column: &Column, is_first: bool) -> Markup {
    let is_name = is_first && matches!(column.kind, Kind::Row | Kind::Name | Kind::Words);
    html! {
        @match column.kind {
            _ if is_name => th.one[column.kind == Kind::Name] scope="row" { (name(&cell.text)) },
            Kind::Row | Kind::Name => td.l { (name(&cell.text)) },
            Kind::Words => td.l { (t(&cell.text)) },
            Kind::Number => td class=[shade(cell.shade)] { (t(&cell.text)) },
            Kind::Verdict => (verdict(cell)),
        }
    }
}

/// A name may be broken where its parameters are.
pub fn name(text: &str) -> Markup {
    let parts = text.split_inclusive([':', ',']).enumerate();
    html! { @for (at, part) in parts { @if at > 0 { wbr; } (t(part)) } }
}

/// Numbers are the usual: what is to the left has a class.
fn words(column: &Column) -> Option<&'static str> {
    (column.kind != Kind::Number).then_some("l")
}

/// The class that repeats a number as a colour.
fn shade(shade: i8) -> Option<&'static str> {
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
