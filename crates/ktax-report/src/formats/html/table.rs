use maud::{Markup, html};

use super::spot::Spot;
use super::text::t;
use super::verdict::{class, verdict};
use crate::view::{Cell, Column, Kind, Line, Table};

/// A table with its caption, which a narrow page scrolls sideways by itself. Lines that lead to the
/// details of a row link to them; such a table leaves out on a narrow page what gives way, for the
/// details have it.
pub fn table(title: &str, table: &Table, spot: Spot) -> Markup {
    let leads = table.lines.iter().any(|line| line.leads_to.is_some());
    let mut gives_way = if leads { table.gives_way.concat() } else { Vec::new() };
    gives_way.retain(|column| table.columns[*column].kind != Kind::Verdict);
    html! {
        div.wide tabindex="0" {
            table.sortable[table.lines.len() > 2 && table.has_header()] {
                @if !title.is_empty() { caption { (t(title)) } }
                @if table.has_header() {
                    thead { tr { @for (index, column) in table.columns.iter().enumerate() {
                        (head(column, gives_way.contains(&index)))
                    } } }
                }
                tbody { @for one in &table.lines { (line(one, table, &gives_way, spot)) } }
            }
        }
    }
}

fn head(column: &Column, is_dense: bool) -> Markup {
    let text = column.head_line();
    html! {
        @match text.is_empty() {
            true => td {},
            false => th.dense[is_dense].l[column.kind != Kind::Number] { (t(&text)) },
        }
    }
}

fn line(line: &Line, table: &Table, gives_way: &[usize], spot: Spot) -> Markup {
    let found = line.cells.iter().find_map(|cell| cell.verdict);
    let link = line.leads_to.map(|row| format!("#{}", spot.id(row)));
    html! {
        tr class=[line.is_part.then_some("part")] data-v=[found.map(class)] {
            @for (index, (cell, column)) in line.cells.iter().zip(&table.columns).enumerate() {
                @let link = link.as_deref().filter(|_| index == 0);
                (one(cell, column, index == 0, gives_way.contains(&index), link))
            }
        }
    }
}

fn one(cell: &Cell, column: &Column, is_first: bool, is_dense: bool, link: Option<&str>) -> Markup {
    let is_name = is_first && matches!(column.kind, Kind::Row | Kind::Name | Kind::Words);
    html! {
        @match column.kind {
            _ if is_name => th.one[column.kind == Kind::Name] scope="row" {
                @match link {
                    Some(link) => a href=(link) { (name(&cell.text)) },
                    None => (name(&cell.text)),
                }
            },
            Kind::Row | Kind::Name => td.l.one[column.kind == Kind::Name].dense[is_dense] {
                (name(&cell.text))
            },
            Kind::Words => td.l.dense[is_dense] { (t(&cell.text)) },
            Kind::Number => td class=[shade(cell.shade)].dense[is_dense] { (t(&cell.text)) },
            Kind::Verdict => (verdict(cell)),
        }
    }
}

/// Draws a name, which may be broken where its parameters are, and before a distribution's suffix.
pub fn name(text: &str) -> Markup {
    let parts = text.split_inclusive([':', ',', '+']).enumerate();
    html! { @for (at, part) in parts { @if at > 0 { wbr; } (t(part)) } }
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
