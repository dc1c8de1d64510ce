//! What to compare: an experiment file, and flags that are its keys typed elsewhere.

mod shared;
mod timed;

use clap::Args;

use crate::flow::Error;
use crate::plan::{Experiment, ExperimentFile, Method, check_keys};

pub use shared::SharedArgs;
use timed::TimedArgs;

/// What to compare.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    timed: TimedArgs,
}

impl ExperimentArgs {
    /// The Experiment that the file and the flags make together.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let of_file = self.shared.file()?;
        let mut file = of_file.clone().unwrap_or_default();
        self.timed.apply(&mut file)?;
        if let Some(of_file) = of_file.filter(|it| Method::of(it) != Method::of(&file)) {
            return Err(refuse_engine(&of_file));
        }
        // A flag of another engine says more than a kernel that is missing because of it.
        check_keys(&file)?;
        self.shared.apply(&mut file)?;
        Ok(Experiment::of(&file)?)
    }
}

fn refuse_engine(of_file: &ExperimentFile) -> Error {
    let uses = match Method::of(of_file) {
        Method::Counts => "the exact engine",
        Method::Times => "a timed engine",
        Method::Guests => "guests of a KVM host",
    };
    Error::usage(format!(
        "--engine cannot change how the experiment file is measured: it uses {uses}; leave \
         --engine out"
    ))
}
