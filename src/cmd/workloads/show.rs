use std::path::PathBuf;

use super::super::exit::Exit;
use super::super::output::{list_options, write_stdout, write_words};
use super::list;
use crate::cmd::choice::workload;
use crate::flow::{self, Error};
use crate::plan::{self, Definition, with_definitions};
use crate::report;

/// Print one workload's parameters, signature and origin
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workload, as `ktax workloads` lists it
    #[arg(value_parser = workload(), hide_possible_values = true)]
    name: String,
    /// Look it up in this directory of yours, too
    #[arg(long, value_name = "DIR")]
    workloads: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let own = args.workloads.as_deref().map(flow::definitions_of).transpose()?;
    let definitions = with_definitions(&own.unwrap_or_default())?;
    let definition = plan::find(&definitions, &args.name)?;
    match args.json {
        true => write_stdout(&report::to_json(&list::to_json(definition)?)?)?,
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
    for (at, (name, wanted)) in definition.signature.iter().enumerate() {
        let heading = if at == 0 { "signature" } else { "" };
        text += &format!("{heading:<13}{name} = {wanted}\n");
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
