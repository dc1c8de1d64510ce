use std::error::Error;
use std::io;
use std::process::ExitCode;

use crate::analyse::AnalyseError;
use crate::engine::host::error::SettingError;
use crate::engine::qemu::QemuError;
use crate::kernel::{BuildError, KernelError};
use crate::kvmhost::HostError;
use crate::model::{Comparison, Context, Effect, Verdict, metric};
use crate::plan::PlanError;
use crate::run::TimedError;
use crate::rundir::RunDirError;
use crate::vmm::VmmError;

/// What the exit status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// No slowdown detected.
    Ok = 0,
    /// ktax or its host failed.
    Internal = 1,
    /// The command line, the experiment or the plan is wrong.
    Usage = 2,
    /// A slowdown above the threshold.
    Slower = 3,
    /// Too few boots, or different work.
    Inconclusive = 4,
    /// A guest could not be run.
    NotRun = 69,
    /// Stopped by the user.
    Cancelled = 130,
}

impl Exit {
    /// What Comparisons say as a whole: the first of slowdown, failure, doubt.
    pub fn of_comparisons(comparisons: &[Comparison]) -> Exit {
        let rows = || comparisons.iter().flat_map(|comparison| &comparison.rows);
        // Fewer instructions do not make up for more REP iterations: neither is the other's unit.
        let slower = |effect: &Effect| {
            let in_process = metric(&effect.metric).is_some_and(|m| m.context == Context::Process);
            in_process && effect.verdict == Verdict::Slower
        };
        match rows().any(|row| row.effects.iter().any(slower)) {
            true => Exit::Slower,
            false => Exit::of_measuring(comparisons),
        }
    }

    /// The same where a slowdown is no news.
    pub fn of_measuring<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Exit {
        let rows = comparisons.into_iter().flat_map(|comparison| &comparison.rows);
        let verdicts: Vec<Verdict> = rows.map(|row| row.verdict).collect();
        let any = |verdict| verdicts.contains(&verdict);
        if any(Verdict::Failed) {
            Exit::NotRun
        } else if any(Verdict::TooFewBoots) || any(Verdict::DifferentWork) {
            Exit::Inconclusive
        } else {
            Exit::Ok
        }
    }

    /// What several say together: the first of slowdown, failure, doubt.
    pub fn of_all(exits: impl IntoIterator<Item = Exit>) -> Exit {
        let rank = |exit: &Exit| match exit {
            Exit::Slower => 3,
            Exit::NotRun => 2,
            Exit::Inconclusive => 1,
            _ => 0,
        };
        exits.into_iter().max_by_key(rank).unwrap_or(Exit::Ok)
    }

    /// What an error says.
    pub fn of_error(error: &anyhow::Error) -> Exit {
        let has_no_guest = error.chain().any(|cause| {
            let is_unbuilt = |error: &KernelError| {
                matches!(error, KernelError::Build(BuildError::Failed { .. }))
            };
            cause.is::<QemuError>()
                || cause.downcast_ref().is_some_and(is_unbuilt)
                || cause.downcast_ref().is_some_and(VmmError::is_without_kvm)
                || cause.downcast_ref().is_some_and(TimedError::is_without_guest)
                || cause.is::<HostError>()
        });
        let is_usage = error.chain().any(is_usage);
        if has_no_guest {
            Exit::NotRun
        } else if is_usage {
            Exit::Usage
        } else {
            Exit::Internal
        }
    }
}

fn is_usage(cause: &(dyn Error + 'static)) -> bool {
    // What is transparent is no link of the chain.
    let of_rundir = match cause.downcast_ref() {
        Some(TimedError::RunDir(error)) => Some(error),
        _ => cause.downcast_ref(),
    };
    cause.is::<PlanError>()
        || cause.downcast_ref().is_some_and(|error: &KernelError| !error.is_of_the_host())
        || cause.downcast_ref().is_some_and(|error: &BuildError| !error.is_of_the_host())
        || cause.downcast_ref().is_some_and(VmmError::is_usage)
        || cause.downcast_ref().is_some_and(SettingError::is_usage)
        || cause.is::<UsageError>()
        || matches!(cause.downcast_ref(), Some(TimedError::Order { .. }))
        || matches!(
            cause.downcast_ref(),
            Some(
                AnalyseError::BootsMissing { .. }
                    | AnalyseError::RunMissing { .. }
                    | AnalyseError::Plan { .. }
            )
        )
        || matches!(
            of_rundir,
            Some(
                RunDirError::Exists { .. }
                    | RunDirError::Create { .. }
                    | RunDirError::NoPlan { .. }
                    | RunDirError::InUse { .. }
                    | RunDirError::Format { .. }
            )
        )
}

impl Exit {
    /// What `git bisect run` is told: a commit that cannot be judged is skipped, and what is no
    /// commit's fault ends the search.
    pub fn for_bisect(self) -> ExitCode {
        const SKIP: u8 = 125;
        const ABORT: u8 = 128;
        match self {
            Exit::Ok | Exit::Slower => self.into(),
            Exit::NotRun | Exit::Inconclusive => ExitCode::from(SKIP),
            Exit::Internal | Exit::Usage => ExitCode::from(ABORT + self as u8),
            Exit::Cancelled => self.into(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A mistake on the command line that clap cannot see.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error("{0}")]
    Text(String),
    #[error("cannot read {path}: {reason}; give the path of {wanted}")]
    Unreadable { path: String, reason: io::Error, wanted: &'static str },
}
