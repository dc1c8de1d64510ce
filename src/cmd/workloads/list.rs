use serde_json::json;

use super::super::exit::Exit;
use super::super::output::{list_options, write_stdout, write_words};
use crate::flow::Error;
use crate::plan::{Definition, PlanError, definitions};
use crate::report;

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Also list the control workloads, and why each workload exists
    #[arg(short, long)]
    all: bool,
    /// Print all fields as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ListArgs) -> Result<Exit, Error> {
    let mut definitions = definitions()?;
    definitions.retain(|definition| args.all || !definition.hidden);
    // By group, and the files' order within it.
    definitions.sort_by(|left, right| left.group.cmp(&right.group));
    if args.json {
        let all = definitions.iter().map(to_json).collect::<Result<Vec<_>, _>>()?;
        write_stdout(&report::to_json(&all)?)?;
    } else {
        let mut text = table(&definitions)?;
        if args.all {
            let reasons = definitions.iter().map(|definition| {
                let words: Vec<&str> = definition.why.split_whitespace().collect();
                vec![definition.name.clone(), words.join(" ")]
            });
            text += "\n";
            text += &report::plain_table(&["workload", "why"], reasons.collect(), list_options());
        }
        write_words(&(text + FOOT))?;
    }
    Ok(Exit::Ok)
}

const FOOT: &str = "
* runs only if you name it or its group: -w NAME, -w @GROUP
`ktax workloads show NAME` prints parameters, work signature and origin.
";

fn table(definitions: &[Definition]) -> Result<String, PlanError> {
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
    Ok(report::plain_table(&["workload", "rows", "asked by", "description"], rows, list_options()))
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
