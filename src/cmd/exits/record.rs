use std::path::PathBuf;
use std::time::Duration;

use super::args::{HowArgs, PrintArgs, seconds};
use super::target::TargetArgs;
use crate::cmd::exit::Exit;
use crate::cmd::host::cancel;
use crate::cmd::note::note;
use crate::cmd::terminal::Terminal;
use crate::flow::exits::record;
use crate::flow::{self, Error};
use crate::report::{ExitTables, JSON, TextOptions, render};

/// Record a virtual machine and print where its time went
///
/// Ends with the VM, after --seconds, or with Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Stop after SECONDS [default: when the VM ends]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,
    /// Write the tables to FILE too, for `exits report` and `exits diff`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let cancel = cancel()?;
    args.how.check(&args.target)?;
    if let Some(path) = &args.out {
        flow::check_output(path)?;
    }
    let (vmm, how, terminal) = (args.target.vmm(), &args.how, Terminal::new());
    let recorded = record(&vmm, how.choice(), how.per(), args.seconds, cancel, &terminal)?;
    let Some(tables) = recorded else {
        note!("ktax: stopped");
        return Ok(Exit::Cancelled);
    };
    // What was recorded is not lost with the file.
    let printed = args.print.print(&tables);
    if let Some(path) = &args.out {
        let json = render(&ExitTables(&tables), JSON, TextOptions::default())?;
        flow::write_output(path, &json)?;
    }
    printed?;
    Ok(Exit::Ok)
}
