use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::args::{HowArgs, PrintArgs, seconds};
use super::target::{RecordedVmm, TargetArgs};
use crate::cmd::exit::Exit;
use crate::cmd::host::cancel;
use crate::cmd::note::note;
use crate::cmd::progress::spinner;
use crate::disk::{check_writable, write_atomically};
use crate::exits::live::Recorder;
use crate::flow::Error;
use crate::model::ExitTable;
use crate::report;
use crate::text::escape;

/// How often a living VM is looked at.
const LOOK: Duration = Duration::from_millis(100);

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
        check_writable(path).map_err(|error| unwritable(path, &error))?;
    }
    let Some(target) = args.target.open(cancel)? else { return Ok(Exit::Cancelled) };
    let tables = record(args, target)?;
    // What was recorded is not lost with the file.
    let printed = args.print.print(&tables);
    if let Some(path) = &args.out {
        write_atomically(path, report::to_json(&tables)?.as_bytes())
            .map_err(|error| unwritable(path, &error))?;
    }
    printed?;
    Ok(Exit::Ok)
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    // The system's words alone: what else there is names a file that nobody asked for.
    let reason = error.raw_os_error().map_or(error.kind().to_string(), |number| {
        io::Error::from_raw_os_error(number).to_string()
    });
    let path = path.display();
    Error::Usage(format!("cannot write {path}: {reason}; give --out another path"))
}

fn record(args: &Args, target: RecordedVmm) -> Result<Vec<ExitTable>, Error> {
    let mut recorder = Recorder::attach(&target.process, &target.of, args.how.choice())?;
    target.go()?;
    let began = Instant::now();
    let bar = spinner();
    bar.set_message(format!("recording {}; Ctrl-C ends it", escape(&target.of)));
    let (mut is_over, mut is_marked) = (false, false);
    let is_long_enough = || args.seconds.is_some_and(|most| began.elapsed() >= most);
    while !is_over && !is_marked && !target.is_cancelled() && !is_long_enough() {
        let left = args.seconds.map_or(LOOK, |most| most.saturating_sub(began.elapsed()).min(LOOK));
        is_over = target.process.ended_within(left)?;
        recorder.poll()?;
        is_marked = !is_over && target.has_marked_its_end()?;
    }
    bar.finish_and_clear();
    let tables = recorder.finish(args.how.per(), is_marked)?;
    if is_marked {
        target.go_to_the_end()?;
        is_over = !target.is_cancelled();
    }
    if let Some(status) = target.end(is_over)? {
        let has_seen = tables.iter().any(|table| !table.rows.is_empty());
        if !has_seen {
            return Err(Error::host(format!(
                "the command failed ({status}), and its own process ran no guest; if it starts the \
                 VMM, let it `exec` the VMM, or give the VMM's PID with --pid"
            )));
        }
        note!("ktax: the command failed: {status}");
    }
    Ok(tables)
}
