use super::args::{PerArgs, PrintArgs};
use super::file::tables;
use crate::cmd::exit::Exit;

/// Print the tables of a file
///
/// The file is a recording, a trace of perf, trace-cmd or ftrace as text, or a copy of debugfs'
/// timing files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What a kernel wrote
    #[arg(value_name = "FILE[#NUMBER]")]
    file: String,
    /// Of a trace
    #[command(flatten)]
    per: PerArgs,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    args.print.print(&tables(&args.file, args.per.per)?)?;
    Ok(Exit::Ok)
}
