// The messages say what the fields are.
#![allow(missing_docs)]

use std::io;

use thiserror::Error;

use crate::exits::SinceError;
use crate::exits::files::ExitsError;
use crate::model::Blame;
use crate::text::{counted, escape};

/// Why a file that the user named gives no table.
#[derive(Debug, Error)]
pub enum ExitFileError {
    #[error("{} is larger than {most_mib} MiB; record for a shorter time", escape(.path))]
    TooLarge { path: String, most_mib: u64 },
    #[error("{}: {}", escape(.path), escape(&.error.to_string()))]
    Content { path: String, error: ExitsError },
    #[error(
        "{} is no trace, so its tables are made already; remove --per, and give --per to \
         `ktax exits record`",
        escape(.path)
    )]
    PerOfFile { path: String },
    #[error(
        "{} is a run of guests, which has one table for each guest; remove --per",
        escape(.path)
    )]
    PerOfRun { path: String },
    #[error("{} has no table {number}; give 1 to {there}", escape(.path))]
    NoTable { path: String, number: usize, there: usize },
    #[error(
        "{name} has {}; name one of them, such as {name}#1",
        counted(*.there, "table"),
        name = escape(.name)
    )]
    Several { name: String, there: usize },
    #[error(
        "{} has {}, and {} has {later}; name one of each, such as {}#1",
        escape(.since),
        counted(*.earlier, "table"),
        escape(.name),
        escape(if *.later > 1 { .name } else { .since })
    )]
    Unequal { name: String, since: String, earlier: usize, later: usize },
    #[error("{} since {}: {}", escape(.name), escape(.since), escape(&.error.to_string()))]
    Since { name: String, since: String, error: SinceError },
}

impl ExitFileError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            ExitFileError::Content { error, .. } => error.blame(),
            ExitFileError::Since { error, .. } => error.blame(),
            ExitFileError::TooLarge { .. } | ExitFileError::NoTable { .. } => Blame::User,
            ExitFileError::Several { .. } | ExitFileError::Unequal { .. } => Blame::User,
            ExitFileError::PerOfFile { .. } | ExitFileError::PerOfRun { .. } => Blame::User,
        }
    }
}

/// Why a VMM that ktax starts is not recorded.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("cannot start {}: {reason}; try again", escape(.program))]
    Start { program: String, reason: io::Error },
    #[error("cannot start {}: {reason}; name an existing program", escape(.program))]
    NoProgram { program: String, reason: io::Error },
    #[error(
        "{} ended but never stopped itself; remove --from-stop, or let the program raise SIGSTOP \
         where the recording should begin",
        escape(.program)
    )]
    NeverStopped { program: String },
    #[error("{} was killed before ktax could start it; try again", escape(.program))]
    Killed { program: String },
    #[error(
        "the command failed ({status}), and its own process ran no guest; if it starts the VMM, \
         let it `exec` the VMM, or give the VMM's PID with --pid"
    )]
    NoGuest { status: String },
}

impl RecordError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            RecordError::NoProgram { .. } => Blame::User,
            RecordError::Start { .. } | RecordError::NeverStopped { .. } => Blame::Host,
            RecordError::Killed { .. } | RecordError::NoGuest { .. } => Blame::Host,
        }
    }
}
