use crate::model::{Effect, FunctionDelta, Row, Sides};
use crate::report::view::{FunctionLine, Functions, Section};
use crate::report::{effect, number, verdict};

/// For every changed row the functions that carry the difference.
pub fn functions(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, row.deciding()?)));
    changed.map(|(row, effect)| Section::Functions(functions_of(row, effect)))
}

fn functions_of(row: &Row, effect: &Effect) -> Functions {
    let is_rep = verdict::is_rep(effect);
    let line = |function: &FunctionDelta| {
        let (delta, other) = match is_rep {
            true => (function.rep_delta, function.delta),
            false => (function.delta, function.rep_delta),
        };
        let from_to = from_to(function, is_rep, row.ops);
        FunctionLine { function: function.function.clone(), delta, from_to, other }
    };
    Functions {
        row: row.row.clone(),
        effect: headline(effect),
        operation: row.operation.clone(),
        other: if is_rep { "instructions" } else { "REP" },
        is_whole: false,
        lines: effect.functions.iter().map(line).collect(),
    }
}

/// The region's counts that decide: REP iterations or instructions.
pub fn counts(function: &FunctionDelta, is_rep: bool) -> &Sides<u64> {
    if is_rep { &function.rep_iterations } else { &function.instructions }
}

/// The same per operation: `25.00 → 168.00`.
pub fn from_to(function: &FunctionDelta, is_rep: bool, ops: u64) -> String {
    let of = counts(function, is_rep);
    let per_op = |count: u64| number::count(count as f64 / ops.max(1) as f64);
    format!("{} → {}", per_op(of.base), per_op(of.change))
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
    let unit = if verdict::is_rep(of) { "REP iterations" } else { "instructions" };
    format!("{delta} {unit} ({percent} %, {layouts})")
}
