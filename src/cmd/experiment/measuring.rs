//! Flags for the measured rows, their repetitions and the engine.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::guests::MachineArgs;
use crate::cmd::options::{number, workload};
use crate::engine::{self, ENGINES, EngineEntry};
use crate::flow::{self, Error};
use crate::model::{Method, RunsOn, UserProgram};
use crate::plan::{ExperimentFile, ParamValue, bounds, help};

/// Flags of rows and layouts.
#[derive(Debug, Args)]
pub struct RowArgs {
    #[arg(short, long = "workload", value_name = "ROW", help_heading = "Measuring")]
    #[arg(value_parser = workload(), hide_possible_values = true, help = help("workloads"))]
    workloads: Vec<String>,
    #[arg(long, alias = "workloads", value_name = "DIR", help_heading = "Measuring")]
    #[arg(help = help("workloads_from"))]
    workloads_from: Option<String>,
    #[arg(short, long, value_name = "N", help_heading = "Measuring")]
    #[arg(allow_negative_numbers = true, help = help("layouts"))]
    #[arg(value_parser = number(bounds("layouts", Method::Counts)))]
    layouts: Option<u32>,
}

impl RowArgs {
    /// Keeps the selected programs of the file. If only programs are selected, the hooks are
    /// dropped.
    pub fn choose_programs(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        let names = self.program_names();
        if names.is_empty() {
            return Ok(());
        }
        if names.len() == self.workloads.len() {
            file.hooks = None;
        }
        file.choose_programs(&names)
    }

    /// Names of the selected programs.
    fn program_names(&self) -> Vec<&str> {
        self.workloads.iter().filter_map(|row| UserProgram::name_in_row(row)).collect()
    }

    /// Replaces keys of the file by flags.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        file.check_programs(&self.program_names())?;
        if !self.workloads.is_empty() {
            let rows = self.workloads.iter().filter(|row| !UserProgram::is_program_row(row));
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

    /// The flags as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let rows = self.workloads.iter().flat_map(|row| ["-w".to_owned(), row.clone()]);
        let layouts = self.layouts.into_iter();
        let directories = self.workloads_from.iter();
        let rows =
            rows.chain(directories.flat_map(|dir| ["--workloads-from".to_owned(), dir.clone()]));
        rows.chain(layouts.flat_map(|n| ["--layouts".to_owned(), n.to_string()])).collect()
    }
}

/// Flags of timed engines.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Timed engines")]
pub struct TimedArgs {
    #[arg(long, value_parser = engine(), help = help("engine"))]
    engine: Option<&'static EngineEntry>,
    #[arg(long, help = help("base.bare_metal"))]
    bare_metal: bool,
    #[command(flatten)]
    shape: MachineArgs<false>,
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(bounds("pairs", Method::Times)), help = help("pairs"))]
    pairs: Option<u32>,
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(bounds("most_pairs", Method::Times)), help = help("most_pairs"))]
    most_pairs: Option<u32>,
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(bounds("loops", Method::Times)), help = help("loops"))]
    loops: Option<u32>,
    #[arg(long, value_name = "ROW", value_parser = workload(), hide_possible_values = true)]
    #[arg(help = help("secondary"))]
    secondary: Vec<String>,
    #[arg(long, value_name = "NAME=VALUE,…", help = help("sweep"))]
    sweep: Vec<String>,
    #[arg(long, help = help("allow_differences"))]
    allow_differences: bool,
}

fn engine() -> impl TypedValueParser<Value = &'static EngineEntry> {
    let value = |engine: &EngineEntry| PossibleValue::new(engine.name).help(engine.about);
    PossibleValuesParser::new(ENGINES.iter().map(value))
        .map(|name| engine::find_engine(&name).expect("the parser accepts no other name"))
}

impl TimedArgs {
    /// Replaces keys of the file by flags.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        if let Some(engine) = self.engine {
            file.engine = Some(engine);
        }
        let has_guest_flags = self.bare_metal || !self.shape.is_empty();
        let host_engine = file.engine.filter(|engine| engine.runs_on == RunsOn::RunningKernel);
        if let Some(engine) = host_engine.filter(|_| has_guest_flags) {
            return Err(Error::user(format!(
                "--bare-metal and --cores only apply to the kvm engine, and this is the {} \
                 engine; remove them, or use --engine kvm",
                engine.name
            )));
        }
        file.base.bare_metal |= self.bare_metal;
        self.shape.apply(file)?;
        file.pairs = self.pairs.or(file.pairs);
        file.most_pairs = self.most_pairs.or(file.most_pairs);
        file.loops = self.loops.or(file.loops);
        if self.allow_differences {
            file.allow_differences = Some(true);
        }
        for text in &self.sweep {
            let (name, values) = text.split_once('=').ok_or_else(|| {
                let text = text.escape_default();
                Error::user(format!(
                    "--sweep {text} has no `=`; write values as in --sweep users=500,1000,2000"
                ))
            })?;
            let values = values.split(',').map(ParamValue::parse).collect();
            file.sweep.insert(name.to_owned(), values);
        }
        if !self.secondary.is_empty() {
            file.secondary.clone_from(&self.secondary);
        }
        Ok(())
    }
}
