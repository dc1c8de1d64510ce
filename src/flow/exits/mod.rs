//! Where a virtual machine's time goes: tables of files, and recordings of VMs that run.

mod error;
mod file;
mod recording;
mod vmm;

pub use error::{ExitFileError, RecordError};
pub use file::{only_table, tables, tables_since};
pub use recording::{record, watch};
pub use vmm::{VmmToRecord, become_vmm};

// What the functions here are given.
pub use crate::exits::Per;
pub use crate::exits::live::{Level, RecorderChoice, Via};
