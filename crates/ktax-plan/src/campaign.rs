//! Campaigns: many Subjects over the same rows, divided into shards of about equal length.

use crate::counts::CountsExperiment;
use crate::experiment::{Error, misplaced_key_error};
use crate::experiment::{Experiment, ExperimentMethod};
use crate::file::{ExperimentFile, SubjectKeys};
use ktax_model::{AskedCounts, CampaignUnit};

/// A campaign file: many Subjects over the same rows, and timed experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Title in one line.
    pub title: String,
    /// An experiment for each Subject, with the Subject on both Sides.
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
            return Err(refuse("additions belong to a ledger; list each addition as a subject"));
        }
        let unsupported = "a campaign measures rows of ktax; remove programs, `workloads_from`, \
                       `hooks`, `modules`, `disk`, and `sysctl`, `files` and `setup` of subjects";
        let has_own_workloads = file.workloads_from.is_some() || file.hooks.is_some();
        if has_own_workloads
            || !file.program.is_empty()
            || !file.modules.is_empty()
            || file.disk.is_some()
        {
            return Err(refuse(unsupported));
        }
        let is_repeated = |index: usize| file.subjects[..index].contains(&file.subjects[index]);
        if (0..file.subjects.len()).any(is_repeated) {
            return Err(refuse("a subject is listed twice; remove one of them"));
        }
        let subjects = file.subjects.iter().map(|keys| subject_experiment(file, keys));
        let title = file.title.clone().unwrap_or_default();
        let subjects: Vec<Experiment<_>> = subjects.collect::<Result<_, Error>>()?;
        let has_unsupported = |AskedCounts { guest, subjects, .. }: &AskedCounts| {
            !guest.programs.is_empty() || guest.disk.is_some() || subjects.base.has_settings()
        };
        if subjects.iter().any(|subject| has_unsupported(&subject.method.asked)) {
            return Err(refuse(unsupported));
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
        ExperimentMethod::Counts(counts) => Ok(experiment.with_method(counts.clone())),
        _ => {
            let engine = "another one; list timed experiments in `timed`";
            Err(misplaced_key_error("subjects", "the exact engine", engine))
        }
    }
}

/// Target length of a shard on one CPU, in seconds: long compared with the start of a shard, and
/// short enough that little work is lost if a machine fails.
const SHARD_S: f64 = 600.0;

/// Bounds of the number of shards. Slurm numbers the jobs of an array up to 1000, unless
/// `MaxArraySize` is set.
pub const SHARD_COUNTS: std::ops::RangeInclusive<usize> = 1..=1000;

/// SubjectCosts of the rows of a Subject, in seconds on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct SubjectCosts {
    /// Cost of the Boots from which all rows start.
    pub boots: f64,
    /// Cost of each row; `None` if the row is measured already.
    pub rows: Vec<Option<f64>>,
}

/// Divides the rows of Subjects into `shards` shards, or into shards of about ten minutes.
pub fn divide(subjects: &[SubjectCosts], shards: Option<usize>) -> Vec<Vec<CampaignUnit>> {
    let total: f64 = subjects.iter().map(SubjectCosts::total).sum();
    let count = shards.unwrap_or((total / SHARD_S).ceil() as usize);
    let count = count.clamp(*SHARD_COUNTS.start(), *SHARD_COUNTS.end());
    let unfinished =
        subjects.iter().filter(|costs| costs.missing_rows().count() > 0).count().max(1);
    // Each part repeats the Boots of its Subject, so make only as many parts as needed.
    let parts = count.div_ceil(unfinished);
    let mut units: Vec<CampaignUnit> = subjects
        .iter()
        .enumerate()
        .flat_map(|(subject, costs)| costs.parts(subject, parts))
        .collect();
    units.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut bins = spread(units, count, |unit| unit.seconds);
    bins.retain(|bin| !bin.is_empty());
    let length = |bin: &Vec<CampaignUnit>| bin.iter().map(|unit| unit.seconds).sum::<f64>();
    bins.sort_by(|a, b| length(b).total_cmp(&length(a)));
    bins
}

impl SubjectCosts {
    /// Index and cost of each row that is not measured.
    fn missing_rows(&self) -> impl Iterator<Item = (usize, f64)> {
        self.rows.iter().enumerate().filter_map(|(row, cost)| Some((row, (*cost)?)))
    }

    fn total(&self) -> f64 {
        match self.missing_rows().map(|(_, cost)| cost).sum::<f64>() {
            0.0 => 0.0,
            rows => self.boots + rows,
        }
    }

    /// Divides the rows into at least `min_parts` parts, if there are as many rows. No part is much
    /// longer than a shard.
    fn parts(&self, subject: usize, min_parts: usize) -> Vec<CampaignUnit> {
        let mut rows: Vec<(usize, f64)> = self.missing_rows().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let needed = (self.total() / SHARD_S).ceil() as usize;
        let parts = spread(rows, min_parts.max(needed).max(1), |(_, cost)| *cost);
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
        // `min_by` takes the first of equal bins, so the same costs give the same shards.
        let emptiest = filled.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((sum, bin)) = emptiest {
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
    fn subjects_are_checked_like_sides_of_an_experiment() {
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
    fn invalid_campaigns_are_refused() {
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
        assert!(parse(&twice).unwrap_err().to_string().contains("is listed twice"));
        // The error of other commands names the command for this file.
        let error = ExperimentFile::parse(TEXT, "c.toml").unwrap_err().to_string();
        assert!(error.contains("ktax campaign plan c.toml"), "{error}");
    }

    fn costs() -> impl Strategy<Value = Vec<SubjectCosts>> {
        let rows = proptest::collection::vec(proptest::option::of(0.1_f64..90.0), 1..40);
        let one = (1.0_f64..30.0, rows).prop_map(|(boots, rows)| SubjectCosts { boots, rows });
        proptest::collection::vec(one, 1..30)
    }

    fn seconds(shard: &[CampaignUnit]) -> f64 {
        shard.iter().map(|unit| unit.seconds).sum()
    }

    proptest! {
        #[test]
        fn every_missing_row_is_in_exactly_one_shard(
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
                .flat_map(|(subject, costs)| {
                    costs.missing_rows().map(move |(row, _)| (subject, row))
                })
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
    fn subjects_are_divided_only_if_there_are_more_shards_than_subjects() {
        let one = SubjectCosts { boots: 10.0, rows: vec![Some(1.0); 30] };
        let units = |all: &[SubjectCosts], shards| -> Vec<usize> {
            divide(all, shards).iter().map(Vec::len).collect()
        };
        let six = vec![one.clone(); 6];
        // 240 s are one shard. With more shards than Subjects, each has a part of the rows.
        assert_eq!(units(&six, None), [6]);
        assert_eq!(units(&six, Some(3)), [2, 2, 2]);
        assert_eq!(units(&six, Some(12)), [1; 12]);
        // Hours of work are cut into shards of ten minutes.
        let long = SubjectCosts { boots: 10.0, rows: vec![Some(200.0); 30] };
        let shards = divide(&[long], None);
        assert!(shards.len() > 9, "{}", shards.len());
        assert!(shards.iter().all(|shard| seconds(shard) < 900.0));
        // Rows that are measured already are not divided.
        let none = SubjectCosts { boots: 10.0, rows: vec![None; 3] };
        assert!(divide(&[none], Some(4)).is_empty());
    }
}
