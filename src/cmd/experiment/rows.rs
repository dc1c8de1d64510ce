//! Flags of comparisons and of ledgers.

use clap::Args;

use crate::cmd::choice::{number, workload};
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
    /// Boot each side N times under different layouts [default: 5]
    #[arg(short, long, value_name = "N", help_heading = "Measuring")]
    #[arg(allow_negative_numbers = true, value_parser = number(LAYOUTS))]
    layouts: Option<u32>,
}

impl RowArgs {
    /// Puts the flags in the place of the file's keys.
    pub fn apply(&self, file: &mut ExperimentFile) {
        if !self.workloads.is_empty() {
            file.workloads = Some(self.workloads.clone());
        }
        file.layouts = self.layouts.or(file.layouts);
    }

    /// The flags as they were typed.
    pub fn words(&self) -> Vec<String> {
        let rows = self.workloads.iter().flat_map(|row| ["-w".to_owned(), row.clone()]);
        let layouts = self.layouts.into_iter();
        rows.chain(layouts.flat_map(|n| ["--layouts".to_owned(), n.to_string()])).collect()
    }
}
