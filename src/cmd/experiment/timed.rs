//! Flags that only timed engines have.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::cmd::choice::{number, workload};
use crate::engine::{self, ENGINES, EngineEntry};
use crate::flow::Error;
use crate::model::RunsOn;
use crate::plan::bounds::{CORES, LOOPS, MOST_PAIRS, PAIRS};
use crate::plan::{ExperimentFile, ParamValue};

/// The flags of timed engines.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Timed engines")]
pub struct TimedArgs {
    /// Run both sides with this engine [default: exact]
    #[arg(long, value_parser = engine())]
    engine: Option<&'static EngineEntry>,
    /// Compare the guest with this machine itself, without virtualization
    #[arg(long)]
    bare_metal: bool,
    /// Run the guest's CPUs on N quiet ones of this machine; fewer than its own is overcommit
    /// [default: one for each]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(CORES))]
    cores: Option<u32>,
    /// Measure exactly N pairs of boots [default: as many as are needed]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(PAIRS))]
    pairs: Option<u32>,
    /// Stop after N pairs at the latest [default: 200]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(MOST_PAIRS))]
    most_pairs: Option<u32>,
    /// Run each row N times in each boot [default: 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(LOOPS))]
    loops: Option<u32>,
    /// Also measure this row, but exclude it from the exit status; repeat for more
    #[arg(long, value_name = "ROW", value_parser = workload(), hide_possible_values = true)]
    secondary: Vec<String>,
    /// Measure each value: one row for each value of a workload's parameter, one run for each value
    /// of a setting; repeat for more
    #[arg(long, value_name = "NAME=VALUE,…")]
    sweep: Vec<String>,
    /// Continue with a warning if base and change differ in more than was declared
    #[arg(long)]
    allow_differences: bool,
}

/// Any of [`ENGINES`], by its name.
fn engine() -> impl TypedValueParser<Value = &'static EngineEntry> {
    let value = |it: &EngineEntry| PossibleValue::new(it.name).help(it.about);
    PossibleValuesParser::new(ENGINES.iter().map(value))
        .map(|name| engine::named(&name).expect("the parser accepts no other name"))
}

impl TimedArgs {
    /// Puts the flags in the place of the file's keys.
    pub fn apply(&self, file: &mut ExperimentFile) -> Result<(), Error> {
        if let Some(engine) = self.engine {
            file.engine = Some(engine);
        }
        let is_of_guests = self.bare_metal || self.cores.is_some();
        let here = file.engine.filter(|it| it.runs_on == RunsOn::RunningKernel);
        if let Some(engine) = here.filter(|_| is_of_guests) {
            return Err(Error::usage(format!(
                "--bare-metal and --cores only apply to the kvm engine, and this is the {} \
                 engine; remove them, or use --engine kvm",
                engine.name
            )));
        }
        file.base.bare_metal |= self.bare_metal;
        file.machine.cores = self.cores.or(file.machine.cores);
        file.pairs = self.pairs.or(file.pairs);
        file.most_pairs = self.most_pairs.or(file.most_pairs);
        file.loops = self.loops.or(file.loops);
        if self.allow_differences {
            file.allow_differences = Some(true);
        }
        for text in &self.sweep {
            let (name, values) = text.split_once('=').ok_or_else(|| {
                let text = text.escape_default();
                Error::usage(format!(
                    "--sweep {text} has no `=`; write values as in --sweep users=500,1000,2000"
                ))
            })?;
            let values = values.split(',').map(ParamValue::of).collect();
            file.sweep.insert(name.to_owned(), values);
        }
        if !self.secondary.is_empty() {
            file.secondary.clone_from(&self.secondary);
        }
        Ok(())
    }
}
