//! Models of machines: caches, TLBs, branch predictors, and the coherence of caches. Counters of a
//! model are Metrics that do not decide a row. Calibrations, which have the costs of events on real
//! machines, and estimates from them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Costly, Modelled};

/// Machine whose caches, TLBs and branch predictor are modelled. It is read from a file of
/// `machines/`, or from a file of the user in the same format. Cache lines have 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineModel {
    /// File name, for built-in machines without `.toml`.
    #[serde(default)]
    pub name: String,
    /// Full name for people. No count depends on the title, so only the machine's file has it.
    #[serde(default, skip_serializing)]
    pub title: String,
    /// References for the sizes; only in the machine's file.
    #[serde(default, skip_serializing)]
    pub sources: Vec<String>,
    pub l1i: CacheSize,
    pub l1d: CacheSize,
    pub l2: CacheSize,
    /// Third-level cache; absent if the machine has two levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<CacheSize>,
    pub itlb: TlbSize,
    pub dtlb: TlbSize,
    /// Second-level TLB for code alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itlb2: Option<TlbSize>,
    /// Second-level TLB for data alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtlb2: Option<TlbSize>,
    /// Second-level TLB for code and data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stlb: Option<TlbSize>,
    pub branches: Branches,
}

/// Size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSize {
    pub kib: u32,
    /// Number of lines in a set.
    pub ways: u32,
}

/// Size of a TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbSize {
    /// Number of entries for pages of 4 KiB. Without `large_entries`, pages of 2 MiB share these
    /// entries.
    pub entries: u32,
    /// Number of entries for pages of 4 KiB in a set.
    pub ways: u32,
    /// Number of separate entries for pages of 2 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_entries: Option<u32>,
    /// Number of entries for pages of 2 MiB in a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_ways: Option<u32>,
}

/// Textbook branch predictor: gshare, and a return stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Branches {
    /// Length of the branch history, in branches.
    pub history: u32,
    /// Binary logarithm of the number of counters, which is also the number of branch targets.
    pub table: u32,
    /// Depth of the return stack, in calls.
    pub returns: u32,
}

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// Maximum number of sets of a cache in `plugin/machine.c`.
const MAX_CACHE_SETS: u64 = 1 << 20;
/// Maximum number of sets of a TLB in `plugin/machine.c`.
const MAX_TLB_SETS: u64 = 1 << 12;
/// Maximum number of ways of a cache or TLB in `plugin/machine.c`.
const MAX_WAYS: u64 = 64;

/// Number of sets, and ways of each set.
type SetsAndWays = (u64, u64);

impl MachineModel {
    /// Maximum guest memory with a modelled machine, in MiB. The model needs one contiguous range
    /// of memory, and larger guests have memory above 4 GiB as well.
    pub const MAX_MEMORY_MIB: u32 = 2048;

    /// Description of the machine in the plugin's format (`docs/wire.md`).
    ///
    /// # Errors
    ///
    /// A message for the user if a name or a size is not permitted.
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
            let (sets, ways) = size.sets().ok_or_else(|| invalid_sets(name, MAX_CACHE_SETS))?;
            text += &format!("{name} {sets} {ways}\n");
        }
        for (name, size) in tlbs.into_iter().filter_map(|(name, size)| Some((name, size?))) {
            let [(sets, ways), (large_sets, large_ways)] =
                size.sets().ok_or_else(|| invalid_sets(name, MAX_TLB_SETS))?;
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

fn invalid_sets(name: &str, max_sets: u64) -> String {
    format!(
        "{name} must have a power of two sets, at most {max_sets}, of 1 to {MAX_WAYS} ways; \
         large_entries and large_ways go together"
    )
}

impl CacheSize {
    fn sets(self) -> Option<SetsAndWays> {
        sets(u64::from(self.kib) * 1024 / LINE_BYTES, u64::from(self.ways), MAX_CACHE_SETS)
    }
}

impl TlbSize {
    /// Sets and ways for pages of 4 KiB, and for pages of 2 MiB; (0, 0) for the latter if both
    /// share the entries. `None` if a size is not permitted.
    fn sets(self) -> Option<[SetsAndWays; 2]> {
        let large = match (self.large_entries, self.large_ways) {
            (None, None) => (0, 0),
            (Some(entries), Some(ways)) => sets(entries.into(), ways.into(), MAX_TLB_SETS)?,
            _ => return None,
        };
        Some([sets(self.entries.into(), self.ways.into(), MAX_TLB_SETS)?, large])
    }
}

/// Sets and ways of a cache or TLB with `entries`; `None` unless the number of sets is a power of
/// two and within the limits.
fn sets(entries: u64, ways: u64, max_sets: u64) -> Option<SetsAndWays> {
    let sets = entries.checked_div(ways)?;
    let is_whole = sets * ways == entries && sets.is_power_of_two();
    (is_whole && sets <= max_sets && ways <= MAX_WAYS).then_some((sets, ways))
}

/// Models that the plugin can run while it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Transfers of cache lines between CPUs.
    Coherence,
    /// Caches, TLBs and branch predictor of a machine.
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

    /// Modelled machine; `None` for the model of coherence.
    pub fn machine(&self) -> Option<&MachineModel> {
        match self {
            Model::Coherence => None,
            Model::Machine(machine) => Some(machine),
        }
    }
}

named_enum! {
    /// Kinds of a guest's memory.
    #[derive(PartialOrd, Ord)]
    pub enum Memory {
        /// The kernel's variables, and those of its modules.
        Data = "data",
        /// Per-CPU variables.
        Percpu = "percpu",
        /// Allocations in the kernel's direct map: slab objects, page tables, page cache.
        Direct = "direct",
        /// Allocations in the kernel's vmalloc area: kernel stacks, `vmalloc`.
        Vmalloc = "vmalloc",
        /// The kernel's page descriptors, `struct page`.
        Pages = "pages",
        User = "user",
        Other = "other",
    }
}

impl Memory {
    /// True if cache lines of this memory are named by variable. Other cache lines are named by the
    /// function that most often gets them from another CPU.
    pub fn has_symbols(self) -> bool {
        matches!(self, Memory::Data | Memory::Percpu)
    }
}

/// Cache lines with one name, and their transfers between CPUs in a Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheLine {
    pub memory: Memory,
    /// Variable, two variables that share the line (`a,b`), or a function: see
    /// [`Memory::has_symbols`].
    pub name: String,
    /// Offset of the line from the start of the variable, in bytes.
    pub offset: u64,
    /// Number of accesses for which another CPU had the line.
    pub transfers: u64,
    /// Number of lines with this name.
    pub lines: u64,
}

/// Unit of cycles: ticks of the time-stamp counter (TSC).
pub const CYCLES: &str = "TSC cycles";

/// Lower and upper end of an interval, in cycles or as a ratio.
pub type LowHigh = [f64; 2];

/// Smallest interval that contains all `intervals`; `None` without intervals.
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

/// Costs on one machine, measured by `ktax calibrate`. They hold for one revision of the microcode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub cpu: String,
    /// Revision of the microcode; empty if the kernel does not report it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub microcode: String,
    /// True for a virtual machine, in which the hypervisor may emulate instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_virtual: bool,
    /// TSC cycles per nanosecond. The TSC has a constant frequency, so its cycles measure time.
    pub cycles_per_ns: f64,
    /// Cycles of each measured costly instruction: the interval with 9 of 10 values.
    #[serde(default)]
    pub operations: BTreeMap<Costly, LowHigh>,
    /// Cycles of one iteration of a repeated string instruction: the interval with 9 of 10 values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep_iteration: Option<LowHigh>,
    /// Cycles of one iteration by string instruction: the lower end with memory in the L1 cache,
    /// the upper end with memory in no cache of the core. `operations` has the cost of a start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iterations: BTreeMap<Costly, LowHigh>,
    /// Kernel that was counted, if it differs from the timed kernel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub counted_kernel: String,
    /// Kernel that was timed, if it differs from the counted kernel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timed_kernel: String,
    /// Costs of instructions and modelled events; absent if no rows could be fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<CalibrationFit>,
}

impl Calibration {
    /// Checks that all numbers are possible costs, because the file may be damaged.
    ///
    /// # Errors
    ///
    /// A message for the user that names the first impossible number.
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
        } else if self.fit.as_ref().is_some_and(|fit| !fit.is_complete()) {
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
    /// Number of groups of rows. The rows of each group were predicted by a fit to the other
    /// groups.
    pub groups: usize,
    /// Ratio of measured to predicted cycles: the interval with 9 of 10 rows.
    pub error: LowHigh,
    /// Fitted cost of each thing, in cycles.
    pub cycles: BTreeMap<Fitted, f64>,
    /// Interval of each cost. It is wide for things whose counts are correlated in the rows.
    pub bounds: BTreeMap<Fitted, LowHigh>,
}

impl CalibrationFit {
    /// Interval of the cost of one `thing`, extended by the error of the rows.
    pub fn cost(&self, thing: Fitted) -> LowHigh {
        let [low, high] = self.bounds.get(&thing).copied().unwrap_or_default();
        [low * self.error[0].min(1.0), high * self.error[1].max(1.0)]
    }

    /// Interval of the cost of one `thing`, multiplied by the ratio `error`.
    pub fn cost_with(&self, thing: Fitted, error: f64) -> LowHigh {
        self.bounds.get(&thing).copied().unwrap_or_default().map(|cycles| cycles * error)
    }

    /// True if the fit has costs of modelled events, not of instructions alone.
    pub fn needs_model(&self) -> bool {
        self.cycles.keys().any(|thing| *thing != Fitted::Instruction)
    }

    /// True if the fit has a valid cost of each thing, or of instructions alone, and one cost is
    /// not 0.
    fn is_complete(&self) -> bool {
        let has = |thing: &Fitted| {
            let cost = self.cycles.get(thing).copied().unwrap_or(f64::NAN);
            let [low, high] = self.bounds.get(thing).copied().unwrap_or([f64::NAN; 2]);
            is_interval([low, high]) && low <= cost && cost <= high
        };
        let has_all = match self.needs_model() {
            true => Fitted::ALL.iter().all(has),
            false => has(&Fitted::Instruction) && self.bounds.len() == 1,
        };
        let [low, high] = self.error;
        has_all
            && 1e-3 <= low
            && low <= high
            && high <= 1e3
            && self.cycles.values().any(|cycles| *cycles > 0.0)
    }
}

named_enum! {
    /// Things whose costs are fitted to rows: instructions and modelled events.
    #[derive(PartialOrd, Ord)]
    pub enum Fitted {
        Instruction = "instruction",
        /// Miss of an L1 cache, for code or data.
        L1Miss = "l1-miss",
        /// Request to the last-level cache; its cost is added to that of the L1 miss.
        CacheReference = "cache-reference",
        /// Miss of the last-level cache; its cost is added to that of the request.
        CacheMiss = "cache-miss",
        PageWalk = "page-walk",
        BranchMiss = "branch-miss",
    }
}

impl Fitted {
    /// Name of the first Metric that counts this thing.
    pub fn name_of_metric(self) -> &'static str {
        self.metrics()[0]
    }

    /// Names of the Metrics whose sum counts this thing.
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

/// Row that was timed on a machine, with its counts. All numbers are per operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRow {
    pub row: String,
    /// Group of the row. All rows of a group are predicted by the same fit to the other groups.
    pub group: String,
    pub cycles: f64,
    pub counts: BTreeMap<Fitted, f64>,
    pub costly: BTreeMap<Costly, f64>,
    /// Number of iterations of repeated string instructions.
    pub rep_iterations: f64,
    /// Interval of the cycles that a fit to the other groups predicts; absent without a fit.
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
    /// Costly instructions without a cost: they exit the guest, or the CPU lacks them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<Costly>,
    /// Reasons why parts of the calibration are missing, with the next step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<CalibrationRow>,
}

/// Estimated cycles of a row on a machine, from the machine's Calibration. An estimate does not
/// decide the row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub machine: String,
    /// CPU that was calibrated.
    pub cpu: String,
    /// Cycles of one operation of the base; absent if the Calibration has no fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<LowHigh>,
    /// Cycles that the change adds to one operation; without a fit, those of costly instructions
    /// alone.
    pub delta: LowHigh,
    /// `delta` in percent of `base`, for all values in the interval of `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<LowHigh>,
    /// Metrics without a known cost, and how much the change adds to each per operation. The
    /// estimate omits them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, f64>,
}

/// Row that was both counted and timed: its predicted and its measured change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidatedRow {
    pub row: String,
    /// Predicted change, in percent of the base.
    pub predicted_percent: LowHigh,
    /// Measured change, in percent of the base.
    pub measured_percent: f64,
    /// Interval of the measured change, in percent; `None` for an unknown end.
    pub measured_interval: [Option<f64>; 2],
    /// True if the measured change lies in the predicted interval.
    pub is_covered: bool,
    /// Metrics without a known cost, and how much the change adds to each per operation.
    #[serde(rename = "without", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncosted_metrics: BTreeMap<String, f64>,
}

impl ValidatedRow {
    /// Middle of the predicted interval, in percent.
    pub fn predicted(&self) -> f64 {
        self.predicted_percent.iter().sum::<f64>() / 2.0
    }
}

/// Number of rows with a property, and number of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    #[serde(rename = "of_them")]
    pub part: usize,
    #[serde(rename = "all")]
    pub total: usize,
}

/// Result of `ktax validate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Names of the subjects, in one line for people.
    pub title: String,
    pub machine: String,
    /// CPU that was calibrated.
    pub cpu: String,
    /// CPU on which the rows were timed.
    pub timed_cpu: String,
    /// Failed rows, then the others, the largest error first.
    pub rows: Vec<ValidatedRow>,
    /// Reason why no timed row can be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Rows that were only counted or only timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Differences between the counted and the timed subjects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Rows whose measured change lies in the predicted interval.
    pub covered: Share,
    /// Rows that changed in the predicted direction, of the rows that changed by 5 % or more.
    pub signs: Share,
    /// Spearman's rank correlation of predicted and measured changes; absent for fewer than three
    /// rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    pub median_error_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_coherence_is_serialised_as_its_name() {
        assert_eq!(serde_json::to_string(&Model::Coherence).unwrap(), "\"coherence\"");
    }
}

#[cfg(test)]
mod calibration_tests {
    use super::*;
    use crate::metric;

    #[test]
    fn fitted_things_have_names_and_metrics() {
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
    fn impossible_costs_are_refused() {
        assert_eq!(calibration().check(), Ok(()));
        let error_after = |change: fn(&mut Calibration)| {
            let mut calibration = calibration();
            change(&mut calibration);
            calibration.check().unwrap_err()
        };
        for error in [
            error_after(|calibration| {
                *calibration.operations.get_mut(&Costly::Locked).unwrap() = [18.0, 17.0]
            }),
            error_after(|calibration| {
                *calibration.operations.get_mut(&Costly::Locked).unwrap() = [-1.0, 17.0]
            }),
            error_after(|calibration| calibration.rep_iteration = Some([f64::NAN, 1.0])),
            error_after(|calibration| {
                calibration.iterations.extend([(Costly::Locked, [1.0, 2.0])])
            }),
            error_after(|calibration| {
                calibration.iterations.extend([(Costly::RepMovs, [2.0, 1.0])])
            }),
            error_after(|calibration| calibration.timed_kernel = "6\n".to_owned()),
            error_after(|calibration| {
                calibration
                    .fit
                    .as_mut()
                    .unwrap()
                    .cycles
                    .retain(|thing, _| *thing != Fitted::PageWalk);
            }),
            error_after(|calibration| calibration.cycles_per_ns = 0.0),
            error_after(|calibration| calibration.cpu = "a\u{1b}[2J".to_owned()),
            error_after(|calibration| calibration.fit.as_mut().unwrap().error = [0.0, 0.0]),
            error_after(|calibration| {
                calibration.fit.as_mut().unwrap().error = [1.0, f64::INFINITY]
            }),
            error_after(|calibration| calibration.fit.as_mut().unwrap().cycles.clear()),
            error_after(|calibration| calibration.fit.as_mut().unwrap().bounds.clear()),
            error_after(|calibration| {
                calibration.fit.as_mut().unwrap().cycles.extend([(Fitted::PageWalk, 99.0)])
            }),
        ] {
            assert!(error.ends_with("is no cost; run `ktax calibrate` again"), "{error}");
        }
    }
}
