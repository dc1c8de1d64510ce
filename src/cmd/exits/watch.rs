use std::io::IsTerminal;
use std::time::{Duration, Instant};

use super::args::{HowArgs, seconds};
use super::target::TargetArgs;
use crate::cmd::exit::Exit;
use crate::cmd::host::cancel;
use crate::cmd::output::{offer_stdout, text_options};
use crate::exits::live::Recorder;
use crate::flow::Error;
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
    interval: Duration,
}

/// To the upper left, and everything below it away.
const CLEAR: &str = "\x1b[H\x1b[J";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let cancel = cancel()?;
    args.how.check(&args.target)?;
    let Some(target) = args.target.open(cancel)? else { return Ok(Exit::Cancelled) };
    let mut recorder = Recorder::attach(&target.process, &target.of, args.how.choice())?;
    target.go()?;
    let (mut is_over, mut is_marked, mut is_read) = (false, false, true);
    while is_read && !is_over && !is_marked && !target.is_cancelled() {
        let shown = Instant::now();
        while !is_over && !is_marked && !target.is_cancelled() && shown.elapsed() < args.interval {
            let left = args.interval.saturating_sub(shown.elapsed());
            is_over = target.process.ended_within(left.min(Duration::from_millis(100)))?;
            recorder.poll()?;
            is_marked = !is_over && target.has_marked_its_end()?;
        }
        let tables = recorder.tables(args.how.per())?;
        let text = render(&ExitTables(&tables), TEXT, text_options())?;
        is_read = offer_stdout(&screen(&text))?;
    }
    recorder.finish(args.how.per(), is_marked)?;
    if is_marked {
        target.go_to_the_end()?;
        is_over = !target.is_cancelled();
    }
    target.end(is_over)?;
    Ok(Exit::Ok)
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
