//! Tables of where a virtual machine's time goes: read from files, or recorded.

mod recording;

use std::io;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::results::{saved, unreadable};
use crate::disk::read_limited;
use crate::exits::files::{FILE_MAX, FileKind};
use crate::exits::{files, since};
use crate::model::ExitTable;
use crate::text::{counted, escape};

// Types of arguments.
pub use crate::exits::Per;
pub use crate::exits::live::{Level, RecorderChoice, Via};
pub use recording::{VmmToRecord, become_vmm, record, watch};

fn refused(message: String, next: impl Into<String>) -> Error {
    Error::user(message).next(next)
}

/// Puts the name of a file before an error of its content.
fn content_error(name: &str, error: &Error) -> Error {
    let (name, message) = (escape(name), escape(error.message()));
    refused(format!("{name}: {message}"), escape(error.next_step()))
}

/// Reads the tables that `FILE`, `DIR`, `FILE#NUMBER` or `DIR#NUMBER` names. `per` says how a trace
/// is added up, by default for the VM; only traces accept it.
pub fn tables(name: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let (path, number) = match name.rsplit_once('#') {
        Some((path, number)) if number.parse::<usize>().is_ok() => (path, number.parse().ok()),
        _ => (name, None),
    };
    let tables = match Path::new(path).is_dir() {
        true if per.is_some() => {
            let message =
                format!("{} is a run of guests, which has one table for each guest", escape(path));
            return Err(refused(message, "remove --per"));
        }
        true => tables_of_run(path)?,
        false => tables_of_file(path, per)?,
    };
    let there = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let chosen = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            let message = format!("{} has no table {number}", escape(path));
            Ok(vec![chosen.ok_or_else(|| refused(message, format!("give 1 to {there}")))?])
        }
    }
}

fn tables_of_run(path: &str) -> Result<Vec<ExitTable>, Error> {
    let results = saved(&[PathBuf::from(path)])?;
    files::result_tables(results).map_err(|error| content_error(path, &error))
}

fn tables_of_file(path: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let wanted = "a recording, a trace or a table of `perf kvm stat report` as text, a copy of \
                  debugfs' kvm/*/vcpu*/timing, or a run directory of guests";
    let bytes = read_limited(Path::new(path), FILE_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let message = format!("{} is larger than {} MiB", escape(path), FILE_MAX >> 20);
            refused(message, "record for a shorter time")
        }
        _ => unreadable(Path::new(path), wanted, error),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let tables = files::read(&text, per.unwrap_or(Per::Vm));
    let tables = tables.map_err(|error| content_error(path, &error))?;
    match per.is_some() && files::kind(&text) != Some(FileKind::Trace) {
        true => Err(refused(
            format!("{} is no trace, so its tables are made already", escape(path)),
            "remove --per, and give --per to `ktax exits record`",
        )),
        false => Ok(tables),
    }
}

pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, None)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        there => {
            let name = escape(name);
            let message = format!("{name} has {}", counted(there, "table"));
            Err(refused(message, format!("name one of them, such as {name}#1")))
        }
    }
}

/// Difference between two reads of the same file.
pub fn tables_since(name: &str, earlier: &str, per: Option<Per>) -> Result<Vec<ExitTable>, Error> {
    let (later, before) = (tables(name, per)?, tables(earlier, per)?);
    let (name, earlier) = (escape(name), escape(earlier));
    if before.len() != later.len() {
        let example = if later.len() > 1 { &name } else { &earlier };
        let numbers = (counted(before.len(), "table"), later.len());
        let message = format!("{earlier} has {}, and {name} has {}", numbers.0, numbers.1);
        return Err(refused(message, format!("name one of each, such as {example}#1")));
    }
    let both = before.iter().zip(&later).map(|(earlier, later)| since(earlier, later));
    let both = both.collect::<Result<Vec<_>, _>>();
    both.map_err(|error| content_error(&format!("{name} since {earlier}"), &error))
}
