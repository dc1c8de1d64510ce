//! Plans: rows, the method that measures them, measurements of the store, and campaigns.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AskedCounts, AskedGuest, Boot, CountsPlan, FORMAT, GuestsPlan, Identity, Key, Layout, Machine,
    Sample, Side, Sides, Step, Subject, TimesPlan, UserProgram, is_default,
};

/// Complete description of a run: `plan.json`. `M` has the data of the method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan<M = PlanMethod> {
    /// [`crate::FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// Seed of the Layouts, or of the order of the pairs.
    pub seed: u64,
    /// Smallest difference that is called slower or faster, in percent.
    pub threshold_percent: f64,
    pub method: M,
}

/// A value for one of the three methods of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
// Few values exist at a time, so a box would save no memory.
#[allow(clippy::large_enum_variant)]
pub enum ByMethod<C, T, G> {
    /// Instructions, counted exactly.
    Counts(C),
    /// Times of pairs of boots.
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
    /// The engine counts instructions. This is the default.
    Counts,
    /// The engine measures times.
    Times,
    /// Guests of a KVM host are recorded. The key `host` of an experiment selects this method.
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
    /// Plan with the data of the method replaced by the result of `make`.
    pub fn map_method<N>(self, make: impl FnOnce(M) -> N) -> Plan<N> {
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

/// Row of a plan: a guest program with the values of all its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the row, `fork-pages:pages=16`; also the name of its file in a run directory.
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
    /// Memory that the row needs, in bytes; 0 if negligible.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory_bytes: u64,
    /// Expected values in the work signature.
    pub signature: Signature,
    /// Numbers in the output of a user's program that are part of its work signature. Each has a
    /// name, and the text before the number or a regular expression.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, String>,
}

/// Measured part of a Workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Between the markers of the guest program.
    #[default]
    Marked,
    /// From the start of the kernel to the start of init, for all tasks: each Run is a boot.
    Boot,
}

impl Workload {
    /// Parameter of a program that prints its number of operations.
    pub const PRINTS_OPS: &str = "prints-ops";
    /// Parameter of a timed program: number of runs in one loop.
    pub const RUNS: &str = "runs";

    /// Number of operations of a run with this work signature; 0 if a program that counts its
    /// operations did not print their number.
    pub fn ops_of(&self, signature: &Signature) -> u64 {
        match self.params.contains_key(Workload::PRINTS_OPS) {
            true => signature.get(UserProgram::OPS).copied().unwrap_or(0),
            false => self.ops,
        }
    }

    /// True for a user's program.
    pub fn is_user_program(&self) -> bool {
        self.program == RUNNER
    }

    /// Unexpected values in `signature`, for people: `calls 19999, expected 20000`.
    pub fn deviations(&self, signature: &Signature) -> Vec<String> {
        self.signature
            .iter()
            .filter_map(|(name, expected)| match signature.get(name) {
                Some(found) if found == expected => None,
                Some(found) => Some(format!("{name} {found}, expected {expected}")),
                None => Some(format!("{name} missing, expected {expected}")),
            })
            .collect()
    }
}

/// Name of a row without `parameter` and `ops`: `fork-pages:backing=thp,pages=16` without `pages`
/// is `fork-pages:backing=thp`. Rows that differ only in these two have the same name.
pub fn family(row: &str, parameter: &str) -> String {
    let (name, params) = row.split_once(':').unwrap_or((row, ""));
    let is_other = |param: &&str| {
        let name = param.split('=').next().unwrap_or_default();
        name != parameter && name != "ops" && !name.is_empty()
    };
    let others: Vec<&str> = params.split(',').filter(is_other).collect();
    if others.is_empty() { name.to_owned() } else { format!("{name}:{}", others.join(",")) }
}

/// All inputs of an exact measurement. Equal inputs give equal counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurand {
    pub kernel_sha256: String,
    pub boot_line: String,
    pub machine: Machine,
    pub key: Key,
    /// Row with its parameters and operations.
    pub workload: Workload,
    /// Layouts in the order of the Plan.
    pub layouts: Vec<Layout>,
}

/// Exact measurement: a row of a Subject under all Layouts of a Plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// [`FORMAT`](crate::FORMAT).
    pub format: u32,
    #[serde(rename = "of")]
    pub measurand: Measurand,
    /// Identity of the Kernel. Its name is not a part of the measurand.
    pub kernel: Identity,
    /// Subject as asked for.
    pub subject: Subject,
    /// Content of both Sides' guests, as asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guest: AskedGuest,
    /// Seed of the Layouts.
    pub seed: u64,
    /// Results, one for each Layout.
    pub layouts: Vec<MeasuredLayout>,
}

/// Result under one Layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLayout {
    /// Data that the guest reported about its kernel.
    pub boot: Boot,
    pub sample: Sample,
    /// Counts by function, as the plugin wrote them. Objects of the store have them in a separate
    /// part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profile: String,
}

/// Plan of a campaign: the same rows for many Subjects, divided among machines. `campaign.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignPlan {
    /// [`FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// Seed of the Layouts.
    pub seed: u64,
    /// Smallest difference that is called slower or faster, in percent.
    pub threshold_percent: f64,
    /// Key of all counts. Machines with a different Key are refused.
    pub key: Key,
    pub machine: Machine,
    pub workloads: Vec<Workload>,
    pub layouts: Vec<Layout>,
    /// Subjects; each is compared with the previous one.
    pub subjects: Vec<CampaignSubject>,
    /// Names of timed experiments, which are also their run directories below `timed/`.
    pub timed: Vec<String>,
    /// Parts of the campaign. A machine does one shard at a time.
    pub shards: Vec<Shard>,
}

/// A Subject of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSubject {
    /// Subject as asked for.
    pub subject: Subject,
    /// Identity of the Kernel; absent until it is built from source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// Part of a campaign that one machine does at a time. Counts may share the machine with other
/// work. A timed experiment, with both Sides, needs the machine to itself.
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
    /// Plan of a unit, with the unit's Subject as the base and without a change.
    pub fn unit_plan(&self, unit: &CampaignUnit, kernel: &Identity) -> Plan<CountsPlan> {
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

    /// Units of the rows that are in no shard, because the store had them when the campaign was
    /// planned.
    pub fn stored_units(&self) -> Vec<CampaignUnit> {
        let units = || self.shards.iter().flat_map(Shard::units);
        let planned: usize = units().map(|unit| unit.rows.len()).sum();
        let seconds: f64 = self.shards.iter().map(Shard::seconds).sum();
        let stored_unit = |subject: usize| {
            let is_in_a_shard = |row: &usize| {
                units().any(|unit| unit.subject == subject && unit.rows.contains(row))
            };
            let rows: Vec<usize> =
                (0..self.workloads.len()).filter(|row| !is_in_a_shard(row)).collect();
            // Their time was not estimated; assume the average of the rows in shards.
            let seconds = seconds / planned.max(1) as f64 * rows.len() as f64;
            CampaignUnit { subject, rows, seconds }
        };
        let stored = (0..self.subjects.len()).map(stored_unit);
        stored.filter(|unit| !unit.rows.is_empty()).collect()
    }

    /// Shard with this number; `None` for an unknown number. The number after the last shard stands
    /// for the rows that the store had, so that lost ones can be measured again.
    pub fn shard(&self, number: usize) -> Option<Shard> {
        match self.shards.get(number) {
            Some(shard) => Some(shard.clone()),
            None if number == self.shards.len() => {
                Some(Shard::Counts(self.stored_units())).filter(|shard| !shard.units().is_empty())
            }
            None => None,
        }
    }

    /// Numbers of all shards, and of the rows that the store had.
    pub fn shard_numbers(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.shards.len() + usize::from(!self.stored_units().is_empty())
    }

    /// Indices of the Subjects whose Kernels are built from source.
    pub fn subjects_to_build(&self) -> Vec<usize> {
        let is_unbuilt = |index: &usize| self.subjects[*index].kernel.is_none();
        (0..self.subjects.len()).filter(is_unbuilt).collect()
    }

    /// Reason why the campaign cannot be carried out, if its file is damaged.
    pub fn fault(&self) -> Option<&'static str> {
        let units = || self.shards.iter().flat_map(|shard| shard.units());
        let mut counted: Vec<(usize, usize)> =
            units().flat_map(|unit| unit.rows.iter().map(|row| (unit.subject, *row))).collect();
        let total = counted.len();
        counted.sort_unstable();
        counted.dedup();
        let timed: Vec<&String> = self.shards.iter().filter_map(Shard::timed).collect();
        let is_in_one_shard =
            |name: &String| timed.iter().filter(|other| **other == name).count() == 1;
        let is_valid = |unit: &CampaignUnit| {
            unit.subject < self.subjects.len()
                && !unit.rows.is_empty()
                && unit.rows.iter().all(|row| *row < self.workloads.len())
                && unit.seconds >= 0.0
        };
        if !units().all(is_valid) {
            Some("a shard has rows or a subject that the campaign does not have")
        } else if counted.len() != total {
            Some("two shards have the same row of a subject")
        } else if timed.len() != self.timed.len() || !self.timed.iter().all(is_in_one_shard) {
            Some("a timed experiment is not in exactly one shard, but its base and change need one")
        } else {
            None
        }
    }
}

impl Shard {
    /// Units of a shard that counts; empty for times.
    pub fn units(&self) -> &[CampaignUnit] {
        match self {
            Shard::Counts(units) => units,
            Shard::Times(_) => &[],
        }
    }

    /// Name of the timed experiment; `None` for counts.
    pub fn timed(&self) -> Option<&String> {
        match self {
            Shard::Counts(_) => None,
            Shard::Times(name) => Some(name),
        }
    }

    /// Estimated seconds of the units on one CPU; 0 for times.
    pub fn seconds(&self) -> f64 {
        self.units().iter().map(|unit| unit.seconds).sum()
    }
}
