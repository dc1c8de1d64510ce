//! Where a row's instructions and waits go, whether or not they changed.

use std::collections::BTreeMap;

use super::branches::branches;
use crate::carried::Carried;
use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_host::text::counted;
use ktax_model::{Context, PathDelta, RowPaths, Side, Sides, own, without_below};
use ktax_stats::tables::share_percent;

/// A function with a smaller share of the row on both sides, in percent, is summed up with others.
const LEAST_OF_FUNCTION: f64 = 0.5;
/// A path with a smaller share on both sides, in percent, is left out with all below it.
const LEAST_OF_PATH: f64 = 1.0;
/// Below this share of the instructions, in percent, REP iterations and waits have no tables.
const LEAST_OF_OTHERS: f64 = 1.0;

const OF_PATHS: &str = "The function above called it; where that called several, a line leads to \
                        each. A count has that of all that it called. What has less than 1 % of \
                        the row on both sides is left out.";

/// The tables of functions and of call paths: of instructions, and of REP iterations and of what
/// CPUs wait for each other where that is much.
pub fn costs(paths: &RowPaths) -> Vec<Section> {
    let all = |context: &Context| paths.contexts.get(context).map_or(&[][..], Vec::as_slice);
    let of_context = |context: &Context| {
        let paths_of = all(context);
        let insn = whole(Carried::Instructions, paths_of);
        let is_much = |by: &Carried| {
            let counts = whole(*by, paths_of);
            let share = |side: Side| share(*counts.get(side), *insn.get(side));
            Side::BOTH.into_iter().any(|side| share(side) >= LEAST_OF_OTHERS)
        };
        let others = [Carried::Rep, Carried::Wait].into_iter().filter(is_much);
        let tables = [Carried::Instructions].into_iter().chain(others);
        let tables = tables.map(|by| Costs { row: paths, context: *context, paths: paths_of, by });
        tables.flat_map(|costs| [costs.functions(), costs.paths()]).collect::<Vec<_>>()
    };
    let decides = |context: &&Context| context.decides() && !all(context).is_empty();
    Context::ALL.iter().filter(decides).flat_map(of_context).collect()
}

/// What one context of a row counted.
struct Costs<'a> {
    row: &'a RowPaths,
    context: Context,
    paths: &'a [PathDelta],
    by: Carried,
}

fn whole(by: Carried, paths: &[PathDelta]) -> Sides<u64> {
    let top = paths.iter().filter(|path| path.depth == 0).filter_map(|path| by.of_path(path));
    top.fold(Sides::default(), |sum, counts| plus(&sum, counts))
}

fn plus(one: &Sides<u64>, other: &Sides<u64>) -> Sides<u64> {
    Sides::of(|side| one.get(side).saturating_add(*other.get(side)))
}

fn share(of: u64, whole: u64) -> f64 {
    share_percent(of as f64, whole.max(1) as f64)
}

impl Costs<'_> {
    fn title(&self, what: &str) -> String {
        let RowPaths { row, operation, .. } = self.row;
        let whose = match self.context {
            Context::Process => String::new(),
            other => format!(" of {}", other.words()),
        };
        format!("Where {row} goes, {} per operation ({operation}){whose}, {what}:", self.by.unit())
    }

    fn columns(&self, more: &[(&str, Kind)]) -> Table {
        let unit = self.by.head();
        let heads = [format!("base {unit}"), format!("change {unit}")];
        let shares = [("base %", Kind::Number), ("change %", Kind::Number)];
        let counts = heads.iter().map(|head| (head.as_str(), Kind::Number));
        let gives_way = vec![vec![2], vec![0]];
        Table { gives_way, ..Table::of(counts.chain(shares).chain(more.iter().copied())) }
    }

    fn cells(&self, counts: &Sides<u64>) -> [Cell; 4] {
        let whole = whole(self.by, self.paths);
        let per_op = |side| number::count(*counts.get(side) as f64 / self.row.ops.max(1) as f64);
        let of_whole = |side: Side| {
            number::with_decimals(share(*counts.get(side), *whole.get(side)), 2, false)
        };
        let [base, change] = Side::BOTH;
        [per_op(base), per_op(change), of_whole(base), of_whole(change)].map(Cell::from)
    }

    fn is_at_least(&self, counts: &Sides<u64>, percent: f64) -> bool {
        let whole = whole(self.by, self.paths);
        Side::BOTH.into_iter().any(|side| share(*counts.get(side), *whole.get(side)) >= percent)
    }

    /// What each function executes itself; the lines add up to the row.
    fn functions(&self) -> Section {
        let mut functions: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
        for (path, own) in self.paths.iter().zip(own(self.paths)) {
            let sum = functions.entry(&path.function).or_default();
            *sum = plus(sum, self.by.of_own(&own));
        }
        functions.retain(|_, counts| *counts != Sides::default());
        let is_large = |counts: &Sides<u64>| self.is_at_least(counts, LEAST_OF_FUNCTION);
        let (mut large, small): (Vec<_>, Vec<_>) =
            functions.into_iter().partition(|(_, counts)| is_large(counts));
        // Stable: those that have as much stay in the order of their names.
        large.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.max(counts.change)));
        let line =
            |name: String, counts: &Sides<u64>| Line::of(self.cells(counts)).and(Cell::from(name));
        let rest = small.iter().fold(Sides::default(), |sum, (_, counts)| plus(&sum, counts));
        let name = format!("… {}", counted(small.len(), "more function"));
        let rest = (!small.is_empty()).then(|| line(name, &rest));
        let lines = large.iter().map(|(name, counts)| line((*name).to_owned(), counts));
        Section::Table {
            title: self.title("by function"),
            table: self.columns(&[("function", Kind::Name)]).with(lines.chain(rest)),
            notes: Vec::new(),
        }
    }

    /// What each function executes with all that it calls, below its callers.
    fn paths(&self) -> Section {
        let is_wide = |path: &PathDelta| {
            self.by.of_path(path).is_some_and(|counts| self.is_at_least(counts, LEAST_OF_PATH))
        };
        let kept = without_below(self.paths, is_wide);
        let none = Sides::default();
        let line = |(path, branch): (&PathDelta, String)| {
            let calls = path.calls.change as f64 / self.row.ops.max(1) as f64;
            let line = Line::of(self.cells(self.by.of_path(path).unwrap_or(&none)));
            let last = Cell::from(format!("{branch}{}", path.function));
            // Calls of user mode, and those of thunks, are not followed.
            let calls = if calls > 0.0 { number::count(calls) } else { String::new() };
            line.and(Cell::from(calls)).and(last)
        };
        let lines: Vec<Line> = kept.iter().zip(branches(&kept)).map(line).collect();
        let columns = [("change calls", Kind::Number), ("function", Kind::Name)];
        let mut table = self.columns(&columns).with(lines);
        table.gives_way.insert(0, vec![4]);
        Section::Table {
            title: self.title("by call path"),
            table,
            notes: vec![OF_PATHS.to_owned()],
        }
    }
}
