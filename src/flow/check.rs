use super::error::Error;
use super::options::Options;
use super::times;
use crate::plan::{Experiment, ExperimentMethod};

/// Refuses what [`super::run`] would refuse, before anything is fetched or made.
///
/// # Errors
/// An option does not apply, or one command cannot run such an Experiment.
pub fn check(experiment: &Experiment, options: Options) -> Result<(), Error> {
    match &experiment.method {
        ExperimentMethod::Counts(_) => options.only_for_times("the exact engine"),
        ExperimentMethod::Times(of) => times::check(&experiment.with(of.clone())),
        ExperimentMethod::Guests(_) => options.only_for_times("guests of a KVM host"),
    }
}
