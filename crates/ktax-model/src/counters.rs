//! Counts by counter, Metrics over counts, and model-specific registers (MSRs).

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
    /// True for events that happen about once per instruction, so that one event costs about as
    /// much as an instruction.
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

/// One count for each counter. JSON has the counts that are not 0, and always instructions and REP
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
    /// Counts that are 0 except for one counter.
    pub fn single(counter: impl Into<Counter>, count: u64) -> Counts {
        let mut counts = Counts::default();
        counts[counter] = count;
        counts
    }

    /// Counts that are 0 except for instructions and REP iterations.
    pub fn from_instructions(instructions: u64, rep_iterations: u64) -> Counts {
        let mut counts = Counts::single(Basic::Instructions, instructions);
        counts[Basic::RepIterations] = rep_iterations;
        counts
    }

    /// Sum of instructions and REP iterations.
    pub fn executed(&self) -> u64 {
        self[Basic::Instructions].saturating_add(self[Basic::RepIterations])
    }

    /// Counters of a group whose count is not 0, in the order of the table.
    pub fn group(&self, group: &str) -> impl Iterator<Item = (CounterRow, u64)> {
        let rows = COUNTERS.into_iter().filter(move |row| row.counter.group() == group);
        rows.map(|row| (row, self[row.counter])).filter(|(_, count)| *count > 0)
    }

    /// Applies `make` to each count.
    #[must_use]
    pub fn map(&self, make: impl FnMut(u64) -> u64) -> Counts {
        Counts(self.0.map(make))
    }

    /// Applies `make` to the counts of both for each counter.
    #[must_use]
    pub fn zip_with(&self, other: &Counts, make: impl Fn(u64, u64) -> u64) -> Counts {
        Counts(std::array::from_fn(|index| make(self.0[index], other.0[index])))
    }
}

// Adds in place and by reference, because recursions over call paths are a thousand calls deep and
// each copy would stay on the stack.
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

/// Counters that JSON always has.
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
            Counter::find(group, name).ok_or_else(unknown)
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

/// Number of a model-specific register, written as in the kernel's sources: `0xc0000102`.
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
        msr.ok_or_else(|| format!("{text:?} is not the number of a register, such as \"0x1b\""))
    }
}

/// Quantity of a Sample that is compared: its counter, Contexts and threshold.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name in files and on the screen.
    pub name: &'static str,
    /// Unit of one value, per operation.
    pub unit: &'static str,
    /// Context that is counted.
    pub context: Context,
    /// Counter of the Metric; `None` for the makespan, which is not counted by function.
    counter: Option<Counter>,
    /// Contexts in which `threshold_base` is counted.
    threshold_contexts: &'static [Context],
    /// Count that the threshold is a share of.
    threshold_base: ThresholdBase,
}

/// Count that the threshold of a Metric is a share of.
#[derive(Debug, Clone, Copy)]
enum ThresholdBase {
    /// The Metric's own count.
    Own,
    /// All work. A few REP iterations or a timer tick are negligible beside a million instructions,
    /// even if the Metric's own count doubles.
    Work,
    /// A hundredth of all work, because one event takes about as long as a hundred instructions.
    HundredthOfWork,
}

/// Minimum instructions of a Region for misses of the last-level cache. In a shorter Region the
/// cache mostly holds data from before the Region.
const MIN_INSTRUCTIONS_FOR_LLC: u64 = 1_000_000;

impl Metric {
    /// Count of the Metric in counts of a function or a Context; 0 for the makespan.
    pub fn count(&self, counts: &Counts) -> u64 {
        self.counter.map_or(0, |counter| counts[counter])
    }

    /// Count of the Metric in a Region, not divided by operations.
    pub fn raw_count(&self, sample: &Sample) -> u64 {
        match (self.counter, &sample.parallel) {
            (None, Some(parallel)) => parallel.makespan,
            _ => sample.counts.get(&self.context).map_or(0, |counts| self.count(counts)),
        }
    }

    /// True if this Metric was measured for the Sample. Every Region executes costly instructions,
    /// so a Sample without any is from an older ktax that did not count them.
    pub fn is_measured_in(&self, sample: &Sample) -> bool {
        let has = |group| sample.counts.values().any(|counts| counts.group(group).next().is_some());
        match self.counter {
            None | Some(Counter::Basic(Basic::Wait | Basic::Idle)) => sample.parallel.is_some(),
            Some(Counter::Basic(Basic::Transfers)) => {
                sample.parallel.as_ref().is_some_and(|parallel| parallel.transfers.is_some())
            }
            Some(Counter::Basic(_)) => true,
            Some(Counter::Costly(_)) => has("costly"),
            Some(Counter::Modelled(Modelled::CacheMisses)) => {
                has("modelled") && sample.total >= MIN_INSTRUCTIONS_FOR_LLC
            }
            Some(Counter::Modelled(_)) => has("modelled"),
        }
    }

    /// Kind of costly instruction that the Metric counts; `None` for other Metrics.
    pub fn costly(&self) -> Option<Costly> {
        match self.counter {
            Some(Counter::Costly(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Event of a machine's model that the Metric counts; `None` for other Metrics.
    pub fn modelled(&self) -> Option<Modelled> {
        match self.counter {
            Some(Counter::Modelled(event)) => Some(event),
            _ => None,
        }
    }

    /// True if the Metric is counted by function.
    pub fn has_function_counts(&self) -> bool {
        self.counter.is_some()
    }

    /// Count of a Region that the threshold is a share of, not divided by operations.
    pub fn threshold_base(&self, sample: &Sample) -> u64 {
        let count_in = |context| {
            let counts = sample.counts.get(context)?;
            Some(match self.threshold_base {
                ThresholdBase::Own => self.count(counts),
                ThresholdBase::Work => counts.executed(),
                ThresholdBase::HundredthOfWork => counts.executed() / 100,
            })
        };
        self.threshold_contexts.iter().filter_map(count_in).fold(0, u64::saturating_add)
    }

    /// True for work in Contexts that do not decide: interrupts and kernel threads.
    pub fn is_background(&self) -> bool {
        !self.context.is_deciding()
    }

    /// True if a change of the Metric can make a row slower or faster. Costly instructions cannot,
    /// because their cost depends on the machine; modelled events cannot, because the model is no
    /// real machine.
    pub fn is_deciding(&self) -> bool {
        !self.is_background() && !self.is_costly_or_modelled()
    }

    /// True for costly instructions and modelled events.
    pub fn is_costly_or_modelled(&self) -> bool {
        matches!(self.counter, Some(Counter::Costly(_) | Counter::Modelled(_)))
    }
}

const PROCESS: &[Context] = &[Context::Process];

/// Metric in process context whose threshold is a share of all work.
const fn metric_of(name: &'static str, counter: Basic) -> Metric {
    Metric {
        name,
        unit: Counter::Basic(counter).row().unit,
        context: Context::Process,
        counter: Some(Counter::Basic(counter)),
        threshold_contexts: PROCESS,
        threshold_base: ThresholdBase::Work,
    }
}

/// Metric of the length of all rounds: the time for which the user of several CPUs waits.
pub const MAKESPAN: &str = "makespan";

/// Metric of the time that CPUs waited for each other.
pub const SPIN_WAIT: &str = "spin-wait";

/// Metric of the time that CPUs had nothing to do.
pub const IDLE: &str = "idle";

/// Metric of the transfers of cache lines between CPUs, by the model of coherence.
pub const TRANSFERS: &str = "model-transfers";

/// Metric of the work of kernel threads for which the processes of one CPU waited.
pub const AWAITED: &str = "awaited-kthread";

const BASIC: [Metric; 9] = [
    Metric { threshold_base: ThresholdBase::Own, ..metric_of("instructions", Basic::Instructions) },
    metric_of("rep-iterations", Basic::RepIterations),
    Metric { context: Context::Interrupt, ..metric_of("interrupt", Basic::Instructions) },
    Metric { context: Context::Kthread, ..metric_of("kthread", Basic::Instructions) },
    Metric {
        context: Context::Awaited,
        threshold_contexts: &[Context::Process, Context::Awaited],
        ..metric_of(AWAITED, Basic::Instructions)
    },
    Metric { counter: None, ..metric_of(MAKESPAN, Basic::Instructions) },
    metric_of(SPIN_WAIT, Basic::Wait),
    Metric { context: Context::Kthread, ..metric_of(IDLE, Basic::Idle) },
    Metric {
        threshold_base: ThresholdBase::HundredthOfWork,
        ..metric_of(TRANSFERS, Basic::Transfers)
    },
];

/// All Metrics of the exact engine. The first Metric is the headline. A row has the Verdict of the
/// first deciding Metric that changed.
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
        threshold_contexts: PROCESS,
        threshold_base: match is_common {
            true => ThresholdBase::Work,
            false => ThresholdBase::HundredthOfWork,
        },
    }
}

/// Metric with this name; `None` for an unknown name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_consistent_indices_and_names() {
        for (index, row) in COUNTERS.into_iter().enumerate() {
            assert_eq!(row.counter.index(), index);
            assert_eq!(Counter::find(row.counter.group(), row.name), Some(row.counter));
            assert!(row.counter.group() != "modelled" || row.name.ends_with(row.unit));
        }
        assert_eq!(Counter::find("costly", "none"), None);
        let costly = serde_json::to_value(Costly::Cr3Write).unwrap();
        assert_eq!(serde_json::from_value::<Costly>(costly).unwrap(), Costly::Cr3Write);
    }

    #[test]
    fn zero_counts_are_omitted_and_unknown_counters_are_refused() {
        let mut counts = Counts::from_instructions(9, 0);
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

    /// Tables of the documentation equal the table of counters.
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
    fn msr_numbers_have_one_form() {
        let text = "\"0xc0000102\"";
        let msr: Msr = serde_json::from_str(text).unwrap();
        assert_eq!((msr, serde_json::to_string(&msr).unwrap().as_str()), (Msr(0xc000_0102), text));
        for other in ["0xC0000102", "c0000102", "0x", "0x+1", "0x01", "0x1c0000102", "\\u001b"] {
            let error = serde_json::from_str::<Msr>(&format!("\"{other}\"")).unwrap_err();
            assert!(error.to_string().contains("is not the number of a register"), "{error}");
        }
    }
}

#[cfg(test)]
mod metric_tests {
    use super::*;

    #[test]
    fn thresholds_of_background_metrics_are_shares_of_the_work_of_the_process() {
        let sample = Sample {
            ops: 1,
            counts: [
                (Context::Process, Counts::from_instructions(20_000_000, 5)),
                (Context::Kthread, Counts::from_instructions(44, 0)),
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
            assert!(!metric.is_deciding());
        }
        let background: Vec<&Metric> =
            METRICS.iter().filter(|metric| metric.is_background()).collect();
        assert_eq!(background.len(), 3);
        assert!(background.iter().all(|metric| metric.threshold_base(&sample) == 20_000_005));
        assert_eq!(METRICS[0].threshold_base(&sample), 20_000_000);
    }
}
