// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use ktax_host::text::shell_path;
use ktax_model::Blame;
use ktax_run::rundir::RunDirError;

/// Errors of an analysis. A failed Run is not one of them: it is a row.
#[derive(Debug, Error)]
pub enum AnalyseError {
    /// The directory cannot be read.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The plan was not carried out to its end.
    #[error(
        "{missing} of {planned} boots are not made yet; resume with `ktax run {}`",
        shell_path(.dir)
    )]
    BootsMissing { missing: usize, planned: usize, dir: String },
    /// A Boot was made, but not all Runs in it.
    #[error("{row} was not run yet in boot {boot}; resume with `ktax run {}`", shell_path(.dir))]
    RunMissing { row: String, boot: String, dir: String },
    /// The plan is not one that ktax makes.
    #[error("plan.json {reason}; plan again in a new directory")]
    Plan { reason: String },
    /// No pair was timed yet.
    #[error("{dir} has no pair yet; {next}")]
    NoPair { dir: String, next: String },
    /// The functions do not add up to the Sample.
    #[error(
        "the functions of {row} in boot {boot} add up to {functions} instructions, the sample says \
         {sample}; run `ktax doctor`, then measure again into a new directory"
    )]
    Sum { row: String, boot: String, functions: u64, sample: u64 },
    /// The counts have no estimate of a machine's time.
    #[error(
        "the counts have no estimates in percent, which need a machine with fitted rows; add \
         --machine FILE, as `ktax calibrate --counts … --times …` writes it"
    )]
    NoEstimate,
    /// No row is in both.
    #[error("no row was both estimated and timed; count and time the same rows")]
    NothingToValidate,
    /// The Contexts do not add up to the Sample's total.
    #[error(
        "the counts of {row} in boot {boot} add up to {sum}, and the total beside them is {total}: \
         the file was changed; measure again into a new directory"
    )]
    Total { row: String, boot: String, sum: u64, total: u64 },
}

impl From<AnalyseError> for ktax_model::Error {
    fn from(error: AnalyseError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl AnalyseError {
    /// The party that can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            AnalyseError::RunDir(error) => error.blame(),
            AnalyseError::Sum { .. } | AnalyseError::Total { .. } => Blame::Host,
            AnalyseError::BootsMissing { .. }
            | AnalyseError::RunMissing { .. }
            | AnalyseError::Plan { .. }
            | AnalyseError::NoPair { .. }
            | AnalyseError::NoEstimate
            | AnalyseError::NothingToValidate => Blame::User,
        }
    }
}

pub(super) type Result<T, E = AnalyseError> = std::result::Result<T, E>;
