use super::args::{PER, PrintArgs};
use crate::cmd::choice::one_of;
use crate::cmd::exit::Exit;
use crate::flow::Error;
use crate::flow::exits::{Per, tables, tables_since};

/// Print the tables of a file, or of a run directory of guests
///
/// The file is a recording, a saved comparison of guests, a trace of perf, trace-cmd or ftrace as
/// text, the text of `perf kvm stat report`, or a copy of KVM's timing files in debugfs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this file or run directory
    #[arg(value_name = "FILE|DIR[#NUMBER]")]
    file: String,
    /// Subtract this earlier read of the same timing file
    #[arg(long, value_name = "FILE[#NUMBER]")]
    since: Option<String>,
    /// Make one table of the VM, one for each vCPU, or both, from a trace [default: vm]
    #[arg(long, value_name = "PER", value_parser = one_of(&PER))]
    per: Option<Per>,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let per = args.per;
    let tables = match &args.since {
        None => tables(&args.file, per)?,
        Some(earlier) => tables_since(&args.file, earlier, per)?,
    };
    args.print.print(&tables)?;
    Ok(Exit::Ok)
}
