use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::cmd::exit::Exit;
use crate::cmd::output::{list_options, write_stdout};
use crate::flow::Error;
use crate::flow::campaign::{ShardStatus, some, status};
use crate::flow::remaining::spoken;
use crate::report::{plain_table, to_json};
use crate::rundir::CampaignDir;
use crate::text::counted;

/// Show how far the shards are, and what failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT)]
pub struct Args {
    /// Look at the campaign of this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

const EXIT: &str = "\
Exit status:
  0  all is measured    4   something is missing
  2  usage error        69  something failed in a guest";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let all = status(&dir)?;
    let missing: usize = all.iter().map(|shard| shard.missing.len()).sum();
    let failed = all.iter().any(|shard| !shard.failed.is_empty());
    write_stdout(&if args.json {
        to_json(&all.iter().map(json_of).collect::<Vec<_>>())?
    } else {
        text_of(&dir, &all, missing)
    })?;
    Ok(match (missing, failed) {
        (0, false) => Exit::Ok,
        (0, true) => Exit::NotRun,
        _ => Exit::Inconclusive,
    })
}

fn json_of(shard: &ShardStatus) -> serde_json::Value {
    let failed = shard.failed.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    json!({ "shard": shard.number, "of": shard.of, "missing": shard.missing.len(),
            "missing_rows": shard.missing,
            "failed": failed.collect::<Vec<_>>(), "unbuilt": shard.unbuilt,
            "seconds": shard.seconds })
}

fn text_of(dir: &CampaignDir, all: &[ShardStatus], missing: usize) -> String {
    let of: usize = all.iter().map(|shard| shard.of).sum();
    let seconds: f64 = all.iter().map(|shard| shard.seconds).sum();
    let answer = match missing {
        0 => format!("all of {} done", counted(of, "measurement")),
        _ => format!(
            "{missing} of {} missing, about {} of one CPU",
            counted(of, "measurement"),
            spoken(Duration::from_secs_f64(seconds))
        ),
    };
    let open: Vec<&ShardStatus> = all.iter().filter(|shard| state(shard) != "done").collect();
    let mut text = format!(
        "{}: {answer}; {} of {} done\n",
        dir.plan().title,
        all.len() - open.len(),
        counted(all.len(), "shard")
    );
    if open.is_empty() {
        return text;
    }
    let rows = open.into_iter().map(|shard| {
        let left = match shard.seconds {
            0.0 => String::new(),
            seconds => spoken(Duration::from_secs_f64(seconds)),
        };
        let done = shard.of - shard.missing.len() - shard.failed.len();
        vec![shard.number.to_string(), format!("{done} of {}", shard.of), left, state(shard)]
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
        let all: Vec<String> = shard.unbuilt.iter().map(usize::to_string).collect();
        format!("kernels to be built: --build {}", all.join(" --build "))
    } else if !failed.is_empty() {
        failed.join("; ")
    } else if shard.missing.is_empty() {
        "done".to_owned()
    } else if shard.missing.len() < shard.of {
        format!("not measured: {}", some(&shard.missing))
    } else {
        "not measured".to_owned()
    }
}
