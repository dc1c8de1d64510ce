//! The profile of `pprof` (its profile.proto), compressed with gzip as `pprof` writes it.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::exports::{Export, Stack, TIMES, costly_kinds, has_times, kind_count, sides, stacks};
use ktax_model::{Costly, RowPaths, Side, Sides};

pub(super) const PPROF: Export = Export {
    name: "pprof",
    about: "instructions, REP iterations, calls and costly instructions, for go tool pprof",
    is_compared: false,
    is_of_instructions: false,
    has_sides: true,
    write: |paths, side| compressed(&profile(paths, side).encode_to_vec()),
};

const INSTRUCTIONS: &str = "instructions";

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
    let sides = sides(side);
    let mut strings = Strings::default();
    strings.place("");
    let costly = costly_kinds(paths);
    let kinds = [INSTRUCTIONS, "rep-iterations", "calls"].into_iter();
    let counted = Counted { sides: &sides, has_times: has_times(paths), costly: &costly };
    let times: &[&str] = if counted.has_times { &["spin-wait", "idle"] } else { &[] };
    let kinds = kinds.chain(times.iter().copied());
    let kinds: Vec<&str> = kinds.chain(costly.iter().map(|kind| kind.name())).collect();
    let kind = |name: &str, named_side: &Side| match side {
        Some(_) => name.to_owned(),
        None => format!("{}-{name}", named_side.name()),
    };
    // Of both sides show the change.
    let shown = sides.last().map_or_else(String::new, |last| kind(INSTRUCTIONS, last));
    let default_sample_type = strings.place(&shown);
    let names = sides.iter().flat_map(|side| kinds.iter().map(move |name| kind(name, side)));
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

/// Counts of a sample.
struct Counted<'a> {
    sides: &'a [Side],
    has_times: bool,
    costly: &'a [Costly],
}

fn stack_sample<'a>(
    stack: &Stack<'a>,
    counted: &Counted<'_>,
    functions: &mut BTreeMap<&'a str, u64>,
) -> Sample {
    let mut id = |function: &'a str| {
        // Id 0 means no location.
        let next = functions.len() as u64 + 1;
        *functions.entry(function).or_insert(next)
    };
    let own = &stack.own;
    let counts = [&own.instructions, &own.rep_iterations, &stack.path.calls];
    let times = TIMES.iter().filter(|_| counted.has_times).map(|(_, time)| time(own));
    let counts: Vec<&Sides<u64>> = counts.into_iter().chain(times).collect();
    let values = |side: &Side| {
        let counts = counts.iter().map(|count| *count.get(*side));
        let costly = counted.costly.iter().map(|kind| kind_count(&own.costly, *kind, *side));
        let counts = counts.chain(costly);
        counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect::<Vec<_>>()
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
