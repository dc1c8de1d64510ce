use thiserror::Error;

/// Why nothing was calibrated. The message ends with the next step.
#[derive(Debug, Error)]
pub enum CalibrateError {
    /// The file has another result.
    #[error("{path} has {wanted} in no result; {next}")]
    Other {
        /// The file or directory.
        path: String,
        /// What was looked for.
        wanted: &'static str,
        /// How to make one.
        next: &'static str,
    },
    /// Times of one kernel say nothing of another one.
    #[error(
        "the rows were counted with Linux {counted} and timed with {timed}; count the kernel that \
         this machine runs (--kernel /boot/vmlinuz-{timed}), or add --other-kernel: the estimates \
         are then wider"
    )]
    OtherKernel {
        /// The release of the counts.
        counted: String,
        /// The release of the times.
        timed: String,
    },
    /// Times of one machine say nothing of another one.
    #[error(
        "the rows were timed on {timed:?} and this is {here:?}; time them here, with this ktax"
    )]
    OtherMachine {
        /// The CPU of the times; empty of an older ktax.
        timed: String,
        /// This one.
        here: String,
    },
    /// The rows do not say what anything takes.
    #[error("the rows cannot be fitted, and nothing was written: {why}")]
    NotFitted {
        /// Why, and what to do about it.
        why: String,
    },
    /// No model has such a name.
    #[error("{path} cannot be a machine's file: {reason}; write --out machine.toml")]
    Name {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A model that is no machine.
    #[error("{name} models no machine; write --model skylake, zen3 or a file")]
    NoMachine {
        /// Its name.
        name: String,
    },
    /// It cannot be written.
    #[error("the machine has no form that a file can have: {0}; report this")]
    Toml(#[from] toml::ser::Error),
}

/// Why there is no estimate. The message ends with the next step.
#[derive(Debug, Error)]
pub enum EstimateError {
    /// The machine was never calibrated.
    #[error("{file} has no [calibration]; write one with `ktax calibrate` on the machine")]
    NotCalibrated {
        /// The file.
        file: String,
    },
    /// Its constants are for another model's counters.
    #[error(
        "{file} was fitted to the counters of its own model, which these counts do not have; \
         count again with --model {file}"
    )]
    OtherModel {
        /// The file.
        file: String,
    },
    /// Only costly instructions are known.
    #[error(
        "{file} has no fitted rows, so that nothing in percent can be estimated; add them with \
         `ktax calibrate --counts DIR --times FILE`"
    )]
    NotFitted {
        /// The file.
        file: String,
    },
    /// Counts, or times, are not there.
    #[error(
        "validate joins a comparison of the exact engine with one of a timed engine, in this \
         order; name a directory of each"
    )]
    NotBoth,
    /// There is nothing that was counted.
    #[error("--machine only applies to comparisons of the exact engine; name one, or remove it")]
    NotCounted,
}
