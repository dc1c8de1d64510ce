use comfy_table::{Table, presets};
use serde_json::json;

use super::exit::Exit;
use super::output::write_stdout;
use crate::plan::{Definition, definitions};

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
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["row", "ops", "one operation is"]);
        for row in definitions.iter().flat_map(Definition::rows) {
            table.add_row([row.row, row.ops.to_string(), row.operation]);
        }
        let mut text = table.trim_fmt() + "\n";
        if args.all {
            for definition in &definitions {
                text += &format!("\n{}: {}\n", definition.name, definition.why);
            }
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
        "rows": definition.rows(),
    })
}
