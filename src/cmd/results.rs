//! Commands that print saved results. `report` reads directories and files; `log`, `show`, `diff`,
//! `history`, `tag` and `site` read the store.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Exit;
use super::options::{Choice, SIDES, StoreArgs, by_name, number, one_of, percent, workload};
use super::output::{OutputArgs, note, print_list, write_bytes, write_stdout};
use crate::flow::{self, Error, HistoryRequest, Stored, StoredResult};
use crate::model::{Blame, Comparison, METRICS, Saved, SavedResult, Side, Sides, result_schema};
use crate::plan::THRESHOLD_PERCENT;
use crate::report::{Document, EXPORTS, Export, Shape, to_json, versions};
use crate::text::{counted, escape_path};

/// Print the saved results of runs, searches and ledgers.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Read this directory of a run, a sweep, a search or a ledger, or this file of --json
    #[arg(value_name = "DIR|FILE", required_unless_present = "schema")]
    results: Vec<PathBuf>,
    /// Print the columns of a published table
    #[arg(short, long, alias = "layout", short_alias = 'L', value_parser = one_of(&SHAPES))]
    #[arg(conflicts_with_all = ["format", "json"], help_heading = "Output")]
    columns: Option<Shape>,
    /// Print only this row: its cost by function and call path, and which of them changed
    #[arg(long, value_name = "ROW", conflicts_with = "columns", help_heading = "Output")]
    explain: Option<String>,
    /// Print all call paths of the row of --explain, for a program that reads them
    #[arg(long, value_name = "FORM", requires = "explain")]
    #[arg(value_parser = by_name(&EXPORTS, |export| export.name, |export| export.about))]
    #[arg(conflicts_with_all = ["format", "json", "html"], help_heading = "Output")]
    paths: Option<Export>,
    /// With --paths, print only the call paths of this side
    #[arg(long, value_parser = one_of(&SIDES), requires = "paths", help_heading = "Output")]
    side: Option<Side>,
    /// Print only which guest programs, QEMU and kernels the numbers belong to
    #[arg(long, conflicts_with_all = ["format", "json", "columns", "explain"])]
    #[arg(help_heading = "Output")]
    versions: bool,
    /// Also print what this machine would take: a file that `ktax calibrate` wrote
    #[arg(long, alias = "machine", value_name = "FILE", help_heading = "Output")]
    #[arg(conflicts_with_all = ["columns", "versions", "paths"])]
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
pub fn report(args: &ReportArgs) -> Result<Exit, Error> {
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
    match args.columns {
        Some(shape) => print_shape(shape, &results, &args.output),
        None => args.output.print_saved(&results),
    }
}

/// Prints a row of each comparison that has it.
fn explain(row: &str, results: &[Saved], output: &OutputArgs) -> Result<Exit, Error> {
    let explained = flow::explained(row, results)?;
    let documents = explained.iter().map(|(name, report)| Document::with_name(name, report));
    output.print_all(&documents.collect::<Vec<Document<'_>>>())
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
            "--paths reads one directory; name one, and run the command for each other directory",
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
        return Err(Error::user(format!("{name} is not text; write it to a file with > FILE")));
    }
    write_bytes(&bytes)?;
    if let Some(remark) = form.remark(&paths) {
        note!("ktax: {remark}");
    }
    Ok(Exit::Ok)
}

fn print_shape(shape: Shape, results: &[Saved], output: &OutputArgs) -> Result<Exit, Error> {
    let comparisons: Option<Vec<&Comparison>> = results.iter().map(exact_comparison).collect();
    let comparisons = comparisons.ok_or_else(|| {
        Error::user("--columns only applies to runs of the exact engine; remove it")
    })?;
    let text =
        comparisons.into_iter().map(|comparison| shape.render(comparison, output.text_options()));
    write_stdout(&text.collect::<String>())?;
    Ok(Exit::Ok)
}

/// Prints the versions on which the numbers depend.
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

fn exact_comparison(result: &Saved) -> Option<&Comparison> {
    match &result.result {
        SavedResult::Comparison(comparison) if comparison.counts().is_some() => Some(comparison),
        _ => None,
    }
}

/// Number of printed digits of a result's ID.
const ID_DIGITS: usize = 8;

/// List the kept results, the newest first.
///
/// `ktax compare`, `run`, `ledger` and `bisect` keep each result in the store. `ktax show ID`
/// prints one again, in any format.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// List only results that have this row
    #[arg(short, long, value_name = "ROW", value_parser = workload())]
    #[arg(hide_possible_values = true)]
    workload: Option<String>,
    /// List only results of a kernel whose name has TEXT in it
    #[arg(long, value_name = "TEXT")]
    kernel: Option<String>,
    /// List only results that were kept on this day or later, such as 2026-01-31
    #[arg(long, value_name = "DAY", value_parser = day)]
    since: Option<String>,
    /// List at most N results
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(1_usize..))]
    most: Option<usize>,
    /// List the measured subjects instead: kernels with their boot lines, by the names that `ktax
    /// diff` takes
    #[arg(long, conflicts_with_all = ["workload", "kernel", "since", "most"])]
    subjects: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl LogArgs {
    fn is_wanted(&self, result: &StoredResult) -> bool {
        let LogArgs { workload, kernel, since, .. } = self;
        let has_row = |wanted: &String| result.rows.iter().any(|row| flow::is_row(row, wanted));
        let has_kernel = |text: &String| result.kernels.iter().any(|name| name.contains(text));
        workload.as_ref().is_none_or(has_row)
            && kernel.as_ref().is_none_or(has_kernel)
            && since.as_ref().is_none_or(|since| result.kept_on >= *since)
    }
}

/// Parses a day, such as `2026-01-31`.
fn day(text: &str) -> Result<String, &'static str> {
    let has_digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [year, month, day]
            if has_digits(year, 4)
                && has_digits(month, 2)
                && has_digits(day, 2)
                && ("01"..="12").contains(month)
                && ("01"..="31").contains(day) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("it takes a day, such as 2026-01-31"),
    }
}

pub fn log(args: &LogArgs) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    match args.subjects {
        true => list_subjects(&stored, args.json),
        false => list_results(&stored, args),
    }
}

fn list_results(stored: &Stored, args: &LogArgs) -> Result<Exit, Error> {
    let mut results = stored.results()?;
    let has_any = !results.is_empty();
    results.retain(|result| args.is_wanted(result));
    results.truncate(args.most.unwrap_or(usize::MAX));
    if results.is_empty() && !args.json {
        note!(
            "ktax: the store has no {}",
            match has_any {
                true => "such result; `ktax log` without options lists all",
                false => "result yet; `ktax compare lsm` makes one",
            }
        );
        return Ok(Exit::Ok);
    }
    print_list(
        args.json,
        &results,
        |result| {
            json!({ "id": result.object, "kind": result.kind, "title": result.title,
                    "headline": result.headline, "rows": result.rows, "kernels": result.kernels,
                    "kept_at": result.kept_at, "kept_on": result.kept_on,
                    "kept_time": result.kept_time })
        },
        (&["id", "kept", "kind", "answer"], &[2]),
        |result| {
            let id = result.object.chars().take(ID_DIGITS).collect();
            let kept_at = format!("{} {}", result.kept_on, result.kept_time);
            let answer = [result.title.as_str(), &result.headline];
            let answer: Vec<&str> = answer.into_iter().filter(|text| !text.is_empty()).collect();
            vec![id, kept_at, result.kind.clone(), answer.join(": ")]
        },
    )
}

fn list_subjects(stored: &Stored, is_json: bool) -> Result<Exit, Error> {
    print_list(
        is_json,
        &stored.subjects()?,
        |listed| {
            let subject = &listed.subject;
            json!({ "name": listed.name, "tags": listed.tags, "kernel": subject.kernel,
                    "kernel_sha256": subject.kernel_sha256, "sources": subject.sources,
                    "asked": subject.requested_names, "boot_line": subject.boot_line,
                    "rows": subject.rows, "kept_at": subject.kept_at })
        },
        (&["subject", "rows", "tags", "kernel"], &[3, 2]),
        |listed| {
            let (rows, sources) = (listed.subject.rows, listed.subject.sources.join(", "));
            vec![listed.name.clone(), rows.to_string(), listed.tags.join(", "), sources]
        },
    )
}

/// Print kept results, by the first digits of their IDs.
///
/// `ktax log` lists the IDs. A path of a page, a file or a directory is printed as `ktax report`
/// does.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Print the result with this ID or its first digits, or the result in this file
    #[arg(value_name = "ID|PATH", required = true)]
    results: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Prints results. The exit status does not depend on the rows.
pub fn show(args: &ShowArgs) -> Result<Exit, Error> {
    let mut results: Vec<Saved> = Vec::new();
    let mut stored = None;
    for argument in &args.results {
        let path = Path::new(argument);
        // An argument with a slash is a path, which needs no store.
        if argument.contains('/') {
            results.extend(flow::saved(&[path.to_owned()])?);
            continue;
        }
        let stored = match &mut stored {
            Some(stored) => stored,
            slot => slot.insert(args.store.open()?),
        };
        // Look in the store first, so that no file hides a result.
        match stored.result(argument) {
            Err(error) if error.blame == Blame::User && path.exists() => {
                results.extend(flow::saved(&[path.to_owned()])?);
            }
            result => results.push(result?),
        }
    }
    args.output.print_saved(&results)
}

/// Compare two subjects of the store, without a boot.
///
/// A subject is a kernel with a boot line. It is named by a tag, its release, its package or that
/// package's version, a commit, the first digits of its image's hash, or the path of its image; by
/// NAME@BOOT LINE where it was measured with a boot line. `ktax log --subjects` lists the names.
#[derive(Debug, clap::Args)]
#[command(after_help = DIFF_EXAMPLE)]
pub struct DiffArgs {
    /// Compare with this subject
    #[arg(value_name = "BASE")]
    base: String,
    /// Compare this subject
    #[arg(value_name = "CHANGE")]
    change: String,
    /// Compare this workload, row or group [default: all rows that both have]
    #[arg(short, long, value_name = "ROW", value_parser = workload())]
    #[arg(hide_possible_values = true)]
    workload: Vec<String>,
    /// Give no verdict to changes below PERCENT
    #[arg(long, value_name = "PERCENT", default_value_t = THRESHOLD_PERCENT)]
    #[arg(allow_negative_numbers = true, value_parser = percent)]
    threshold: f64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

const DIFF_EXAMPLE: &str = "\
Examples:
  ktax diff 6.1.0-55-cloud-amd64 6.1.0-56-cloud-amd64
  ktax diff v6.12 v6.12@mitigations=off -w fork-exit";

/// Exits as `ktax compare` does, but with 4 if nothing is slower and a wanted row is not measured.
pub fn diff(args: &DiffArgs) -> Result<Exit, Error> {
    let subjects = Sides { base: args.base.as_str(), change: &args.change };
    let rows = Some(args.workload.as_slice()).filter(|rows| !rows.is_empty());
    let note = |text: &str| note!("ktax: {text}");
    let (comparison, missing) = args.store.open()?.diff(subjects, rows, args.threshold, &note)?;
    args.output.print(&comparison)?;
    Ok(match Exit::from_comparisons(&[comparison]) {
        Exit::Ok if !missing.is_empty() => Exit::Inconclusive,
        exit => exit,
    })
}

/// Show what a row costs over kernels, and where the cost steps, without a boot.
///
/// Kernels stand in the order of their versions. Each flavour and each boot line has a line of its
/// own. Measurements of another QEMU or guest do not compare, so they begin a new line. A step is
/// found against the last step, so that small changes that add up are one, too.
#[derive(Debug, clap::Args)]
#[command(after_help = HISTORY_EXAMPLE)]
pub struct HistoryArgs {
    /// Show these rows [default: a line for each row of the store]
    #[arg(value_name = "ROW", value_parser = workload(), hide_possible_values = true)]
    rows: Vec<String>,
    /// Follow what this function executes itself, instead of the whole row
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Follow this metric: instructions, rep-iterations, interrupt or kthread
    #[arg(long, value_name = "NAME", default_value = METRICS[0].name)]
    metric: String,
    /// Show these subjects in this order, named as for `ktax diff`, with commas between them or
    /// each with an --along of its own
    #[arg(long, value_name = "SUBJECTS")]
    along: Vec<String>,
    /// Show only subjects with this boot line; '' selects an empty boot line
    #[arg(long, value_name = "LINE", conflicts_with = "along")]
    boot_line: Option<String>,
    /// Give no step to changes below PERCENT
    #[arg(long, value_name = "PERCENT", default_value_t = THRESHOLD_PERCENT)]
    #[arg(allow_negative_numbers = true, value_parser = percent)]
    threshold: f64,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

const HISTORY_EXAMPLE: &str = "\
Examples:
  ktax history
  ktax history fork-exit --html fork.html
  ktax history open-close --function __fput --along v6.1,v6.6,v6.12";

pub fn history(args: &HistoryArgs) -> Result<Exit, Error> {
    let history = args.store.open()?.history(&HistoryRequest {
        rows: args.rows.clone(),
        function: args.function.clone(),
        metric: args.metric.clone(),
        along: args.along.clone(),
        boot_line: args.boot_line.clone(),
        threshold_percent: args.threshold,
    })?;
    args.output.print(&history)
}

/// Give a subject of the store a tag, or list the tags.
#[derive(Debug, clap::Args)]
#[command(after_help = TAG_EXAMPLE)]
pub struct TagArgs {
    /// Set this tag
    #[arg(value_name = "NAME", requires = "subject")]
    name: Option<String>,
    /// Set the tag of this subject, named as for `ktax diff`
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Delete this tag
    #[arg(short, long, value_name = "NAME", conflicts_with = "name")]
    delete: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with_all = ["name", "delete"])]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

const TAG_EXAMPLE: &str = "\
Example:
  ktax tag before 6.1.0-55-cloud-amd64@mitigations=off";

pub fn tag(args: &TagArgs) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    if let Some(name) = &args.delete {
        return match stored.untag(name)? {
            true => Ok(Exit::Ok),
            false => Err(Error::user(format!("there is no tag {name:?}; `ktax tag` lists them"))),
        };
    }
    if let (Some(name), Some(subject)) = (&args.name, &args.subject) {
        let (subject, previous) = stored.tag(name, subject)?;
        let previous = previous.map(|subject| format!("; it was {subject}")).unwrap_or_default();
        note!("ktax: {name} is {subject}{previous}");
        return Ok(Exit::Ok);
    }
    print_list(
        args.json,
        &stored.tags()?,
        |(name, subject)| json!({ "tag": name, "subject": subject }),
        (&["tag", "subject"], &[]),
        |(name, subject)| vec![name.clone(), subject.clone()],
    )
}

/// Write pages of all results of the store, and of each row over kernels, into a directory.
///
/// The first page is index.html. Every browser opens it from the disk, and every web server can
/// serve it: nothing runs, and nothing is loaded from elsewhere.
#[derive(Debug, clap::Args)]
pub struct SiteArgs {
    /// Write into this directory, which is empty or has such pages already
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn site(args: &SiteArgs) -> Result<Exit, Error> {
    let pages = args.store.open()?.site(&args.dir)?;
    let index = args.dir.join("index.html");
    note!("ktax: wrote {}; open {}", counted(pages, "page"), escape_path(&index));
    Ok(Exit::Ok)
}
