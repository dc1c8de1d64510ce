//! What to compare: an experiment file, and flags that are its keys typed elsewhere.

mod program;
mod rows;
mod seed;
mod shared;
mod sides;
mod timed;

use clap::Args;

use crate::flow::Error;
use crate::plan::{Experiment, ExperimentFile, Method, check_keys};

use program::ProgramArgs;
pub use rows::RowArgs;
pub use seed::drawn;
use shared::SharedArgs;
use timed::TimedArgs;

#[cfg(test)]
mod again_tests;

/// What to compare.
#[derive(Debug, Args)]
pub struct ExperimentArgs {
    #[command(flatten)]
    counted: CountedArgs,
    #[command(flatten)]
    timed: TimedArgs,
}

/// What to compare by counts.
#[derive(Debug, Args)]
pub struct CountedArgs {
    #[command(flatten)]
    shared: SharedArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

impl CountedArgs {
    /// The Experiment that the file and the flags make together.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let mut file = self.shared.file()?.unwrap_or_default();
        check_keys(&file)?;
        self.program.apply(&mut file)?;
        self.shared.apply_sides(&mut file)?;
        self.shared.apply(&mut file)?;
        Experiment::of(&file).map_err(|error| self.shared.explain(error))
    }
}

impl ExperimentArgs {
    /// The Experiment that the file and the flags make together.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        let CountedArgs { shared, program } = &self.counted;
        let of_file = shared.file()?;
        let mut file = of_file.clone().unwrap_or_default();
        self.timed.apply(&mut file)?;
        program.apply(&mut file)?;
        shared.apply_sides(&mut file)?;
        if let Some(of_file) = of_file.filter(|it| Method::of(it) != Method::of(&file)) {
            return Err(refuse_engine(&of_file));
        }
        // A flag of another engine says more than a kernel that is missing because of it.
        check_keys(&file)?;
        shared.apply(&mut file)?;
        // Counts have the same layouts, and so the same digits, for everybody.
        if Method::of(&file) == Method::Times {
            file.seed.get_or_insert_with(drawn);
        }
        Experiment::of(&file).map_err(|error| shared.explain(error))
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        experiment: ExperimentArgs,
    }

    fn seed(words: &str) -> u64 {
        let words = ["ktax"].into_iter().chain(words.split(' '));
        Typed::try_parse_from(words).unwrap().experiment.experiment().unwrap().seed
    }

    #[test]
    fn the_order_of_times_is_drawn_and_the_layouts_of_counts_are_not() {
        let times = "--engine host -w getppid --change-set prefix=env";
        let drawn = seed(times);
        assert_ne!(drawn, seed(times)); // once in 2^32 runs they are the same
        assert!(drawn < 1 << 32);
        assert_eq!(seed(&format!("{times} --seed 7")), 7);
        let counts = "--kernel debian:cloud-amd64 -w getppid --change-boot-line pti=on";
        assert_eq!((seed(counts), seed(counts)), (1, 1));
    }
}
