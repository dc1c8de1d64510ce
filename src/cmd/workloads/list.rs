use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::exit::Exit;
use super::super::output::{list_options, write_stdout, write_words};
use super::touching;
use crate::cmd::host::cancel;
use crate::flow::{self, Error, cache_directory};
use crate::plan::{Definition, PlanError, definitions, with_definitions};
use crate::report::{self, TextOptions};

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Also list the control workloads, and why each workload exists
    #[arg(short, long)]
    all: bool,
    /// Check the workloads of this directory, compile its C files, and list its rows
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// List the rows that execute this function, what this patch changes, or what this C file
    /// defines
    #[arg(long, value_name = "FUNCTION|PATCH|FILE", conflicts_with_all = ["workloads", "all"])]
    touching: Option<String>,
    /// Print all fields as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ListArgs) -> Result<Exit, Error> {
    if let Some(named) = &args.touching {
        return touching::run(named, args.json);
    }
    let own = args.workloads.as_deref().map(checked).transpose()?;
    let mut definitions = match own {
        Some(own) => {
            with_definitions(&own)?; // none of them has a name that ktax has
            own
        }
        None => definitions()?,
    };
    definitions.retain(|definition| args.all || !definition.hidden);
    // By group, and the files' order within it.
    definitions.sort_by(|left, right| left.group.cmp(&right.group));
    if args.json {
        let all = definitions.iter().map(to_json).collect::<Result<Vec<_>, _>>()?;
        write_stdout(&report::to_json(&all)?)?;
    } else {
        let mut text = table(&definitions, list_options())?;
        if args.all {
            let reasons = definitions.iter().map(|definition| {
                let words: Vec<&str> = definition.why.split_whitespace().collect();
                vec![definition.name.clone(), words.join(" ")]
            });
            text += "\n";
            let (heads, options) = (["workload", "why"], list_options());
            text += &report::plain_table(&heads, reasons.collect(), &[], options);
        }
        write_words(&(text + if args.workloads.is_some() { "" } else { FOOT }))?;
    }
    Ok(Exit::Ok)
}

/// The workloads of a directory, whose C files compile.
fn checked(directory: &Path) -> Result<Vec<Definition>, Error> {
    flow::checked_definitions(directory, &cache_directory(None)?, &cancel()?)
}

const FOOT: &str = "
* runs only if you name it or its group: -w NAME, -w @GROUP
`ktax workloads show NAME` prints parameters, work signature and origin.
";

fn table(definitions: &[Definition], options: TextOptions) -> Result<String, PlanError> {
    let mut rows = Vec::new();
    let mut group = "";
    for definition in definitions {
        if definition.group != group {
            group = &definition.group;
            rows.push(vec![format!("@{group}"), String::new(), String::new(), String::new()]);
        }
        let count = definition.rows()?.len();
        let mark = if definition.only_named { "*" } else { "" };
        // The year is for those who look closer.
        let asked = definition.asked_by.iter().map(|document| document.name());
        let asked: Vec<&str> =
            asked.map(|n| n.trim_end_matches(|c: char| !c.is_alphabetic())).collect();
        rows.push(vec![
            format!("  {}{mark}", definition.name),
            count.to_string(),
            asked.join(" "),
            definition.title.clone(),
        ]);
    }
    let heads = ["workload", "rows", "asked by", "description"];
    Ok(report::plain_table(&heads, rows, &[2, 1], options))
}

pub fn to_json(definition: &Definition) -> Result<serde_json::Value, PlanError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_has_whole_words_and_is_told_what_is_missing() {
        let definitions = definitions().unwrap();
        let at =
            |width| table(&definitions, TextOptions { width, ..TextOptions::default() }).unwrap();
        let (narrow, usual) = (at(60), at(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.lines().next().unwrap().ends_with("description"), "{narrow}");
        let said = "Omitted to fit 60 columns: asked by; --json has all.";
        assert_eq!(narrow.lines().last(), Some(said));
        assert!(usual.contains("asked by") && !usual.contains("Omitted"), "{usual}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let known = words(&usual);
        let table = narrow.replace(said, "");
        for word in words(&table).iter().filter(|word| !word.starts_with('─')) {
            assert!(known.contains(word), "{word} is a part of a word: {narrow}");
        }
    }
}
