use super::counts::CountsExperiment;
use super::error::PlanError;
use super::experiment::{Experiment, ExperimentMethod};
use super::file::{ExperimentFile, SubjectKeys};

/// A campaign file: many Subjects over the same rows, and timed experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// One line for people.
    pub title: String,
    /// Each Subject, on both Sides.
    pub subjects: Vec<Experiment<CountsExperiment>>,
    /// Timed experiments, by the names or paths of their files.
    pub timed: Vec<String>,
}

impl Campaign {
    /// Parses a campaign file, whose keys flags may change; `path` is for messages.
    ///
    /// # Errors
    /// It is not TOML, or has neither subjects nor timed experiments.
    pub fn read(text: &str, path: &str) -> Result<ExperimentFile, PlanError> {
        let refuse = |reason: String| PlanError::Campaign { path: path.to_owned(), reason };
        let file = ExperimentFile::read(text).map_err(refuse)?;
        match file.is_campaign() {
            true => Ok(file),
            false => Err(refuse("it has neither subjects nor timed experiments".into())),
        }
    }

    /// Checks the keys of a campaign; `path` is for messages.
    ///
    /// # Errors
    /// It has keys of another method, or a Subject that cannot be measured or is there twice.
    pub fn of(file: &ExperimentFile, path: &str) -> Result<Campaign, PlanError> {
        let refuse =
            |reason: &str| PlanError::Campaign { path: path.into(), reason: reason.into() };
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
        let first = |at: usize| file.subjects[..at].contains(&file.subjects[at]);
        if (0..file.subjects.len()).any(first) {
            return Err(refuse("a subject is there twice"));
        }
        let subjects = file.subjects.iter().map(|keys| subject(file, keys));
        let title = file.title.clone().unwrap_or_default();
        let subjects: Vec<Experiment<_>> = subjects.collect::<Result<_, PlanError>>()?;
        let has_more = |method: &CountsExperiment| {
            !method.programs.is_empty() || method.disk.is_some() || method.base.has_settings()
        };
        if subjects.iter().any(|subject| has_more(&subject.method)) {
            return Err(refuse(no_more));
        }
        Ok(Campaign { title, subjects, timed: file.timed.clone() })
    }
}

fn subject(
    file: &ExperimentFile,
    keys: &SubjectKeys,
) -> Result<Experiment<CountsExperiment>, PlanError> {
    let experiment = Experiment::of(&ExperimentFile {
        same: Some(true),
        base: keys.clone(),
        change: Some(keys.clone()),
        subjects: Vec::new(),
        timed: Vec::new(),
        ..file.clone()
    })?;
    match &experiment.method {
        ExperimentMethod::Counts(counts) => Ok(experiment.with(counts.clone())),
        _ => Err(PlanError::Misplaced {
            key: "subjects".into(),
            applies_to: "the exact engine".into(),
            uses: "another one; list timed experiments in `timed`".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "t"
        layouts = 3
        workloads = ["getppid"]
        subjects = [{ kernel = "debian:cloud-amd64" }, { kernel = "k", boot_line = "quiet" }]
    "#;

    fn parse(text: &str) -> Result<Campaign, PlanError> {
        Campaign::of(&Campaign::read(text, "c.toml")?, "c.toml")
    }

    #[test]
    fn each_subject_is_checked_as_those_of_an_experiment() {
        let all = parse(TEXT).unwrap().subjects;
        let lines: Vec<&str> = all.iter().map(|it| it.method.change.boot_line.as_str()).collect();
        assert_eq!(lines, ["", "quiet"]);
        assert!(all.iter().all(|it| it.method.layouts == 3 && it.method.base == it.method.change));
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
        // The other commands say whose file it is.
        let error = ExperimentFile::parse(TEXT, "c.toml").unwrap_err().to_string();
        assert!(error.contains("ktax campaign plan c.toml"), "{error}");
    }
}
