use std::io;
use std::path::Path;

use crate::disk::read_limited;
use crate::exits::Per;
use crate::exits::files::{self, FILE_MAX};
use crate::flow::Error;
use crate::model::ExitTable;

/// The tables that `FILE` or `FILE#NUMBER` names.
pub fn tables(name: &str, per: Per) -> Result<Vec<ExitTable>, Error> {
    let (path, number) = match name.rsplit_once('#') {
        Some((path, number)) if number.parse::<usize>().is_ok() => (path, number.parse().ok()),
        _ => (name, None),
    };
    let wanted = "a recording, a trace as text, or a copy of debugfs' kvm/*/vcpu*/timing";
    let unreadable = |reason| Error::Unreadable { path: path.to_owned(), reason, wanted };
    let bytes = read_limited(Path::new(path), FILE_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let most = FILE_MAX >> 20;
            Error::Usage(format!("{path} is larger than {most} MiB; record for a shorter time"))
        }
        _ => unreadable(error),
    })?;
    let tables = files::read(&String::from_utf8_lossy(&bytes), per)
        .map_err(|error| Error::Usage(format!("{path}: {error}")))?;
    let there = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let one = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            let missing =
                || Error::Usage(format!("{path} has no table {number}; give 1 to {there}"));
            Ok(vec![one.ok_or_else(missing)?])
        }
    }
}

/// The only table that a name names.
pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, Per::Vm)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        several => Err(Error::Usage(format!(
            "{name} has {several} tables; name one of them, such as {name}#1"
        ))),
    }
}
