//! Call paths of a row in forms that other programs read. Names of functions have letters, digits
//! and `_.$[]+-` alone.
//!
//! A new form is a constant of type [`Export`] and an entry of [`EXPORTS`].

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

/// All forms.
pub const EXPORTS: [Export; 5] = [FOLDED, PPROF, CALLGRIND, LKP, SVG];

/// Form in which call paths are written.
#[derive(Clone, Copy)]
pub struct Export {
    /// Name for `--paths`.
    pub name: &'static str,
    /// Reader, for the help.
    pub about: &'static str,
    /// True if callees of an inlined function are below its caller, as on the other side.
    pub is_compared: bool,
    /// True if it has instructions alone, also where REP iterations decide the row.
    pub(super) is_of_instructions: bool,
    /// True if it can show one side alone; a picture cannot.
    pub has_sides: bool,
    /// Writes one side, or both.
    pub(super) write: fn(&RowPaths, Option<Side>) -> Vec<u8>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Export {
    /// Writes all paths of a row, of one side or of both.
    pub fn write(self, paths: &RowPaths, side: Option<Side>) -> Vec<u8> {
        (self.write)(paths, side)
    }

    /// Remark on a Metric that decides the row and is missing in this form.
    pub fn remark(self, paths: &RowPaths) -> Option<&'static str> {
        (self.is_of_instructions && paths.metric == REP).then_some(
            "REP iterations decide this row, and these are instructions; --paths pprof has both",
        )
    }
}

fn sides(side: Option<Side>) -> Vec<Side> {
    side.map_or(Side::BOTH.to_vec(), |side| vec![side])
}

/// Function where it is called, with all functions above it, and what it executes there itself.
struct Stack<'a> {
    /// Names: the Context first, the function last.
    functions: Vec<&'a str>,
    path: &'a PathDelta,
    own: OwnCounts,
}

/// Returns all stacks of a row, a caller before all that it calls.
fn stacks(paths: &RowPaths) -> impl Iterator<Item = Stack<'_>> {
    paths.contexts.iter().flat_map(|(context, paths)| {
        let callers = callers(paths);
        paths.iter().zip(own_counts(paths)).enumerate().map(move |(index, (path, own))| {
            let below = path_names(paths, &callers, index);
            let functions = [context_name(*context)].into_iter().chain(below).collect();
            Stack { functions, path, own }
        })
    })
}

/// Counts that are written of each side: instructions and REP iterations; waits and idle time where
/// there are any; the costly instructions that the row executed.
struct Counted {
    sides: Vec<Side>,
    has_times: bool,
    costly: Vec<Costly>,
}

impl Counted {
    fn new(paths: &RowPaths, side: Option<Side>) -> Counted {
        let all = || paths.contexts.values().flatten();
        let is_time = |path: &PathDelta| {
            [&path.wait, &path.idle].into_iter().any(|counts| *counts != Sides::default())
        };
        let costly: BTreeSet<Costly> = all().flat_map(|path| path.costly.keys().copied()).collect();
        let costly = costly.into_iter().collect();
        Counted { sides: sides(side), has_times: all().any(is_time), costly }
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

type CountOf = fn(&OwnCounts) -> &Sides<u64>;

/// Names of time that is no instruction. No symbol has such a name.
const TIMES: [(&str, CountOf); 2] = [("[spin-wait]", |own| &own.wait), ("[idle]", |own| &own.idle)];

/// Name of a Context, above all that it executes. No symbol has such a name.
fn context_name(context: Context) -> &'static str {
    match context {
        Context::Process => "[process]",
        Context::Interrupt => "[interrupt]",
        Context::Kthread => "[kthread]",
        Context::Awaited => "[awaited]",
    }
}

/// A line for each stack, as flame graph programs read it: `a;b;c 12`, and of both sides, as they
/// read differences, `a;b;c 12 15`. Waits and idle time stand below their function.
const FOLDED: Export = Export {
    name: "folded",
    about: "a line for each stack with its instructions, for flame graphs",
    is_compared: false,
    is_of_instructions: true,
    has_sides: true,
    write: |paths, side| write_folded(paths, side).into_bytes(),
};

fn write_folded(paths: &RowPaths, side: Option<Side>) -> String {
    let sides = sides(side);
    let mut text = String::new();
    for stack in stacks(paths) {
        let times = TIMES.map(|(name, time)| (Some(name), time(&stack.own)));
        for (below, counts) in [(None, &stack.own.instructions)].into_iter().chain(times) {
            let counts: Vec<u64> = sides.iter().map(|side| *counts.get(*side)).collect();
            if counts.iter().any(|count| *count > 0) {
                let functions: Vec<&str> = stack.functions.iter().copied().chain(below).collect();
                text += &functions.join(";");
                text.extend(counts.iter().map(|count| format!(" {count}")));
                text.push('\n');
            }
        }
    }
    text
}

/// Picture of the page, as a file of its own.
const SVG: Export = Export {
    name: "svg",
    about: "a picture of both sides: a differential flame graph",
    is_compared: true,
    is_of_instructions: false,
    has_sides: false,
    write: |paths, _| write_svg(paths).into_bytes(),
};

const SVG_HOW: &str = "upper bar: base, blue where the function's own code executed more there; \
                       lower bar: change, red where it executes more; grey: layouts differ by as \
                       much";

/// Writes the process alone: interrupts are not what the row costs.
fn write_svg(paths: &RowPaths) -> String {
    let process_paths = paths.contexts.get(&Context::Process).map_or(&[][..], Vec::as_slice);
    let by = CountKind::from_metric(&paths.metric);
    let whole = top_counts(by, process_paths);
    let scale = PathScale { by, ops: paths.ops, spread: paths.spread };
    let summary =
        format!("{} per operation ({}): {}", by.unit(), paths.operation, scale.numbers(&whole));
    let none = Flame { unit: by.unit(), bars: Vec::new() };
    let flame = path_flame(process_paths, whole, scale).unwrap_or(none);
    flame_file([&paths.row, &summary], SVG_HOW, &flame)
}

/// Rows as the kernel's test robot mails them: percent of all, differences in points.
const LKP: Export = Export {
    name: "lkp",
    about: "shares in percent, as in the mails of the 0-day robot",
    is_compared: false,
    is_of_instructions: true,
    has_sides: true,
    write: |paths, side| write_lkp(paths, side).into_bytes(),
};

/// Number of functions of a stack in the robot's rows.
const LKP_LEVELS: usize = 5;

/// Least share, and least difference in points, of a row.
const LKP_LEAST_PERCENT: f64 = 0.05;

const LKP_HEAD: &str = "      base          points      change\n\
                    --------------------------------------\n";

fn write_lkp(paths: &RowPaths, side: Option<Side>) -> String {
    let mut rows = LkpRows::default();
    stacks(paths).for_each(|stack| rows.add(&stack));
    let mut text = format!("{}: {}\n\n", paths.row, paths.operation);
    text += if side.is_none() { LKP_HEAD } else { "" };
    for (kind, counted) in
        [("calltrace", &rows.stacks), ("children", &rows.children), ("self", &rows.own)]
    {
        let mut shares: Vec<(&str, Sides<f64>)> =
            counted.iter().map(|(name, counts)| (name.as_str(), rows.shares(counts))).collect();
        let weight = |share: &Sides<f64>| match side {
            Some(side) => *share.get(side),
            None => share.change - share.base,
        };
        shares.retain(|(_, share)| weight(share).abs() >= LKP_LEAST_PERCENT);
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

/// Instructions of a region by what the rows name.
#[derive(Default)]
struct LkpRows {
    all: [u64; 2],
    /// Stacks of a function and those above it, with all below it.
    stacks: BTreeMap<String, [u64; 2]>,
    /// Functions, with all below them.
    children: BTreeMap<String, [u64; 2]>,
    own: BTreeMap<String, [u64; 2]>,
}

impl LkpRows {
    fn add(&mut self, stack: &Stack<'_>) {
        let own = Side::BOTH.map(|side| *stack.own.instructions.get(side));
        // Skips the Context, which comes first.
        let functions = &stack.functions[1..];
        // A recursive function, or a repeated sequence, counts once.
        let shown = |index: usize| &functions[index.saturating_sub(LKP_LEVELS - 1)..=index];
        for shown in (0..functions.len()).map(shown).collect::<BTreeSet<_>>() {
            let shown: Vec<&str> = shown.iter().rev().copied().collect();
            add_counts(self.stacks.entry(shown.join(".")).or_default(), own);
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

fn add_counts(to: &mut [u64; 2], counts: [u64; 2]) {
    to.iter_mut().zip(counts).for_each(|(to, count)| *to = to.saturating_add(count));
}

pub(super) const CALLGRIND: Export = Export {
    name: "callgrind",
    about: "functions and calls, for KCachegrind and callgrind_annotate",
    is_compared: false,
    is_of_instructions: false,
    has_sides: true,
    write: |paths, side| write_callgrind(paths, side).into_bytes(),
};

/// Context and name of a function.
type FunctionName<'a> = (&'a str, &'a str);

#[derive(Default)]
struct Node<'a> {
    own: Vec<u64>,
    calls: BTreeMap<&'a str, Calls>,
}

/// Calls of a callee, and what it and all below it executed for this caller.
#[derive(Default)]
struct Calls {
    calls: u64,
    all: Vec<u64>,
}

/// Writes the profile. There are no lines: all is in line 0, and the file is the Context.
fn write_callgrind(paths: &RowPaths, side: Option<Side>) -> String {
    let counted = Counted::new(paths, side);
    let prefix = |one: &Side| match side {
        Some(_) => String::new(),
        None => capitals(one.name()),
    };
    let event = |side| counted.names().into_iter().map(move |name| prefix(side) + &capitals(name));
    let events: Vec<String> = counted.sides.iter().flat_map(event).collect();
    let mut text = format!(
        "# callgrind format\nversion: 1\ncreator: ktax {}\ncmd: {}\npositions: line\nevents: {}\n",
        env!("CARGO_PKG_VERSION"),
        paths.row,
        events.join(" ")
    );
    let spaced = |counts: &[u64]| counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    for ((context, function), node) in nodes(paths, &counted) {
        text += &format!("\nfl={context}\nfn={function}\n0 {}\n", spaced(&node.own));
        for (callee, Calls { calls, all }) in node.calls {
            // Entries of thunks are not counted, and readers take 0 calls for none.
            text += &format!("cfn={callee}\ncalls={} 0\n0 {}\n", calls.max(1), spaced(&all));
        }
    }
    text
}

/// Name of an event, which has letters and digits alone: `RepIterations`.
fn capitals(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('-').map(capital).collect()
}

fn nodes<'a>(paths: &'a RowPaths, counted: &Counted) -> BTreeMap<FunctionName<'a>, Node<'a>> {
    let mut nodes: BTreeMap<FunctionName<'a>, Node<'a>> = BTreeMap::new();
    let sides = counted.sides.iter();
    for stack in stacks(paths) {
        let values = |counts| {
            sides.clone().flat_map(|side| counted.values(counts, *side)).collect::<Vec<u64>>()
        };
        let [context, .., function] = stack.functions[..] else { continue };
        add(&mut nodes.entry((context, function)).or_default().own, &values(&stack.own));
        // The Context calls nothing: it is the file.
        let [_, .., caller, _] = stack.functions[..] else { continue };
        let calls = nodes.entry((context, caller)).or_default().calls.entry(function).or_default();
        let most = sides.clone().map(|side| *stack.path.calls.get(*side)).max();
        calls.calls = calls.calls.saturating_add(most.unwrap_or_default());
        add(&mut calls.all, &values(&stack.path.counts()));
    }
    nodes
}

fn add(to: &mut Vec<u64>, counts: &[u64]) {
    to.resize(counts.len(), 0);
    to.iter_mut().zip(counts).for_each(|(to, count)| *to = to.saturating_add(*count));
}

pub(super) const PPROF: Export = Export {
    name: "pprof",
    about: "instructions, REP iterations, calls and costly instructions, for go tool pprof",
    is_compared: false,
    is_of_instructions: false,
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
    /// Table of all strings, of which the first is empty.
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    /// Type that `pprof` shows unless it is asked for another; without this it is the last one.
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
    /// Locations: the function first, its callers after it.
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

/// Builds the profile, with a location for each function: there are no addresses.
fn profile(paths: &RowPaths, side: Option<Side>) -> Profile {
    let counted = Counted::new(paths, side);
    let mut strings = Strings::default();
    strings.place("");
    let mut kinds = counted.names();
    kinds.insert(CALLS, "calls");
    let kind = |name: &str, named_side: &Side| match side {
        Some(_) => name.to_owned(),
        None => format!("{}-{name}", named_side.name()),
    };
    // With both sides the change is shown.
    let shown = counted.sides.last().map_or_else(String::new, |last| kind(kinds[0], last));
    let default_sample_type = strings.place(&shown);
    let names =
        counted.sides.iter().flat_map(|side| kinds.iter().map(move |name| kind(name, side)));
    let sample_type = names
        .map(|name| ValueType { kind: strings.place(&name), unit: strings.place("count") })
        .collect();
    let mut functions = BTreeMap::new();
    let sample =
        stacks(paths).map(|stack| stack_sample(&stack, &counted, &mut functions)).collect();
    let comment = format!("{}, all operations of the region", paths.row);
    let comment = vec![strings.place(&comment)];
    let location = |id: &u64| Location { id: *id, line: vec![Line { function_id: *id }] };
    let location = functions.values().map(location).collect();
    let function = functions
        .into_iter()
        .map(|(name, id)| Function { id, name: strings.place(name) })
        .collect();
    let string_table = strings.all;
    Profile { sample_type, sample, location, function, string_table, comment, default_sample_type }
}

/// Position of the number of calls among the values.
const CALLS: usize = 2;

fn stack_sample<'a>(
    stack: &Stack<'a>,
    counted: &Counted,
    functions: &mut BTreeMap<&'a str, u64>,
) -> Sample {
    let mut id = |function: &'a str| {
        // Id 0 means no location.
        let next = functions.len() as u64 + 1;
        *functions.entry(function).or_insert(next)
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

/// Strings, each once, with their places.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    places: BTreeMap<String, i64>,
}

impl Strings {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::default());
    to.write_all(bytes).and_then(|()| to.finish()).expect("memory takes all that is written")
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::{Context, METRICS, PathDelta, RowPaths, Side, Sides};

    /// Two functions wait for a lock, and a process leaves its CPU idle in the first.
    fn waits() -> RowPaths {
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
    fn what_cpus_wait_is_below_who_takes_the_lock() {
        let folded = String::from_utf8(FOLDED.write(&waits(), None)).unwrap();
        for line in [
            "[process];entry;alloc_fd;[spin-wait] 30 60",
            "[process];entry;alloc_fd;[idle] 7 14",
            "[process];entry;close_fd;[spin-wait] 20 40",
        ] {
            assert!(folded.lines().any(|found| found == line), "{line}: {folded}");
        }
        // A caller waits only in what it calls.
        assert_eq!(folded.matches("[spin-wait]").count(), 2, "{folded}");
        let callgrind = String::from_utf8(CALLGRIND.write(&waits(), Some(Side::Base))).unwrap();
        assert!(callgrind.contains("events: Instructions RepIterations SpinWait Idle\n"));
        assert!(callgrind.contains("cfn=alloc_fd\ncalls=1 0\n0 99 0 30 7\n"), "{callgrind}");
    }

    #[test]
    fn a_form_without_what_decides_the_row_says_so() {
        let remarks = |metric: &str| {
            let paths = RowPaths {
                row: "stat".to_owned(),
                ops: 1,
                operation: "one".to_owned(),
                metric: metric.to_owned(),
                spread: 0.0,
                contexts: Default::default(),
            };
            EXPORTS.map(|form| (form.name, form.remark(&paths).is_some()))
        };
        assert!(remarks(METRICS[0].name).iter().all(|(_, has_remark)| !has_remark));
        let names: Vec<&str> =
            remarks("rep-iterations").iter().filter(|form| form.1).map(|form| form.0).collect();
        assert_eq!(names, ["folded", "lkp"]);
    }
}
