use crate::cmd::exit::Exit;
use crate::cmd::output::OutputArgs;
use crate::flow::Error;
use crate::flow::exits::only_table;
use crate::model::ExitPair;
use crate::report::ExitDiff;

/// Compare two tables, reason by reason, for each second of their recordings
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read the table before the change
    #[arg(value_name = "BASE[#NUMBER]")]
    base: String,
    /// Read the table after the change
    #[arg(value_name = "CHANGE[#NUMBER]")]
    change: String,
    /// Compare totals, because both recordings did the same work
    #[arg(long)]
    totals: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let (base, change) = (only_table(&args.base)?, only_table(&args.change)?);
    let pair = ExitPair { base, change, totals: args.totals };
    args.output.print(&ExitDiff(&pair))?;
    Ok(Exit::Ok)
}
