use std::io::IsTerminal;
use std::time::{Duration, Instant};

use super::args::{HowArgs, seconds, texts};
use super::target::TargetArgs;
use crate::cmd::drive::{cancel, is_cancelled};
use crate::cmd::exit::Exit;
use crate::cmd::output::offer_stdout;
use crate::exits::live::Recorder;

/// Show a virtual machine's exits while it runs, since the start of watching
///
/// Ends with the VM, with Ctrl-C, or when nobody reads the output any more.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Show it anew every so often
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
}

/// To the upper left, and everything below it away.
const CLEAR: &str = "\x1b[H\x1b[J";

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    cancel()?;
    args.how.check(&args.target)?;
    let Some(target) = args.target.open()? else { return Ok(Exit::Cancelled) };
    let mut recorder = Recorder::attach(&target.process, &target.of, args.how.choice())?;
    target.go()?;
    let (mut is_over, mut is_marked, mut is_read) = (false, false, true);
    while is_read && !is_over && !is_marked && !is_cancelled() {
        let shown = Instant::now();
        while !is_over && !is_marked && !is_cancelled() && shown.elapsed() < args.interval {
            let left = args.interval.saturating_sub(shown.elapsed());
            is_over = target.process.ended_within(left.min(Duration::from_millis(100)))?;
            recorder.poll()?;
            is_marked = !is_over && target.has_marked_its_end()?;
        }
        let text = texts(&recorder.tables(args.how.per())?, None);
        is_read = offer_stdout(&screen(&text))?;
    }
    recorder.finish(args.how.per(), is_marked)?;
    if is_marked {
        target.go_to_the_end()?;
        is_over = !is_cancelled();
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
