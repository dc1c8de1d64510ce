//! Which cache lines travel between several CPUs, by the model of coherence.

use std::collections::BTreeMap;

use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{CacheLine, Effect, Memory, Row, Side, Sides, TRANSFERS};
use ktax_stats::tables::{change_percent, share_percent};

const COLUMNS: [(&str, Kind); 7] = [
    ("workload", Kind::Row),
    ("cache line", Kind::Name),
    ("lines", Kind::Number),
    ("base model transfers", Kind::Number),
    ("change model transfers", Kind::Number),
    ("delta transfers", Kind::Number),
    ("delta %", Kind::Number),
];

const MEANING: &str = "model transfers: how often per operation a CPU uses a line of 64 bytes \
                       that another CPU has written since, in a model whose caches are never \
                       full; a model's number, exact in the model. A line has the name of its \
                       variables (+ where in it the line begins, or two that share it), and other \
                       memory that of the function that gets it most often from another CPU; \
                       lines: how many have this name.";

/// Lines of each row.
const MOST: usize = 5;
/// Below this share of a row's transfers, in percent, a line is not worth a line.
const LITTLE_PERCENT: f64 = 5.0;
const ALL: &str = "all";

/// What travels most in each row; nothing without the model.
pub fn coherence(rows: &[Row]) -> Option<Section> {
    let lines: Vec<Line> = rows.iter().filter_map(of_row).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Cache lines that travel between CPUs, by the model of coherence:".to_owned(),
        table: Table { gives_way: vec![vec![5], vec![2], vec![6], vec![3]], ..Table::of(COLUMNS) }
            .with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

fn of_row(row: &Row) -> Option<Vec<Line>> {
    let effect = row.effect(TRANSFERS)?;
    let found = row.counts()?.model_lines.as_ref()?;
    let all = in_layout(effect);
    let mut named: BTreeMap<String, (Sides<u64>, u64)> = BTreeMap::new();
    for side in Side::BOTH {
        for line in found.get(side) {
            let (transfers, lines) =
                named.entry(name(line)).or_insert((Sides { base: 0, change: 0 }, 0));
            *transfers.get_mut(side) += line.transfers;
            *lines = line.lines.max(*lines);
        }
    }
    let most = |sides: &Sides<u64>| sides.base.max(sides.change);
    let mut named: Vec<(String, (Sides<u64>, u64))> = named.into_iter().collect();
    named.sort_by_key(|(_, (transfers, _))| std::cmp::Reverse(most(transfers)));
    let is_much =
        |sides: &Sides<u64>| share_percent(most(sides) as f64, most(&all) as f64) >= LITTLE_PERCENT;
    let of = |name: &str, lines: String, transfers: &Sides<u64>| {
        line(row, [name.to_owned(), lines], transfers)
    };
    let worth = named.iter().filter(|(_, (transfers, _))| is_much(transfers)).take(MOST);
    let worth = worth.map(|(name, (transfers, lines))| of(name, lines.to_string(), transfers));
    Some(std::iter::once(of(ALL, String::new(), &all)).chain(worth).collect())
}

/// Both Sides' raw counts in the Layout that is shown.
fn in_layout(effect: &Effect) -> Sides<u64> {
    Sides::of(|side| effect.samples.get(side)[effect.layout])
}

fn line(row: &Row, [name, lines]: [String; 2], transfers: &Sides<u64>) -> Line {
    let per_op = |count: u64| count as f64 / row.ops.max(1) as f64;
    let [base, change] = [per_op(transfers.base), per_op(transfers.change)];
    let cells = [
        row.row.clone(),
        name,
        lines,
        number::count(base),
        number::count(change),
        number::delta(change - base),
        number::percent(change_percent(base, change)),
    ];
    Line::of(cells.map(Cell::from))
}

/// A line's name on the screen.
fn name(line: &CacheLine) -> String {
    let CacheLine { memory, name, offset, .. } = line;
    let place = match offset {
        0 => name.clone(),
        offset => format!("{name}+{offset:#x}"),
    };
    match memory {
        Memory::Data => place,
        Memory::Percpu => format!("{place} of each CPU"),
        Memory::Direct => format!("heap, by {name}"),
        Memory::Vmalloc => format!("stack or vmalloc, by {name}"),
        Memory::Pages => format!("struct page, by {name}"),
        Memory::User => format!("user, by {name}"),
        Memory::Other => format!("other, by {name}"),
    }
}
