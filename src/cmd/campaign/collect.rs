use std::path::PathBuf;

use crate::cmd::exit::Exit;
use crate::cmd::host::HostArgs;
use crate::cmd::note::note;
use crate::cmd::output::{OutputArgs, list_options};
use crate::cmd::terminal::Terminal;
use crate::flow::{self, Error};
use crate::model::Saved;
use crate::report::{Report, plain_table};
use crate::rundir::CampaignDir;
use crate::text::{counted, escape_path};

/// Bring together what the shards have measured: comparisons, and pages with the histories.
///
/// ktax compares each subject with the one before it. The text has the answer of each comparison;
/// the pages and the other formats have all of it. The store keeps everything too, for `ktax diff`,
/// `history` and `site`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT)]
pub struct Args {
    /// Collect the campaign of this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take also what these copies of the directory have, where machines share no disk
    #[arg(value_name = "COPY")]
    copies: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const EXIT: &str = "\
Exit status:
  0  all was measured, also if slower   4   too few boots, or different work
  1  a file was damaged, or the host    69  a boot or a run failed
     failed                             130 stopped by Ctrl-C
  2  usage error, or a shard is missing";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let collected = flow::campaign::collect(&dir, &args.copies, &session)?;
    let all: Vec<Saved> = collected.comparisons.iter().map(Report::saved).collect();
    args.output.print_summary(&all, &summary(&all))?;
    for reason in &collected.refused {
        note!("ktax: {reason}");
    }
    for (what, why) in &collected.failed {
        note!("ktax: failed: {what}: {why}");
    }
    let index = dir.site().join("index.html");
    note!("ktax: wrote {}; open {}", counted(collected.pages, "page"), escape_path(&index));
    Ok(match (collected.refused.is_empty(), collected.failed.is_empty()) {
        (false, _) => Exit::Internal,
        (true, false) => Exit::NotRun,
        (true, true) => Exit::of_measuring(&collected.comparisons),
    })
}

/// What each comparison says; all of them in full are in the pages.
fn summary(all: &[Saved]) -> String {
    let rows = all.iter().map(|saved| vec![saved.view().title, saved.headline.clone()]);
    plain_table(&["comparison", "answer"], rows.collect(), &[], list_options())
}
