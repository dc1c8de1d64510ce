//! Tables of where a virtual machine's time goes: read from files, or recorded.

mod recording;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::error::Error;
use super::results::{saved, unreadable};
use crate::disk::read_limited;
use crate::exits::files::{ExitsError, FILE_MAX, FileKind};
use crate::exits::{SinceError, files, since};
use crate::model::{Blame, ExitTable};
use crate::text::{counted, escape};

// Types of arguments.
pub use crate::exits::Per;
pub use crate::exits::live::{Level, RecorderChoice, Via};
pub use recording::{VmmToRecord, become_vmm, record, watch};

/// Reasons why a file gives no table.
#[derive(Debug, Error)]
// The messages say what the fields are.
#[allow(missing_docs)]
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
    /// Who can fix the error.
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

/// Reasons why a VMM that ktax starts cannot be recorded.
#[derive(Debug, Error)]
// The messages say what the fields are.
#[allow(missing_docs)]
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
    /// Who can fix the error.
    pub fn blame(&self) -> Blame {
        match self {
            RecordError::NoProgram { .. } => Blame::User,
            RecordError::Start { .. } | RecordError::NeverStopped { .. } => Blame::Host,
            RecordError::Killed { .. } | RecordError::NoGuest { .. } => Blame::Host,
        }
    }
}

/// Reads the tables that `FILE`, `DIR`, `FILE#NUMBER` or `DIR#NUMBER` names. `per` says how a trace
/// is added up, by default for the VM; only traces accept it.
pub fn tables(name: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let (path, number) = match name.rsplit_once('#') {
        Some((path, number)) if number.parse::<usize>().is_ok() => (path, number.parse().ok()),
        _ => (name, None),
    };
    let owned = || path.to_owned();
    let tables = match Path::new(path).is_dir() {
        true if per.is_some() => return Err(ExitFileError::PerOfRun { path: owned() }.into()),
        true => tables_of_run(path)?,
        false => tables_of_file(path, per)?,
    };
    let there = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let one = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            Ok(vec![one.ok_or_else(|| ExitFileError::NoTable { path: owned(), number, there })?])
        }
    }
}

/// Tables of the rows of a run of guests.
fn tables_of_run(path: &str) -> Result<Vec<ExitTable>, Error> {
    let results = saved(&[PathBuf::from(path)])?;
    let content = |error| ExitFileError::Content { path: path.to_owned(), error };
    Ok(files::result_tables(results).map_err(content)?)
}

fn tables_of_file(path: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let owned = || path.to_owned();
    let wanted = "a recording, a trace or a table of `perf kvm stat report` as text, a copy of \
                  debugfs' kvm/*/vcpu*/timing, or a run directory of guests";
    let bytes = read_limited(Path::new(path), FILE_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            ExitFileError::TooLarge { path: owned(), most_mib: FILE_MAX >> 20 }.into()
        }
        _ => unreadable(Path::new(path), wanted, error),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let tables = files::read(&text, per.unwrap_or(Per::Vm));
    let tables = tables.map_err(|error| ExitFileError::Content { path: owned(), error })?;
    match per.is_some() && files::kind(&text) != Some(FileKind::Trace) {
        true => Err(ExitFileError::PerOfFile { path: owned() }.into()),
        false => Ok(tables),
    }
}

/// Reads the table of a name that has exactly one.
pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, None)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        there => Err(ExitFileError::Several { name: name.to_owned(), there }.into()),
    }
}

/// Difference between two reads of the same file.
pub fn tables_since(name: &str, earlier: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let names = || (name.to_owned(), earlier.to_owned());
    let (later, before) = (tables(name, per)?, tables(earlier, per)?);
    if before.len() != later.len() {
        let ((name, since), (earlier, later)) = (names(), (before.len(), later.len()));
        return Err(ExitFileError::Unequal { name, since, earlier, later }.into());
    }
    let both = before.iter().zip(&later).map(|(earlier, later)| since(earlier, later));
    Ok(both.collect::<Result<Vec<_>, _>>().map_err(|error| {
        let (name, since) = names();
        ExitFileError::Since { name, since, error }
    })?)
}
