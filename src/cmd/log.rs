use serde_json::json;

use super::Exit;
use super::choice::{number, workload};
use super::host::StoreArgs;
use super::output::{list_options, note, write_stdout};
use crate::flow::{Error, ListedSubject, LogOrder, Stored, StoredResult};
use crate::report::{plain_table, to_json};

/// Number of digits of a result's name that are printed.
const DIGITS: usize = 8;

/// List the results that were kept, the newest first.
///
/// `ktax compare`, `run`, `ledger` and `bisect` keep each result in the store. `ktax show ID`
/// prints one again, in any format.
#[derive(Debug, clap::Args)]
pub struct Args {
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
    /// List instead what was measured: kernels with their boot lines, by the names that `ktax diff`
    /// takes
    #[arg(long, conflicts_with_all = ["workload", "kernel", "since", "most"])]
    subjects: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Parses a day, such as `2026-01-31`.
fn day(text: &str) -> Result<String, &'static str> {
    let digits = |text: &str, many: usize| {
        text.len() == many && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [year, month, day]
            if digits(year, 4)
                && digits(month, 2)
                && digits(day, 2)
                && ("01"..="12").contains(month)
                && ("01"..="31").contains(day) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("it takes a day, such as 2026-01-31"),
    }
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let stored = args.store.open()?;
    if args.subjects {
        subjects(&stored, args.json)?
    } else {
        results(&stored, args)?
    }
    Ok(Exit::Ok)
}

fn results(stored: &Stored, args: &Args) -> Result<(), Error> {
    let found = stored.log(&LogOrder {
        row: args.workload.clone(),
        kernel: args.kernel.clone(),
        since: args.since.clone(),
        most: args.most,
    })?;
    if args.json {
        let json_of = |result: &StoredResult| {
            let StoredResult { object, kind, title, headline, rows, kernels, .. } = result;
            json!({ "id": object, "kind": kind, "title": title, "headline": headline,
                    "rows": rows, "kernels": kernels, "kept_at": result.kept_at,
                    "kept_on": result.kept_on, "kept_time": result.kept_time })
        };
        return Ok(write_stdout(&to_json(&found.iter().map(json_of).collect::<Vec<_>>())?)?);
    }
    if found.is_empty() {
        let has_any = !stored.log(&LogOrder::default())?.is_empty();
        note!(
            "ktax: {}",
            match has_any {
                true => "the store has no such result; `ktax log` without options lists all",
                false => "the store has no result yet; `ktax compare lsm` makes one",
            }
        );
        return Ok(());
    }
    let rows = found.into_iter().map(|result| {
        let answer = match (result.title.as_str(), result.headline.as_str()) {
            ("", headline) => headline.to_owned(),
            (title, "") => title.to_owned(),
            (title, headline) => format!("{title}: {headline}"),
        };
        let kept = format!("{} {}", result.kept_on, result.kept_time);
        vec![result.object.chars().take(DIGITS).collect(), kept, result.kind, answer]
    });
    let heads = ["id", "kept", "kind", "answer"];
    Ok(write_stdout(&plain_table(&heads, rows.collect(), &[2], list_options()))?)
}

fn subjects(stored: &Stored, is_json: bool) -> Result<(), Error> {
    let found = stored.subjects()?;
    if is_json {
        let json_of = |shown: &ListedSubject| {
            let subject = &shown.subject;
            json!({ "name": shown.name, "tags": shown.tags, "kernel": subject.kernel,
                    "kernel_sha256": subject.kernel_sha256, "sources": subject.sources,
                    "asked": subject.asked,
                    "boot_line": subject.boot_line, "rows": subject.rows,
                    "kept_at": subject.kept_at })
        };
        return Ok(write_stdout(&to_json(&found.iter().map(json_of).collect::<Vec<_>>())?)?);
    }
    let rows = found.into_iter().map(|shown| {
        let sources = shown.subject.sources.join(", ");
        vec![shown.name, shown.subject.rows.to_string(), shown.tags.join(", "), sources]
    });
    let heads = ["subject", "rows", "tags", "kernel"];
    Ok(write_stdout(&plain_table(&heads, rows.collect(), &[3, 2], list_options()))?)
}
