use super::file::only_table;
use crate::cmd::exit::Exit;
use crate::cmd::output::{text_options, write_stdout};
use crate::report;

/// Compare two tables, reason by reason
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Before
    #[arg(value_name = "BASE[#NUMBER]")]
    base: String,
    /// After
    #[arg(value_name = "CHANGE[#NUMBER]")]
    change: String,
    /// Print both as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let (base, change) = (only_table(&args.base)?, only_table(&args.change)?);
    let text = match args.json {
        true => report::json(&crate::model::Sides { base, change })?,
        false => report::exits_diff(&base, &change, text_options()),
    };
    write_stdout(&text)?;
    Ok(Exit::Ok)
}
