use super::numbers::{counter, range, share, spread, value};
use crate::number::percent;
use crate::view::{Kind, Line, Table};
use ktax_model::{Repeats, StatRow, StatTable};

const COUNTER: (&str, Kind) = ("counter", Kind::Words);

/// A line for each counter; a part is of the whole that stands above it.
pub fn table(table: &StatTable) -> Table {
    let has_interval =
        table.rows.iter().any(|row| row.change.is_some_and(|it| it.interval_percent.is_some()));
    let columns: &[(&str, Kind)] = match (table.commands.len() == 2, table.runs > 1) {
        (true, _) if has_interval => &[
            ("base", Kind::Number),
            ("change", Kind::Number),
            COUNTER,
            ("change %", Kind::Number),
            ("interval\n(95 %)", Kind::Words),
        ],
        (true, _) => {
            &[("base", Kind::Number), ("change", Kind::Number), COUNTER, ("change %", Kind::Number)]
        }
        (false, true) => &[
            ("mean", Kind::Number),
            COUNTER,
            ("spread %", Kind::Number),
            ("median within\n%", Kind::Words),
        ],
        (false, false) => &[("count", Kind::Number), COUNTER],
    };
    let lines = table.rows.iter().map(|row| line(row, table.commands.len(), columns.len()));
    // The interval is the precision; the change stays.
    let interval = columns.iter().rposition(|column| column.1 == Kind::Words && *column != COUNTER);
    let gives_way = interval.into_iter().map(|column| vec![column]).collect();
    let wraps = columns.iter().position(|column| *column == COUNTER).unwrap_or(0);
    let of = Table::of(columns.iter().copied());
    Table { gives_way, wraps, ..of }.with(lines)
}

fn line(row: &StatRow, commands: usize, columns: usize) -> Line {
    let counter = counter(row);
    let mut cells: Vec<String> = row.repeats.iter().map(|seen| value(counter, seen.mean)).collect();
    cells.resize(commands, "not counted here".to_owned());
    let scaled = if share(row).is_some() { ", scaled" } else { "" };
    cells.push(format!("{}{scaled}", counter.title));
    if let Some(change) = row.change {
        cells.push(percent(Some(change.percent)));
        cells.extend(change.interval_percent.map(range));
    } else if let [seen] = row.repeats.as_slice() {
        cells.push(seen.spread_percent.map_or(String::new(), spread));
        cells.push(within(seen).unwrap_or_default());
    }
    cells.resize(columns, String::new());
    Line { is_part: !counter.headline, ..Line::of(cells) }
}

/// Where the median lies, in percent of itself.
fn within(seen: &Repeats) -> Option<String> {
    let interval = seen.interval?;
    let ends = [interval.low, interval.high].map(|end| (end / seen.median - 1.0) * 100.0);
    ends.iter().all(|end| end.is_finite()).then(|| range(ends))
}
