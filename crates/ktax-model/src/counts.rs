//! Exact counts: their plan, their evidence, and growth with a size.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{
    CacheLine, Calibration, CountedOperations, CpuTime, Disk, Effect, Estimate, Identity, Key,
    Layout, Machine, PrintedEnd, Side, Sides, Signature, Step, Subject, UserProgram, WaitStack,
    WorkEvidence, Workload, is_default, module_and_parameters,
};

/// Request of a counting experiment, after file and flags were merged and checked. Plans and
/// comparisons hold both Sides; a stored measurement holds one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedCounts {
    /// Machine of both Sides.
    pub machine: Machine,
    pub subjects: Sides<Subject>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: AskedGuest,
    /// Costs for estimates, if the file of the modelled machine has a calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// Requested content of the guests of both Sides, without their kernels. The Key has the content
/// that planning found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedGuest {
    /// Modules of all guests with their parameters, without the modules that the disk needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// File system of the guest's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Programs of the user and of workload files. Each program is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// Hooks of rows without a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<UserProgram>,
    /// Directory of the user's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_from: Option<String>,
}

impl AskedGuest {
    /// Modules of all guests, the modules of the disk first.
    pub fn all_modules(&self) -> Vec<String> {
        Disk::with_modules(self.disk.as_ref(), &self.modules)
    }

    /// Copy without the files that were found by tracing programs.
    #[must_use]
    pub fn without_traced(&self) -> AskedGuest {
        let programs = self.programs.iter().map(UserProgram::without_traced).collect();
        AskedGuest { programs, ..self.clone() }
    }
}

impl AskedCounts {
    /// File system of a Side's files; `None` if they are in memory.
    pub fn disk_of(&self, side: Side) -> Option<&Disk> {
        self.subjects.get(side).disk.as_ref().or(self.guest.disk.as_ref())
    }
}

/// Plan of exact counts: the request, and the results of planning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CountsPlan {
    pub asked: AskedCounts,
    /// Common Key of both Sides. [`CountsPlan::key_of`] has the Key of one row of a Side.
    pub key: Key,
    /// Hashes of each Side's archives as a Key has them, if the Sides differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archives: Option<Sides<String>>,
    pub kernels: Sides<Identity>,
    pub workloads: Vec<Workload>,
    pub layouts: Vec<Layout>,
    /// In the order in which the Boots are made.
    pub steps: Vec<Step>,
}

/// Separator of several archives' hashes in a Key.
const ARCHIVE_SEPARATOR: char = '+';

impl CountsPlan {
    /// Modules of a Side's guest, each with its parameters.
    pub fn modules_of(&self, side: Side) -> Vec<String> {
        let Subject { disk, modules, .. } = self.asked.subjects.get(side);
        let mut loaded = Disk::with_modules(disk.as_ref(), &self.key.modules);
        // The Side's parameters of a module replace the common parameters.
        let is_own =
            |name: &str| modules.iter().any(|module| module_and_parameters(module).0 == name);
        loaded.retain(|module| !is_own(module_and_parameters(module).0));
        loaded.extend(modules.iter().cloned());
        loaded
    }

    /// Index of a row's program; `None` for a row that is no program.
    pub fn program_of(&self, row: &str) -> Option<usize> {
        self.asked.guest.programs.iter().position(|program| program.row() == row)
    }

    /// Hashes of a Side's archives: the archive that all guests have, if there is one, then the
    /// archive of each program. A hash that the Key lacks is empty.
    pub fn archives_of(&self, side: Side) -> (Option<&str>, Vec<&str>) {
        let side_archives = self.archives.as_ref().map(|archives| archives.get(side));
        let mut hashes = side_archives.unwrap_or(&self.key.programs).split(ARCHIVE_SEPARATOR);
        let Subject { sysctl, setup, .. } = self.asked.subjects.get(side);
        let AskedGuest { hooks, programs, .. } = &self.asked.guest;
        let has_settings = !sysctl.is_empty() || setup.is_some();
        let has_beside = hooks.is_some() || self.asked.disk_of(side).is_some() || has_settings;
        let beside = has_beside.then(|| hashes.next().unwrap_or_default());
        let mut next = || hashes.next().unwrap_or_default();
        (beside, programs.iter().map(|_| next()).collect())
    }

    /// Key of one row of a Side: with the Side's modules, and with the archives that its guest has.
    pub fn key_of(&self, side: Side, row: &str) -> Key {
        let (beside, programs) = self.archives_of(side);
        let row_archive = self.program_of(row).and_then(|index| programs.get(index).copied());
        let programs = Key::join_archives(beside.into_iter().chain(row_archive));
        Key { programs, modules: self.modules_of(side), ..self.key.clone() }
    }
}

impl Key {
    /// Joins hashes of archives into the form that a Key has.
    pub fn join_archives<'a>(archives: impl IntoIterator<Item = &'a str>) -> String {
        Vec::from_iter(archives).join(&ARCHIVE_SEPARATOR.to_string())
    }
}

// In files of older releases the fields of `asked` are fields of the plan or comparison.
impl<'de> Deserialize<'de> for CountsPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CountsPlan::deserialize(with_asked(Value::deserialize(deserializer)?))
            .map_err(D::Error::custom)
    }
}

impl Serialize for CountsPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CountsPlan::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for CountsComparison {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = with_asked(Value::deserialize(deserializer)?);
        CountsComparison::deserialize(value).map_err(D::Error::custom)
    }
}

impl Serialize for CountsComparison {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CountsComparison::serialize(self, serializer)
    }
}

/// Moves the fields of `asked` to their place in a plan or comparison of an older release. Such a
/// file has them beside the key. A comparison has its Kernels in its Subjects, and machine and
/// modules only in its key.
fn with_asked(mut counts: Value) -> Value {
    let Some(older) = counts.as_object_mut().filter(|counts| !counts.contains_key("asked")) else {
        return counts;
    };
    let mut asked = Map::new();
    let mut guest = Map::new();
    for name in ["disk", "programs", "hooks", "workloads_from"] {
        guest.extend(older.remove(name).map(|value| (name.to_owned(), value)));
    }
    for name in ["machine", "calibration"] {
        asked.extend(older.remove(name).map(|value| (name.to_owned(), value)));
    }
    if let Some(Ok(key)) = older.get("key").map(Key::deserialize) {
        let disk = guest.get("disk").and_then(|disk| Disk::deserialize(disk).ok());
        guest.insert("modules".to_owned(), key.asked_modules(disk.as_ref()).into());
        asked.entry("machine").or_insert_with(|| json!(key.machine));
    }
    let mut subjects = older.remove("subjects").unwrap_or_default();
    let mut kernels = Map::new();
    for (side, subject) in subjects.as_object_mut().into_iter().flatten() {
        if let Some(alone) = subject.get_mut("subject").map(Value::take) {
            kernels.insert(side.clone(), subject["kernel"].take());
            *subject = alone;
        }
    }
    if !kernels.is_empty() {
        older.insert("kernels".to_owned(), kernels.into());
    }
    asked.extend([("subjects".to_owned(), subjects), ("guest".to_owned(), guest.into())]);
    older.insert("asked".to_owned(), asked.into());
    counts
}

/// Evidence of exact counts for a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountsEvidence {
    /// Metric that decided: the first deciding Metric that changed, else the headline. Empty if the
    /// row failed or the work differed.
    pub decided_by: String,
    /// One Effect for each Metric, the headline first; empty if the row failed.
    pub effects: Vec<Effect>,
    /// Observed values of each Side in the headline's Layout: page faults, context switches, and
    /// numbers that a user's program printed. Absent if the row failed.
    #[serde(rename = "seen", default, skip_serializing_if = "Option::is_none")]
    pub observed_values: Option<Sides<Signature>>,
    /// Numbers of operations that a program counted itself. The counts of a Side whose number
    /// differs from the row's `ops` are scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<CountedOperations>,
    /// Work of a user's program. Absent for other rows, and if the row failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkEvidence>,
    /// Last lines that each Side's program printed, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Sides<PrintedEnd>>,
    /// Time that CPUs waited for each other in the Region, by function, in instructions: the sum
    /// over all Contexts, in the Layout with the median makespan. Absent if the row failed, and for
    /// one CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Sides<BTreeMap<String, u64>>>,
    /// Instructions that the functions of `waits` of either Side executed, in the Layout of
    /// `waits`.
    #[serde(rename = "executed_there", default, skip_serializing_if = "Option::is_none")]
    pub waiting_functions_work: Option<Sides<BTreeMap<String, u64>>>,
    /// Sum of the time of all CPUs, by activity, in the Layout of `waits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Sides<CpuTime>>,
    /// Callers of the functions in which CPUs wait most, in the Layout of `waits`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_stacks: Vec<WaitStack>,
    /// Functions in which processes left CPUs that were then idle, in the Layout of `waits`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_stacks: Vec<WaitStack>,
    /// Cache lines with the most transfers in the Region, by the model of coherence, in the Layout
    /// with the median difference of transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_lines: Option<Sides<Vec<CacheLine>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Rows for two sizes of a program, if this row is their difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizePair>,
}

/// Two sizes of a program and their rows, the smaller size first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizePair {
    pub rows: [String; 2],
    pub sizes: [u64; 2],
}

/// Data of exact counts for all rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CountsComparison {
    /// Request, without the files that tracing found.
    pub asked: AskedCounts,
    pub key: Key,
    pub kernels: Sides<Identity>,
    /// Layouts per Side.
    pub layouts: usize,
    /// Seed of the Layouts.
    pub seed: u64,
    /// Drivers in /proc/crypto that compute crc32c for a disk, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crc32c: Vec<String>,
    /// Growth of costs with the parameters of rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}

/// Growth of an operation's cost with a parameter, from rows that differ in this parameter alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// Common part of the rows' names: `fork-pages`.
    pub family: String,
    pub parameter: String,
    /// Absent for native rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// `O(1)`, `O(pages)`, `O(pages^1.3)` or `unclear`.
    pub order: String,
    /// Power of the parameter with which the cost above the cost of size 0 grows. Absent if a cost
    /// is not above the cost of size 0.
    pub power: Option<GrowthPower>,
    /// Smallest and largest distance of a cost above the cost of size 0, in percent of the cost of
    /// size 0, over all fitted rows and Layouts.
    pub beyond_percent: (f64, f64),
    /// Reason for `order`, in a sentence.
    pub because: String,
    /// Smallest fitted value of the parameter; only the upper half of its values is fitted.
    pub from: f64,
    /// Number of rows that were fitted.
    pub points: usize,
    /// Number of Layouts; 0 for native rows.
    pub layouts: usize,
}

/// A fitted power.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowthPower {
    pub exponent: f64,
    /// 95 % interval of the exponent, extended to the exponents of all Layouts.
    pub interval: (f64, f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(programs: &str) -> CountsPlan {
        let text = r#"{
            "key": { "engine": "exact", "qemu": "7", "machine": "q35", "cpu": "max",
                "memory_mib": 512, "guest": "g", "programs": "" },
            "machine": { "cpu": "max", "memory_mib": 512 },
            "subjects": { "base": { "kernel": "k" }, "change": { "kernel": "k" } },
            "kernels": {}, "workloads": [], "layouts": [], "steps": [] }"#;
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        let kernel = serde_json::json!({
            "source": "k", "sha256": "s", "arch": "x86_64", "format": "bzimage"
        });
        json["kernels"] = serde_json::json!({ "base": kernel, "change": kernel });
        json["key"]["programs"] = programs.into();
        let mut plan: CountsPlan = serde_json::from_value(json).unwrap();
        let named = |name: &str| UserProgram { name: name.to_owned(), ..UserProgram::default() };
        let AskedCounts { guest, .. } = &mut plan.asked;
        guest.programs = vec![named("one"), named("two")];
        guest.hooks = Some(named("rows"));
        plan
    }

    #[test]
    fn a_key_of_a_row_has_the_common_archive_and_that_of_its_program() {
        let mut plan = plan("beside+one+two");
        assert_eq!(plan.archives_of(Side::Base), (Some("beside"), vec!["one", "two"]));
        let programs = |row: &str| plan.key_of(Side::Base, row).programs;
        assert_eq!(programs("program:two"), "beside+two");
        assert_eq!(programs("getppid"), "beside");
        plan.asked.guest.hooks = None;
        assert_eq!(plan.key_of(Side::Base, "program:one").programs, "beside");
        // Without hooks the first archive is that of the first program.
        assert_eq!(plan.archives_of(Side::Base), (None, vec!["beside", "one"]));
    }

    #[test]
    fn a_side_with_a_setup_has_an_archive_of_its_own() {
        let (base, change) = ("one+two".to_owned(), "setup+one+two".to_owned());
        let mut plan = plan("");
        plan.asked.guest.hooks = None;
        plan.archives = Some(Sides { base, change });
        plan.asked.subjects.change.setup = Some("true".to_owned());
        assert_eq!(plan.archives_of(Side::Base), (None, vec!["one", "two"]));
        assert_eq!(plan.archives_of(Side::Change), (Some("setup"), vec!["one", "two"]));
        assert_eq!(plan.key_of(Side::Change, "program:two").programs, "setup+two");
        assert_eq!(plan.key_of(Side::Base, "getppid").programs, "");
    }
}
