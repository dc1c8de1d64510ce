//! `compare`, its phases `plan`, `run` and `analyse`, and the commands that make several
//! comparisons: `ledger` and `bisect`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::Exit;
use super::experiment::{CountedArgs, ExperimentArgs, RowArgs};
use super::options::{self, HostArgs, SIDES, first_unused_directory, one_of};
use super::output::{OutputArgs, note, note_directory, note_stopped, write_stdout};
use super::terminal::Terminal;
use crate::flow::bisect::Search;
use crate::flow::ledger::RankedLedger;
use crate::flow::remaining::Part;
use crate::flow::{self, Ended, Error, Options, Session};
use crate::model::{Comparison, Side};
use crate::plan::{Experiment, ExperimentMethod, Ledger};
use crate::report::{self, Document};
use crate::rundir::{AnyRunDir, check_free};
use crate::text::{shell_line, shell_path};

/// Plan, run, analyse and report in one command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct CompareArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Make this run directory [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Exit as `git bisect run` expects: 0 not slower, 3 slower, 125 skip, 128 or more stop
    #[arg(long, help_heading = "Output")]
    pub(super) bisect: bool,
    /// Show estimates while pairs are measured; this does not change when the run stops
    #[arg(long, help_heading = "Timed engines")]
    peek: bool,
    /// Trace the programs whose counts differ between layouts, and say which system calls gave them
    /// something else
    #[arg(long, help_heading = "Your program")]
    explain_noise: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const EXAMPLE: &str = "\
An experiment file:
  title = \"What does audit cost?\"
  workloads = [\"getppid\", \"open-close\"]
  base = { kernel = \"debian:cloud-amd64\", boot_line = \"audit=0\" }
  change = { kernel = \"debian:cloud-amd64\", boot_line = \"audit=1\" }";

/// Runs the four phases, once for each value of a sweep.
pub fn compare(args: &CompareArgs) -> Result<Exit, Error> {
    let points = flow::sweep_points(&args.experiment.experiment()?)?;
    points.iter().try_for_each(|(_, experiment)| flow::check(experiment, options(args)))?;
    args.host.with_session(&Terminal::new(), |session| measure(args, &points, session))
}

fn measure(
    args: &CompareArgs,
    points: &[(String, Experiment)],
    session: &Session<'_>,
) -> Result<Exit, Error> {
    let out = args.out.clone().unwrap_or_else(first_unused_directory);
    let paths = flow::sweep_directories(&out, points.iter().map(|(name, _)| name.as_str()));
    paths.iter().try_for_each(|path| check_free(path))?;
    let dirs = match flow::prepare_sweep(points, &paths, session) {
        // A commit without the option cannot be judged.
        Err(error) if args.bisect && !error.is_cancelled() => {
            note!("ktax: {}", flow::why_unbuilt(error)?);
            return Ok(Exit::NotRun);
        }
        prepared => prepared?,
    };
    let mut comparisons = Vec::new();
    for (index, dir) in dirs.iter().enumerate() {
        session.observer.part(Part { index, count: dirs.len(), shares_base: false });
        match flow::measure(dir, options(args), session) {
            Ok(Some(comparison)) => comparisons.push(comparison),
            unfinished => return note_stopped_sweep(&dirs, index, unfinished.map(drop)),
        }
    }
    let points = points.iter().zip(&comparisons);
    let documents = points.map(|((name, _), report)| Document::with_name(name, report));
    args.output.print_all(&documents.collect::<Vec<Document<'_>>>())?;
    note_directory(&out);
    dirs.iter()
        .zip(&comparisons)
        .for_each(|(dir, comparison)| note_how_to_repeat(dir.root(), comparison));
    if args.explain_noise {
        let mut runs = dirs.iter().zip(&comparisons);
        runs.try_for_each(|(dir, comparison)| note_noise(dir, comparison, session))?;
    }
    Ok(Exit::from_comparisons(&comparisons))
}

fn options(args: &CompareArgs) -> Options {
    Options { peek: args.peek, ..Options::default() }
}

/// Lists the finished and unfinished runs of a sweep whose run `index` did not finish.
fn note_stopped_sweep(
    dirs: &[AnyRunDir],
    index: usize,
    result: Result<(), Error>,
) -> Result<Exit, Error> {
    // The same command would refuse the existing directories, so name the command that resumes.
    let result = result.or_else(|error| if error.is_cancelled() { Ok(()) } else { Err(error) });
    if let ([dir], Ok(())) = (dirs, &result) {
        return Ok(note_cancelled(dir.root(), ""));
    }
    if dirs.len() > 1 {
        note!("ktax: stopped in run {} of {}", index + 1, dirs.len());
        let paths: Vec<&Path> = dirs.iter().map(AnyRunDir::root).collect();
        flow::describe_runs(&paths, index).iter().for_each(|line| note!("ktax: {line}"));
    }
    result.map(|()| Exit::Cancelled)
}

/// Returns true if a row failed because of this host, so that another try may succeed.
pub fn has_host_failure(comparison: &Comparison) -> bool {
    let mut failures = comparison.rows.iter().flat_map(|row| &row.failures);
    failures.any(|failed| failed.failure.is_worth_retrying())
}

/// Names the command that repeats rows that failed because of this host. Rows that failed because
/// of a guest would fail again.
pub fn note_how_to_repeat(root: &Path, comparison: &Comparison) {
    if has_host_failure(comparison) {
        let failures = comparison.rows.iter().flat_map(|row| &row.failures);
        let limit_s = failures.filter_map(|failed| failed.failure.longer_limit_s()).max();
        let option = limit_s.map_or(String::new(), |s| format!(" --time-limit {s}"));
        note!("ktax: run what failed again with `ktax run {}{option}`", shell_path(root));
    }
}

/// Explains why programs are noisy.
pub fn note_noise(
    dir: &AnyRunDir,
    comparison: &Comparison,
    session: &Session<'_>,
) -> Result<(), Error> {
    let lines = flow::explain_noise(dir, comparison, session)?;
    lines.iter().for_each(|line| note!("ktax: {line}"));
    Ok(())
}

/// Notes that the user stopped the run, and names the command that resumes it; `options` follows
/// the directory.
pub fn note_cancelled(root: &Path, options: &str) -> Exit {
    note_stopped(&format!("; resume with `ktax run {}{options}`", shell_path(root)))
}

/// Plan which boots to run, without running any.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Write the plan to this new run directory [default: print the plan]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

pub fn plan(args: &PlanArgs) -> Result<Exit, Error> {
    let points = flow::sweep_points(&args.experiment.experiment()?)?;
    let [(_, experiment)] = points.as_slice() else {
        return Err(Error::user(
            "a sweep of settings needs several plans; sweep settings with `ktax compare`",
        ));
    };
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let plan = flow::plan(experiment, &session)?;
    let estimate = flow::estimate(&plan, &session);
    match &args.out {
        Some(out) => {
            let dir = AnyRunDir::create(out, plan)?;
            note!("ktax: {}", flow::planned(&dir));
        }
        None => write_stdout(&report::to_json(&plan)?)?,
    }
    if let Some(estimate) = estimate {
        note!("ktax: {estimate}");
    }
    Ok(Exit::Ok)
}

/// Run the boots of a plan that have no results yet, and exit as `ktax compare` does.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Run the plan in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show estimates while pairs are measured; this does not change when the run stops
    #[arg(long)]
    peek: bool,
    /// Measure a block of 20 boots for this side; only for kernels that you boot yourself
    #[arg(long, value_parser = one_of(&SIDES), value_name = "SIDE")]
    side: Option<Side>,
    /// Trace the programs whose counts differ between layouts, and say which system calls gave them
    /// something else
    #[arg(long, conflicts_with = "side")]
    explain_noise: bool,
    /// Continue with a warning if base and change differ in more than was declared (timed runs)
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &RunArgs) -> Result<Exit, Error> {
    let dir = AnyRunDir::open(&args.dir)?;
    args.host.with_session(&Terminal::new(), |session| measure_plan(args, &dir, session))
}

fn measure_plan(args: &RunArgs, dir: &AnyRunDir, session: &Session<'_>) -> Result<Exit, Error> {
    let options = Options { peek: args.peek, allow_differences: args.allow_differences };
    if let Some(side) = args.side {
        if options != Options::default() {
            return Err(Error::user(
                "--peek and --allow-differences do not apply to a block; remove --peek, and give \
                 --allow-differences to `ktax analyse`",
            ));
        }
        let _lock = dir.lock()?;
        return Ok(match flow::run_block(dir, side, session)? {
            None => note_cancelled(dir.root(), &format!(" --side {}", side.name())),
            Some(next) => {
                note!("ktax: measured the block; {next}");
                Exit::Ok
            }
        });
    }
    let _lock = dir.lock()?;
    Ok(match flow::run(dir, options, session)? {
        Ended::Cancelled => note_cancelled(dir.root(), ""),
        // The exit status is that of `ktax compare`.
        Ended::Complete => {
            let comparison =
                flow::analyse_and_keep(dir, Options { peek: false, ..options }, session)?;
            args.output.print(&comparison)?;
            note_directory(dir.root());
            note_how_to_repeat(dir.root(), &comparison);
            if args.explain_noise {
                note_noise(dir, &comparison, session)?;
            }
            Exit::from_comparisons(&[comparison])
        }
    })
}

/// Compare base and change, from the boots that a run has made.
#[derive(Debug, clap::Args)]
pub struct AnalyseArgs {
    /// Analyse the run in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Judge with a warning if base and change differ in more than was declared (timed runs)
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn analyse(args: &AnalyseArgs) -> Result<Exit, Error> {
    let dir = AnyRunDir::open(&args.dir)?;
    let _lock = dir.lock()?;
    let allow_differences = args.allow_differences;
    let comparison = flow::analyse(&dir, Options { allow_differences, ..Options::default() })?;
    args.output.print(&comparison)?;
    Ok(Exit::from_comparisons(&[comparison]))
}

/// Compare several additions with one base, and rank them by what they cost.
#[derive(Debug, clap::Args)]
#[command(after_help = LEDGER_EXAMPLE)]
pub struct LedgerArgs {
    /// Read the base and its additions from this ledger file, or from this one of `ktax
    /// experiments`
    #[arg(value_name = "LEDGER.toml|NAME", value_parser = options::ledger())]
    #[arg(hide_possible_values = true)]
    ledger: PathBuf,
    #[command(flatten)]
    rows: RowArgs,
    /// Keep a run directory for each addition in DIR, and resume those that exist [default: the
    /// first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const LEDGER_EXAMPLE: &str = "\
A ledger file:
  title = \"What do the mitigations cost?\"
  workloads = [\"getppid\", \"page-fault\"]
  base = { kernel = \"debian:cloud-amd64\", boot_line = \"mitigations=off\" }
  add = [
    { name = \"pti\", boot_line = \"pti=on\" },
    { name = \"audit\", boot_line = \"audit=1\" },
  ]

Exit status:
  0  all measured, even if slower       4   too few boots, or different work
  1  ktax or its host failed            69  a boot or a run failed, or an addition not built
  2  usage error                        130 stopped by Ctrl-C; the same --out resumes";

pub fn rank(args: &LedgerArgs) -> Result<Exit, Error> {
    let name = args.ledger.display().to_string();
    let text = flow::ledger_text(&args.ledger)?;
    let mut file = Ledger::read(&text, &name)?;
    args.rows.choose_programs(&mut file)?;
    args.rows.apply(&mut file)?;
    let words = ["ktax", "ledger", &name].map(str::to_owned).into_iter().chain(args.rows.words());
    let ledger = Ledger::from_file(file, &name)?.with_command(words.collect());
    let out = args.out.clone().unwrap_or_else(first_unused_directory);
    let command = format!("{} --out {}", shell_line(&ledger.again), shell_path(&out));
    args.host.with_session(&Terminal::new(), |session| {
        let ranked = flow::ledger::rank(&ledger, &out, session)?;
        print_ledger(args, ranked, &out, &command)
    })
}

fn print_ledger(
    args: &LedgerArgs,
    ranked: Option<RankedLedger>,
    out: &Path,
    command: &str,
) -> Result<Exit, Error> {
    let Some(ranked) = ranked else {
        return Ok(note_stopped(&format!("; resume with `{command}`")));
    };
    args.output.print(&ranked.table)?;
    note_directory(out);
    if ranked.comparisons.iter().any(has_host_failure) {
        note!("ktax: run what failed again with `{command}`");
    }
    // A slowdown is no failure of a ledger; a missing measurement is.
    match ranked.table.not_built.is_empty() {
        true => Ok(Exit::from_failures(&ranked.comparisons)),
        false => Ok(Exit::NotRun),
    }
}

/// Find the commits, options, patches or parameters that carry a difference.
///
/// The differences between base and change form a chain: commits of a history, options of a
/// configuration, patches, or kernel parameters. ktax measures points of this chain. Each point is
/// measured once, because counts have no noise. ktax finds every element that carries a share of
/// the difference, and prints the share. It only reads your tree, and checks nothing out.
#[derive(Debug, clap::Args)]
#[command(after_help = BISECT_EXAMPLES)]
pub struct BisectArgs {
    #[command(subcommand)]
    command: BisectCommand,
}

const BISECT_EXAMPLES: &str = "\
Examples:
  ktax bisect start --tree linux --base git:v6.12.1 --change git:v6.12.9 -w fork-exit
  ktax bisect start --kernel debian-src:6.12 --config hardened.config -w open-close
  ktax bisect start --kernel src:linux --patch 1.patch --patch 2.patch -w pipe
  ktax bisect start --kernel debian:cloud-amd64 \\
      --change-boot-line 'pti=on audit=1 slab_nomerge' -- ./reproducer

A commit that does not build or boot is skipped.

Exit status:
  0  found, or nothing to find   4  some elements could not be told apart, or different work
  1  ktax or its host failed     69 base or change could not be run
  2  usage error                 130 stopped by Ctrl-C; `ktax bisect run DIR` resumes";

#[derive(Debug, Subcommand)]
enum BisectCommand {
    Start(Box<BisectStartArgs>),
    Run(Box<BisectRunArgs>),
}

/// Compare base and change with the exact engine, then search
#[derive(Debug, clap::Args)]
struct BisectStartArgs {
    #[command(flatten)]
    experiment: CountedArgs,
    /// Make this directory for the search [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// Resume a search that was stopped, or print one that is finished
#[derive(Debug, clap::Args)]
struct BisectRunArgs {
    /// Resume or print the search in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

pub fn bisect(args: &BisectArgs) -> Result<Exit, Error> {
    let terminal = Terminal::new();
    match &args.command {
        BisectCommand::Start(args) => {
            let experiment = args.experiment.experiment()?;
            let ExperimentMethod::Counts(counts) = &experiment.method else {
                return Err(Error::user(
                    "bisect needs exact counts, so it only works with the exact engine; remove the \
                     keys engine and host from the experiment file",
                ));
            };
            let experiment = experiment.with_method(counts.clone());
            let out = args.out.clone().unwrap_or_else(first_unused_directory);
            args.host.with_session(&terminal, |session| {
                print_search(flow::bisect::start(experiment, &out, session)?, &out, &args.output)
            })
        }
        BisectCommand::Run(args) => args.host.with_session(&terminal, |session| {
            print_search(flow::bisect::resume(&args.dir, session)?, &args.dir, &args.output)
        }),
    }
}

fn print_search(search: Search, out: &Path, output: &OutputArgs) -> Result<Exit, Error> {
    if let Some(result) = search.result() {
        output.print(result)?;
    }
    let bisection = match search {
        Search::Stopped { next } => return Ok(note_stopped(&format!("; to resume, {next}"))),
        Search::Nothing(nothing) => {
            note_directory(out);
            return Ok(Exit::from_failures([nothing.comparison()]));
        }
        Search::Found(bisection) => bisection,
    };
    note_directory(out);
    let mut carriers = bisection.carriers.iter().flatten();
    let is_certain = carriers.all(|carrier| carrier.count_with == carrier.count_before + 1);
    Ok(if is_certain { Exit::Ok } else { Exit::Inconclusive })
}
