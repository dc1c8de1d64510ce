//! Counts by counter, and model-specific registers.

mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, Index, IndexMut, SubAssign};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Context, Sample};

pub use table::{Basic, COUNTERS, Costly, Counter, CounterRow, Modelled, plugin_header};

impl Costly {
    /// Starts of repeated string instructions.
    pub const STRINGS: [Costly; 4] =
        [Costly::RepStosb, Costly::RepStos, Costly::RepMovsb, Costly::RepMovs];
}

impl Modelled {
    /// True if most instructions count here, so that one count is no more than an instruction.
    pub const fn is_common(self) -> bool {
        matches!(self, Modelled::L1dAccesses | Modelled::Branches)
    }
}

macro_rules! serde_by_name {
    ($($Group:ident)+) => {$(
        impl Serialize for $Group {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl JsonSchema for $Group {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Group).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": $Group::NAMES })
            }
        }

        impl<'de> Deserialize<'de> for $Group {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                let found = $Group::ALL.into_iter().find(|counter| counter.name() == name);
                found.ok_or_else(|| D::Error::unknown_variant(&name, $Group::NAMES))
            }
        }
    )+};
}

serde_by_name! { Costly Modelled }

/// A count of each counter. JSON has those that are not 0, and always the instructions and REP
/// iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts([u64; COUNTERS.len()]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; COUNTERS.len()])
    }
}

impl<C: Into<Counter>> Index<C> for Counts {
    type Output = u64;

    fn index(&self, counter: C) -> &u64 {
        &self.0[counter.into().index()]
    }
}

impl<C: Into<Counter>> IndexMut<C> for Counts {
    fn index_mut(&mut self, counter: C) -> &mut u64 {
        &mut self.0[counter.into().index()]
    }
}

impl Counts {
    /// Counts with one counter alone.
    pub fn single(counter: impl Into<Counter>, count: u64) -> Counts {
        let mut counts = Counts::default();
        counts[counter] = count;
        counts
    }

    /// Counts with instructions and REP iterations alone.
    pub fn dispatched(instructions: u64, rep_iterations: u64) -> Counts {
        let mut counts = Counts::single(Basic::Instructions, instructions);
        counts[Basic::RepIterations] = rep_iterations;
        counts
    }

    /// Sum of instructions and REP iterations.
    pub fn executed(&self) -> u64 {
        self[Basic::Instructions].saturating_add(self[Basic::RepIterations])
    }

    /// Counters of a group that are not 0, in the order of the table.
    pub fn group(&self, group: &str) -> impl Iterator<Item = (CounterRow, u64)> {
        let rows = COUNTERS.into_iter().filter(move |row| row.counter.group() == group);
        rows.map(|row| (row, self[row.counter])).filter(|(_, count)| *count > 0)
    }

    /// Applies `make` to each count.
    #[must_use]
    pub fn map(&self, make: impl FnMut(u64) -> u64) -> Counts {
        Counts(self.0.map(make))
    }

    /// Applies `make` to each count of both.
    #[must_use]
    pub fn with(&self, other: &Counts, make: impl Fn(u64, u64) -> u64) -> Counts {
        Counts(std::array::from_fn(|index| make(self.0[index], other.0[index])))
    }
}

// In place and by reference: recursions over call paths are a thousand calls deep, and each copy
// would stay on the stack.
impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, more: &Counts) {
        self.0
            .iter_mut()
            .zip(more.0.iter())
            .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }
}

impl SubAssign<&Counts> for Counts {
    fn sub_assign(&mut self, less: &Counts) {
        self.0
            .iter_mut()
            .zip(less.0.iter())
            .for_each(|(rest, less)| *rest = rest.saturating_sub(*less));
    }
}

/// Groups of counters with an object of their own in JSON.
const GROUPS: [&str; 2] = ["costly", "modelled"];

struct Group<'a>(&'a Counts, &'a str);

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.group(self.1).map(|(row, count)| (row.name, count)))
    }
}

/// Always in JSON.
const REQUIRED: [Basic; 2] = [Basic::Instructions, Basic::RepIterations];

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for counter in Basic::ALL {
            if self[counter] > 0 || REQUIRED.contains(&counter) {
                map.serialize_entry(counter.name(), &self[counter])?;
            }
        }
        for group in GROUPS {
            if self.group(group).next().is_some() {
                map.serialize_entry(group, &Group(self, group))?;
            }
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Count(u64),
    Group(BTreeMap<String, u64>),
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
        let mut counts = Counts::default();
        let entries = BTreeMap::<String, Entry>::deserialize(deserializer)?;
        if let Some(missing) = REQUIRED.iter().find(|known| !entries.contains_key(known.name())) {
            return Err(D::Error::missing_field(missing.name()));
        }
        let find = |group: &str, name: &str| {
            let unknown = || D::Error::custom(format!("unknown variant `{}`", name.escape_debug()));
            Counter::named(group, name).ok_or_else(unknown)
        };
        for (name, entry) in entries {
            match entry {
                Entry::Count(count) => counts[find("", &name)?] = count,
                Entry::Group(group) => {
                    for (counter, count) in group {
                        counts[find(&name, &counter)?] = count;
                    }
                }
            }
        }
        Ok(counts)
    }
}

/// Number of a register, written as in the kernel's sources: `0xc0000102`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Msr(pub u32);

impl fmt::Display for Msr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl From<Msr> for String {
    fn from(msr: Msr) -> String {
        msr.to_string()
    }
}

impl TryFrom<String> for Msr {
    type Error = String;

    fn try_from(text: String) -> Result<Msr, String> {
        let number = text.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let msr = number.map(Msr).filter(|msr| msr.to_string() == text);
        msr.ok_or_else(|| format!("{text:?} is no number of a register, such as \"0x1b\""))
    }
}

/// A column: source of a number in a Sample, and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in files and on the screen.
    pub name: &'static str,
    /// Unit of one value, per operation.
    pub unit: &'static str,
    /// Context that is counted.
    pub context: Context,
    /// Counter that it reads; `None` for the makespan, which no function carries.
    counter: Option<Counter>,
    /// Contexts that the threshold is a share of.
    whole_of: &'static [Context],
    /// Count of those Contexts.
    whole: Whole,
}

/// Count that a difference is a share of.
#[derive(Debug, Clone, Copy)]
enum Whole {
    /// The Metric's own count.
    Own,
    /// All work: a few iterations or a timer tick are nothing beside a million instructions,
    /// however few others there are.
    Work,
    /// A hundredth of all work: one count takes about as long as a hundred instructions.
    HundredthOfWork,
}

/// Fewer instructions say nothing about the last cache, which mostly holds older data.
const LEAST_FOR_LAST_CACHE: u64 = 1_000_000;

impl Metric {
    /// Count of a function or a Context.
    pub fn count(&self, counts: &Counts) -> u64 {
        self.counter.map_or(0, |counter| counts[counter])
    }

    /// Raw count of the Region.
    pub fn raw(&self, sample: &Sample) -> u64 {
        match (self.counter, &sample.parallel) {
            (None, Some(parallel)) => parallel.makespan,
            _ => sample.counts.get(&self.context).map_or(0, |counts| self.count(counts)),
        }
    }

    /// True if the Sample has this Metric. Every Region has costly instructions, except in results
    /// of an older ktax.
    pub fn is_in(&self, sample: &Sample) -> bool {
        let has = |group| sample.counts.values().any(|counts| counts.group(group).next().is_some());
        match self.counter {
            None | Some(Counter::Basic(Basic::Wait | Basic::Idle)) => sample.parallel.is_some(),
            Some(Counter::Basic(Basic::Transfers)) => {
                sample.parallel.as_ref().is_some_and(|parallel| parallel.transfers.is_some())
            }
            Some(Counter::Basic(_)) => true,
            Some(Counter::Costly(_)) => has("costly"),
            Some(Counter::Modelled(Modelled::CacheMisses)) => {
                has("modelled") && sample.total >= LEAST_FOR_LAST_CACHE
            }
            Some(Counter::Modelled(_)) => has("modelled"),
        }
    }

    /// Kind of costly instructions, if it counts one.
    pub fn costly(&self) -> Option<Costly> {
        match self.counter {
            Some(Counter::Costly(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Counter of a machine's model, if it is one.
    pub fn modelled(&self) -> Option<Modelled> {
        match self.counter {
            Some(Counter::Modelled(event)) => Some(event),
            _ => None,
        }
    }

    /// True if functions carry it.
    pub fn is_of_functions(&self) -> bool {
        self.counter.is_some()
    }

    /// Raw count that the threshold is a share of.
    pub fn whole(&self, sample: &Sample) -> u64 {
        let whole_in = |context| {
            let counts = sample.counts.get(context)?;
            Some(match self.whole {
                Whole::Own => self.count(counts),
                Whole::Work => counts.executed(),
                Whole::HundredthOfWork => counts.executed() / 100,
            })
        };
        self.whole_of.iter().filter_map(whole_in).fold(0, u64::saturating_add)
    }

    /// True for work beside the process, which decides nothing.
    pub fn is_background(&self) -> bool {
        !self.context.decides()
    }

    /// True if a row can be slower or faster by it. Costly instructions depend on the machine, and
    /// modelled events happen on none.
    pub fn decides(&self) -> bool {
        !self.is_background() && !self.is_of_kind()
    }

    /// True if it is one Metric of many kinds, which decides nothing.
    pub fn is_of_kind(&self) -> bool {
        matches!(self.counter, Some(Counter::Costly(_) | Counter::Modelled(_)))
    }
}

const PROCESS: &[Context] = &[Context::Process];

/// Metric of the process; its threshold is a share of all work.
const fn metric_of(name: &'static str, counter: Basic) -> Metric {
    Metric {
        name,
        unit: Counter::Basic(counter).row().unit,
        context: Context::Process,
        counter: Some(Counter::Basic(counter)),
        whole_of: PROCESS,
        whole: Whole::Work,
    }
}

/// Length of all rounds: the time that the user of several CPUs waits for.
pub const MAKESPAN: &str = "makespan";

/// Time that CPUs waited for each other.
pub const SPIN_WAIT: &str = "spin-wait";

/// Time that CPUs had nothing to do.
pub const IDLE: &str = "idle";

/// Number of times that cache lines travelled between CPUs, by the model of coherence.
pub const TRANSFERS: &str = "model-transfers";

/// Work of kernel threads while the processes of one CPU waited for them.
pub const AWAITED: &str = "awaited-kthread";

const BASIC: [Metric; 9] = [
    Metric { whole: Whole::Own, ..metric_of("instructions", Basic::Instructions) },
    metric_of("rep-iterations", Basic::RepIterations),
    Metric { context: Context::Interrupt, ..metric_of("interrupt", Basic::Instructions) },
    Metric { context: Context::Kthread, ..metric_of("kthread", Basic::Instructions) },
    Metric {
        context: Context::Awaited,
        whole_of: &[Context::Process, Context::Awaited],
        ..metric_of(AWAITED, Basic::Instructions)
    },
    Metric { counter: None, ..metric_of(MAKESPAN, Basic::Instructions) },
    metric_of(SPIN_WAIT, Basic::Wait),
    Metric { context: Context::Kthread, ..metric_of(IDLE, Basic::Idle) },
    Metric { whole: Whole::HundredthOfWork, ..metric_of(TRANSFERS, Basic::Transfers) },
];

/// All Metrics of the exact engine. The first is the headline; a row has the Verdict of the first
/// that decides and changed.
pub const METRICS: [Metric; BASIC.len() + COUNTERS.len() - Basic::ALL.len()] = {
    let mut metrics = [BASIC[0]; BASIC.len() + COUNTERS.len() - Basic::ALL.len()];
    let mut index = 1;
    while index < metrics.len() {
        metrics[index] = match index < BASIC.len() {
            true => BASIC[index],
            false => metric_of_kind(COUNTERS[index - BASIC.len() + Basic::ALL.len()]),
        };
        index += 1;
    }
    metrics
};

/// Metric of a costly or modelled counter.
const fn metric_of_kind(row: CounterRow) -> Metric {
    let is_common = matches!(row.counter, Counter::Modelled(event) if event.is_common());
    Metric {
        name: row.name,
        unit: row.unit,
        context: Context::Process,
        counter: Some(row.counter),
        whole_of: PROCESS,
        whole: if is_common { Whole::Work } else { Whole::HundredthOfWork },
    }
}

pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_in_the_order_of_their_numbers_and_come_back_by_their_names() {
        for (index, row) in COUNTERS.into_iter().enumerate() {
            assert_eq!(row.counter.index(), index);
            assert_eq!(Counter::named(row.counter.group(), row.name), Some(row.counter));
            assert!(row.counter.group() != "modelled" || row.name.ends_with(row.unit));
        }
        assert_eq!(Counter::named("costly", "none"), None);
        let costly = serde_json::to_value(Costly::Cr3Write).unwrap();
        assert_eq!(serde_json::from_value::<Costly>(costly).unwrap(), Costly::Cr3Write);
    }

    #[test]
    fn only_what_there_is_is_written_and_an_unknown_counter_is_refused() {
        let mut counts = Counts::dispatched(9, 0);
        counts += &Counts::single(Costly::Locked, 7);
        counts += &Counts::single(Costly::Cr3Write, 2);
        let text = serde_json::to_string(&counts).unwrap();
        let expected =
            r#"{"instructions":9,"rep_iterations":0,"costly":{"cr3-write":2,"locked":7}}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts);
        for (wrong, message) in [
            (r#"{"instructions":1,"rep_iterations":1,"costly":{"a\u001bb":1}}"#, "a\\u{1b}b"),
            (r#"{"instructions":1,"rep_iterations":1,"cycles":1}"#, "unknown variant `cycles`"),
            (r#"{"instructions":1}"#, "missing field `rep_iterations`"),
        ] {
            let error = serde_json::from_str::<Counts>(wrong).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    /// The tables in the documentation are made from the table of counters.
    #[test]
    fn the_documentation_has_a_row_for_each_counter() {
        for (group, title, page) in [
            ("costly", "| Kind | Instructions |", "costly.md"),
            ("modelled", "| Counter | What is counted |", "machine.md"),
        ] {
            let rows = COUNTERS.iter().filter(|row| row.counter.group() == group);
            let rows: String =
                rows.map(|row| format!("| `{}` | {} |\n", row.name, row.meaning)).collect();
            let table = format!("{title}\n|---|---|\n{rows}\n");
            let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&table), "docs/{page} needs this table:\n{table}");
        }
    }

    #[test]
    fn a_number_comes_back_as_it_was_written_and_no_other_way() {
        let text = "\"0xc0000102\"";
        let msr: Msr = serde_json::from_str(text).unwrap();
        assert_eq!((msr, serde_json::to_string(&msr).unwrap().as_str()), (Msr(0xc000_0102), text));
        for other in ["0xC0000102", "c0000102", "0x", "0x+1", "0x01", "0x1c0000102", "\\u001b"] {
            let error = serde_json::from_str::<Msr>(&format!("\"{other}\"")).unwrap_err();
            assert!(error.to_string().contains("is no number of a register"), "{error}");
        }
    }
}

#[cfg(test)]
mod metric_tests {
    use super::*;

    #[test]
    fn what_interrupts_and_threads_do_matters_as_a_share_of_what_the_process_does() {
        let sample = Sample {
            ops: 1,
            counts: [
                (Context::Process, Counts::dispatched(20_000_000, 5)),
                (Context::Kthread, Counts::dispatched(44, 0)),
            ]
            .into(),
            total: 20_000_049,
            tsc: 20_000_049,
            signature: Default::default(),
            values: Default::default(),
            notes: Vec::new(),
            printed: None,
            parallel: None,
        };
        for (row, metric) in COUNTERS[Basic::ALL.len()..].iter().zip(&METRICS[BASIC.len()..]) {
            assert_eq!((metric.name, metric.counter), (row.name, Some(row.counter)));
            assert!(!metric.decides());
        }
        let background: Vec<&Metric> =
            METRICS.iter().filter(|metric| metric.is_background()).collect();
        assert_eq!(background.len(), 3);
        assert!(background.iter().all(|metric| metric.whole(&sample) == 20_000_005));
        assert_eq!(METRICS[0].whole(&sample), 20_000_000);
    }
}
