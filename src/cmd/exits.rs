//! `ktax exits`: shows where a virtual machine's time goes.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Subcommand};

use super::Exit;
use super::options::{Choice, cancel, number, one_of};
use super::output::{OutputArgs, note_stopped, text_options, try_write_stdout, write_stdout};
use super::terminal::Terminal;
use crate::flow::exits::{
    EventLevel, RecorderChoice, RecordingMethod, TableScope, VmmToRecord, become_vmm, only_table,
    record, tables, tables_since, watch,
};
use crate::flow::{self, Error};
use crate::model::{ExitPair, ExitTable};
use crate::report::{
    ClassicColumns, ExitDiff, ExitTables, JSON, TEXT, TextOptions, exits_classic, render,
};

/// Show where a virtual machine's time goes, by exit reason.
///
/// `record` and `watch` observe a running VM through the kernel's events or counters. `report` and
/// `diff` read files: recordings, traces as text, the text of `perf kvm stat report`, and copies of
/// KVM's debugfs files `timing` (e500) and `timings` (book3s HV). FILE#2 names the second table of
/// a file.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // No doc comments here: clap would show them instead of those of the arguments.
    Record(RecordArgs),
    Watch(WatchArgs),
    Report(ReportArgs),
    Diff(DiffArgs),
    /// Stop, and then become a command
    #[command(hide = true)]
    Hold(StoppedArgs),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Record(args) => run_record(args),
        Command::Watch(args) => run_watch(args),
        Command::Hold(args) => hold(args),
        Command::Report(args) => run_report(args),
        Command::Diff(args) => run_diff(args),
    }
}

const PER: [Choice<TableScope>; 3] = [
    (TableScope::Vm, "vm", "All vCPUs together"),
    (TableScope::Vcpu, "vcpu", "Each vCPU"),
    (TableScope::Both, "both", "All vCPUs together, then each"),
];
const LEVEL: [Choice<EventLevel>; 2] = [
    (
        EventLevel::Exits,
        "exits",
        "From each exit of the guest to its next entry, by the processor's reason",
    ),
    (EventLevel::Run, "run", "From each return of KVM_RUN to its next call; works with any KVM"),
];
const VIA: [Choice<RecordingMethod>; 4] = [
    (RecordingMethod::Bpf, "bpf", "Add up events in the kernel, with eBPF"),
    (RecordingMethod::Perf, "perf", "Copy events through perf's ring buffers"),
    (
        RecordingMethod::Stats,
        "stats",
        "Read KVM's statistics: counts of exits, but times of halts only",
    ),
    (
        RecordingMethod::ExitTimes,
        "timing",
        "Read the files timing and timings in debugfs (PowerPC)",
    ),
];

const COLUMNS: [Choice<ClassicColumns>; 2] = [
    (ClassicColumns::Long, "classic", "The columns of kvmppc_timing.py (2008)"),
    (
        ClassicColumns::Short,
        "classic-short",
        "The shorter columns of its tables before and after paravirtualization",
    ),
];

/// Choice of tables: of the VM or of its vCPUs.
#[derive(Debug, Clone, clap::Args)]
struct PerArgs {
    /// Print one table of the VM, one for each vCPU, or both
    #[arg(long, value_name = "PER", value_parser = one_of(&PER), default_value = "vm")]
    pub per: TableScope,
}

/// Options of a recording.
#[derive(Debug, Clone, clap::Args)]
struct RecorderArgs {
    #[command(flatten)]
    per: PerArgs,
    /// Measure time between these events [default: exits, if KVM reports them]
    #[arg(long, value_name = "LEVEL", value_parser = one_of(&LEVEL))]
    level: Option<EventLevel>,
    /// Choose how ktax gets the data [default: bpf, or perf if eBPF is refused]
    #[arg(long, value_name = "VIA", value_parser = one_of(&VIA))]
    via: Option<RecordingMethod>,
}

impl RecorderArgs {
    fn choice(&self) -> RecorderChoice {
        RecorderChoice { level: self.level, via: self.via }
    }

    /// Refuses options that KVM's own statistics and tables cannot serve.
    pub fn check(&self, target: &TargetArgs) -> Result<(), Error> {
        let (source, has_one_table) = match self.via {
            Some(RecordingMethod::Stats) => ("KVM's statistics (--via stats)", true),
            Some(RecordingMethod::ExitTimes) => ("KVM's own tables (--via timing)", false),
            _ => return Ok(()),
        };
        let conflicts = [
            (
                has_one_table && self.per.per != TableScope::Vm,
                "have only one table, for the VM; remove --per",
            ),
            (self.level.is_some(), "have no times of single exits; remove --level"),
            (
                !target.command.is_empty(),
                "exist only while the VM runs; start it, and give --pid or --vm",
            ),
        ];
        match conflicts.iter().find(|(is_wanted, _)| *is_wanted) {
            Some((_, reason)) => Err(Error::user(format!("{source} {reason}"))),
            None => Ok(()),
        }
    }
}

/// Parses a number of seconds above 0.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    number
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| "write a number of seconds above 0, such as 10".to_owned())
}

/// Options of printing tables.
#[derive(Debug, clap::Args)]
struct PrintArgs {
    /// Print the columns of a published table
    #[arg(long, alias = "layout", value_parser = one_of(&COLUMNS))]
    #[arg(conflicts_with_all = ["format", "json"], help_heading = "Output")]
    columns: Option<ClassicColumns>,
    #[command(flatten)]
    output: OutputArgs,
}

impl PrintArgs {
    pub fn print(&self, tables: &[ExitTable]) -> Result<Exit, Error> {
        let Some(columns) = self.columns else { return self.output.print(&ExitTables(tables)) };
        let text: Vec<String> = tables.iter().map(|table| exits_classic(table, columns)).collect();
        write_stdout(&text.join("\n"))?;
        Ok(Exit::Ok)
    }
}

/// Largest process ID of Linux: PID_MAX_LIMIT.
const PID_MAX: u32 = 1 << 22;

/// VM to record.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "vm", "command"]))]
struct TargetArgs {
    /// Observe this process, a VMM such as qemu-system-x86_64
    #[arg(long, value_name = "PID")]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=PID_MAX))]
    pid: Option<u32>,
    /// Observe the VM of this name: -name of QEMU, --id of Firecracker
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Start when the command stops itself (SIGSTOP), and end when it stops itself again
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "vm"])]
    from_stop: bool,
    /// Start this VMM, and observe it until it ends
    ///
    /// The command itself must be the VMM. ktax does not observe its children, so a shell must
    /// `exec` the VMM.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl TargetArgs {
    pub fn vmm(&self) -> VmmToRecord {
        match (&self.vm, self.pid) {
            (Some(name), _) => VmmToRecord::Name(name.clone()),
            (None, Some(pid)) => VmmToRecord::Pid(pid),
            // clap requires one of the three.
            (None, None) => {
                let (command, from_stop) = (self.command.clone(), self.from_stop);
                VmmToRecord::Command { command, from_stop }
            }
        }
    }
}

/// Arguments of the process that stops itself, and then becomes the command.
#[derive(Debug, clap::Args)]
struct StoppedArgs {
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn hold(args: &StoppedArgs) -> Result<Exit, Error> {
    become_vmm(&args.command)?;
    Ok(Exit::Internal)
}

/// Record a virtual machine and print where its time went
///
/// Ends with the VM, after --seconds, or with Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: RecorderArgs,
    /// Stop after SECONDS [default: when the VM ends]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    #[arg(allow_negative_numbers = true)]
    seconds: Option<Duration>,
    /// Write the tables to FILE too, for `exits report` and `exits diff`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    print: PrintArgs,
}

fn run_record(args: &RecordArgs) -> Result<Exit, Error> {
    let cancel = cancel()?;
    args.how.check(&args.target)?;
    if let Some(path) = &args.out {
        flow::check_output(path)?;
    }
    let (vmm, how, terminal) = (args.target.vmm(), &args.how, Terminal::new());
    let tables = record(&vmm, how.choice(), how.per.per, args.seconds, cancel, &terminal)?;
    let Some(tables) = tables else {
        return Ok(note_stopped(""));
    };
    // Print the recording even if the file cannot be written.
    let result = args.print.print(&tables);
    if let Some(path) = &args.out {
        let json = render(&ExitTables(&tables), JSON, TextOptions::default())?;
        flow::write_output(path, &json)?;
    }
    result
}

/// Show the exits of a running virtual machine, counted since the start of `watch`
///
/// Ends with the VM, with Ctrl-C, or when its output is closed.
#[derive(Debug, clap::Args)]
struct WatchArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: RecorderArgs,
    /// Redraw every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    #[arg(allow_negative_numbers = true)]
    interval: Duration,
}

/// Moves the cursor to the upper left, and clears everything below it.
const CLEAR: &str = "\x1b[H\x1b[J";

fn run_watch(args: &WatchArgs) -> Result<Exit, Error> {
    let cancel = cancel()?;
    args.how.check(&args.target)?;
    let (vmm, how) = (args.target.vmm(), &args.how);
    let show = |tables: &[ExitTable]| {
        let text = render(&ExitTables(tables), TEXT, text_options())?;
        Ok(try_write_stdout(&screen(&text))?)
    };
    match watch(&vmm, how.choice(), how.per.per, args.interval, cancel, &show)? {
        true => Ok(Exit::Ok),
        false => Ok(note_stopped("")),
    }
}

/// Cuts a text to one screen of the terminal, which replaces the last screen. A pipe gets all
/// lines.
fn screen(text: &str) -> String {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return format!("{text}\n");
    }
    let rows = rustix::termios::tcgetwinsize(&stdout).map_or(24, |size| size.ws_row);
    let lines: Vec<&str> = text.lines().take(usize::from(rows.max(2)) - 1).collect();
    format!("{CLEAR}{}\n", lines.join("\n"))
}

/// Print the tables of a file, or of a run directory of guests
///
/// The file is a recording, a saved comparison of guests, a trace of perf, trace-cmd or ftrace as
/// text, the text of `perf kvm stat report`, or a copy of KVM's timing files in debugfs.
#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Read this file or run directory
    #[arg(value_name = "FILE|DIR[#NUMBER]")]
    file: String,
    /// Subtract this earlier read of the same timing file
    #[arg(long, value_name = "FILE[#NUMBER]")]
    since: Option<String>,
    /// Make one table of the VM, one for each vCPU, or both, from a trace [default: vm]
    #[arg(long, value_name = "PER", value_parser = one_of(&PER))]
    per: Option<TableScope>,
    #[command(flatten)]
    print: PrintArgs,
}

fn run_report(args: &ReportArgs) -> Result<Exit, Error> {
    let per = args.per;
    let tables = match &args.since {
        None => tables(&args.file, per)?,
        Some(earlier) => tables_since(&args.file, earlier, per)?,
    };
    args.print.print(&tables)
}

/// Compare two tables, reason by reason, for each second of their recordings
#[derive(Debug, clap::Args)]
struct DiffArgs {
    /// Read the table before the change
    #[arg(value_name = "BASE[#NUMBER]")]
    base: String,
    /// Read the table after the change
    #[arg(value_name = "CHANGE[#NUMBER]")]
    change: String,
    /// Compare totals, because both recordings did the same work
    #[arg(long)]
    totals: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn run_diff(args: &DiffArgs) -> Result<Exit, Error> {
    let (base, change) = (only_table(&args.base)?, only_table(&args.change)?);
    let pair = ExitPair { base, change, totals: args.totals };
    args.output.print(&ExitDiff(&pair))
}
