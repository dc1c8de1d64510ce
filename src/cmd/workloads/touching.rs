//! `ktax workloads --touching`: the rows that execute a function or what a patch changes.

use serde_json::json;

use super::super::exit::Exit;
use super::super::output::{list_options, write_stdout, write_words};
use crate::flow::{self, Error, Touched};
use crate::report;
use crate::text::counted;

/// More functions than a cell shows.
const FUNCTIONS: usize = 3;

pub fn run(named: &str, is_json: bool) -> Result<Exit, Error> {
    let touched = flow::touching(named)?;
    match is_json {
        true => write_stdout(&report::to_json(&to_json(&touched))?)?,
        false => write_words(&table(named, &touched))?,
    }
    Ok(Exit::Ok)
}

fn to_json(touched: &Touched) -> serde_json::Value {
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

fn table(named: &str, touched: &Touched) -> String {
    let rows = touched.rows.iter().map(|row| {
        let more = row.functions.len().saturating_sub(FUNCTIONS);
        let shown = row.functions.iter().take(FUNCTIONS).cloned().collect::<Vec<_>>().join(" ");
        let functions = if more == 0 { shown } else { format!("{shown} +{more}") };
        vec![row.row.clone(), format!("{:.2}", row.percent), functions]
    });
    let heads = ["row", "share %", "functions"];
    let mut text = match touched.rows.is_empty() {
        true => format!("No row executes a function that {named} changes or defines.\n"),
        false => report::plain_table(&heads, rows.collect(), &[], list_options()),
    };
    if !touched.not_executed.is_empty() {
        let count = counted(touched.not_executed.len(), "function");
        let names = touched.not_executed.join(", ");
        text += &format!("\nNo row executes {count}, or the compiler inlines them: {names}\n");
    }
    text + &format!(
        "\nshare %   the functions' part of the row's instructions, counted on {}\n\
         Measure the rows of a patch with `ktax compare --patch FILE -w @touching`.\n",
        touched.kernel
    )
}
