use std::path::PathBuf;

use super::analyse::analyse_and_keep;
use super::args::{HostArgs, first_free};
use super::drive;
use super::exit::{Exit, UsageError};
use super::output::{text_options, write_stdout};
use super::run::cancelled;
use crate::analyse;
use crate::plan::{Ledger, TOGETHER};
use crate::report;
use crate::run::Ended;

/// Compare several additions with one base, and rank them by what they cost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Ledger file: a base, and what is added to it, one at a time
    #[arg(value_name = "LEDGER.toml")]
    ledger: PathBuf,
    /// Directory for a run directory each; one that is there already is gone on with [default: the
    /// first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

const EXAMPLE: &str = "\
A ledger file:
  title = \"What do the mitigations cost?\"
  workloads = [\"getppid\", \"page-fault\"]
  base = { kernel = \"debian:cloud-amd64\", boot_line = \"mitigations=off\" }
  add = [
    { name = \"pti\", boot_line = \"pti=on\" },
    { name = \"audit\", boot_line = \"audit=1\" },
  ]";

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = args.ledger.display().to_string();
    let text = std::fs::read_to_string(&args.ledger).map_err(|reason| UsageError::Unreadable {
        path: name.clone(),
        reason,
        wanted: "a ledger file",
    })?;
    let ledger = Ledger::parse(&text, &name)?;
    let out = args.out.clone().unwrap_or_else(first_free);
    let (mut each, mut not_built) = (Vec::new(), Vec::new());
    for (name, experiment) in ledger.experiments() {
        note!("ktax: {name}");
        let plan = match drive::plan(&experiment, &args.host) {
            Ok(plan) => plan,
            Err(error) if drive::is_cancelled() => return Err(error),
            Err(error) => {
                let why = drive::why_unbuilt(error)?;
                note!("ktax: {why}");
                not_built.push((name, why));
                continue;
            }
        };
        let dir = drive::directory(&out.join(&name), plan)?;
        let _lock = dir.lock()?;
        if drive::run(&dir, &args.host)? == Ended::Cancelled {
            cancelled(&dir);
            note!(
                "ktax: or go on with `ktax ledger {} --out {}`",
                args.ledger.display(),
                out.display()
            );
            return Ok(Exit::Cancelled);
        }
        each.push((name, analyse_and_keep(&dir)?));
    }
    let last_is_together = each.last().is_some_and(|(name, _)| name == TOGETHER);
    let together = last_is_together.then(|| each.pop()).flatten().map(|(_, comparison)| comparison);
    let is_whole = not_built.is_empty();
    // A part of the sum is missing.
    let together = together.filter(|_| is_whole);
    let table = analyse::ledger(&ledger.title, &each, together.as_ref(), not_built)
        .ok_or_else(|| UsageError::Text("no addition could be built; mend them".into()))?;
    let text = match args.json {
        true => report::json(&table)?,
        false => report::ledger(&table, text_options()),
    };
    write_stdout(&text)?;
    note!("ktax: everything is in {}", out.display());
    // Costs are what was asked for; a script is told what could not be measured.
    if !is_whole {
        return Ok(Exit::NotRun);
    }
    Ok(Exit::of_measuring(each.iter().map(|(_, comparison)| comparison).chain(&together)))
}
