use serde_json::json;

use super::Exit;
use super::choice::built_in;
use super::output::{list_options, write_stdout};
use crate::flow::{self, Error};
use crate::plan::{self, BuiltIn, ExperimentFile, Ledger, PlanError};
use crate::report;

/// List the experiments, ledgers and machines that ktax has, or print one of them as a file.
///
/// `ktax compare NAME` and `ktax ledger NAME` run one; a file of that name is used instead, if
/// there is one. `ktax compare --model NAME` models a machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print this experiment, ledger or machine, to be changed and used as a file
    #[arg(value_parser = built_in(), hide_possible_values = true)]
    name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    write_stdout(&match &args.name {
        Some(name) => flow::built_in_text(name)?.to_owned(),
        None if args.json => {
            let json_of = |[name, command, title]: [String; 3]| -> serde_json::Value {
                json!({ "name": name, "command": command, "title": title })
            };
            report::to_json(&list()?.into_iter().map(json_of).collect::<Vec<_>>())?
        }
        None => {
            let rows = list()?.into_iter().map(Vec::from).collect();
            report::plain_table(&["name", "run it with", "title"], rows, &[], list_options())
        }
    })?;
    Ok(Exit::Ok)
}

/// Name, command and title of each file.
fn list() -> Result<Vec<[String; 3]>, PlanError> {
    let experiment = |BuiltIn { name, text }: BuiltIn| {
        let title = ExperimentFile::parse(text, name)?.title.unwrap_or_default();
        Ok([name.to_owned(), "compare".to_owned(), title])
    };
    let ledger = |BuiltIn { name, text }: BuiltIn| {
        Ok([name.to_owned(), "ledger".to_owned(), Ledger::parse(text, name)?.title])
    };
    let machine = |BuiltIn { name, .. }: BuiltIn| {
        Ok([name.to_owned(), "compare --model".to_owned(), plan::machine_title(name)?])
    };
    let files = plan::experiments().map(experiment).chain(plan::ledgers().map(ledger));
    files.chain(plan::machines().map(machine)).collect()
}
