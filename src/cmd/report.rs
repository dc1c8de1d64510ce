use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;

use super::Exit;
use super::choice::{Choice, SIDES, named, one_of};
use super::output::{OutputArgs, note, write_bytes, write_stdout};
use crate::flow::{self, Error};
use crate::model::{Comparison, Saved, SavedResult, Side, result_schema};
use crate::report::{Document, EXPORTS, Export, Shape, to_json, versions};

/// Print the saved results of runs, searches and ledgers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this directory of a run, a sweep, a search or a ledger, or this file of --json
    #[arg(value_name = "DIR|FILE", required_unless_present = "schema")]
    results: Vec<PathBuf>,
    /// Print the columns of a published table (unrelated to --layouts)
    #[arg(short = 'L', long, value_parser = one_of(&SHAPES))]
    #[arg(conflicts_with_all = ["format", "json"], help_heading = "Output")]
    layout: Option<Shape>,
    /// Print this row alone: where it goes by function and call path, and what carries its change
    #[arg(long, value_name = "ROW", conflicts_with = "layout", help_heading = "Output")]
    explain: Option<String>,
    /// Print all call paths of the row of --explain, for a program that reads them
    #[arg(long, value_name = "FORM", requires = "explain")]
    #[arg(value_parser = named(&EXPORTS, |export| export.name, |export| export.about))]
    #[arg(conflicts_with_all = ["format", "json", "html"], help_heading = "Output")]
    paths: Option<Export>,
    /// With --paths, print those of this side alone
    #[arg(long, value_parser = one_of(&SIDES), requires = "paths", help_heading = "Output")]
    side: Option<Side>,
    /// Print only which guest programs, QEMU and kernels the numbers belong to
    #[arg(long, conflicts_with_all = ["format", "json", "layout", "explain"])]
    #[arg(help_heading = "Output")]
    versions: bool,
    /// Also print what this machine would take: a file that `ktax calibrate` wrote
    #[arg(long, alias = "machine", value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with_all = ["layout", "versions", "paths"])]
    model: Option<PathBuf>,
    /// Print the JSON schema of what --json prints, and no result
    #[arg(long, exclusive = true, help_heading = "Output")]
    schema: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const SHAPES: [Choice<Shape>; 3] = [
    (Shape::Lmbench, "lmbench", "LMBench's tables of the LSM paper of 2002"),
    (Shape::Counters, "counters", "The performance counters of the PARAVIRT mail of 2009"),
    (Shape::Pages, "pages", "The fork test of the shared page tables of 2002"),
];

/// Prints the results one after the other. The exit status does not depend on the rows, because
/// nothing is measured or compared.
pub fn run(args: &Args) -> Result<Exit, Error> {
    if args.schema {
        write_stdout(&to_json(&result_schema())?)?;
        return Ok(Exit::Ok);
    }
    if let (Some(row), Some(form)) = (&args.explain, args.paths) {
        return print_paths(&args.results, row, form, args.side);
    }
    let mut results = flow::saved(&args.results)?;
    if let Some(machine) = &args.model {
        flow::estimate_cycles(&mut results, machine)?;
    }
    if let Some(row) = &args.explain {
        return explain(row, &results, &args.output);
    }
    if args.versions {
        return print_versions(&results, &args.output);
    }
    match args.layout {
        Some(shape) => print_in(shape, &results, &args.output)?,
        None => args.output.print_saved(&results)?,
    }
    Ok(Exit::Ok)
}

/// Prints a row of each comparison that has it.
fn explain(row: &str, results: &[Saved], output: &OutputArgs) -> Result<Exit, Error> {
    let explained = flow::explained(row, results)?;
    let documents = explained.iter().map(|(name, report)| Document::named(name, report));
    output.print_all(&documents.collect::<Vec<Document<'_>>>())?;
    Ok(Exit::Ok)
}

/// Prints call paths for another program. The exit status does not depend on the row's verdict.
fn print_paths(
    results: &[PathBuf],
    row: &str,
    form: Export,
    side: Option<Side>,
) -> Result<Exit, Error> {
    let [dir] = results else {
        return Err(Error::user(
            "--paths reads one directory; name one, and run it for each other",
        ));
    };
    if side.is_some() && !form.has_sides {
        let name = form.name;
        return Err(Error::user(format!("{name} shows both sides; remove --side")));
    }
    let paths = flow::row_paths(dir, row, form.is_compared)?;
    let bytes = form.write(&paths, side);
    if std::str::from_utf8(&bytes).is_err() && std::io::stdout().is_terminal() {
        let name = form.name;
        return Err(Error::user(format!("{name} is no text; write it to a file with > FILE")));
    }
    write_bytes(&bytes)?;
    if let Some(remark) = form.remark(&paths) {
        note!("ktax: {remark}");
    }
    Ok(Exit::Ok)
}

fn print_in(shape: Shape, results: &[Saved], output: &OutputArgs) -> Result<(), Error> {
    let comparisons: Option<Vec<&Comparison>> = results.iter().map(counted).collect();
    let comparisons = comparisons.ok_or_else(|| {
        Error::user("--layout only applies to runs of the exact engine; remove it")
    })?;
    let text = comparisons.into_iter().map(|paths| shape.render(paths, output.text_options()));
    Ok(write_stdout(&text.collect::<String>())?)
}

/// Prints the versions that must be the same for the numbers to come out again.
fn print_versions(results: &[Saved], output: &OutputArgs) -> Result<Exit, Error> {
    let texts: Option<Vec<String>> =
        results.iter().map(|saved| versions(&saved.result, output.text_options())).collect();
    let mut texts = texts.ok_or_else(|| {
        Error::user(
            "--versions only applies to comparisons of the exact engine or of guests; of a ledger, \
             give the directory of an addition or DIR/together",
        )
    })?;
    // All runs of a sweep have the same versions.
    let mut seen = BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    write_stdout(&texts.concat())?;
    Ok(Exit::Ok)
}

fn counted(result: &Saved) -> Option<&Comparison> {
    match &result.result {
        SavedResult::Comparison(comparison) if comparison.counts().is_some() => Some(comparison),
        _ => None,
    }
}
