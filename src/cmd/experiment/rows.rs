//! Flags of comparisons and of ledgers.

use std::path::Path;

use clap::Args;

use crate::cmd::choice::{number, workload};
use crate::flow::{self, Error};
use crate::model::UserProgram;
use crate::plan::ExperimentFile;
use crate::plan::bounds::LAYOUTS;

/// Which rows are measured, and how often.
#[derive(Debug, Args)]
pub struct RowArgs {
    /// Measure this workload, @GROUP or row; repeat for more [default: those of the file, or every
    /// row that `ktax workloads` does not mark `*`; timed engines have no default]
    #[arg(short, long = "workload", value_name = "ROW", help_heading = "Measuring")]
    #[arg(value_parser = workload(), hide_possible_values = true)]
    workloads: Vec<String>,
    /// Also offer the workloads of this directory, whose C files are compiled into the guest
    #[arg(long = "workloads", value_name = "DIR", help_heading = "Measuring")]
    workloads_from: Option<String>,
    /// Boot each side N times under different layouts [default: 5]
    #[arg(short, long, value_name = "N", help_heading = "Measuring")]
    #[arg(allow_negative_numbers = true, value_parser = number(LAYOUTS))]
    layouts: Option<u32>,
}

impl RowArgs {
    /// Leaves those of the file's programs that are asked for, if any is; and no hooks, if nothing
    /// else is.
    ///
    /// # Errors
    /// A program of the file is wrong.
    pub fn choose_programs(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let names = self.programs();
        if names.is_empty() {
            return Ok(());
        }
        if names.len() == self.workloads.len() {
            file.hooks = None;
        }
        Ok(file.choose_programs(&names)?)
    }

    fn programs(&self) -> Vec<&str> {
        self.workloads.iter().filter_map(|row| UserProgram::name_of(row)).collect()
    }

    /// Puts the flags in the place of the file's keys.
    ///
    /// # Errors
    /// A file of the directory of workloads cannot be read, or is wrong; or there is no such
    /// program.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        file.check_programs(&self.programs())?;
        if !self.workloads.is_empty() {
            let rows = self.workloads.iter().filter(|row| !UserProgram::is_row(row));
            let rows: Vec<String> = rows.cloned().collect();
            file.workloads = (!rows.is_empty()).then_some(rows);
        }
        file.layouts = self.layouts.or(file.layouts);
        if self.workloads_from.is_some() {
            file.workloads_from.clone_from(&self.workloads_from);
        }
        if let Some(directory) = &file.workloads_from {
            file.definitions = flow::definitions_of(Path::new(directory))?;
        }
        Ok(())
    }

    /// The flags as they were typed.
    pub fn words(&self) -> Vec<String> {
        let rows = self.workloads.iter().flat_map(|row| ["-w".to_owned(), row.clone()]);
        let layouts = self.layouts.into_iter();
        let from = self.workloads_from.iter();
        let rows = rows.chain(from.flat_map(|dir| ["--workloads".to_owned(), dir.clone()]));
        rows.chain(layouts.flat_map(|n| ["--layouts".to_owned(), n.to_string()])).collect()
    }
}
