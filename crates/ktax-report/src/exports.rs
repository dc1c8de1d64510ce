//! Call paths of a row in formats of other programs. Names of functions only have letters, digits
//! and `_.$[]+-`, so no format needs escapes.
//!
//! A new format is a constant of type [`Export`] and an entry of [`EXPORTS`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::counts::top_counts;
use crate::effect::CountKind;
use crate::formats::flame_file;
use crate::pictures::{PathScale, path_flame};
use crate::view::Flame;
use crate::words::REP;
use ktax_model::{
    Context, Costly, OwnCounts, PathDelta, RowPaths, Side, Sides, callers, own_counts, path_names,
};
use ktax_stats::tables::share_percent;

/// All formats of call paths.
pub const EXPORTS: [Export; 5] = [FOLDED, PPROF, CALLGRIND, LKP, SVG];

/// Format of call paths.
#[derive(Clone, Copy)]
pub struct Export {
    /// Name for `--paths`.
    pub name: &'static str,
    /// Description for the help.
    pub about: &'static str,
    /// True if the format needs paths of both sides that match: the callees of a function that the
    /// compiler inlined on one side are then below its caller on both sides.
    pub is_compared: bool,
    /// True if the format only has instructions, even if REP iterations decide the row.
    pub(super) has_instructions_only: bool,
    /// True if the format can have one side only; a picture always has both.
    pub has_sides: bool,
    /// Writes one side; both without a side.
    pub(super) write: fn(&RowPaths, Option<Side>) -> Vec<u8>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Export {
    /// Writes all paths of a row of one side; of both without a side.
    pub fn write(self, paths: &RowPaths, side: Option<Side>) -> Vec<u8> {
        (self.write)(paths, side)
    }

    /// Returns a remark if the Metric that decides the row is missing in this format.
    pub fn remark(self, paths: &RowPaths) -> Option<&'static str> {
        (self.has_instructions_only && paths.metric == REP).then_some(
            "REP iterations decide this row, but this format has instructions only; --paths pprof \
             has both",
        )
    }
}

fn sides(side: Option<Side>) -> Vec<Side> {
    side.map_or(Side::BOTH.to_vec(), |side| vec![side])
}

/// Call stack with its counts.
struct Stack<'a> {
    /// The Context, the outermost function, …, the innermost function.
    functions: Vec<&'a str>,
    path: &'a PathDelta,
    /// Counts of the innermost function without callees.
    own: OwnCounts,
}

/// Returns all stacks of a row in depth-first order.
fn stacks(paths: &RowPaths) -> impl Iterator<Item = Stack<'_>> {
    paths.contexts.iter().flat_map(|(context, paths)| {
        let callers = callers(paths);
        paths.iter().zip(own_counts(paths)).enumerate().map(move |(index, (path, own))| {
            let functions = path_names(paths, &callers, index);
            let functions = [context_name(*context)].into_iter().chain(functions).collect();
            Stack { functions, path, own }
        })
    })
}

/// Kinds of counts that are written for each side: instructions and REP iterations; waits and idle
/// time if the row has any; the costly instructions that the row executed.
struct ExportedCounts {
    sides: Vec<Side>,
    has_times: bool,
    costly: Vec<Costly>,
}

impl ExportedCounts {
    fn new(paths: &RowPaths, side: Option<Side>) -> ExportedCounts {
        let all_paths = || paths.contexts.values().flatten();
        let has_time = |path: &PathDelta| {
            [&path.wait, &path.idle].into_iter().any(|counts| *counts != Sides::default())
        };
        let costly: BTreeSet<Costly> =
            all_paths().flat_map(|path| path.costly.keys().copied()).collect();
        let costly = costly.into_iter().collect();
        ExportedCounts { sides: sides(side), has_times: all_paths().any(has_time), costly }
    }

    fn names(&self) -> Vec<&'static str> {
        let times: &[&str] = if self.has_times { &["spin-wait", "idle"] } else { &[] };
        let costly = self.costly.iter().map(|kind| kind.name());
        let names = ["instructions", "rep-iterations"].into_iter();
        names.chain(times.iter().copied()).chain(costly).collect()
    }

    fn values(&self, counts: &OwnCounts, side: Side) -> Vec<u64> {
        let times = [&counts.wait, &counts.idle].into_iter().filter(|_| self.has_times);
        let values = [&counts.instructions, &counts.rep_iterations].into_iter().chain(times);
        let costly = self.costly.iter().map(|kind| counts.costly.get(kind));
        let costly = costly.map(|counts| counts.map_or(0, |counts| *counts.get(side)));
        values.map(|counts| *counts.get(side)).chain(costly).collect()
    }
}

/// Selects one kind of count.
type SelectCount = fn(&OwnCounts) -> &Sides<u64>;

/// Names of waits and idle time in stacks. Symbols do not begin with `[`.
const TIMES: [(&str, SelectCount); 2] =
    [("[spin-wait]", |own| &own.wait), ("[idle]", |own| &own.idle)];

/// Name of a Context, the outermost entry of a stack. Symbols do not begin with `[`.
fn context_name(context: Context) -> &'static str {
    match context {
        Context::Process => "[process]",
        Context::Interrupt => "[interrupt]",
        Context::Kthread => "[kthread]",
        Context::Awaited => "[awaited]",
    }
}

/// Lines for flame graph programs: `a;b;c 12` for one side, `a;b;c 12 15` for a differential flame
/// graph of both. Waits and idle time are entries below their function.
const FOLDED: Export = Export {
    name: "folded",
    about: "a line for each stack with its instructions, for flame graphs",
    is_compared: false,
    has_instructions_only: true,
    has_sides: true,
    write: |paths, side| write_folded(paths, side).into_bytes(),
};

fn write_folded(paths: &RowPaths, side: Option<Side>) -> String {
    let sides = sides(side);
    let mut text = String::new();
    for stack in stacks(paths) {
        let times = TIMES.map(|(name, time)| (Some(name), time(&stack.own)));
        for (time_name, counts) in [(None, &stack.own.instructions)].into_iter().chain(times) {
            let counts: Vec<u64> = sides.iter().map(|side| *counts.get(*side)).collect();
            if counts.iter().any(|count| *count > 0) {
                let functions: Vec<&str> =
                    stack.functions.iter().copied().chain(time_name).collect();
                text += &functions.join(";");
                text.extend(counts.iter().map(|count| format!(" {count}")));
                text.push('\n');
            }
        }
    }
    text
}

/// The flame graph of the page as a file.
const SVG: Export = Export {
    name: "svg",
    about: "a picture of both sides: a differential flame graph",
    is_compared: true,
    has_instructions_only: false,
    has_sides: false,
    write: |paths, _| write_svg(paths).into_bytes(),
};

const SVG_HOW: &str = "upper bar: base, blue where the function's own code executed more there; \
                       lower bar: change, red where it executes more; grey: layouts differ by as \
                       much";

/// Writes the flame graph of process context only, because interrupts are no cost of the row.
fn write_svg(paths: &RowPaths) -> String {
    let process_paths = paths.contexts.get(&Context::Process).map_or(&[][..], Vec::as_slice);
    let by = CountKind::from_metric(&paths.metric);
    let total = top_counts(by, process_paths);
    let scale = PathScale { by, ops: paths.ops, spread: paths.spread };
    let summary =
        format!("{} per operation ({}): {}", by.unit(), paths.operation, scale.numbers(&total));
    let empty = Flame { unit: by.unit(), bars: Vec::new() };
    let flame = path_flame(process_paths, total, scale).unwrap_or(empty);
    flame_file([&paths.row, &summary], SVG_HOW, &flame)
}

/// Rows in the form of the mails of the kernel test robot: shares in percent, differences in
/// points.
const LKP: Export = Export {
    name: "lkp",
    about: "shares in percent, as in the mails of the 0-day robot",
    is_compared: false,
    has_instructions_only: true,
    has_sides: true,
    write: |paths, side| write_lkp(paths, side).into_bytes(),
};

/// Maximum number of functions of a stack in a row.
const LKP_MAX_FUNCTIONS: usize = 5;

/// Minimum share (percent) or difference (points) of a row.
const LKP_MIN_PERCENT: f64 = 0.05;

const LKP_HEAD: &str = "      base          points      change\n\
                    --------------------------------------\n";

fn write_lkp(paths: &RowPaths, side: Option<Side>) -> String {
    let mut rows = LkpRows::default();
    stacks(paths).for_each(|stack| rows.add(&stack));
    let mut text = format!("{}: {}\n\n", paths.row, paths.operation);
    text += if side.is_none() { LKP_HEAD } else { "" };
    for (kind, counts_by_name) in
        [("calltrace", &rows.stacks), ("children", &rows.children), ("self", &rows.own)]
    {
        let mut shares: Vec<(&str, Sides<f64>)> = counts_by_name
            .iter()
            .map(|(name, counts)| (name.as_str(), rows.shares(counts)))
            .collect();
        let weight = |share: &Sides<f64>| match side {
            Some(side) => *share.get(side),
            None => share.change - share.base,
        };
        shares.retain(|(_, share)| weight(share).abs() >= LKP_MIN_PERCENT);
        shares.sort_by(|(_, one), (_, other)| weight(one).total_cmp(&weight(other)));
        for (name, share) in shares {
            text += &match side {
                Some(_) => format!("{:>10.2}", weight(&share)),
                None => {
                    let Sides { base, change } = share;
                    format!("{base:>10.2} {:>+15.2} {change:>11.2}", change - base)
                }
            };
            text += &format!("        ktax-profile.{kind}.instructions.{name}\n");
        }
    }
    text
}

/// Instructions of a region by name of the rows, for base and change.
#[derive(Default)]
struct LkpRows {
    all: [u64; 2],
    /// By a function and its callers, including callees.
    stacks: BTreeMap<String, [u64; 2]>,
    /// By function, including callees.
    children: BTreeMap<String, [u64; 2]>,
    /// By function, without callees.
    own: BTreeMap<String, [u64; 2]>,
}

impl LkpRows {
    fn add(&mut self, stack: &Stack<'_>) {
        let own = Side::BOTH.map(|side| *stack.own.instructions.get(side));
        // The first entry is the Context.
        let functions = &stack.functions[1..];
        // A set, so that recursive functions and repeated sequences count once.
        let part = |index: usize| &functions[index.saturating_sub(LKP_MAX_FUNCTIONS - 1)..=index];
        for part in (0..functions.len()).map(part).collect::<BTreeSet<_>>() {
            let names: Vec<&str> = part.iter().rev().copied().collect();
            add_counts(self.stacks.entry(names.join(".")).or_default(), own);
        }
        for function in functions.iter().collect::<BTreeSet<_>>() {
            add_counts(self.children.entry((*function).to_owned()).or_default(), own);
        }
        let function = functions[functions.len() - 1];
        add_counts(self.own.entry(function.to_owned()).or_default(), own);
        add_counts(&mut self.all, own);
    }

    fn shares(&self, counts: &[u64; 2]) -> Sides<f64> {
        let [base, change] =
            [0, 1].map(|index| share_percent(counts[index] as f64, self.all[index].max(1) as f64));
        Sides { base, change }
    }
}

fn add_counts(sum: &mut [u64; 2], counts: [u64; 2]) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
}

pub(super) const CALLGRIND: Export = Export {
    name: "callgrind",
    about: "functions and calls, for KCachegrind and callgrind_annotate",
    is_compared: false,
    has_instructions_only: false,
    has_sides: true,
    write: |paths, side| write_callgrind(paths, side).into_bytes(),
};

/// Context and name of a function.
type FunctionName<'a> = (&'a str, &'a str);

/// Costs of a function.
#[derive(Default)]
struct FunctionCosts<'a> {
    own: Vec<u64>,
    callees: BTreeMap<&'a str, Calls>,
}

/// Calls of a callee from one caller, and the counts of these calls including callees.
#[derive(Default)]
struct Calls {
    count: u64,
    inclusive: Vec<u64>,
}

/// Writes the profile. ktax knows no source lines, so all costs are in line 0. The file name of a
/// function is its Context.
fn write_callgrind(paths: &RowPaths, side: Option<Side>) -> String {
    let counted = ExportedCounts::new(paths, side);
    let prefix = |event_side: &Side| match side {
        Some(_) => String::new(),
        None => camel_case(event_side.name()),
    };
    let event =
        |side| counted.names().into_iter().map(move |name| prefix(side) + &camel_case(name));
    let events: Vec<String> = counted.sides.iter().flat_map(event).collect();
    let mut text = format!(
        "# callgrind format\nversion: 1\ncreator: ktax {}\ncmd: {}\npositions: line\nevents: {}\n",
        env!("CARGO_PKG_VERSION"),
        paths.row,
        events.join(" ")
    );
    let spaced = |counts: &[u64]| counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    for ((context, function), costs) in function_costs(paths, &counted) {
        text += &format!("\nfl={context}\nfn={function}\n0 {}\n", spaced(&costs.own));
        for (callee, Calls { count, inclusive }) in costs.callees {
            // ktax does not count calls of thunks. Readers of the format ignore entries with 0
            // calls.
            let count = count.max(1);
            text += &format!("cfn={callee}\ncalls={count} 0\n0 {}\n", spaced(&inclusive));
        }
    }
    text
}

/// Returns the name of an event, which may only have letters and digits: `RepIterations`.
fn camel_case(name: &str) -> String {
    let capitalized = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('-').map(capitalized).collect()
}

fn function_costs<'a>(
    paths: &'a RowPaths,
    counted: &ExportedCounts,
) -> BTreeMap<FunctionName<'a>, FunctionCosts<'a>> {
    let mut costs: BTreeMap<FunctionName<'a>, FunctionCosts<'a>> = BTreeMap::new();
    let sides = counted.sides.iter();
    for stack in stacks(paths) {
        let values = |counts| {
            sides.clone().flat_map(|side| counted.values(counts, *side)).collect::<Vec<u64>>()
        };
        let [context, .., function] = stack.functions[..] else { continue };
        add(&mut costs.entry((context, function)).or_default().own, &values(&stack.own));
        // A stack of two entries has no caller: the Context is the file.
        let [_, .., caller, _] = stack.functions[..] else { continue };
        let calls = costs.entry((context, caller)).or_default().callees.entry(function);
        let calls = calls.or_default();
        // The format has one number of calls, so with both sides it is the larger number.
        let count = sides.clone().map(|side| *stack.path.calls.get(*side)).max();
        calls.count = calls.count.saturating_add(count.unwrap_or_default());
        add(&mut calls.inclusive, &values(&stack.path.counts()));
    }
    costs
}

fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(counts.len(), 0);
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

pub(super) const PPROF: Export = Export {
    name: "pprof",
    about: "instructions, REP iterations, calls and costly instructions, for go tool pprof",
    is_compared: false,
    has_instructions_only: false,
    has_sides: true,
    write: |paths, side| compressed(&profile(paths, side).encode_to_vec()),
};

#[derive(Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    /// Table of all strings. The first string is empty.
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    /// Sample type that `pprof` shows by default; if 0, `pprof` shows the last one.
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Message)]
struct Sample {
    /// Locations, from the innermost to the outermost function.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    /// Values, one for each type.
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// Builds the profile. Each function is one location, because ktax knows no addresses.
fn profile(paths: &RowPaths, side: Option<Side>) -> Profile {
    let counted = ExportedCounts::new(paths, side);
    let mut strings = Strings::default();
    strings.index("");
    let mut kinds = counted.names();
    kinds.insert(CALLS, "calls");
    let kind = |name: &str, named_side: &Side| match side {
        Some(_) => name.to_owned(),
        None => format!("{}-{name}", named_side.name()),
    };
    // With both sides, the default is the change.
    let default_type = counted.sides.last().map_or_else(String::new, |last| kind(kinds[0], last));
    let default_sample_type = strings.index(&default_type);
    let names =
        counted.sides.iter().flat_map(|side| kinds.iter().map(move |name| kind(name, side)));
    let sample_type = names
        .map(|name| ValueType { kind: strings.index(&name), unit: strings.index("count") })
        .collect();
    let mut functions = BTreeMap::new();
    let sample =
        stacks(paths).map(|stack| stack_sample(&stack, &counted, &mut functions)).collect();
    let comment = format!("{}, all operations of the region", paths.row);
    let comment = vec![strings.index(&comment)];
    let location = |id: &u64| Location { id: *id, line: vec![Line { function_id: *id }] };
    let location = functions.values().map(location).collect();
    let function = functions
        .into_iter()
        .map(|(name, id)| Function { id, name: strings.index(name) })
        .collect();
    let string_table = strings.all;
    Profile { sample_type, sample, location, function, string_table, comment, default_sample_type }
}

/// Position of the number of calls among the values.
const CALLS: usize = 2;

fn stack_sample<'a>(
    stack: &Stack<'a>,
    counted: &ExportedCounts,
    functions: &mut BTreeMap<&'a str, u64>,
) -> Sample {
    let mut id = |function: &'a str| {
        // Id 0 means no location.
        let next_id = functions.len() as u64 + 1;
        *functions.entry(function).or_insert(next_id)
    };
    let values = |side: &Side| {
        let mut counts = counted.values(&stack.own, *side);
        counts.insert(CALLS, *stack.path.calls.get(*side));
        counts.into_iter().map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect::<Vec<_>>()
    };
    Sample {
        location_id: stack.functions.iter().rev().map(|function| id(function)).collect(),
        value: counted.sides.iter().flat_map(values).collect(),
    }
}

/// String table of a profile. Each string is in the table once.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    indexes: BTreeMap<String, i64>,
}

impl Strings {
    /// Returns the index of a string, which is added if it is new.
    fn index(&mut self, text: &str) -> i64 {
        if let Some(index) = self.indexes.get(text) {
            return *index;
        }
        let index = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.indexes.insert(text.to_owned(), index);
        index
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("a Vec accepts all writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::{Context, METRICS, PathDelta, RowPaths, Side, Sides};

    /// Paths in which two functions wait for a lock, and a process sleeps in the first.
    fn paths_with_waits() -> RowPaths {
        let both = |count: u64| Sides { base: count, change: 2 * count };
        let path = |depth: u32, function: &str, wait: u64, idle: u64| PathDelta {
            wait: both(wait),
            idle: both(idle),
            ..PathDelta::with_instructions(depth, function, 100 - u64::from(depth), 90)
        };
        let paths =
            vec![path(0, "entry", 50, 7), path(1, "alloc_fd", 30, 7), path(1, "close_fd", 20, 0)];
        RowPaths {
            row: "dup".to_owned(),
            ops: 1,
            operation: "one".to_owned(),
            metric: METRICS[0].name.to_owned(),
            spread: 0.0,
            contexts: [(Context::Process, paths)].into(),
        }
    }

    #[test]
    fn waits_and_idle_time_are_below_the_function_that_waits() {
        let folded = String::from_utf8(FOLDED.write(&paths_with_waits(), None)).unwrap();
        for line in [
            "[process];entry;alloc_fd;[spin-wait] 30 60",
            "[process];entry;alloc_fd;[idle] 7 14",
            "[process];entry;close_fd;[spin-wait] 20 40",
        ] {
            assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
        }
        // `entry` itself does not wait.
        assert_eq!(folded.matches("[spin-wait]").count(), 2, "{folded}");
        let callgrind =
            String::from_utf8(CALLGRIND.write(&paths_with_waits(), Some(Side::Base))).unwrap();
        assert!(callgrind.contains("events: Instructions RepIterations SpinWait Idle\n"));
        assert!(callgrind.contains("cfn=alloc_fd\ncalls=1 0\n0 99 0 30 7\n"), "{callgrind}");
    }

    #[test]
    fn formats_without_the_deciding_metric_have_a_remark() {
        let remarks = |metric: &str| {
            let paths = RowPaths {
                row: "stat".to_owned(),
                ops: 1,
                operation: "one".to_owned(),
                metric: metric.to_owned(),
                spread: 0.0,
                contexts: Default::default(),
            };
            EXPORTS.map(|export| (export.name, export.remark(&paths).is_some()))
        };
        assert!(remarks(METRICS[0].name).iter().all(|(_, has_remark)| !has_remark));
        let names: Vec<&str> = remarks("rep-iterations")
            .iter()
            .filter(|export| export.1)
            .map(|export| export.0)
            .collect();
        assert_eq!(names, ["folded", "lkp"]);
    }
}
