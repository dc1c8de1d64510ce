//! `ktax workloads` lists workloads, describes one, or runs several on this machine. `ktax
//! experiments` lists the experiments, ledgers and machines that are built in.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::Exit;
use super::options::{built_in, cancel, number, workload};
use super::output::{OutputArgs, list_options, note, print_list, write_stdout, write_words};
use super::terminal::with_bar_of_runs;
use crate::flow::{self, Ended, Error, Limits, NativeWorkload, Touched, cache_directory};
use crate::model::NativeTable;
use crate::plan::{
    self, BuiltIn, Definition, ExperimentFile, Ledger, definitions, with_definitions,
};
use crate::report::{self, Document, TextOptions};

/// List the workloads, describe one, or run some on the running kernel.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArgs),
    Run(RunArgs),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        None => run_list(&args.list),
        Some(Command::Show(args)) => run_show(args),
        Some(Command::Run(args)) => run_natively(args),
    }
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Also list the control workloads, and why each workload exists
    #[arg(short, long)]
    all: bool,
    /// Check the workloads of this directory, compile its C files, and list its rows
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// List the rows that execute this function, or the functions that this patch changes or this C
    /// file defines
    #[arg(long, value_name = "FUNCTION|PATCH|FILE", conflicts_with_all = ["workloads", "all"])]
    touching: Option<String>,
    /// Print all fields as JSON
    #[arg(long)]
    json: bool,
}

fn run_list(args: &ListArgs) -> Result<Exit, Error> {
    if let Some(argument) = &args.touching {
        return run_touching(argument, args.json);
    }
    let additional = args.workloads.as_deref().map(checked_definitions).transpose()?;
    let mut definitions = match additional {
        Some(additional) => {
            with_definitions(&additional)?; // refuses names of built-in workloads
            additional
        }
        None => definitions()?,
    };
    definitions.retain(|definition| args.all || !definition.hidden);
    // The sort is stable, so each group keeps the order of its files.
    definitions.sort_by(|left, right| left.group.cmp(&right.group));
    if args.json {
        let descriptions =
            definitions.iter().map(definition_json).collect::<Result<Vec<_>, _>>()?;
        write_stdout(&report::to_json(&descriptions)?)?;
    } else {
        let mut text = list_table(&definitions, list_options())?;
        if args.all {
            let reasons = definitions.iter().map(|definition| {
                let words: Vec<&str> = definition.why.split_whitespace().collect();
                vec![definition.name.clone(), words.join(" ")]
            });
            let heads = ["workload", "why"];
            text =
                text + "\n" + &report::plain_table(&heads, reasons.collect(), &[], list_options());
        }
        write_words(&(text + if args.workloads.is_some() { "" } else { FOOT }))?;
    }
    Ok(Exit::Ok)
}

/// Definitions of a directory, after compiling its C files.
fn checked_definitions(directory: &Path) -> Result<Vec<Definition>, Error> {
    flow::checked_definitions(directory, &cache_directory(None)?, &cancel()?)
}

const FOOT: &str = "
* runs only if you name it or its group: -w NAME, -w @GROUP
`ktax workloads show NAME` prints parameters, work signature and origin.
";

fn list_table(definitions: &[Definition], options: TextOptions) -> Result<String, Error> {
    let mut rows = Vec::new();
    let mut group = "";
    for definition in definitions {
        if definition.group != group {
            group = &definition.group;
            rows.push(vec![format!("@{group}"), String::new(), String::new(), String::new()]);
        }
        let count = definition.rows()?.len();
        let mark = if definition.only_named { "*" } else { "" };
        // The table has no space for the year of a document.
        let documents = definition.asked_by.iter().map(|document| document.name());
        let documents: Vec<&str> =
            documents.map(|n| n.trim_end_matches(|c: char| !c.is_alphabetic())).collect();
        rows.push(vec![
            format!("  {}{mark}", definition.name),
            count.to_string(),
            documents.join(" "),
            definition.title.clone(),
        ]);
    }
    let heads = ["workload", "rows", "asked by", "description"];
    Ok(report::plain_table(&heads, rows, &[2, 1], options))
}

pub fn definition_json(definition: &Definition) -> Result<serde_json::Value, Error> {
    Ok(json!({
        "name": definition.name,
        "group": definition.group,
        "title": definition.title,
        "why": definition.why,
        "modelled_on": definition.modelled_on,
        "asked_by": definition.asked_by,
        "hidden": definition.hidden,
        "only_named": definition.only_named,
        "needs": definition.needs,
        "params": definition.params,
        "rows": definition.rows()?,
    }))
}

/// Print one workload's parameters, signature and origin
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Describe this workload, as `ktax workloads` lists it
    #[arg(value_parser = workload(), hide_possible_values = true)]
    name: String,
    /// Also look up the workload in this directory
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

fn run_show(args: &ShowArgs) -> Result<Exit, Error> {
    let additional = args.workloads.as_deref().map(flow::definitions_of).transpose()?;
    let definitions = with_definitions(&additional.unwrap_or_default())?;
    let definition = plan::find_definition(&definitions, &args.name)?;
    match args.json {
        true => write_stdout(&report::to_json(&definition_json(definition)?)?)?,
        false => write_words(&describe(definition)?)?,
    }
    Ok(Exit::Ok)
}

fn describe(definition: &Definition) -> Result<String, Error> {
    let unit = if definition.bandwidth { "one KiB, as " } else { "" };
    let mut text = format!(
        "{}: {}\n\n{}\n\nmeasured     per operation: {unit}{}\n",
        definition.name,
        definition.title,
        definition.why.trim(),
        definition.operation
    );
    text += &format!("operations   {}", definition.ops);
    if let Some(native) = definition.native_ops {
        text += &format!(" in the exact engine, {native} natively");
    }
    text += "\n";
    if let Some(original) = &definition.modelled_on {
        text += &format!("modelled on  {original}\n");
    }
    if let Some(needs) = &definition.needs {
        text += &format!("needs        {needs}\n");
    }
    let documents: Vec<&str> = definition.asked_by.iter().map(|asked| asked.name()).collect();
    if !documents.is_empty() {
        text += &format!("asked by     {}\n", documents.join(", "));
    }
    for (number, (name, expected)) in definition.signature.iter().enumerate() {
        let heading = if number == 0 { "signature" } else { "" };
        text += &format!("{heading:<13}{name} = {expected}\n");
    }
    if !definition.params.is_empty() {
        let params = definition.params.iter().map(|(name, param)| {
            vec![name.clone(), param.default.to_string(), param.range(), param.about.clone()]
        });
        text += "\n";
        text += &report::plain_table(
            &["parameter", "default", "range", "meaning"],
            params.collect(),
            &[],
            list_options(),
        );
    }
    let rows = definition.rows()?;
    if rows.len() > 1 {
        let rows = rows.into_iter().map(|row| vec![row.row, report::whole(row.ops as f64)]);
        text += "\n";
        text += &report::plain_table(&["row", "operations"], rows.collect(), &[], list_options());
    }
    Ok(text)
}

/// Run workloads on the running kernel and print their samples
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Run these workloads, rows or groups, as `ktax workloads` lists them
    #[arg(value_name = "NAME|@GROUP", required = true)]
    #[arg(value_parser = workload(), hide_possible_values = true)]
    names: Vec<String>,
    /// Set this parameter of `ktax workloads show NAME`; each value makes a row; repeat for more
    #[arg(short, long = "param", value_name = "NAME=VALUE[,VALUE…]")]
    params: Vec<String>,
    /// Run each row N times, each time in a new process
    #[arg(short, long, value_name = "N", default_value_t = 11)]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=10_000_u32))]
    samples: u32,
    /// Also count: task clock, migrations, cycles, instructions, cache references and misses
    #[arg(long)]
    counters: bool,
    /// Stop a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    #[arg(allow_negative_numbers = true, value_parser = number(1_u64..))]
    time_limit: u64,
    /// Keep the programs in this directory [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ktax workloads run pipe
  ktax workloads run getppid stat @lmbench
  ktax workloads run high-systime -p users=500,1000,1500,2000 --samples 1
  ktax workloads run fork-pages -p pages=0,16,1024 --json";

fn run_natively(args: &RunArgs) -> Result<Exit, Error> {
    let workloads = NativeWorkload::all(&args.names, &args.params, args.samples, args.counters)?;
    let cache = cache_directory(args.cache.as_deref())?;
    let limits = Limits::with_seconds(args.time_limit);
    let runs = workloads.iter().map(NativeWorkload::runs).sum();
    let (tables, ended) = with_bar_of_runs(runs, true, |cancel, show| {
        NativeWorkload::run_all(&workloads, &cache, limits, cancel.clone(), show)
    })?;
    if ended == Ended::Cancelled {
        note!("ktax: stopped; all processes have ended and their files were removed");
    }
    let documents = tables.iter().map(|table| {
        Document::with_name(if workloads.len() == 1 { "" } else { &table.workload }, table)
    });
    let reports: Vec<Document<'_>> = documents.collect();
    if !reports.is_empty() {
        args.output.print_all(&reports)?;
    }
    Ok(tables_exit(&tables, &ended))
}

fn tables_exit(tables: &[NativeTable], ended: &Ended) -> Exit {
    let rows = || tables.iter().flat_map(|table| &table.rows);
    match ended {
        Ended::Cancelled => Exit::Cancelled,
        Ended::Complete if rows().any(|row| row.failure.is_some()) => Exit::NotRun,
        Ended::Complete => Exit::Ok,
    }
}

/// Maximum number of functions in a cell.
const MAX_SHOWN_FUNCTIONS: usize = 3;

fn run_touching(argument: &str, is_json: bool) -> Result<Exit, Error> {
    let touched = flow::touching(argument)?;
    match is_json {
        true => write_stdout(&report::to_json(&touched_json(&touched))?)?,
        false => write_words(&touching_table(argument, &touched))?,
    }
    Ok(Exit::Ok)
}

fn touched_json(touched: &Touched) -> serde_json::Value {
    let rows = touched
        .rows
        .iter()
        .map(|row| json!({ "row": row.row, "percent": row.percent, "functions": row.functions }));
    json!({
        "kernel": touched.kernel,
        "functions": touched.functions,
        "not_executed": touched.not_executed,
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn touching_table(argument: &str, touched: &Touched) -> String {
    let rows = touched.rows.iter().map(|row| {
        let more = row.functions.len().saturating_sub(MAX_SHOWN_FUNCTIONS);
        let names =
            row.functions.iter().take(MAX_SHOWN_FUNCTIONS).cloned().collect::<Vec<_>>().join(" ");
        let functions = if more == 0 { names } else { format!("{names} +{more}") };
        vec![row.row.clone(), format!("{:.2}", row.percent), functions]
    });
    let heads = ["row", "share %", "functions"];
    let mut text = match touched.rows.is_empty() {
        true => {
            format!("No row executes a function that the file {argument} changes or defines.\n")
        }
        false => report::plain_table(&heads, rows.collect(), &[], list_options()),
    };
    if !touched.not_executed.is_empty() {
        let names = touched.not_executed.join(", ");
        text += &format!("\nIn no row (not executed, or inlined by the compiler): {names}\n");
    }
    text + &format!(
        "\nshare %   the functions' part of the row's instructions, counted on {}\n\
         Measure the rows of a patch with `ktax compare --patch FILE -w @touching`.\n",
        touched.kernel
    )
}

/// List the experiments, ledgers and machines that ktax has, or print one of them as a file.
///
/// `ktax compare NAME` and `ktax ledger NAME` run one. If there is a file of that name, ktax uses
/// the file instead. `ktax compare --model NAME` models a machine.
#[derive(Debug, clap::Args)]
pub struct ExperimentsArgs {
    /// Print this experiment, ledger or machine as a file that you can change and use
    #[arg(value_parser = built_in(), hide_possible_values = true)]
    name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

pub fn experiments(args: &ExperimentsArgs) -> Result<Exit, Error> {
    if let Some(name) = &args.name {
        write_stdout(flow::built_in_text(name)?)?;
        return Ok(Exit::Ok);
    }
    print_list(
        args.json,
        &built_in_files()?,
        |[name, command, title]| json!({ "name": name, "command": command, "title": title }),
        (&["name", "run it with", "title"], &[]),
        |file| file.to_vec(),
    )
}

/// Name, command and title of each built-in file.
fn built_in_files() -> Result<Vec<[String; 3]>, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_has_whole_words_and_names_omitted_columns() {
        let definitions = definitions().unwrap();
        let table_of_width = |width| {
            list_table(&definitions, TextOptions { width, ..TextOptions::default() }).unwrap()
        };
        let (narrow, usual) = (table_of_width(60), table_of_width(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.lines().next().unwrap().ends_with("description"), "{narrow}");
        let note = "Omitted to fit 60 columns: asked by; --json has all.";
        assert_eq!(narrow.lines().last(), Some(note));
        assert!(usual.contains("asked by") && !usual.contains("Omitted"), "{usual}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let known = words(&usual);
        let table = narrow.replace(note, "");
        for word in words(&table).iter().filter(|word| !word.starts_with('─')) {
            assert!(known.contains(word), "{word} is a part of a word: {narrow}");
        }
    }
}
