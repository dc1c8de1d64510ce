//! Campaigns: many Subjects over the same rows, divided into shards of about equal length.

use crate::counts::CountsExperiment;
use crate::experiment::{Error, misplaced};
use crate::experiment::{Experiment, ExperimentMethod};
use crate::file::{ExperimentFile, SubjectKeys};
use ktax_model::{AskedCounts, CampaignUnit};

/// A campaign file: many Subjects over the same rows, and timed experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Title in one line.
    pub title: String,
    /// Each Subject, on both Sides.
    pub subjects: Vec<Experiment<CountsExperiment>>,
    /// Timed experiments, by the names or paths of their files.
    pub timed: Vec<String>,
}

impl Campaign {
    /// Parses a campaign file, whose keys flags may change; `path` is for messages.
    pub fn read(text: &str, path: &str) -> Result<ExperimentFile, Error> {
        let refuse = |reason: String| campaign_error(path, &reason);
        let file = ExperimentFile::read(text).map_err(refuse)?;
        match file.is_campaign() {
            true => Ok(file),
            false => Err(refuse("it has neither subjects nor timed experiments".into())),
        }
    }

    /// Checks the keys of a campaign; `path` is for messages.
    pub fn from_file(file: &ExperimentFile, path: &str) -> Result<Campaign, Error> {
        let refuse = |reason: &str| campaign_error(path, reason);
        if file.change.is_some() || file.base != SubjectKeys::default() {
            return Err(refuse(
                "each subject is compared with the one before it; remove `base` and \
                               `change`",
            ));
        }
        if !file.add.is_empty() {
            return Err(refuse("additions are of a ledger; list each as a subject"));
        }
        let no_more = "a campaign measures rows of ktax; remove programs, `workloads_from`, \
                       `hooks`, `modules`, `disk`, and `sysctl`, `files` and `setup` of subjects";
        let is_own = file.workloads_from.is_some() || file.hooks.is_some();
        if is_own || !file.program.is_empty() || !file.modules.is_empty() || file.disk.is_some() {
            return Err(refuse(no_more));
        }
        let first = |index: usize| file.subjects[..index].contains(&file.subjects[index]);
        if (0..file.subjects.len()).any(first) {
            return Err(refuse("a subject is there twice"));
        }
        let subjects = file.subjects.iter().map(|keys| subject_experiment(file, keys));
        let title = file.title.clone().unwrap_or_default();
        let subjects: Vec<Experiment<_>> = subjects.collect::<Result<_, Error>>()?;
        let has_more = |AskedCounts { guest, subjects, .. }: &AskedCounts| {
            !guest.programs.is_empty() || guest.disk.is_some() || subjects.base.has_settings()
        };
        if subjects.iter().any(|subject| has_more(&subject.method.asked)) {
            return Err(refuse(no_more));
        }
        Ok(Campaign { title, subjects, timed: file.timed.clone() })
    }
}

fn campaign_error(path: &str, reason: &str) -> Error {
    Error::user(format!(
        "{path} is not a campaign file: {reason}. `ktax campaign plan --help` shows one"
    ))
}

fn subject_experiment(
    file: &ExperimentFile,
    keys: &SubjectKeys,
) -> Result<Experiment<CountsExperiment>, Error> {
    let experiment = Experiment::from_file(&ExperimentFile {
        same: Some(true),
        base: keys.clone(),
        change: Some(keys.clone()),
        subjects: Vec::new(),
        timed: Vec::new(),
        ..file.clone()
    })?;
    match &experiment.method {
        ExperimentMethod::Counts(counts) => Ok(experiment.with(counts.clone())),
        _ => {
            let uses = "another one; list timed experiments in `timed`";
            Err(misplaced("subjects", "the exact engine", uses))
        }
    }
}

/// Usual length of a shard on one CPU, seconds: long compared with its start, short compared with
/// the loss if a machine fails.
const SHARD_S: f64 = 600.0;

/// Slurm numbers the jobs of an array up to 1000, unless `MaxArraySize` is set.
pub const SHARDS: std::ops::RangeInclusive<usize> = 1..=1000;

/// Costs of a Subject's rows, in seconds on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Cost of the Boots that all rows start from.
    pub boots: f64,
    /// Cost of each row; `None` if it is measured already.
    pub rows: Vec<Option<f64>>,
}

/// Divides the rows of Subjects into `shards` shards, or into shards of about ten minutes.
pub fn divide(subjects: &[Costs], shards: Option<usize>) -> Vec<Vec<CampaignUnit>> {
    let total: f64 = subjects.iter().map(Costs::total).sum();
    let wanted = shards.unwrap_or((total / SHARD_S).ceil() as usize);
    let wanted = wanted.clamp(*SHARDS.start(), *SHARDS.end());
    let busy = subjects.iter().filter(|costs| costs.left().count() > 0).count().max(1);
    // Each part makes its Subject's Boots again, so there are no more parts than needed.
    let parts = wanted.div_ceil(busy);
    let mut units: Vec<CampaignUnit> = subjects
        .iter()
        .enumerate()
        .flat_map(|(subject, costs)| costs.parts(subject, parts))
        .collect();
    units.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut bins = spread(units, wanted, |unit| unit.seconds);
    bins.retain(|bin| !bin.is_empty());
    let length = |bin: &Vec<CampaignUnit>| bin.iter().map(|unit| unit.seconds).sum::<f64>();
    bins.sort_by(|a, b| length(b).total_cmp(&length(a)));
    bins
}

impl Costs {
    fn left(&self) -> impl Iterator<Item = (usize, f64)> {
        self.rows.iter().enumerate().filter_map(|(row, cost)| Some((row, (*cost)?)))
    }

    fn total(&self) -> f64 {
        match self.left().map(|(_, cost)| cost).sum::<f64>() {
            0.0 => 0.0,
            rows => self.boots + rows,
        }
    }

    /// Divides the rows into at least `least` parts, if there are as many rows, and none much
    /// longer than a shard.
    fn parts(&self, subject: usize, least: usize) -> Vec<CampaignUnit> {
        let mut rows: Vec<(usize, f64)> = self.left().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let long = (self.total() / SHARD_S).ceil() as usize;
        let parts = spread(rows, least.max(long).max(1), |(_, cost)| *cost);
        let unit = |rows: Vec<(usize, f64)>| {
            let seconds = self.boots + rows.iter().map(|(_, cost)| cost).sum::<f64>();
            let mut rows: Vec<usize> = rows.into_iter().map(|(row, _)| row).collect();
            rows.sort_unstable();
            CampaignUnit { subject, rows, seconds }
        };
        parts.into_iter().filter(|part| !part.is_empty()).map(unit).collect()
    }
}

/// Puts each item, the longest first, into the emptiest bin.
fn spread<T>(longest_first: Vec<T>, bins: usize, cost: impl Fn(&T) -> f64) -> Vec<Vec<T>> {
    let mut filled: Vec<(f64, Vec<T>)> = (0..bins).map(|_| (0.0, Vec::new())).collect();
    for item in longest_first {
        // The first of equal bins, so that the same costs give the same shards.
        let least = filled.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((sum, bin)) = least {
            *sum += cost(&item);
            bin.push(item);
        }
    }
    filled.into_iter().map(|(_, bin)| bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"
        title = "t"
        layouts = 3
        workloads = ["getppid"]
        subjects = [{ kernel = "debian:cloud-amd64" }, { kernel = "k", boot_line = "quiet" }]
    "#;

    fn parse(text: &str) -> Result<Campaign, Error> {
        Campaign::from_file(&Campaign::read(text, "c.toml")?, "c.toml")
    }

    #[test]
    fn each_subject_is_checked_as_those_of_an_experiment() {
        let all = parse(TEXT).unwrap().subjects;
        let lines: Vec<&str> = all
            .iter()
            .map(|subject| subject.method.asked.subjects.change.boot_line.as_str())
            .collect();
        assert_eq!(lines, ["", "quiet"]);
        assert!(all.iter().all(|subject| subject.method.layouts == 3
            && subject.method.asked.subjects.base == subject.method.asked.subjects.change));
    }

    #[test]
    fn what_is_no_campaign_is_refused() {
        for (from, to, reason) in [
            ("boot_line = \"quiet\"", "boot_line = \"a\\nb\"", "boot_line"),
            ("layouts = 3", "layouts = 0", "layouts"),
            ("layouts = 3", "engine = \"kvm\"", "engine"),
            ("subjects =", "subject =", "subject"),
            ("title", "base = { kernel = \"k\" }\n        title", "compared with the one before"),
            ("{ kernel = \"k\", boot_line", "{ kernel = \"debian:cloud-amd64\" }, {boot_line", ""),
        ] {
            let error = parse(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
        let twice = TEXT.replace(
            "{ kernel = \"k\", boot_line = \"quiet\" }",
            "{ kernel = \
                                  \"debian:cloud-amd64\" }",
        );
        assert!(parse(&twice).unwrap_err().to_string().contains("there twice"));
        // The error of other commands names the command for this file.
        let error = ExperimentFile::parse(TEXT, "c.toml").unwrap_err().to_string();
        assert!(error.contains("ktax campaign plan c.toml"), "{error}");
    }

    fn costs() -> impl Strategy<Value = Vec<Costs>> {
        let rows = proptest::collection::vec(proptest::option::of(0.1_f64..90.0), 1..40);
        let one = (1.0_f64..30.0, rows).prop_map(|(boots, rows)| Costs { boots, rows });
        proptest::collection::vec(one, 1..30)
    }

    fn seconds(shard: &[CampaignUnit]) -> f64 {
        shard.iter().map(|unit| unit.seconds).sum()
    }

    proptest! {
        #[test]
        fn every_row_that_is_left_is_in_one_shard(
            all in costs(), shards in proptest::option::of(1_usize..60),
        ) {
            let divided = divide(&all, shards);
            let mut found: Vec<(usize, usize)> = divided
                .iter()
                .flatten()
                .flat_map(|unit| unit.rows.iter().map(|row| (unit.subject, *row)))
                .collect();
            found.sort_unstable();
            let expected: Vec<(usize, usize)> = all
                .iter()
                .enumerate()
                .flat_map(|(subject, costs)| costs.left().map(move |(row, _)| (subject, row)))
                .collect();
            prop_assert_eq!(found, expected);
            prop_assert!(shards.is_none_or(|shards| divided.len() <= shards));
            // The longest shard is first, and no longer than the shortest and one unit.
            let lengths: Vec<f64> = divided.iter().map(|shard| seconds(shard)).collect();
            prop_assert!(lengths.is_sorted_by(|a, b| a >= b));
            let units = divided.iter().flatten();
            let longest_unit = units.map(|unit| unit.seconds).fold(0.0, f64::max);
            if let (Some(first), Some(last)) = (lengths.first(), lengths.last()) {
                prop_assert!(first - last <= longest_unit + 1e-6);
            }
        }
    }

    #[test]
    fn a_subject_is_divided_only_where_there_are_more_shards_than_subjects() {
        let one = Costs { boots: 10.0, rows: vec![Some(1.0); 30] };
        let units = |all: &[Costs], shards| -> Vec<usize> {
            divide(all, shards).iter().map(Vec::len).collect()
        };
        let six = vec![one.clone(); 6];
        // 240 s are one shard. With more shards than Subjects, each has a part of the rows.
        assert_eq!(units(&six, None), [6]);
        assert_eq!(units(&six, Some(3)), [2, 2, 2]);
        assert_eq!(units(&six, Some(12)), [1; 12]);
        // Hours of work are cut into shards of ten minutes.
        let long = Costs { boots: 10.0, rows: vec![Some(200.0); 30] };
        let shards = divide(&[long], None);
        assert!(shards.len() > 9, "{}", shards.len());
        assert!(shards.iter().all(|shard| seconds(shard) < 900.0));
        // Rows that are measured already are not divided.
        let none = Costs { boots: 10.0, rows: vec![None; 3] };
        assert!(divide(&[none], Some(4)).is_empty());
    }
}
