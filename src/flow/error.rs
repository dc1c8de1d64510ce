//! The errors of all commands.

use std::fmt::Display;
use std::io;
use std::path::Path;

use thiserror::Error;

use super::bisect::BisectError;
use super::campaign::CampaignError;
use super::cycles::{CalibrateError, EstimateError};
use super::exits::{ExitFileError, RecordError};
use super::running_kernel::StatError;
use super::stored::StoredError;
use super::times::{BlockError, CpuError};
use super::touching::TouchingError;
use crate::analyse::AnalyseError;
use crate::compile::CompileError;
use crate::engine::OpenError;
use crate::engine::host::settings::SettingError;
use crate::engine::kvm::DeviceError;
use crate::engine::qemu::QemuError;
use crate::exits::live::LiveError;
use crate::index::IndexError;
use crate::kvmhost::{HostError, InitError};
use crate::model::{Blame, Failure, Identity, Key, SavedError};
use crate::plan::PlanError;
use crate::program::ProgramError;
use crate::report::{PageError, ReportError};
use crate::run::TimesError;
use crate::rundir::RunDirError;
use crate::store::StoreError;
use crate::text::{escape, shell_path};
use crate::vmm::VmmError;

/// Reasons why a command failed. The message says what failed, why, and what to do next.
#[derive(Debug, Error)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum Error {
    /// The user stopped the command; finished work is kept.
    #[error("stopped")]
    Cancelled,
    /// Mistake on a command line, found in `src/cmd/`. Mistakes that are found here have variants
    /// of their own.
    #[error("{0}")]
    Usage(String),
    /// A file that the user named cannot be read.
    #[error("cannot read {}: {reason}; give the path of {wanted}", escape(.path))]
    Unreadable { path: String, reason: io::Error, wanted: &'static str },
    #[error(
        "cannot write {}: {reason}; give the path of a file in a directory that you may write",
        escape(.path)
    )]
    Unwritable { path: String, reason: io::Error },
    #[error("--newer-qemu {path} has other files, or is one; name a new directory")]
    NotEmpty { path: String },
    #[error(
        "no experiment or ledger is called {name:?}{}; `ktax experiments` lists them",
        .near.as_ref().map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
    )]
    NotBuiltIn { name: String, near: Option<String> },
    #[error(
        "{} has exit tables that ktax did not write; print it with `ktax exits report {}`",
        escape(.path),
        escape(&shell_path(.path))
    )]
    ExitText { path: String },
    #[error("cannot read {path}: {}; {}", escape(&.error.to_string()), .error.next_step())]
    NoResult { path: String, error: SavedError },
    #[error(
        "cannot read {}: {error}; make the page again with `ktax report --html FILE DIR`",
        escape(.path)
    )]
    NoPage { path: String, error: PageError },
    #[error("{path} has no comparison yet; {next}")]
    NoComparison { path: String, next: String },
    #[error(
        "--explain only applies to comparisons; of a ledger or a search, give the directory of one \
         of its runs, as DIR/NAME"
    )]
    NothingToExplain,
    #[error(
        "{} has no call paths of that row; give the directory of a run of the exact engine in \
         which the row was measured, and no row that boots",
        escape(.path)
    )]
    NoPaths { path: String },
    #[error(
        "there is no row {row:?}{}; the report's table has all rows' names",
        did_you_mean(.near)
    )]
    NoRow { row: String, near: Option<String> },
    #[error(
        "with {} the host's files exceed {most_mib} MiB; give fewer or smaller files",
        escape(.path)
    )]
    FilesTooLarge { path: String, most_mib: u64 },
    #[error("{option} only applies to timed runs, and this run uses {uses}; remove it")]
    OnlyForTimes { option: &'static str, uses: &'static str },
    #[error(
        "no addition could be built, for the reasons above; correct the kernel, `config` or \
         `patches` in the ledger file, then run `ktax ledger FILE` again"
    )]
    NothingBuilt,
    #[error(
        "TMPDIR is {}, which is not the absolute path of a directory; set it to one",
        escape(.path)
    )]
    TemporaryDirectory { path: String },
    #[error(
        "neither HOME nor XDG_CACHE_HOME says where the cache is; set HOME or give --cache DIR"
    )]
    NoCache,
    /// The host fails to do what ktax needs.
    #[error("{0}")]
    Host(String),
    /// A Boot or a Run failed on which everything else depends.
    #[error("{0}; {next}", next = .0.next_step())]
    Failed(Failure),
    /// Error of a crate whose errors have the one shape.
    #[error(transparent)]
    Shaped(#[from] crate::model::Error),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error(transparent)]
    StalePlan(#[from] StalePlanError),
    #[error(transparent)]
    Bisect(#[from] BisectError),
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error(transparent)]
    Cpu(#[from] CpuError),
    #[error(transparent)]
    Touching(#[from] TouchingError),
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Kvm(#[from] DeviceError),
    #[error(transparent)]
    KvmHost(HostError),
    #[error(transparent)]
    KvmHostInit(#[from] InitError),
    #[error(transparent)]
    Vmm(#[from] VmmError),
    #[error(transparent)]
    Stat(#[from] StatError),
    #[error(transparent)]
    ExitFile(#[from] ExitFileError),
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The message has names of other users' processes.
    #[error("{}", escape(&.0.to_string()))]
    Live(#[from] LiveError),
    #[error(transparent)]
    System(#[from] rustix::io::Errno),
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stored(#[from] StoredError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Times(#[from] TimesError),
    #[error(transparent)]
    Analyse(#[from] AnalyseError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error(transparent)]
    Estimate(#[from] EstimateError),
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        match error {
            OpenError::Qemu(error) => Error::Qemu(error),
            OpenError::Setting(error) => Error::Setting(error),
            OpenError::Kvm(error) => Error::Kvm(error),
            OpenError::Failed(failure) => Error::Failed(failure),
            OpenError::Cancelled => Error::Cancelled,
        }
    }
}

impl From<HostError> for Error {
    /// Maps a host that the user stopped to `Cancelled`, so that it is nobody's fault.
    fn from(error: HostError) -> Error {
        match error {
            HostError::Cancelled => Error::Cancelled,
            error => Error::KvmHost(error),
        }
    }
}

impl Error {
    /// Error for a mistake on the command line.
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    /// Error for a fault of the host that has no variant.
    pub fn host(text: impl Into<String>) -> Error {
        Error::Host(text.into())
    }

    /// Who can fix the error; `None` if the user stopped the command.
    pub fn blame(&self) -> Option<Blame> {
        Some(match self {
            Error::Cancelled => return None,
            Error::Shaped(error) if error.is_cancelled() => return None,
            Error::Shaped(error) => error.blame,
            Error::Usage(_) | Error::Unreadable { .. } | Error::Unwritable { .. } => Blame::User,
            Error::NotBuiltIn { .. } | Error::NothingToExplain => Blame::User,
            Error::NoPage { .. }
            | Error::NotEmpty { .. }
            | Error::NoResult { .. }
            | Error::ExitText { .. }
            | Error::NoComparison { .. }
            | Error::NoPaths { .. }
            | Error::NoRow { .. } => Blame::User,
            Error::FilesTooLarge { .. } | Error::OnlyForTimes { .. } => Blame::User,
            Error::NothingBuilt | Error::NoCache => Blame::User,
            Error::TemporaryDirectory { .. } => Blame::User,
            Error::Plan(error) => error.blame(),
            Error::Program(error) => error.blame(),
            Error::Compile(error) => error.blame(),
            Error::StalePlan(error) => error.blame(),
            Error::Bisect(error) => error.blame(),
            Error::Campaign(error) => error.blame(),
            Error::Block(error) => error.blame(),
            Error::Cpu(error) => error.blame(),
            Error::Qemu(error) => error.blame(),
            Error::Setting(error) => error.blame(),
            Error::Kvm(_) => Blame::Guest,
            Error::KvmHost(error) => error.blame(),
            Error::KvmHostInit(error) => error.blame(),
            Error::Vmm(error) => error.blame(),
            Error::Stat(error) => error.blame(),
            Error::ExitFile(error) => error.blame(),
            Error::Record(error) => error.blame(),
            Error::Live(error) => error.blame(),
            Error::System(_) => Blame::Host,
            Error::RunDir(error) => error.blame(),
            Error::Store(error) | Error::Index(IndexError::Store(error)) => error.blame(),
            Error::Touching(_) => Blame::User,
            Error::Stored(_) | Error::Estimate(_) | Error::Calibrate(_) => Blame::User,
            Error::Index(IndexError::Sqlite { .. }) => Blame::Host,
            Error::Times(error) => error.blame(),
            Error::Analyse(error) => error.blame(),
            Error::Host(_) | Error::Failed(_) => Blame::Host,
            Error::Report(_) | Error::Io(_) | Error::Json(_) => Blame::Host,
        })
    }

    /// Whether the user stopped the command.
    pub fn is_cancelled(&self) -> bool {
        self.blame().is_none()
    }
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

/// Turns errors of the host into [`Error::Host`].
pub trait OrHost<T> {
    /// Error with the message `what: error; next`.
    fn context(self, what: impl Display, next: &str) -> Result<T, Error>;
}

impl<T, E: Display> OrHost<T> for Result<T, E> {
    fn context(self, what: impl Display, next: &str) -> Result<T, Error> {
        self.map_err(|error| Error::Host(format!("{what}: {error}; {next}")))
    }
}

/// Reasons why a Plan no longer fits this machine or its files.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum StalePlanError {
    #[error("no engine for {measures} is called {name:?}; plan again in a new directory")]
    NoEngine { measures: &'static str, name: String },
    /// QEMU or ktax is not that of the Plan, and exact counts belong to one build of each.
    #[error(
        "{path} was planned for QEMU {planned} and the ktax of that time, and this is QEMU \
         {found}: counts would not compare; plan again in a new directory"
    )]
    OtherKey { path: String, planned: String, found: String },
    #[error(
        "{kernel} is another kernel than when the plan was made; plan again in a \
         new directory"
    )]
    OtherKernel { kernel: String },
    #[error(
        "the program's files are not those of the plan any more; plan again in a new directory"
    )]
    OtherPrograms,
    #[error(
        "the workloads' C files are not those of the plan any more; plan again in a new directory"
    )]
    OtherWorkloads,
    #[error("plan.json has no kernel {name:?}; plan again in a new directory")]
    NoKernel { name: String },
    #[error("plan.json has a guest without a kernel; plan again in a new directory")]
    NoGuestKernel,
    #[error("{path} has another plan; give --out a new name")]
    OtherPlan { path: String },
}

impl StalePlanError {
    /// Who can fix the error.
    pub fn blame(&self) -> Blame {
        Blame::User
    }

    pub(super) fn no_engine(measures: &'static str, name: &str) -> StalePlanError {
        StalePlanError::NoEngine { measures, name: name.to_owned() }
    }

    pub(super) fn other_key(dir: &Path, planned: &Key, found: &Key) -> StalePlanError {
        let [planned, found] = [planned, found].map(|key| key.qemu.clone());
        StalePlanError::OtherKey { path: dir.display().to_string(), planned, found }
    }

    pub(super) fn other_kernel(planned: &Identity) -> StalePlanError {
        StalePlanError::OtherKernel { kernel: planned.source.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_the_user_stopped_is_no_error() {
        let stopped = Error::from(HostError::Cancelled);
        assert!(stopped.is_cancelled() && stopped.blame().is_none());
        let failed = Error::from(HostError::Unusable { reason: "no KVM".into() });
        assert_eq!(failed.blame(), Some(Blame::Guest));
    }

    #[test]
    fn names_from_a_plan_are_quoted_and_escaped() {
        let name = "\"warp\\u{1b}\\n\"";
        let message = StalePlanError::no_engine("times", "warp\x1b\n").to_string();
        assert_eq!(
            message,
            format!("no engine for times is called {name}; plan again in a new directory")
        );
        let message = StalePlanError::NoKernel { name: "warp\x1b\n".into() }.to_string();
        assert_eq!(
            message,
            format!("plan.json has no kernel {name}; plan again in a new directory")
        );
    }
}
