//! Experiments: what is compared, over which rows, and by which method.

use crate::bounds::{THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT};
use crate::counts::CountsExperiment;
use crate::disk::checked_disk;
use crate::error::{PlanError, printable_line};
use crate::file::{ExperimentFile, SubjectKeys};
use crate::guests::GuestsExperiment;
use crate::keys;
use crate::times::TimesExperiment;
use ktax_engine::Measures;
use ktax_host::text::short_hashes;
use ktax_model::{ByMethod, FORMAT, Method, Plan, Sides, Subject};

/// An experiment, checked: what is compared, over which rows, and with `M` how it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment<M = ExperimentMethod> {
    /// Title in one line.
    pub title: String,
    /// Random seed for the Layouts, or for the order of the pairs.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// Method of measuring.
    pub method: M,
}

impl<M> Experiment<M> {
    /// This experiment with another method.
    pub fn with<N>(&self, method: N) -> Experiment<N> {
        let Experiment { title, seed, threshold_percent, .. } = self;
        Experiment {
            title: title.clone(),
            seed: *seed,
            threshold_percent: *threshold_percent,
            method,
        }
    }

    /// The Plan of this experiment, with the method's part of it.
    pub(super) fn plan_of<P>(&self, method: P) -> Plan<P> {
        let Experiment { title, seed, threshold_percent, method } = self.with(method);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }
}

/// Method of measuring, with its settings.
pub type ExperimentMethod = ByMethod<CountsExperiment, TimesExperiment, GuestsExperiment>;

/// Subjects whose kernels may be built; none for timed kernels, which have no patches.
pub fn built_subjects(method: &ExperimentMethod) -> Vec<&Subject> {
    match method {
        ExperimentMethod::Counts(counts) => {
            let Sides { base, change } = &counts.asked.subjects;
            vec![base, change]
        }
        ExperimentMethod::Times(_) => Vec::new(),
        ExperimentMethod::Guests(experiment) => {
            let guests = experiment.subjects().filter_map(|subject| subject.kernel.as_ref());
            std::iter::once(&experiment.host_subject).chain(guests).collect()
        }
    }
}

/// Whether base and change are the same, so that only noise can differ.
fn has_same_sides(method: &ExperimentMethod) -> bool {
    match method {
        ExperimentMethod::Counts(counts) => {
            counts.asked.subjects.base == counts.asked.subjects.change
        }
        ExperimentMethod::Times(experiment) => experiment.base == experiment.change,
        ExperimentMethod::Guests(experiment) => {
            experiment.change.as_ref() == Some(&experiment.base)
        }
    }
}

impl Experiment {
    /// Checks the keys of a file or the command line.
    pub fn from_file(file: &ExperimentFile) -> Result<Experiment, PlanError> {
        let method = method_of(file);
        keys::check_keys_of_method(file, method)?;
        let default_percent = match method {
            Method::Times => TIMED_THRESHOLD_PERCENT,
            _ => THRESHOLD_PERCENT,
        };
        let threshold_percent = file.threshold_percent.unwrap_or(default_percent);
        if !(0.0..=100.0).contains(&threshold_percent) {
            return Err(PlanError::Threshold { threshold_percent });
        }
        // A time is never the same twice: a threshold of 0 would find something everywhere.
        if method == Method::Times && threshold_percent == 0.0 {
            return Err(PlanError::TimedThreshold { threshold_percent });
        }
        let method = match method {
            Method::Counts => ExperimentMethod::Counts(CountsExperiment::from_file(file)?),
            Method::Times => ExperimentMethod::Times(TimesExperiment::from_file(file)?),
            Method::Guests => ExperimentMethod::Guests(GuestsExperiment::from_file(file)?),
        };
        // If the title is made of the boot lines, they are checked before it.
        let title = file.title.clone().unwrap_or_default();
        printable_line("the title", &title)?;
        let seed = file.seed.unwrap_or(1);
        match has_same_sides(&method) && file.same != Some(true) {
            true => Err(PlanError::Same),
            false => Ok(Experiment { title, seed, threshold_percent, method }),
        }
    }

    /// Parses and checks an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Experiment, PlanError> {
        Experiment::from_file(&ExperimentFile::parse(text, path)?)
    }
}

/// The method of an experiment. No other code decides it.
pub fn method_of(file: &ExperimentFile) -> Method {
    match (file.host, file.engine.map(|engine| engine.measures)) {
        (Some(_), _) => Method::Guests,
        (None, Some(Measures::Times { .. })) => Method::Times,
        (None, Some(Measures::Counts { .. }) | None) => Method::Counts,
    }
}

/// Title of a comparison of two Subjects.
pub fn title_of(base: &Subject, change: &Subject) -> String {
    let one = |subject| joined_words(subject_words(subject));
    title_line(&one(base), &one(change))
}

/// Title of an experiment in one line: both Sides in words.
pub fn title(file: &ExperimentFile) -> String {
    let change = file.change.clone().unwrap_or_default();
    title_line(&side_words(&file.base), &side_words(&change))
}

/// A title must be ASCII, but a path need not be.
fn title_line(base: &str, change: &str) -> String {
    let title = format!("{base} against {change}");
    let ascii = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other.escape_default().to_string(),
    };
    title.chars().map(ascii).collect()
}

fn side_words(keys: &SubjectKeys) -> String {
    if keys.bare_metal {
        return "bare metal".to_owned();
    }
    let kernel = keys.kernel.as_deref().unwrap_or_default();
    let disk = keys.disk.as_ref().and_then(|keys| checked_disk(keys).ok().flatten());
    let mut words = subject_words(&Subject { disk, ..keys.subject_of(kernel) });
    words.extend(keys.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(keys.governor.iter().map(|governor| format!("governor={governor}")));
    if !keys.prefix.is_empty() {
        words.push(format!("prefix={}", keys.prefix.join(" ")));
    }
    joined_words(words)
}

/// Words for a Subject, without the configuration that its options are added to.
fn subject_words(subject: &Subject) -> Vec<String> {
    let alone = Subject { setup: None, start_config: None, ..subject.clone() };
    let setup =
        subject.setup.as_deref().map(|commands| format!("setup={}", first_characters(commands)));
    // The path of a kernel in the cache has its hash.
    [short_hashes(&subject.kernel), alone.beside_kernel()].into_iter().chain(setup).collect()
}

fn joined_words(mut words: Vec<String>) -> String {
    words.retain(|word| !word.is_empty());
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// The first characters of commands, for a title.
fn first_characters(commands: &str) -> String {
    const MOST: usize = 60;
    let start: String = commands.chars().take(MOST).collect();
    if start.len() < commands.len() { start + "..." } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_path_of_64_digits() {
        let kernel = |digit: &str| format!("/cache/kernels/{}/image", digit.repeat(64));
        let mut file = ExperimentFile::default();
        file.base.kernel = Some(kernel("a"));
        file.change_mut().kernel = Some(kernel("b"));
        assert_eq!(
            title(&file),
            "/cache/kernels/aaaaaaaaaaaa/image against /cache/kernels/bbbbbbbbbbbb/image"
        );
    }
}
