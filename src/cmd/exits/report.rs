use super::args::{PerArgs, PrintArgs};
use super::file::tables;
use crate::cmd::exit::Exit;
use crate::exits::since;
use crate::flow::Error;

/// Print the tables of a file
///
/// The file is a recording, a trace of perf, trace-cmd or ftrace as text, or a copy of KVM's timing
/// files in debugfs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this file
    #[arg(value_name = "FILE[#NUMBER]")]
    file: String,
    /// Subtract this earlier read of the same timing file
    #[arg(long, value_name = "FILE[#NUMBER]")]
    since: Option<String>,
    /// Of a trace
    #[command(flatten)]
    per: PerArgs,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let later = tables(&args.file, args.per.per)?;
    let Some(name) = &args.since else {
        args.print.print(&later)?;
        return Ok(Exit::Ok);
    };
    let earlier = tables(name, args.per.per)?;
    if earlier.len() != later.len() {
        let several = if later.len() > 1 { &args.file } else { name };
        return Err(Error::Usage(format!(
            "{name} has {} tables, and {} has {}; name one of each, such as {several}#1",
            earlier.len(),
            args.file,
            later.len()
        )));
    }
    let both = earlier.iter().zip(&later).map(|(earlier, later)| since(earlier, later));
    let tables = both
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::Usage(format!("{} since {name}: {error}", args.file)))?;
    args.print.print(&tables)?;
    Ok(Exit::Ok)
}
