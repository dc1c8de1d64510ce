//! Errors of experiments and plans that several places make. All are the user's to fix.

use std::ops::RangeInclusive;

use crate::bounds::MEMORY_MIB;
use crate::keys::with_flag;
use ktax_host::text::did_you_mean_quoted;

pub(crate) use ktax_model::{Error, ErrorKind};

/// A key that does nothing in this experiment.
pub(super) fn misplaced(key: &str, applies_to: &str, uses: &str) -> Error {
    let key = with_flag(key);
    Error::user(format!("{key} only applies to {applies_to}, and this experiment uses {uses}"))
        .next("remove it")
}

/// Start of the error of a program.
pub(super) const PROGRAM: &str = "the program cannot be run: ";

/// Error of a program, its hooks or its files.
pub(super) fn program(reason: impl AsRef<str>) -> Error {
    Error::user(format!("{PROGRAM}{}", reason.as_ref()))
}

/// Error of a workload file.
pub fn definition_error(path: &str, reason: &str) -> Error {
    Error::user(format!("{path}: {reason}"))
}

/// Error of a repeated row.
pub(super) fn twice(row: &str) -> Error {
    Error::user(format!("{row} is named twice"))
        .next("name each row once, and give a program another name with --name")
}

/// Error if there is no row to measure.
pub(super) fn no_workload() -> Error {
    Error::user("the list of workloads is empty")
        .next("remove `workloads` to measure all default rows")
}

/// Error of something that cannot be swept.
pub(super) fn sweep(name: &str, reason: &str) -> Error {
    Error::user(format!("cannot sweep {name:?}: {reason}"))
}

/// Error of guest memory that is out of bounds.
pub(super) fn memory(memory_mib: u32) -> Error {
    let (key, bounds) = (with_flag("machine.memory_mib"), MEMORY_MIB);
    let (least, most) = bounds.into_inner();
    Error::user(format!("{key} must be {least} to {most} MiB, not {memory_mib}"))
        .next("remove it to use the default of 512 MiB")
}

/// Error of an unknown feature of KVM; `known` names the others.
pub fn unknown_feature(name: &str, near: Option<&str>, known: &str) -> Error {
    Error::user(format!("KVM has no feature {name:?}{}; it has {known}", did_you_mean_quoted(near)))
}

/// Refuses a text that is not one line of printable ASCII; `what` names it.
pub(super) fn printable_line(what: &str, text: &str) -> Result<(), Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err(Error::user(format!("{what} must be one printable line of ASCII"))
            .next("remove all other characters")),
    }
}

/// Refuses a number that is out of bounds; `key` is its name in a file.
pub(super) fn range(key: &str, value: u32, bounds: RangeInclusive<u32>) -> Result<(), Error> {
    let (least, most) = bounds.into_inner();
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => {
            let key = with_flag(key);
            Err(Error::user(format!("{key} must be {least} to {most}, not {value}"))
                .next("remove it to use the default"))
        }
    }
}
