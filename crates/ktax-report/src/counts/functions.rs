use super::paths::most;
use crate::carried::{Carried, carrying};
use crate::view::{FunctionLine, Functions, Section};
use crate::{effect, number};
use ktax_model::{AWAITED, Effect, FunctionDelta, MAKESPAN, Row, Sides};

/// For every changed row the functions that carry the difference.
pub fn functions(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    changed.map(|(row, effect)| Section::Functions(functions_of(row, effect)))
}

fn functions_of(row: &Row, effect: &Effect) -> Functions {
    let carried = Carried::of(effect);
    let line = |function: &FunctionDelta| {
        let [delta, other] = [carried, carried.other()].map(|it| it.delta(function, row));
        let from_to = from_to(function, carried, row.ops);
        FunctionLine { function: function.function.clone(), delta, from_to, other }
    };
    Functions {
        row: row.row.clone(),
        effect: headline(effect),
        size_percent: effect.percent.map_or(f64::INFINITY, f64::abs),
        operation: row.operation.clone(),
        other: carried.other().short(),
        is_whole: false,
        lines: effect.functions.iter().map(line).collect(),
        paths: most(effect, row.ops),
    }
}

/// The counts that decide, per operation: `25.00 → 168.00`.
pub fn from_to(function: &FunctionDelta, carried: Carried, ops: u64) -> String {
    both(carried.counts(function), ops)
}

/// Counts of both Sides, per operation.
pub fn both(counts: &Sides<u64>, ops: u64) -> String {
    let per_op = |count: u64| number::count(count as f64 / ops.max(1) as f64);
    format!("{} → {}", per_op(counts.base), per_op(counts.change))
}

/// `+404.00 instructions (+1.22 %, the same in every layout)`.
pub fn headline(of: &Effect) -> String {
    let (least, most) = of.delta_range;
    let layouts = if least == most {
        "the same in every layout".to_owned()
    } else {
        format!("over layouts {} %", effect::over_layouts(of))
    };
    let (delta, percent) = (number::delta(of.delta), number::percent(of.percent));
    let unit = match of.metric.as_str() {
        MAKESPAN => "instructions of makespan",
        AWAITED => "instructions of kernel threads that it waits for",
        _ => Carried::of(of).unit(),
    };
    format!("{delta} {unit} ({percent} %, {layouts})")
}
