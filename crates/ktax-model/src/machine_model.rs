//! Models of machines: caches, TLBs, predictors of branches, and the coherence of caches. Each
//! counter of a model is a Metric that decides nothing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Costly, Modelled};

/// A machine that is modelled: a file of `machines/`, or one like it. Lines have 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineModel {
    /// File name; built-in machines have no `.toml`.
    #[serde(default)]
    pub name: String,
    /// Full name for people; only in the machine's file, since no count depends on it.
    #[serde(default, skip_serializing)]
    pub title: String,
    /// Sources of its sizes; only in the machine's file.
    #[serde(default, skip_serializing)]
    pub sources: Vec<String>,
    pub l1i: CacheSize,
    pub l1d: CacheSize,
    pub l2: CacheSize,
    /// Absent without a third level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<CacheSize>,
    pub itlb: TlbSize,
    pub dtlb: TlbSize,
    /// Second level for code alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itlb2: Option<TlbSize>,
    /// Second level for data alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtlb2: Option<TlbSize>,
    /// Second level for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stlb: Option<TlbSize>,
    pub branches: Branches,
}

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSize {
    pub kib: u32,
    /// Lines of each set.
    pub ways: u32,
}

/// The size of a TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSize {
    /// Translations of pages of 4 KiB; of all pages, if large ones have none of their own.
    pub entries: u32,
    /// Small translations of each set.
    pub ways: u32,
    /// Translations of pages of 2 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_entries: Option<u32>,
    /// Large translations of each set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_ways: Option<u32>,
}

/// A textbook predictor: gshare, and a stack of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branches {
    /// Number of branches that the predictor remembers.
    pub history: u32,
    /// Binary logarithm of the number of counters, and of targets.
    pub table: u32,
    /// Number of calls that the predictor remembers.
    pub returns: u32,
}

const LINE: u64 = 64;

/// Limits of `plugin/machine.c`.
const MOST_SETS: u64 = 1 << 20;
const MOST_TLB_SETS: u64 = 1 << 12;
const MOST_WAYS: u64 = 64;

/// Sets and ways.
type Sets = (u64, u64);

impl MachineModel {
    /// Most guest memory, in MiB, when a machine is modelled: it must be in one piece.
    pub const MOST_MEMORY_MIB: u32 = 2048;

    /// File that the plugin reads (`docs/wire.md`); the error says why there can be no such
    /// machine.
    pub fn wire(&self) -> Result<String, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.name.is_empty() || self.name.len() > 32 || !self.name.bytes().all(is_plain) {
            return Err("a name has 1 to 32 letters, digits, '-', '_' and '.'".to_owned());
        }
        if self.stlb.is_some() && (self.itlb2.is_some() || self.dtlb2.is_some()) {
            return Err("stlb is behind both TLBs, so remove itlb2 and dtlb2, or stlb".to_owned());
        }
        let caches = [
            ("l1i", Some(self.l1i)),
            ("l1d", Some(self.l1d)),
            ("l2", Some(self.l2)),
            ("llc", self.llc),
        ];
        let tlbs = [
            ("itlb", Some(self.itlb)),
            ("dtlb", Some(self.dtlb)),
            ("itlb2", self.itlb2),
            ("dtlb2", self.dtlb2),
            ("stlb", self.stlb),
        ];
        let mut text = String::new();
        for (name, size) in caches.into_iter().filter_map(|(name, size)| Some((name, size?))) {
            let (sets, ways) = size.sets().ok_or_else(|| no_sets(name, MOST_SETS))?;
            text += &format!("{name} {sets} {ways}\n");
        }
        for (name, size) in tlbs.into_iter().filter_map(|(name, size)| Some((name, size?))) {
            let [(sets, ways), (large_sets, large_ways)] =
                size.sets().ok_or_else(|| no_sets(name, MOST_TLB_SETS))?;
            text += &format!("{name} {sets} {ways} {large_sets} {large_ways}\n");
        }
        let Branches { history, table, returns } = self.branches;
        if history > table || table > 24 || !(1..=64).contains(&returns) {
            return Err("branches needs a history up to table, a table up to 24, and 1 to 64 \
                        returns"
                .to_owned());
        }
        Ok(text + &format!("branches {history} {table} {returns}\n"))
    }
}

fn no_sets(name: &str, most: u64) -> String {
    format!(
        "{name} must have a power of two sets, at most {most}, of 1 to {MOST_WAYS} ways; \
         large_entries and large_ways go together"
    )
}

impl CacheSize {
    fn sets(self) -> Option<Sets> {
        sets(u64::from(self.kib) * 1024 / LINE, u64::from(self.ways), MOST_SETS)
    }
}

impl TlbSize {
    /// Sets and ways for small and for large pages; (0, 0) where large pages share the small
    /// entries.
    fn sets(self) -> Option<[Sets; 2]> {
        let large = match (self.large_entries, self.large_ways) {
            (None, None) => (0, 0),
            (Some(entries), Some(ways)) => sets(entries.into(), ways.into(), MOST_TLB_SETS)?,
            _ => return None,
        };
        Some([sets(self.entries.into(), self.ways.into(), MOST_TLB_SETS)?, large])
    }
}

/// Sets and ways of a number of entries; `None` unless it is a power of two sets and not too large.
fn sets(entries: u64, ways: u64, most: u64) -> Option<Sets> {
    let sets = entries.checked_div(ways)?;
    let is_whole = sets * ways == entries && sets.is_power_of_two();
    (is_whole && sets <= most && ways <= MOST_WAYS).then_some((sets, ways))
}

/// Kinds of models that run while a guest is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Which cache lines travel between several CPUs.
    Coherence,
    /// The caches, the translation of addresses and the prediction of branches of a machine.
    Machine(Box<MachineModel>),
}

impl Model {
    /// Name in files and on the screen.
    pub fn name(&self) -> &str {
        match self {
            Model::Coherence => "coherence",
            Model::Machine(machine) => &machine.name,
        }
    }

    pub fn machine(&self) -> Option<&MachineModel> {
        match self {
            Model::Coherence => None,
            Model::Machine(machine) => Some(machine),
        }
    }
}

named_enum! {
    /// Part of a guest's memory.
    #[derive(PartialOrd, Ord)]
    pub enum Memory {
        /// The kernel's variables, and those of its modules.
        Data = "data",
        /// Variables of which each CPU has one.
        Percpu = "percpu",
        /// Allocated by the kernel in its map of all memory: slab objects, page tables, page cache.
        Direct = "direct",
        /// Mapped by the kernel page by page: kernel stacks, `vmalloc`.
        Vmalloc = "vmalloc",
        /// The kernel's descriptions of pages, `struct page`.
        Pages = "pages",
        User = "user",
        Other = "other",
    }
}

impl Memory {
    /// True if lines of this memory are named by variable; others have the name of the function
    /// that most often gets them from another CPU.
    pub fn has_symbols(self) -> bool {
        matches!(self, Memory::Data | Memory::Percpu)
    }
}

/// Cache lines of one name, and how often they travelled from one CPU to another in a Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheLine {
    pub memory: Memory,
    /// The variable, or two that share the line (`a,b`), or a function: see
    /// [`Memory::has_symbols`].
    pub name: String,
    /// Bytes from the variable's beginning to the line's.
    pub offset: u64,
    /// Number of accesses that found it with another CPU.
    pub transfers: u64,
    /// Number of lines of this name.
    pub lines: u64,
}

/// Unit of cycles: those of the time-stamp counter.
pub const CYCLES: &str = "TSC cycles";

/// Lower and upper end, in cycles or as a ratio.
pub type LowHigh = [f64; 2];

/// Smallest interval that holds all; `None` for none.
pub fn hull(intervals: impl IntoIterator<Item = LowHigh>) -> Option<LowHigh> {
    let wider = |[low, high]: LowHigh, other: LowHigh| [low.min(other[0]), high.max(other[1])];
    intervals.into_iter().reduce(wider)
}

fn is_cost(cycles: f64) -> bool {
    (0.0..=1e9).contains(&cycles)
}

fn is_interval([low, high]: LowHigh) -> bool {
    is_cost(low) && is_cost(high) && low <= high
}

/// Measurements of `ktax calibrate` on one machine. Another microcode is another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub cpu: String,
    /// Revision of the microcode; empty if the kernel does not tell it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub microcode: String,
    /// True for a virtual machine, whose hypervisor may answer for the CPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_virtual: bool,
    /// Cycles per nanosecond. The time-stamp counter has a constant frequency, so cycles are times.
    pub cycles_per_ns: f64,
    /// Cycles of each measured costly instruction: 9 of 10 values lie between.
    #[serde(default)]
    pub operations: BTreeMap<Costly, LowHigh>,
    /// Cycles of one iteration of a repeated string instruction: 9 of 10 values lie between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep_iteration: Option<LowHigh>,
    /// Cycles of one iteration, by the repeated instruction: from memory in the first cache, to
    /// memory in no cache of the core. The cost of a start is in `operations`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iterations: BTreeMap<Costly, LowHigh>,
    /// Kernel that was counted, if another one was timed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub counted_kernel: String,
    /// Kernel that was timed, if another one was counted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timed_kernel: String,
    /// Costs of everything else; absent if no rows could be fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<CalibrationFit>,
}

impl Calibration {
    /// Checks that all numbers are costs: a file, or a Plan, may be anybody's. The error names the
    /// others.
    pub fn check(&self) -> Result<(), String> {
        let wrong_operation = |(kind, interval): (&Costly, &LowHigh)| {
            (!is_interval(*interval)).then(|| format!("operations.{}", kind.name()))
        };
        let texts = [&self.cpu, &self.microcode, &self.counted_kernel, &self.timed_kernel];
        let is_repeated = |(kind, interval): (&Costly, &LowHigh)| {
            Costly::STRINGS.contains(kind) && is_interval(*interval)
        };
        let wrong = if let Some(wrong) = self.operations.iter().find_map(wrong_operation) {
            wrong
        } else if !self.iterations.iter().all(is_repeated) {
            "iterations".to_owned()
        } else if self.rep_iteration.is_some_and(|interval| !is_interval(interval)) {
            "rep_iteration".to_owned()
        } else if self.fit.as_ref().is_some_and(|fit| !fit.is_one()) {
            "fit".to_owned()
        } else if !is_cost(self.cycles_per_ns) || self.cycles_per_ns == 0.0 {
            "cycles_per_ns".to_owned()
        } else if texts.iter().any(|text| text.chars().any(char::is_control)) {
            "cpu, microcode or a kernel".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("calibration.{wrong} is no cost; run `ktax calibrate` again"))
    }
}

/// Costs that were fitted to rows that the machine ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationFit {
    pub rows: usize,
    /// Number of groups of rows. Each was predicted by a fit to all others.
    pub groups: usize,
    /// Measured over predicted cycles: 9 of 10 rows lie between.
    pub error: LowHigh,
    pub cycles: BTreeMap<Fitted, f64>,
    /// Interval of each, as far as the rows tell them apart.
    pub bounds: BTreeMap<Fitted, LowHigh>,
}

impl CalibrationFit {
    /// Cycles of one: as far as the rows tell it from others, with the error of the rows.
    pub fn cost(&self, thing: Fitted) -> LowHigh {
        let [low, high] = self.bounds.get(&thing).copied().unwrap_or_default();
        [low * self.error[0].min(1.0), high * self.error[1].max(1.0)]
    }

    /// Cycles of one, with the error of the rows given as a ratio.
    pub fn cost_with(&self, thing: Fitted, error: f64) -> LowHigh {
        self.bounds.get(&thing).copied().unwrap_or_default().map(|cycles| cycles * error)
    }

    /// True if the fit needs the counters of a model; else it was fitted to instructions alone.
    pub fn needs_model(&self) -> bool {
        self.cycles.keys().any(|thing| *thing != Fitted::Instruction)
    }

    /// True if the fit has a cost of each thing, or of instructions alone, and some cost at all.
    fn is_one(&self) -> bool {
        let has = |thing: &Fitted| {
            let cost = self.cycles.get(thing).copied().unwrap_or(f64::NAN);
            let [low, high] = self.bounds.get(thing).copied().unwrap_or([f64::NAN; 2]);
            is_interval([low, high]) && low <= cost && cost <= high
        };
        let has_all = match self.needs_model() {
            true => Fitted::ALL.iter().all(has),
            false => has(&Fitted::Instruction) && self.bounds.len() == 1,
        };
        let [least, most] = self.error;
        has_all
            && 1e-3 <= least
            && least <= most
            && most <= 1e3
            && self.cycles.values().any(|cycles| *cycles > 0.0)
    }
}

named_enum! {
    /// Things whose cost is fitted.
    #[derive(PartialOrd, Ord)]
    pub enum Fitted {
        Instruction = "instruction",
        /// A line that a first cache lacked.
        L1Miss = "l1-miss",
        /// A request to the last cache, in addition.
        CacheReference = "cache-reference",
        /// A line that the last cache lacked, in addition.
        CacheMiss = "cache-miss",
        PageWalk = "page-walk",
        BranchMiss = "branch-miss",
    }
}

impl Fitted {
    /// Name of the first Metric that counts it.
    pub fn name_of_metric(self) -> &'static str {
        self.metrics()[0]
    }

    /// Names of the Metrics that count it, together.
    pub const fn metrics(self) -> &'static [&'static str] {
        match self {
            Fitted::Instruction => &["instructions"],
            Fitted::L1Miss => const { &[Modelled::L1iMisses.name(), Modelled::L1dMisses.name()] },
            Fitted::CacheReference => const { &[Modelled::CacheReferences.name()] },
            Fitted::CacheMiss => const { &[Modelled::CacheMisses.name()] },
            Fitted::PageWalk => const { &[Modelled::PageWalks.name()] },
            Fitted::BranchMiss => const { &[Modelled::BranchMisses.name()] },
        }
    }
}

/// A row that a machine ran, with its counts, per operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRow {
    pub row: String,
    /// Rows of one group are left out together.
    pub group: String,
    pub cycles: f64,
    pub counts: BTreeMap<Fitted, f64>,
    pub costly: BTreeMap<Costly, f64>,
    /// Iterations of repeated string instructions.
    pub rep_iterations: f64,
    /// Cycles predicted by a fit to the other groups, with the error; absent without a fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<LowHigh>,
}

/// Result of `ktax calibrate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationTable {
    pub machine: String,
    /// Machine whose caches and branches are modelled.
    pub model: String,
    pub calibration: Calibration,
    /// Kinds that leave the guest, or that this processor lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<Costly>,
    /// Reasons for missing parts, with the next step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<CalibrationRow>,
}

/// Cycles of a machine for a row, by its Calibration. It decides nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub machine: String,
    /// CPU that was calibrated.
    pub cpu: String,
    /// Cycles of an operation on the base; absent if the file has no fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<LowHigh>,
    /// Cycles of an operation that the change adds; without a fit only of costly instructions.
    pub delta: LowHigh,
    /// `delta` in percent of the base, for any base in its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<LowHigh>,
    /// Counts per operation that the change adds and the file does not know, by Metric; they are
    /// not in these numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, f64>,
}

/// A row that was both counted and timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidatedRow {
    pub row: String,
    /// Predicted change, in percent of the base.
    pub predicted_percent: LowHigh,
    /// Measured change, in percent of the base.
    pub measured_percent: f64,
    /// Interval of the measured change; `None` for an unknown end.
    pub measured_interval: [Option<f64>; 2],
    /// True if the measured change lies in the prediction.
    pub is_covered: bool,
    /// Changed Metrics without a known cost, per operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, f64>,
}

impl ValidatedRow {
    pub fn predicted(&self) -> f64 {
        self.predicted_percent.iter().sum::<f64>() / 2.0
    }
}

/// A part of a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub of_them: usize,
    pub all: usize,
}

/// Result of `ktax validate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// One line for people: the subjects.
    pub title: String,
    pub machine: String,
    /// CPU that was calibrated.
    pub cpu: String,
    /// CPU of the times.
    pub timed_cpu: String,
    /// Rows by error, the worst first; failed rows come before all.
    pub rows: Vec<ValidatedRow>,
    /// Reason why no row of the times can be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Rows of only one comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Differences between the counted and the timed subjects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Rows whose measured change lies in the prediction.
    pub covered: Share,
    /// Rows with the predicted sign, of those that changed by 5 % or more.
    pub signs: Share,
    /// Spearman's rank correlation; absent for fewer than three rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    pub median_error_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_a_machine_is_a_name_in_files() {
        assert_eq!(serde_json::to_string(&Model::Coherence).unwrap(), "\"coherence\"");
    }
}

#[cfg(test)]
mod calibration_tests {
    use super::*;
    use crate::metric;

    #[test]
    fn what_is_fitted_has_a_name_and_is_counted() {
        for (number, fitted) in Fitted::ALL.into_iter().enumerate() {
            assert_eq!(fitted as usize, number);
            assert_eq!(serde_json::to_value(fitted).unwrap(), fitted.name());
            assert!(fitted.metrics().iter().all(|name| metric(name).is_some()));
        }
    }

    fn calibration() -> Calibration {
        let cycles = Fitted::ALL.into_iter().zip([0.4, 9.0, 0.0, 160.0, 35.0, 18.0]);
        let bounds = cycles.clone().map(|(thing, cycles)| (thing, [cycles, cycles + 1.0]));
        let (bounds, cycles) = (bounds.collect(), cycles.collect());
        Calibration {
            cpu: "a".to_owned(),
            cycles_per_ns: 2.5,
            operations: [(Costly::Locked, [17.0, 18.0])].into(),
            rep_iteration: Some([0.1, 1.0]),
            iterations: [(Costly::RepStosb, [0.01, 0.1])].into(),
            fit: Some(CalibrationFit { rows: 40, groups: 5, error: [0.5, 2.0], cycles, bounds }),
            ..Calibration::default()
        }
    }

    #[test]
    fn what_is_no_cost_is_refused() {
        assert_eq!(calibration().check(), Ok(()));
        let with = |change: fn(&mut Calibration)| {
            let mut calibration = calibration();
            change(&mut calibration);
            calibration.check().unwrap_err()
        };
        for error in [
            with(|calibration| {
                *calibration.operations.get_mut(&Costly::Locked).unwrap() = [18.0, 17.0]
            }),
            with(|calibration| {
                *calibration.operations.get_mut(&Costly::Locked).unwrap() = [-1.0, 17.0]
            }),
            with(|calibration| calibration.rep_iteration = Some([f64::NAN, 1.0])),
            with(|calibration| calibration.iterations.extend([(Costly::Locked, [1.0, 2.0])])),
            with(|calibration| calibration.iterations.extend([(Costly::RepMovs, [2.0, 1.0])])),
            with(|calibration| calibration.timed_kernel = "6\n".to_owned()),
            with(|calibration| {
                calibration
                    .fit
                    .as_mut()
                    .unwrap()
                    .cycles
                    .retain(|thing, _| *thing != Fitted::PageWalk);
            }),
            with(|calibration| calibration.cycles_per_ns = 0.0),
            with(|calibration| calibration.cpu = "a\u{1b}[2J".to_owned()),
            with(|calibration| calibration.fit.as_mut().unwrap().error = [0.0, 0.0]),
            with(|calibration| calibration.fit.as_mut().unwrap().error = [1.0, f64::INFINITY]),
            with(|calibration| calibration.fit.as_mut().unwrap().cycles.clear()),
            with(|calibration| calibration.fit.as_mut().unwrap().bounds.clear()),
            with(|calibration| {
                calibration.fit.as_mut().unwrap().cycles.extend([(Fitted::PageWalk, 99.0)])
            }),
        ] {
            assert!(error.ends_with("is no cost; run `ktax calibrate` again"), "{error}");
        }
    }
}
