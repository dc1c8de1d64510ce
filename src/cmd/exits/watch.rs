use std::io::IsTerminal;
use std::time::Duration;

use super::args::{HowArgs, seconds};
use super::target::TargetArgs;
use crate::cmd::exit::Exit;
use crate::cmd::host::cancel;
use crate::cmd::note::note;
use crate::cmd::output::{offer_stdout, text_options};
use crate::flow::Error;
use crate::flow::exits::watch;
use crate::model::ExitTable;
use crate::report::{ExitTables, TEXT, render};

/// Show the exits of a running virtual machine, counted since the start of `watch`
///
/// Ends with the VM, with Ctrl-C, or when its output is closed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Redraw every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    interval: Duration,
}

/// To the upper left, and everything below it away.
const CLEAR: &str = "\x1b[H\x1b[J";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let cancel = cancel()?;
    args.how.check(&args.target)?;
    let (vmm, how) = (args.target.vmm(), &args.how);
    let show = |tables: &[ExitTable]| {
        let text = render(&ExitTables(tables), TEXT, text_options())?;
        Ok(offer_stdout(&screen(&text))?)
    };
    match watch(&vmm, how.choice(), how.per(), args.interval, cancel, &show)? {
        true => Ok(Exit::Ok),
        false => {
            note!("ktax: stopped");
            Ok(Exit::Cancelled)
        }
    }
}

/// On a terminal one screen of it, in the place of the last.
fn screen(text: &str) -> String {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return format!("{text}\n");
    }
    let rows = rustix::termios::tcgetwinsize(&stdout).map_or(24, |size| size.ws_row);
    let lines: Vec<&str> = text.lines().take(usize::from(rows.max(2)) - 1).collect();
    format!("{CLEAR}{}\n", lines.join("\n"))
}
