use std::path::PathBuf;

use crate::cmd::choice::number;
use crate::cmd::exit::Exit;
use crate::cmd::experiment::RowArgs;
use crate::cmd::host::{HostArgs, first_free};
use crate::cmd::note::note;
use crate::cmd::terminal::Terminal;
use crate::flow::remaining::spoken;
use crate::flow::{self, Error};
use crate::model::Shard;
use crate::plan::{Campaign, SHARDS};
use crate::text::{counted, shell_path};

/// Plan a campaign: get its kernels, leave out what the store has, and divide the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Read the subjects and rows from this file
    #[arg(value_name = "CAMPAIGN.toml")]
    file: PathBuf,
    #[command(flatten)]
    rows: RowArgs,
    /// Divide the counts into N shards [default: of about ten minutes each]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(SHARDS))]
    shards: Option<usize>,
    /// Make the campaign in DIR [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

const EXAMPLE: &str = "\
A campaign file:
  title = \"What did two years of 6.1 cost?\"
  workloads = [\"getppid\", \"fork-exit\"]     # default: all rows of `ktax compare`
  subjects = [                               # each is compared with the one before it
    { kernel = \"debian:cloud-amd64=6.1.190-1\" },
    { kernel = \"debian:cloud-amd64=6.1.192-2\" },
    { kernel = \"git:v6.1.193\", tree = \"linux\", boot_line = \"mitigations=off\" },
  ]
  timed = [\"messaging-kvm.toml\"]             # each has a machine to itself";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let name = args.file.display().to_string();
    let mut file = Campaign::read(&flow::campaign_text(&args.file)?, &name)?;
    args.rows.apply(&mut file)?;
    let campaign = Campaign::of(&file, &name)?;
    let out = args.out.clone().unwrap_or_else(first_free);
    args.host.measuring(&Terminal::new(), |session| {
        let dir = flow::campaign::plan(&campaign, &out, args.shards, session)?;
        let plan = dir.plan();
        let rows: usize =
            plan.shards.iter().flat_map(Shard::units).map(|unit| unit.rows.len()).sum();
        let all = plan.subjects.len() * plan.workloads.len();
        let seconds: f64 = plan.shards.iter().map(Shard::seconds).sum();
        let mut text = format!(
            "planned {} of {} in {}, about {} of one CPU",
            rows,
            counted(all, "measurement"),
            counted(plan.shards.len(), "shard"),
            spoken(std::time::Duration::from_secs_f64(seconds))
        );
        if rows < all {
            text += &format!("; the store has {}", all - rows);
        }
        let to_build = plan.to_build();
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
