//! Plans: rows, the method that measures them, measurements of the store, and campaigns.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AskedCounts, AskedGuest, Boot, CountsPlan, FORMAT, GuestsPlan, Identity, Key, Layout, Machine,
    Sample, Side, Sides, Step, Subject, TimesPlan, UserProgram, is_default,
};

/// Complete description of a run: `plan.json`. `M` is the method's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan<M = PlanMethod> {
    /// [`crate::FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// Seed of the Layouts, or of the order of the pairs.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    pub method: M,
}

/// A value for one of the three methods of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
// Few exist at a time, so a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum ByMethod<C, T, G> {
    /// Instructions, counted exactly.
    Counts(C),
    /// Times of pairs.
    Times(T),
    /// Exits of guests of a KVM host.
    Guests(G),
}

impl<C, T, G> ByMethod<C, T, G> {
    pub fn method(&self) -> Method {
        match self {
            ByMethod::Counts(_) => Method::Counts,
            ByMethod::Times(_) => Method::Times,
            ByMethod::Guests(_) => Method::Guests,
        }
    }

    /// Value of counts; `None` for other methods.
    pub fn counts(&self) -> Option<&C> {
        if let ByMethod::Counts(counts) = self { Some(counts) } else { None }
    }

    /// Value of times; `None` for other methods.
    pub fn times(&self) -> Option<&T> {
        if let ByMethod::Times(times) = self { Some(times) } else { None }
    }

    /// Value of guests; `None` for other methods.
    pub fn guests(&self) -> Option<&G> {
        if let ByMethod::Guests(guests) = self { Some(guests) } else { None }
    }
}

/// Methods of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The engine counts, which is the default.
    Counts,
    /// The engine measures times.
    Times,
    /// `host = "…"`
    Guests,
}

impl Method {
    /// `counts`, `times` or `guests`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Counts => "counts",
            Method::Times => "times",
            Method::Guests => "guests",
        }
    }
}

pub type PlanMethod = ByMethod<CountsPlan, TimesPlan, GuestsPlan>;

impl<M> Plan<M> {
    pub fn with<N>(self, make: impl FnOnce(M) -> N) -> Plan<N> {
        let Plan { format, title, seed, threshold_percent, method } = self;
        Plan { format, title, seed, threshold_percent, method: make(method) }
    }
}

impl From<CountsPlan> for PlanMethod {
    fn from(plan: CountsPlan) -> PlanMethod {
        PlanMethod::Counts(plan)
    }
}

impl From<TimesPlan> for PlanMethod {
    fn from(plan: TimesPlan) -> PlanMethod {
        PlanMethod::Times(plan)
    }
}

impl From<GuestsPlan> for PlanMethod {
    fn from(plan: GuestsPlan) -> PlanMethod {
        PlanMethod::Guests(plan)
    }
}

/// Guest program that runs a user's program.
pub const RUNNER: &str = "program";

/// Named integers that describe the work of a Workload.
pub type Signature = BTreeMap<String, u64>;

/// One row: a guest program with its parameters, resolved and ready to be ordered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The row's name, `fork-pages:pages=16`; also its file name in a run directory.
    pub row: String,
    /// One line for people.
    pub title: String,
    pub operation: String,
    pub program: String,
    /// Operations in the Region.
    pub ops: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Region,
    pub params: BTreeMap<String, u64>,
    /// Least memory in bytes; 0 if negligible.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_bytes: u64,
    /// Values that the work signature must contain.
    pub signature: Signature,
    /// For a user's program: numbers in its output that are part of its work signature, by name:
    /// the text before each, or a regular expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
}

/// Measured part of a Workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Between the markers of its program.
    #[default]
    Marked,
    /// From the kernel's start to init's, for all tasks: each Run is a boot.
    Boot,
}

impl Workload {
    /// Parameter of a program that prints its number of operations.
    pub const PRINTS_OPS: &str = "prints-ops";
    /// Parameter of a timed program: number of runs in one loop.
    pub const RUNS: &str = "runs";

    /// Number of operations in this signature; 0 if it has none.
    pub fn ops_of(&self, signature: &Signature) -> u64 {
        match self.params.contains_key(Workload::PRINTS_OPS) {
            true => signature.get(UserProgram::OPS).copied().unwrap_or(0),
            false => self.ops,
        }
    }

    /// True for a user's program.
    pub fn is_users(&self) -> bool {
        self.program == RUNNER
    }

    /// Values of `signature` that are not as expected: `calls 19999, expected 20000`.
    pub fn deviations(&self, signature: &Signature) -> Vec<String> {
        self.signature
            .iter()
            .filter_map(|(name, wanted)| match signature.get(name) {
                Some(found) if found == wanted => None,
                Some(found) => Some(format!("{name} {found}, expected {wanted}")),
                None => Some(format!("{name} missing, expected {wanted}")),
            })
            .collect()
    }
}

/// Common name of rows that differ only in one parameter or in their operations:
/// `fork-pages:backing=thp,pages=16` without `pages` is `fork-pages:backing=thp`.
pub fn family(row: &str, parameter: &str) -> String {
    let (name, params) = row.split_once(':').unwrap_or((row, ""));
    let is_other = |param: &&str| {
        let name = param.split('=').next().unwrap_or_default();
        name != parameter && name != "ops" && !name.is_empty()
    };
    let others: Vec<&str> = params.split(',').filter(is_other).collect();
    if others.is_empty() { name.to_owned() } else { format!("{name}:{}", others.join(",")) }
}

/// All inputs of an exact measurement: equal inputs give equal counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurand {
    pub kernel_sha256: String,
    pub boot_line: String,
    pub machine: Machine,
    pub key: Key,
    /// Row with its parameters and operations.
    pub workload: Workload,
    /// In the Plan's order.
    pub layouts: Vec<Layout>,
}

/// An exact measurement: a row of a Subject under all Layouts of a Plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// [`FORMAT`](crate::FORMAT).
    pub format: u32,
    pub of: Measurand,
    /// Name and identity of the Kernel; another name of the same image is no other measurement.
    pub kernel: Identity,
    /// Subject as asked for.
    pub subject: Subject,
    /// Content of both Sides' guests, as asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: AskedGuest,
    /// Seed of the Layouts.
    pub seed: u64,
    /// One for each Layout.
    pub layouts: Vec<MeasuredLayout>,
}

/// Measurement under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLayout {
    /// Data of the guest about its kernel.
    pub boot: Boot,
    pub sample: Sample,
    /// Counts by function, as the plugin wrote them. Files of the store have them elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
}

/// Many Subjects over the same rows, divided among machines: `campaign.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignPlan {
    /// [`FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// Seed of the Layouts.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// Key of all counts; machines with another one are refused.
    pub key: Key,
    pub machine: Machine,
    pub workloads: Vec<Workload>,
    pub layouts: Vec<Layout>,
    /// Each is compared with the one before it.
    pub subjects: Vec<CampaignSubject>,
    /// Timed experiments: their run directories below `timed/`.
    pub timed: Vec<String>,
    /// One machine does one of them at a time.
    pub shards: Vec<Shard>,
}

/// A Subject of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSubject {
    /// Subject as asked for.
    pub subject: Subject,
    /// Absent if it is yet to be built from source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// Part of a campaign that one machine does at a time. Counts share a machine with anything; of
/// times one experiment, with both of its Sides, has a machine to itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shard {
    /// Instructions, counted exactly.
    Counts(Vec<CampaignUnit>),
    /// Name of a timed experiment.
    Times(String),
}

/// Rows of one Subject that start from the same Boots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignUnit {
    /// Index of the Subject.
    pub subject: usize,
    /// Indices of the rows, ascending.
    pub rows: Vec<usize>,
    /// Estimated seconds on one CPU.
    pub seconds: f64,
}

impl CampaignPlan {
    /// Plan of a unit: its Subject alone, as the base.
    pub fn plan_of(&self, unit: &CampaignUnit, kernel: &Identity) -> Plan<CountsPlan> {
        let subject = &self.subjects[unit.subject].subject;
        let steps = (0_u32..).zip(0..self.layouts.len());
        let method = CountsPlan {
            asked: AskedCounts {
                machine: self.machine.clone(),
                subjects: Sides::from_fn(|_| subject.clone()),
                guest: AskedGuest::default(),
                calibration: None,
            },
            key: self.key.clone(),
            archives: None,
            kernels: Sides::from_fn(|_| kernel.clone()),
            workloads: unit.rows.iter().map(|row| self.workloads[*row].clone()).collect(),
            layouts: self.layouts.clone(),
            steps: steps.map(|(index, layout)| Step { index, side: Side::Base, layout }).collect(),
        };
        let CampaignPlan { title, seed, threshold_percent, .. } = self;
        let (title, seed, threshold_percent) = (title.clone(), *seed, *threshold_percent);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }

    /// Store key of a row of a Subject.
    pub fn measurand(&self, subject: usize, row: usize, kernel: &Identity) -> Measurand {
        Measurand {
            kernel_sha256: kernel.sha256.clone(),
            boot_line: self.subjects[subject].subject.boot_line.clone(),
            machine: self.machine.clone(),
            key: self.key.clone(),
            workload: self.workloads[row].clone(),
            layouts: self.layouts.clone(),
        }
    }

    /// Rows of no shard, by Subject: the store had them when the campaign was planned.
    pub fn known_units(&self) -> Vec<CampaignUnit> {
        let units = || self.shards.iter().flat_map(Shard::units);
        let planned: usize = units().map(|unit| unit.rows.len()).sum();
        let seconds: f64 = self.shards.iter().map(Shard::seconds).sum();
        let known_rows = |subject: usize| {
            let is_in_a_shard = |row: &usize| {
                units().any(|unit| unit.subject == subject && unit.rows.contains(row))
            };
            let rows: Vec<usize> =
                (0..self.workloads.len()).filter(|row| !is_in_a_shard(row)).collect();
            // Estimate them at the average of the shards' rows.
            let seconds = seconds / planned.max(1) as f64 * rows.len() as f64;
            CampaignUnit { subject, rows, seconds }
        };
        let by_subject = (0..self.subjects.len()).map(known_rows);
        by_subject.filter(|unit| !unit.rows.is_empty()).collect()
    }

    /// The shard of this number. One more than the last has everything that the store had, so that
    /// losses can be measured again.
    pub fn shard(&self, number: usize) -> Option<Shard> {
        match self.shards.get(number) {
            Some(shard) => Some(shard.clone()),
            None if number == self.shards.len() => {
                Some(Shard::Counts(self.known_units())).filter(|shard| !shard.units().is_empty())
            }
            None => None,
        }
    }

    /// Numbers of all shards, with that of the store's rows.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.shards.len() + usize::from(!self.known_units().is_empty())
    }

    /// Indices of the Subjects whose Kernels are built from source.
    pub fn to_build(&self) -> Vec<usize> {
        let is_unbuilt = |index: &usize| self.subjects[*index].kernel.is_none();
        (0..self.subjects.len()).filter(is_unbuilt).collect()
    }

    /// Reason why the campaign cannot be carried out; a file may hold anything.
    pub fn fault(&self) -> Option<&'static str> {
        let units = || self.shards.iter().flat_map(|shard| shard.units());
        let mut counted: Vec<(usize, usize)> =
            units().flat_map(|unit| unit.rows.iter().map(|row| (unit.subject, *row))).collect();
        let total = counted.len();
        counted.sort_unstable();
        counted.dedup();
        let timed: Vec<&String> = self.shards.iter().filter_map(Shard::timed).collect();
        let once = |name: &String| timed.iter().filter(|other| **other == name).count() == 1;
        let is_there = |unit: &CampaignUnit| {
            unit.subject < self.subjects.len()
                && !unit.rows.is_empty()
                && unit.rows.iter().all(|row| *row < self.workloads.len())
                && unit.seconds >= 0.0
        };
        if !units().all(is_there) {
            Some("a shard has rows or a subject that are not there")
        } else if counted.len() != total {
            Some("two shards have the same row of a subject")
        } else if timed.len() != self.timed.len() || !self.timed.iter().all(once) {
            Some("a timed experiment is not in exactly one shard: base and change would part")
        } else {
            None
        }
    }
}

impl Shard {
    /// Units that are counted.
    pub fn units(&self) -> &[CampaignUnit] {
        match self {
            Shard::Counts(units) => units,
            Shard::Times(_) => &[],
        }
    }

    pub fn timed(&self) -> Option<&String> {
        match self {
            Shard::Counts(_) => None,
            Shard::Times(name) => Some(name),
        }
    }

    /// Seconds of its counts on one CPU.
    pub fn seconds(&self) -> f64 {
        self.units().iter().map(|unit| unit.seconds).sum()
    }
}
