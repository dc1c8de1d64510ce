use serde_json::json;

use super::exit::Exit;
use super::output::write_stdout;
use crate::model::Workload;
use crate::plan::{Definition, definitions};
use crate::report;

/// List the workloads.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also the controls and the reasons
    #[arg(short, long)]
    all: bool,
    /// Print as JSON, with everything that is known
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut definitions = definitions()?;
    definitions.retain(|definition| args.all || !definition.hidden);
    let text = if args.json {
        let all: Vec<_> = definitions.iter().map(to_json).collect();
        serde_json::to_string_pretty(&all)? + "\n"
    } else {
        let rows = definitions.iter().flat_map(|definition| {
            let note = if definition.slow { " (slow: runs only when named)" } else { "" };
            let cells = |row: Workload| {
                vec![row.row, row.ops.to_string(), format!("{}{note}", row.operation)]
            };
            definition.rows().into_iter().map(cells).collect::<Vec<_>>()
        });
        let mut text = report::table(&["row", "ops", "one operation is"], rows.collect());
        if args.all {
            let reasons = definitions.iter().map(|definition| {
                let words: Vec<&str> = definition.why.split_whitespace().collect();
                vec![definition.name.clone(), words.join(" ")]
            });
            text += "\n";
            text += &report::table(&["workload", "why"], reasons.collect());
        }
        text
    };
    write_stdout(&text)?;
    Ok(Exit::Ok)
}

fn to_json(definition: &Definition) -> serde_json::Value {
    json!({
        "name": definition.name,
        "title": definition.title,
        "why": definition.why,
        "hidden": definition.hidden,
        "slow": definition.slow,
        "rows": definition.rows(),
    })
}
