//! From where the functions were called that carry a delta.

use crate::model::{PathDelta, Row, Sides};
use crate::report::carried::carrying;
use crate::report::number;
use crate::report::view::{Kind, Line, Section, Table};

const COLUMNS: [(&str, Kind); 5] = [
    ("delta insn", Kind::Number),
    ("delta REP", Kind::Number),
    ("base calls", Kind::Number),
    ("change calls", Kind::Number),
    ("function", Kind::Name),
];

const MEANING: &str = "Each function is below the one that called it, further to the right where \
                       that called others, too. Its delta, per operation, is that of all that it \
                       called. What is less than 1 % of the row's delta is left out.";

/// One table for each changed row.
pub fn paths(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, &carrying(row)?.paths)));
    changed.filter(|(_, paths)| !paths.is_empty()).map(|(row, paths)| Section::Table {
        title: format!("{}, from where it is called:", row.row),
        table: Table { gives_way: vec![vec![1], vec![2]], ..Table::of(COLUMNS) }
            .with(paths.iter().zip(indents(paths)).map(|(path, by)| line(path, by, row.ops))),
        notes: vec![MEANING.to_owned()],
    })
}

/// How far each is indented: as far as its caller, unless that has others, too.
fn indents(paths: &[PathDelta]) -> Vec<usize> {
    let callers = callers(paths);
    let mut called = vec![0; paths.len()];
    callers.iter().flatten().for_each(|caller| called[*caller] += 1);
    let mut indents: Vec<usize> = Vec::with_capacity(paths.len());
    for caller in callers {
        let indent = caller.map_or(0, |it| indents[it] + usize::from(called[it] > 1));
        indents.push(indent);
    }
    indents
}

/// Where the caller of each stands.
fn callers(paths: &[PathDelta]) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let caller = |(at, path): (usize, &PathDelta)| {
        above.truncate(path.depth as usize);
        let caller = above.last().copied();
        above.push(at);
        caller
    };
    paths.iter().enumerate().map(caller).collect()
}

fn line(path: &PathDelta, indent: usize, ops: u64) -> Line {
    let per_op = |count: u64| count as f64 / ops.max(1) as f64;
    let delta = |of: &Sides<u64>| match per_op(of.change) - per_op(of.base) {
        0.0 => String::new(),
        delta => number::delta(delta),
    };
    Line::of([
        delta(&path.instructions),
        delta(&path.rep_iterations),
        number::count(per_op(path.calls.base)),
        number::count(per_op(path.calls.change)),
        format!("{}{}", "· ".repeat(indent), path.function),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_called_several_moves_them_to_the_right() {
        let none = || Sides { base: 0, change: 0 };
        let path = |depth: u32| PathDelta {
            depth,
            function: "f".into(),
            calls: none(),
            instructions: none(),
            rep_iterations: none(),
        };
        let of = |depths: &[u32]| indents(&depths.iter().map(|it| path(*it)).collect::<Vec<_>>());
        assert_eq!(of(&[0, 1, 2, 2, 3, 1, 2]), [0, 1, 2, 2, 2, 1, 1]);
        assert_eq!(of(&[0, 0, 1]), [0, 0, 0]);
        // What a file says that ktax did not write.
        assert_eq!(of(&[7, 4_000_000_000, 0]), [0, 0, 0]);
        assert_eq!(of(&[]), [0; 0]);
    }
}
