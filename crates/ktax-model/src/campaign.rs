use serde::{Deserialize, Serialize};

use super::{
    CountsPlan, FORMAT, Identity, Key, Layout, Machine, Measurand, Plan, Side, Sides, Step,
    Subject, Workload,
};

/// Many Subjects over the same rows, divided among machines: `campaign.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignPlan {
    /// [`FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// What the Layouts are drawn from.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// What all counts compare within: a machine with another one is refused.
    pub key: Key,
    /// The shape of the computer.
    pub machine: Machine,
    /// The rows.
    pub workloads: Vec<Workload>,
    /// The perturbations.
    pub layouts: Vec<Layout>,
    /// What is measured; each is compared with the one before it.
    pub subjects: Vec<CampaignSubject>,
    /// Timed experiments: the names of their run directories below `timed/`.
    pub timed: Vec<String>,
    /// What one machine does at a time.
    pub shards: Vec<Shard>,
}

/// A Subject of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignSubject {
    /// What was asked for.
    pub subject: Subject,
    /// Its Kernel; absent where it is yet to be built from source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Identity>,
}

/// What one machine does at a time. Counts share a machine with anything; of times one experiment,
/// with both of its Sides, has a machine to itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shard {
    /// Instructions, counted exactly.
    Counts(Vec<CampaignUnit>),
    /// The timed experiment of this name.
    Times(String),
}

/// Rows of one Subject: they start from the same Boots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CampaignUnit {
    /// Its place among the Subjects, from 0.
    pub subject: usize,
    /// Places among the rows, from 0, ascending.
    pub rows: Vec<usize>,
    /// How long it takes on one CPU, as far as the machine knew that made the plan.
    pub seconds: f64,
}

impl CampaignPlan {
    /// The Plan of a unit: its Subject alone, as the base.
    pub fn plan_of(&self, unit: &CampaignUnit, kernel: &Identity) -> Plan<CountsPlan> {
        let subject = &self.subjects[unit.subject].subject;
        let steps = (0_u32..).zip(0..self.layouts.len());
        let method = CountsPlan {
            key: self.key.clone(),
            machine: self.machine.clone(),
            subjects: Sides::of(|_| subject.clone()),
            kernels: Sides::of(|_| kernel.clone()),
            archives: None,
            calibration: None,
            disk: None,
            programs: Vec::new(),
            hooks: None,
            workloads_from: None,
            workloads: unit.rows.iter().map(|row| self.workloads[*row].clone()).collect(),
            layouts: self.layouts.clone(),
            steps: steps.map(|(index, layout)| Step { index, side: Side::Base, layout }).collect(),
        };
        let CampaignPlan { title, seed, threshold_percent, .. } = self;
        let (title, seed, threshold_percent) = (title.clone(), *seed, *threshold_percent);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }

    /// What a row of a Subject is in the store.
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

    /// The rows that no shard has, by Subject: the store had them when the campaign was planned.
    pub fn known_units(&self) -> Vec<CampaignUnit> {
        let units = || self.shards.iter().flat_map(Shard::units);
        let planned: usize = units().map(|unit| unit.rows.len()).sum();
        let seconds: f64 = self.shards.iter().map(Shard::seconds).sum();
        let of_subject = |subject: usize| {
            let is_in_a_shard = |row: &usize| {
                units().any(|unit| unit.subject == subject && unit.rows.contains(row))
            };
            let rows: Vec<usize> =
                (0..self.workloads.len()).filter(|row| !is_in_a_shard(row)).collect();
            // As long as the rows of the shards take on average.
            let seconds = seconds / planned.max(1) as f64 * rows.len() as f64;
            CampaignUnit { subject, rows, seconds }
        };
        let all = (0..self.subjects.len()).map(of_subject);
        all.filter(|unit| !unit.rows.is_empty()).collect()
    }

    /// The shard of this number. Behind the last one of the plan is one with all that the store
    /// had, so that what is lost of it can be measured again.
    pub fn shard(&self, number: usize) -> Option<Shard> {
        match self.shards.get(number) {
            Some(shard) => Some(shard.clone()),
            None if number == self.shards.len() => {
                Some(Shard::Counts(self.known_units())).filter(|it| !it.units().is_empty())
            }
            None => None,
        }
    }

    /// The numbers of all shards, also of the one with what the store had.
    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.shards.len() + usize::from(!self.known_units().is_empty())
    }

    /// The Subjects whose Kernels are built from source, by their places.
    pub fn to_build(&self) -> Vec<usize> {
        let is_unbuilt = |place: &usize| self.subjects[*place].kernel.is_none();
        (0..self.subjects.len()).filter(is_unbuilt).collect()
    }

    /// Why it cannot be carried out, as one that was read from a file may not.
    pub fn fault(&self) -> Option<&'static str> {
        let units = || self.shards.iter().flat_map(|shard| shard.units());
        let mut counted: Vec<(usize, usize)> =
            units().flat_map(|unit| unit.rows.iter().map(|row| (unit.subject, *row))).collect();
        let all = counted.len();
        counted.sort_unstable();
        counted.dedup();
        let timed: Vec<&String> = self.shards.iter().filter_map(Shard::timed).collect();
        let once = |name: &String| timed.iter().filter(|one| **one == name).count() == 1;
        let is_there = |unit: &CampaignUnit| {
            unit.subject < self.subjects.len()
                && !unit.rows.is_empty()
                && unit.rows.iter().all(|row| *row < self.workloads.len())
                && unit.seconds >= 0.0
        };
        if !units().all(is_there) {
            Some("a shard has rows or a subject that are not there")
        } else if counted.len() != all {
            Some("two shards have the same row of a subject")
        } else if timed.len() != self.timed.len() || !self.timed.iter().all(once) {
            Some("a timed experiment is not in exactly one shard: base and change would part")
        } else {
            None
        }
    }
}

impl Shard {
    /// What of it is counted.
    pub fn units(&self) -> &[CampaignUnit] {
        match self {
            Shard::Counts(units) => units,
            Shard::Times(_) => &[],
        }
    }

    /// The timed experiment.
    pub fn timed(&self) -> Option<&String> {
        match self {
            Shard::Counts(_) => None,
            Shard::Times(name) => Some(name),
        }
    }

    /// How long its counts take on one CPU.
    pub fn seconds(&self) -> f64 {
        self.units().iter().map(|unit| unit.seconds).sum()
    }
}
