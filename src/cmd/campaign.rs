//! `ktax campaign`: measures many subjects on many machines.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use super::Exit;
use super::experiment::RowArgs;
use super::options::{HostArgs, first_unused_directory, number};
use super::output::{OutputArgs, list_options, note, note_stopped, write_stdout};
use super::terminal::Terminal;
use crate::flow::campaign::{ShardEnd, ShardStatus, first_names, status};
use crate::flow::remaining::format_duration;
use crate::flow::{self, Error, Session};
use crate::model::{Blame, Saved, Shard};
use crate::plan::{Campaign, SHARD_COUNTS};
use crate::report::{Report, plain_table, to_json};
use crate::rundir::CampaignDir;
use crate::text::{counted, escape_path, shell_path};

/// Measure many kernels on many machines, with any scheduler.
///
/// A campaign is a directory that the machines share or copy. Its work is divided into shards of
/// about ten minutes. Any machine can run any shard, because counts are exact.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  ktax campaign plan kernels.toml --out C
  ktax campaign run C                           # all shards, here, one after the other
  seq 0 39 | xargs -P 8 -I{} ktax campaign run C --shard {} --jobs 1
  ktax campaign sbatch C && sh C/slurm/submit   # or on a cluster
  ktax campaign collect C";

#[derive(Debug, Subcommand)]
enum Command {
    Plan(PlanArgs),
    Run(RunArgs),
    Status(StatusArgs),
    Collect(CollectArgs),
    Sbatch(SbatchArgs),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Plan(args) => run_plan(args),
        Command::Run(args) => run_shards(args),
        Command::Status(args) => run_status(args),
        Command::Collect(args) => run_collect(args),
        Command::Sbatch(args) => run_sbatch(args),
    }
}

/// Plan a campaign: get its kernels, leave out what the store has, and divide the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = PLAN_EXAMPLE)]
struct PlanArgs {
    /// Read the subjects and rows from this file
    #[arg(value_name = "CAMPAIGN.toml")]
    file: PathBuf,
    #[command(flatten)]
    rows: RowArgs,
    /// Divide the counts into N shards [default: shards of about ten minutes]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(SHARD_COUNTS))]
    shards: Option<usize>,
    /// Make the campaign in DIR [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

const PLAN_EXAMPLE: &str = "\
A campaign file:
  title = \"What did two years of 6.1 cost?\"
  workloads = [\"getppid\", \"fork-exit\"]     # default: all rows of `ktax compare`
  subjects = [                               # each is compared with the one before it
    { kernel = \"debian:cloud-amd64=6.1.190-1\" },
    { kernel = \"debian:cloud-amd64=6.1.192-2\" },
    { kernel = \"git:v6.1.193\", tree = \"linux\", boot_line = \"mitigations=off\" },
  ]
  timed = [\"messaging-kvm.toml\"]             # each runs on a machine of its own";

fn run_plan(args: &PlanArgs) -> Result<Exit, Error> {
    let name = args.file.display().to_string();
    let mut file = Campaign::read(&flow::campaign_text(&args.file)?, &name)?;
    args.rows.apply(&mut file)?;
    let campaign = Campaign::from_file(&file, &name)?;
    let out = args.out.clone().unwrap_or_else(first_unused_directory);
    args.host.with_session(&Terminal::new(), |session| {
        let dir = flow::campaign::plan(&campaign, &out, args.shards, session)?;
        let plan = dir.plan();
        let rows: usize =
            plan.shards.iter().flat_map(Shard::units).map(|unit| unit.rows.len()).sum();
        let total = plan.subjects.len() * plan.workloads.len();
        let seconds: f64 = plan.shards.iter().map(Shard::seconds).sum();
        let mut text = format!(
            "planned {} of {} in {}, about {} of one CPU",
            rows,
            counted(total, "measurement"),
            counted(plan.shards.len(), "shard"),
            format_duration(Duration::from_secs_f64(seconds))
        );
        if rows < total {
            text += &format!("; the store has {}", total - rows);
        }
        let to_build = plan.subjects_to_build();
        if !to_build.is_empty() {
            let kernels = counted(to_build.len(), "kernel");
            text += &format!("; {kernels} to build first");
        }
        let path = shell_path(&out);
        note!("ktax: {text}");
        note!(
            "ktax: run it here with `ktax campaign run {path}`, or with Slurm: `ktax campaign \
               sbatch {path}`"
        );
        Ok(Exit::Ok)
    })
}

/// Measure a shard or all shards, or build a kernel. Finished work is not repeated.
///
/// Counts share a machine with other counts. A timed experiment takes the machine for itself, and
/// both of its sides run there.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXIT)]
pub struct RunArgs {
    /// Run the campaign in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Measure this shard, from 0 [default: all, after all builds]
    #[arg(long, value_name = "N", conflicts_with = "build")]
    shard: Vec<usize>,
    /// Build the kernel of this subject, from 0
    #[arg(long, value_name = "N")]
    build: Vec<usize>,
    #[command(flatten)]
    host: HostArgs,
}

const RUN_EXIT: &str = "\
Exit status:
  0  done                           69  a boot or a run failed: `ktax campaign status` lists it
  2  usage error, or another QEMU   75  the machine failed, or is in use: try again, or on another
                                    130 stopped by Ctrl-C or SIGTERM; run the shard again";

fn run_shards(args: &RunArgs) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    args.host.with_session(&Terminal::new(), |session| match run_all(args, &dir, session) {
        // Tell a scheduler that another try may succeed.
        Err(error) if error.blame == Blame::Host => {
            note!("ktax: {error}");
            Ok(Exit::TryAgain)
        }
        result => result,
    })
}

fn run_all(args: &RunArgs, dir: &CampaignDir, session: &Session<'_>) -> Result<Exit, Error> {
    let is_complete_run = args.shard.is_empty() && args.build.is_empty();
    let builds = if is_complete_run { dir.plan().subjects_to_build() } else { args.build.clone() };
    let shards =
        if is_complete_run { dir.plan().shard_numbers().collect() } else { args.shard.clone() };
    for subject in builds {
        let kernel = flow::campaign::build(dir, subject, session)?;
        note!("ktax: subject {subject} is {}", kernel.name());
    }
    let mut failed = Vec::new();
    for number in &shards {
        let end: ShardEnd = flow::campaign::run(dir, *number, session)?;
        if end.is_stopped {
            let path = shell_path(dir.root());
            let next_step = format!("; continue with `ktax campaign run {path} --shard {number}`");
            return Ok(note_stopped(&next_step));
        }
        failed.extend(end.failed);
    }
    if is_complete_run {
        let path = shell_path(dir.root());
        note!("ktax: collect the results with `ktax campaign collect {path}`");
    }
    match failed.first() {
        None => Ok(Exit::Ok),
        Some(first) => {
            note!("ktax: {} failed, such as {first}", counted(failed.len(), "measurement"));
            Ok(Exit::NotRun)
        }
    }
}

/// Show the progress of the shards, and what failed.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXIT)]
struct StatusArgs {
    /// Show the campaign in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

const STATUS_EXIT: &str = "\
Exit status:
  0  all measured       4   something is missing
  2  usage error        69  something failed in a guest";

fn run_status(args: &StatusArgs) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let shards = status(&dir)?;
    let missing: usize = shards.iter().map(|shard| shard.missing.len()).sum();
    let failed = shards.iter().any(|shard| !shard.failed.is_empty());
    write_stdout(&if args.json {
        to_json(&shards.iter().map(shard_json).collect::<Vec<_>>())?
    } else {
        status_text(&dir, &shards, missing)
    })?;
    Ok(match (missing, failed) {
        (0, false) => Exit::Ok,
        (0, true) => Exit::NotRun,
        _ => Exit::Inconclusive,
    })
}

fn shard_json(shard: &ShardStatus) -> serde_json::Value {
    let failed = shard.failed.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    json!({ "shard": shard.number, "of": shard.total, "missing": shard.missing.len(),
            "missing_rows": shard.missing,
            "failed": failed.collect::<Vec<_>>(), "unbuilt": shard.unbuilt,
            "seconds": shard.seconds })
}

fn status_text(dir: &CampaignDir, shards: &[ShardStatus], missing: usize) -> String {
    let total: usize = shards.iter().map(|shard| shard.total).sum();
    let seconds: f64 = shards.iter().map(|shard| shard.seconds).sum();
    let answer = match missing {
        0 => format!("all of {} done", counted(total, "measurement")),
        _ => format!(
            "{missing} of {} missing, about {} of one CPU",
            counted(total, "measurement"),
            format_duration(Duration::from_secs_f64(seconds))
        ),
    };
    let unfinished: Vec<&ShardStatus> =
        shards.iter().filter(|shard| state(shard) != "done").collect();
    let mut text = format!(
        "{}: {answer}; {} of {} done\n",
        dir.plan().title,
        shards.len() - unfinished.len(),
        counted(shards.len(), "shard")
    );
    if unfinished.is_empty() {
        return text;
    }
    let rows = unfinished.into_iter().map(|shard| {
        let time_left = match shard.seconds {
            0.0 => String::new(),
            seconds => format_duration(Duration::from_secs_f64(seconds)),
        };
        let done = shard.total - shard.missing.len() - shard.failed.len();
        vec![
            shard.number.to_string(),
            format!("{done} of {}", shard.total),
            time_left,
            state(shard),
        ]
    });
    text += "\n";
    text +=
        &plain_table(&["shard", "measured", "left", "state"], rows.collect(), &[2], list_options());
    text
}

fn state(shard: &ShardStatus) -> String {
    let failed: Vec<String> =
        shard.failed.iter().map(|(what, why)| format!("failed: {what}: {why}")).collect();
    if !shard.unbuilt.is_empty() {
        let kernels: Vec<String> = shard.unbuilt.iter().map(usize::to_string).collect();
        format!("kernels to be built: --build {}", kernels.join(" --build "))
    } else if !failed.is_empty() {
        failed.join("; ")
    } else if shard.missing.is_empty() {
        "done".to_owned()
    } else if shard.missing.len() < shard.total {
        format!("not measured: {}", first_names(&shard.missing))
    } else {
        "not measured".to_owned()
    }
}

/// Collect the results of the shards: comparisons, and pages with the histories.
///
/// ktax compares each subject with the one before it. The text has the answer of each comparison;
/// the pages and the other formats have all details. The store also keeps everything, for
/// `ktax diff`, `history` and `site`.
#[derive(Debug, clap::Args)]
#[command(after_help = COLLECT_EXIT)]
struct CollectArgs {
    /// Collect the campaign in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Also collect from these copies of the directory, for machines that share no disk
    #[arg(value_name = "COPY")]
    copies: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const COLLECT_EXIT: &str = "\
Exit status:
  0  all measured, even if slower       4   too few boots, or different work
  1  a file was damaged, or the host    69  a boot or a run failed
     failed                             130 stopped by Ctrl-C
  2  usage error, or a shard is missing";

fn run_collect(args: &CollectArgs) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let collected = flow::campaign::collect(&dir, &args.copies, &session)?;
    let results: Vec<Saved> = collected.comparisons.iter().map(Report::saved).collect();
    args.output.print_summary(&results, &summary(&results))?;
    for reason in &collected.refused {
        note!("ktax: {reason}");
    }
    for (what, reason) in &collected.failed {
        note!("ktax: failed: {what}: {reason}");
    }
    let index = dir.site().join("index.html");
    note!("ktax: wrote {}; open {}", counted(collected.pages, "page"), escape_path(&index));
    Ok(match (collected.refused.is_empty(), collected.failed.is_empty()) {
        (false, _) => Exit::Internal,
        (true, false) => Exit::NotRun,
        (true, true) => Exit::from_failures(&collected.comparisons),
    })
}

/// Answer of each comparison; the pages have all details.
fn summary(results: &[Saved]) -> String {
    let rows = results.iter().map(|saved| vec![saved.view().title, saved.headline.clone()]);
    plain_table(&["comparison", "answer"], rows.collect(), &[], list_options())
}

/// Write the scripts with which Slurm runs the shards.
///
/// Kernels are built by a first array of jobs, on which the counts depend. Each counted shard takes
/// one CPU. Each timed experiment takes a node to itself. If a node fails or is taken away, Slurm
/// restarts the job, which continues where it stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = SBATCH_AFTER)]
struct SbatchArgs {
    /// Run the campaign in this directory, which has the same path on all nodes
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Run at most N jobs of an array at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(1_usize..))]
    at_once: Option<usize>,
    /// Give these options to sbatch
    #[arg(value_name = "OPTION", last = true)]
    options: Vec<String>,
}

const SBATCH_AFTER: &str = "\
Examples:
  ktax campaign sbatch C && sh C/slurm/submit
  ktax campaign sbatch C --at-once 50 -- --partition=batch --time=30

Each node needs ktax at the same path, and the same package of QEMU. If the nodes share the home
directory, set KTAX_CACHE to a directory of the node.";

fn run_sbatch(args: &SbatchArgs) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let submit = flow::campaign::write_slurm(&dir, args.at_once, &args.options)?;
    note!("ktax: wrote the scripts; submit them with `sh {}`", shell_path(&submit));
    Ok(Exit::Ok)
}
