//! `ktax stat`: what the kernel counts of a command, or of two.

use std::path::PathBuf;

use indicatif::ProgressBar;

use super::exit::Exit;
use super::host::cancel;
use super::output::OutputArgs;
use super::progress::bar_of_runs;
use crate::analyse;
use crate::cmd::note::note;
use crate::engine::Cancel;
use crate::engine::command::{self, CommandError};
use crate::flow::Error;
use crate::model::{Counted, FORMAT, StatCommand, StatTable};
use crate::report::{StatPage, command_line};
use crate::stats::random::Random;

/// Count what a command does on the running kernel, and compare it with another command.
///
/// The kernel counts the command and all processes that it starts: task clock, migrations, context
/// switches, page faults, cycles, instructions, cache and dTLB misses. ktax also measures the
/// elapsed time. If this machine cannot count something, the output says why. The command's stdin
/// and stdout are /dev/null.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run each command N times [default: 1; with --vs: 10]
    #[arg(short = 'n', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Compare with this command, the base; ktax splits it into words as a shell does
    #[arg(long, value_name = "COMMAND")]
    vs: Option<String>,
    /// Use this random seed for which command of a pair runs first
    #[arg(long, value_name = "N", default_value_t = 1, requires = "vs")]
    seed: u64,
    /// Print the values of all runs, for the time and the main counters
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// Show what the command prints to stdout and stderr
    #[arg(long, conflicts_with_all = ["format", "json"])]
    show_output: bool,
    /// Continue after failed runs, and count them too
    #[arg(long)]
    ignore_failure: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Run this command; with --vs, it is the change
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  ktax stat -- ls -R /usr
  ktax stat -n 10 --values -- taskset 2 ./mmap-perf 1
  ktax stat --vs 'gzip -1 -k -f file' -- gzip -9 -k -f file";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let commands = args.commands()?;
    let runs = args.runs.unwrap_or(if args.vs.is_some() { 10 } else { 1 });
    let cancel = cancel()?;
    let bar = bar_of_runs(commands.len() * runs as usize);
    // Its thread would take the CPU from what is measured.
    bar.disable_steady_tick();
    let mut sides: Vec<Repeated> = commands.into_iter().map(Repeated::new).collect();
    let mut lot = Random::new(args.seed);
    for _ in 0..runs {
        let change_first = lot.coin();
        if change_first {
            sides.reverse();
        }
        let ended = sides.iter_mut().try_for_each(|side| side.once(args, &cancel, &bar));
        if change_first {
            sides.reverse();
        }
        match ended {
            Err(Stop::Cancelled) => {
                bar.finish_and_clear();
                note!("ktax: stopped");
                return Ok(Exit::Cancelled);
            }
            Err(Stop::Failed(error)) => {
                bar.finish_and_clear();
                return Err(error);
            }
            Ok(()) => {}
        }
    }
    bar.finish_and_clear();
    let table = table(sides, runs, args.vs.as_ref().map(|_| args.seed));
    args.output.print(&StatPage { table: &table, values: args.values })?;
    Ok(Exit::Ok)
}

impl Args {
    /// The command; or the base, and the change.
    fn commands(&self) -> Result<Vec<Vec<String>>, Error> {
        let Some(base) = &self.vs else { return Ok(vec![self.command.clone()]) };
        let base = shlex::split(base).filter(|words| !words.is_empty()).ok_or_else(|| {
            Error::Usage(format!(
                "--vs {base:?} is not a command: it is empty, or a quote in it is not closed; \
                 write it as in a shell"
            ))
        })?;
        Ok(vec![base, self.command.clone()])
    }
}

/// Why there is no table.
enum Stop {
    Cancelled,
    Failed(Error),
}

/// A command, and what its runs came to.
struct Repeated {
    command: StatCommand,
    counted: Vec<Counted>,
}

impl Repeated {
    fn new(words: Vec<String>) -> Repeated {
        let command = StatCommand { words, failures: Vec::new() };
        Repeated { command, counted: Vec::new() }
    }

    /// Runs it once more.
    fn once(&mut self, args: &Args, cancel: &Cancel, bar: &ProgressBar) -> Result<(), Stop> {
        let shown = command_line(&self.command.words);
        bar.set_message(shown.clone());
        let ended = command::run(&self.command.words, args.show_output, cancel);
        let ended = ended.map_err(|error| match error {
            CommandError::Cancelled => Stop::Cancelled,
            error @ CommandError::Start { .. } => {
                Stop::Failed(Error::Usage(crate::text::escape(&error.to_string())))
            }
            error @ CommandError::Host { .. } => Stop::Failed(Error::host(error.to_string())),
        })?;
        bar.inc(1);
        if let Some(failure) = command::failure(ended.status) {
            if !args.ignore_failure {
                return Err(Stop::Failed(Error::host(format!(
                    "`{shown}` failed with {failure}{}; use --show-output to see all that it \
                     prints, or --ignore-failure to count failed runs too",
                    last_words(&ended.last_words)
                ))));
            }
            self.command.failures.push(failure);
        }
        self.counted.push(ended.counted);
        Ok(())
    }
}

/// The last lines that say something.
fn last_words(said: &[u8]) -> String {
    const LINES: usize = 3;
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() {
        String::new()
    } else {
        format!(": {}", crate::text::escape(&last.join(" | ")))
    }
}

fn table(sides: Vec<Repeated>, runs: u32, seed: Option<u64>) -> StatTable {
    let (commands, counted): (Vec<StatCommand>, Vec<Vec<Counted>>) =
        sides.into_iter().map(|side| (side.command, side.counted)).unzip();
    StatTable {
        format: FORMAT,
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        commands,
        runs: runs as usize,
        seed,
        rows: analyse::counters(&counted),
    }
}

/// How `ktax stat` starts a command.
#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    /// Where to say why it does not start
    report: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &HoldArgs) -> Result<Exit, Error> {
    command::become_command(&args.report, &args.command)?;
    Ok(Exit::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_three_lines_without_controls() {
        assert_eq!(last_words(b"one\ntwo\n\n three\nfo\x1bur\n"), ": two | three | fo\\u{1b}ur");
        assert_eq!(last_words(b"\n"), "");
    }
}
