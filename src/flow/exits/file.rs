use std::io;
use std::path::{Path, PathBuf};

use super::error::ExitFileError;
use crate::disk::read_limited;
use crate::exits::files::{self, FILE_MAX};
use crate::exits::{Per, since};
use crate::flow::error::Error;
use crate::flow::file::unreadable;
use crate::flow::saved::saved;
use crate::model::ExitTable;

/// The tables that `FILE`, `DIR` or either with `#NUMBER` names.
///
/// # Errors
/// The file cannot be read, or has no such table.
pub fn tables(name: &str, per: Per) -> Result<Vec<ExitTable>, Error> {
    let (path, number) = match name.rsplit_once('#') {
        Some((path, number)) if number.parse::<usize>().is_ok() => (path, number.parse().ok()),
        _ => (name, None),
    };
    let owned = || path.to_owned();
    let tables = if Path::new(path).is_dir() { directory(path)? } else { file(path, per)? };
    let there = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let one = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            Ok(vec![one.ok_or_else(|| ExitFileError::NoTable { path: owned(), number, there })?])
        }
    }
}

/// Of a run of guests, the tables of its rows.
fn directory(path: &str) -> Result<Vec<ExitTable>, Error> {
    let results = saved(&[PathBuf::from(path)])?;
    let content = |error| ExitFileError::Content { path: path.to_owned(), error };
    Ok(files::of_results(results).map_err(content)?)
}

fn file(path: &str, per: Per) -> Result<Vec<ExitTable>, Error> {
    let owned = || path.to_owned();
    let wanted = "a recording, a trace as text, a copy of debugfs' kvm/*/vcpu*/timing, or a run \
                  directory of guests";
    let bytes = read_limited(Path::new(path), FILE_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            ExitFileError::TooLarge { path: owned(), most_mib: FILE_MAX >> 20 }.into()
        }
        _ => unreadable(Path::new(path), wanted, error),
    })?;
    let tables = files::read(&String::from_utf8_lossy(&bytes), per);
    Ok(tables.map_err(|error| ExitFileError::Content { path: owned(), error })?)
}

/// The only table that a name names.
///
/// # Errors
/// There is none, or there are several.
pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, Per::Vm)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        there => Err(ExitFileError::Several { name: name.to_owned(), there }.into()),
    }
}

/// What was added to the tables of a file since it was read earlier.
///
/// # Errors
/// The two are not reads of the same file.
pub fn tables_since(name: &str, earlier: &str, per: Per) -> Result<Vec<ExitTable>, Error> {
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
