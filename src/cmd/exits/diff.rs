use crate::cmd::exit::Exit;
use crate::cmd::output::OutputArgs;
use crate::flow::Error;
use crate::flow::exits::only_table;
use crate::report::ExitDiff;

/// Compare two tables, reason by reason
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read the table before the change
    #[arg(value_name = "BASE[#NUMBER]")]
    base: String,
    /// Read the table after the change
    #[arg(value_name = "CHANGE[#NUMBER]")]
    change: String,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let (base, change) = (only_table(&args.base)?, only_table(&args.change)?);
    args.output.print(&ExitDiff { base: &base, change: &change })?;
    Ok(Exit::Ok)
}
