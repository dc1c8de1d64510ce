use super::args::{PerArgs, PrintArgs};
use super::file::tables;
use crate::cmd::exit::{Exit, UsageError};
use crate::exits::since;

/// Print the tables of a file
///
/// The file is a recording, a trace of perf, trace-cmd or ftrace as text, or a copy of debugfs'
/// timing files.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What a kernel wrote
    #[arg(value_name = "FILE[#NUMBER]")]
    file: String,
    /// Only what came after this earlier read of the same timing file, which cannot be cleared or
    /// is not to be
    #[arg(long, value_name = "FILE[#NUMBER]")]
    since: Option<String>,
    /// Of a trace
    #[command(flatten)]
    per: PerArgs,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let later = tables(&args.file, args.per.per)?;
    let Some(name) = &args.since else {
        args.print.print(&later)?;
        return Ok(Exit::Ok);
    };
    let earlier = tables(name, args.per.per)?;
    if earlier.len() != later.len() {
        let several = if later.len() > 1 { &args.file } else { name };
        return Err(UsageError::Text(format!(
            "tables in {name}: {}, in {}: {}; name one of them, such as {several}#1",
            earlier.len(),
            args.file,
            later.len()
        ))
        .into());
    }
    let both = earlier.iter().zip(&later).map(|(earlier, later)| since(earlier, later));
    let tables = both
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| UsageError::Text(format!("{} since {name}: {error}", args.file)))?;
    args.print.print(&tables)?;
    Ok(Exit::Ok)
}
