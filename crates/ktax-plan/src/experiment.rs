use super::asked;
use super::bounds::{THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT};
use super::counts::CountsExperiment;
use super::error::{PlanError, printable_line};
use super::file::ExperimentFile;
use super::guests::GuestsExperiment;
use super::keys;
use super::method::Method;
use super::times::TimesExperiment;
use ktax_model::Subject;

/// What an experiment file says, checked: what is compared, how, and over which rows.
pub type Experiment<M = ExperimentMethod> = asked::Experiment<M>;

/// How it is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum ExperimentMethod {
    /// Instructions, counted exactly.
    Counts(CountsExperiment),
    /// Times of pairs.
    Times(TimesExperiment),
    /// Exits of guests of a KVM host.
    Guests(GuestsExperiment),
}

impl ExperimentMethod {
    /// The Subjects whose kernels may be built. None for timed kernels, which have no patches.
    pub fn built_subjects(&self) -> Vec<&Subject> {
        match self {
            ExperimentMethod::Counts(of) => vec![&of.base, &of.change],
            ExperimentMethod::Times(_) => Vec::new(),
            ExperimentMethod::Guests(of) => {
                let guests = of.subjects().filter_map(|subject| subject.kernel.as_ref());
                std::iter::once(&of.host_subject).chain(guests).collect()
            }
        }
    }

    /// Whether base and change say the same, so that only noise can differ.
    fn has_same_sides(&self) -> bool {
        match self {
            ExperimentMethod::Counts(of) => of.base == of.change,
            ExperimentMethod::Times(of) => of.base == of.change,
            ExperimentMethod::Guests(of) => of.change.as_ref() == Some(&of.base),
        }
    }
}

impl Experiment {
    /// Checks what a file or the command line says.
    ///
    /// # Errors
    /// A key is missing, belongs to another method, or has a value that cannot be measured.
    pub fn of(file: &ExperimentFile) -> Result<Experiment, PlanError> {
        let method = Method::of(file);
        keys::check(file, method)?;
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
            Method::Counts => ExperimentMethod::Counts(CountsExperiment::of(file)?),
            Method::Times => ExperimentMethod::Times(TimesExperiment::of(file)?),
            Method::Guests => ExperimentMethod::Guests(GuestsExperiment::of(file)?),
        };
        // Without a title it is made of the boot lines, which are at fault before it is.
        let title = file.title.clone().unwrap_or_default();
        printable_line("the title", &title)?;
        if method.has_same_sides() && file.same != Some(true) {
            return Err(PlanError::Same);
        }
        Ok(Experiment { title, seed: file.seed.unwrap_or(1), threshold_percent, method })
    }

    /// Parses and checks an experiment file; `path` is for messages.
    ///
    /// # Errors
    /// As [`ExperimentFile::parse`] and [`Experiment::of`].
    pub fn parse(text: &str, path: &str) -> Result<Experiment, PlanError> {
        Experiment::of(&ExperimentFile::parse(text, path)?)
    }
}
