//! Commands about this machine: `doctor`, `stat`, and `calibrate` with `validate`.

use std::path::{Path, PathBuf};

use super::Exit;
use super::experiment::random_seed;
use super::options::{HostArgs, MachineArgs, first_unused_directory, model, number};
use super::output::{OutputArgs, note_stopped, write_stdout, write_words};
use super::terminal::{Terminal, with_bar_of_runs};
use crate::flow::doctor::Check;
use crate::flow::{self, CalibrationRequest, Error, Session, StatRequest};
use crate::model::Costly;
use crate::plan::ExperimentFile;
use crate::report::{self, StatPage};
use crate::text::shell_path;

/// Check what this machine can and cannot do, and print how to fix it.
#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_STATUS)]
pub struct DoctorArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Restore the settings of this machine that a killed ktax left changed; check nothing
    #[arg(long)]
    restore: bool,
    /// Unpack the newer QEMU of this distribution's backports into DIR, beside the installed one;
    /// check nothing
    #[arg(long, value_name = "DIR", conflicts_with = "restore")]
    newer_qemu: Option<PathBuf>,
    /// Boot this bzImage to test KVM, within 20 s or --time-limit [default: the newest kernel in
    /// the cache]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    #[command(flatten)]
    host: MachineArgs,
}

const DOCTOR_STATUS: &str = "\
Marks:
  ok   works    no   does not work, and only some commands need it    BAD  ktax cannot count

Exit status:
  0  no check is BAD             69 at least one check is BAD
  1  ktax or its host failed     130 stopped by Ctrl-C
  2  usage error, or --restore while another ktax changes settings";

pub fn doctor(args: &DoctorArgs) -> Result<Exit, Error> {
    if args.restore {
        return restore(args.json);
    }
    if let Some(dir) = &args.newer_qemu {
        return newer_qemu(dir, args.json);
    }
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let Some(findings) =
        flow::doctor::run_checks(args.kernel.as_deref(), args.host.cache_size, &session)?
    else {
        return Ok(Exit::Cancelled);
    };
    let is_healthy = !findings.iter().any(Check::is_bad);
    match args.json {
        true => write_stdout(&report::to_json(&findings)?)?,
        false => write_words(&findings.iter().map(check_line).collect::<String>())?,
    }
    Ok(if is_healthy { Exit::Ok } else { Exit::NotRun })
}

fn restore(json: bool) -> Result<Exit, Error> {
    let replayed = flow::doctor::restore()?;
    write_stdout(&match json {
        true => report::to_json(&replayed)?,
        false => format!("{replayed}\n"),
    })?;
    Ok(Exit::Ok)
}

fn newer_qemu(dir: &Path, json: bool) -> Result<Exit, Error> {
    let qemu = flow::doctor::newer_qemu(dir)?;
    write_stdout(&match json {
        true => report::to_json(&qemu)?,
        false => format!(
            "QEMU {}; use it with `export KTAX_QEMU={}`\n",
            qemu.version,
            shell_path(&qemu.program)
        ),
    })?;
    Ok(Exit::Ok)
}

fn check_line(finding: &Check) -> String {
    let mark = match (finding.ok, finding.needed) {
        (true, _) => "ok  ",
        (false, false) => "no  ",
        (false, true) => "BAD ",
    };
    let fix = match finding.fix.as_str() {
        "" => String::new(),
        fix => format!("\n             fix: {fix}"),
    };
    format!("{mark} {:8} {}{fix}\n", finding.what, finding.found)
}

/// Count what a command does on the running kernel, and compare it with another command.
///
/// The kernel counts the command and all processes that it starts: task clock, migrations, context
/// switches, page faults, cycles, instructions, cache and dTLB misses. ktax also measures the
/// elapsed time. If this machine cannot count something, the output says why. The command's stdin
/// and stdout are /dev/null.
#[derive(Debug, clap::Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct StatArgs {
    /// Run each command N times [default: 1; with --vs: 10]
    #[arg(short = 'n', long, value_name = "N")]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=10_000_u32))]
    runs: Option<u32>,
    /// Compare with this command, the base; ktax splits it into words as a shell does
    #[arg(long, value_name = "COMMAND")]
    vs: Option<String>,
    /// Use this random seed for which command of a pair runs first [default: random, and printed]
    #[arg(long, value_name = "N", requires = "vs")]
    #[arg(allow_negative_numbers = true, value_parser = number(0..=u64::MAX))]
    seed: Option<u64>,
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
    /// Run this command, with all that follows it; with --vs, it is the change
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const STAT_EXAMPLES: &str = "\
Examples:
  ktax stat ls -R /usr
  ktax stat -n 10 --values taskset 2 ./mmap-perf 1
  ktax stat --vs 'gzip -1 -k -f file' gzip -9 -k -f file";

pub fn stat(args: &StatArgs) -> Result<Exit, Error> {
    let order = args.order()?;
    let runs = order.commands.len() * order.runs as usize;
    let table = with_bar_of_runs(runs, false, |cancel, show| flow::stat(&order, cancel, show));
    let Some(table) = table? else {
        return Ok(note_stopped(""));
    };
    args.output.print(&StatPage { table: &table, values: args.values })
}

impl StatArgs {
    fn order(&self) -> Result<StatRequest, Error> {
        let has_base = self.vs.is_some();
        Ok(StatRequest {
            commands: self.commands()?,
            runs: self.runs.unwrap_or(if has_base { 10 } else { 1 }),
            seed: has_base.then(|| self.seed.unwrap_or_else(random_seed)),
            shows_output: self.show_output,
            ignores_failure: self.ignore_failure,
        })
    }

    /// The command; or the base and the change.
    fn commands(&self) -> Result<Vec<Vec<String>>, Error> {
        let Some(base) = &self.vs else { return Ok(vec![self.command.clone()]) };
        let base = shlex::split(base).filter(|words| !words.is_empty()).ok_or_else(|| {
            Error::user(format!(
                "--vs {base:?} is not a command: it is empty, or a quote in it is not closed; \
                 write it as in a shell"
            ))
        })?;
        Ok(vec![base, self.command.clone()])
    }
}

/// Arguments of the process with which `ktax stat` starts a command.
#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    /// Write the error to this file if the command does not start
    report: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &HoldArgs) -> Result<Exit, Error> {
    flow::become_command(&args.report, &args.command)?;
    Ok(Exit::Internal)
}

/// Measure the cycles of each counted event on this machine, so that ktax can estimate cycles.
///
/// ktax times costly instructions, which takes seconds. Instructions that only a kernel may execute
/// need /dev/kvm. With --counts and --times, ktax also fits the cycles of instructions, misses and
/// page walks to measured rows. Each number has the interval in which 9 of 10 values lie.
#[derive(Debug, clap::Args)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub struct CalibrateArgs {
    /// Fit the rows of this comparison of the running kernel with itself; counted with --model,
    /// misses are fitted, too
    #[arg(long, value_name = "DIR", requires = "times")]
    counts: Option<PathBuf>,
    /// Fit them to these times: what `ktax workloads run --json` printed; repeat for more
    #[arg(long, value_name = "FILE", requires = "counts")]
    times: Vec<PathBuf>,
    /// Accept counts of another kernel than the one that this machine runs, for wider estimates
    #[arg(long, requires = "counts")]
    other_kernel: bool,
    /// Write this machine's caches and branches into the file [default: those of a similar machine;
    /// those that were modelled take precedence]
    #[arg(long, value_name = "MODEL|FILE", value_parser = model())]
    #[arg(hide_possible_values = true)]
    model: Option<String>,
    /// Write this file
    #[arg(short, long, value_name = "FILE.toml", default_value = "machine.toml")]
    out: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  ktax calibrate
  ktax compare --kernel /boot/vmlinuz-$(uname -r) --same --model skylake --out counted
  ktax workloads run @lmbench @memory @processes --json > timed.json
  ktax calibrate --counts counted --times timed.json --out here.toml
  ktax compare lsm --model here.toml";

pub fn calibrate(args: &CalibrateArgs) -> Result<Exit, Error> {
    let order = CalibrationRequest {
        model: args.model.clone(),
        counts_and_times: args.counts.clone().map(|counts| (counts, args.times.clone())),
        allows_other_kernel: args.other_kernel,
        out: args.out.clone(),
    };
    let kinds = Costly::ALL.len();
    let table = with_bar_of_runs(kinds, true, |cancel, show| flow::calibrate(&order, cancel, show));
    let Some(table) = table? else {
        return Ok(note_stopped("; nothing was written"));
    };
    args.output.print(&table)
}

/// Compare the estimated cycles of an experiment with measured times of the same experiment.
///
/// An experiment is counted with the model of the machine, and timed with KVM on this machine. If
/// two results are named, the first must be counted and the second timed. Rows with wrong estimates
/// come first.
#[derive(Debug, clap::Args)]
#[command(after_help = VALIDATE_EXAMPLES)]
pub struct ValidateArgs {
    /// Measure this experiment, or read the counts in this directory or file of --json
    #[arg(value_name = "EXPERIMENT|COUNTED")]
    what: PathBuf,
    /// Read the times in this directory or file of --json
    #[arg(value_name = "TIMED")]
    timed: Option<PathBuf>,
    /// Estimate for this machine: a file that `ktax calibrate` wrote
    #[arg(long, alias = "machine", value_name = "FILE")]
    model: Option<PathBuf>,
    /// Keep the run directories in this directory [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", conflicts_with = "timed", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  ktax validate lsm --model here.toml
  ktax validate counted timed --model here.toml";

pub fn validate(args: &ValidateArgs) -> Result<Exit, Error> {
    match &args.timed {
        Some(timed) => {
            let machine = args.model.as_deref();
            args.output.print(&flow::validate_results(&args.what, timed, machine)?)
        }
        None => args.host.with_session(&Terminal::new(), |session| measure_both(args, session)),
    }
}

fn measure_both(args: &ValidateArgs, session: &Session<'_>) -> Result<Exit, Error> {
    let machine = args.model.as_ref().ok_or_else(|| {
        Error::user(
            "estimates need the model of a machine; add --model FILE, which `ktax calibrate` \
             writes, or name two existing results",
        )
    })?;
    let text = flow::experiment_text(&args.what)?;
    let file = ExperimentFile::parse(&text, &args.what.display().to_string())?;
    let out = args.out.clone().unwrap_or_else(first_unused_directory);
    match flow::validate(&file, machine, &out, session)? {
        Some(validation) => args.output.print(&validation),
        None => {
            Ok(note_stopped(&format!("; the same command with --out {} continues", out.display())))
        }
    }
}
