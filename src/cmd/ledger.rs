use std::path::{Path, PathBuf};

use super::Exit;
use super::choice::ledger;
use super::compare::may_be_repeated;
use super::experiment::RowArgs;
use super::host::{HostArgs, first_free};
use super::output::{OutputArgs, note, say_where};
use super::terminal::Terminal;
use crate::flow::ledger::RankedLedger;
use crate::flow::{self, Error};
use crate::plan::Ledger;
use crate::text::{shell_line, shell_path};

/// Compare several additions with one base, and rank them by what they cost.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Read the base and its additions from this ledger file, or from this one of `ktax
    /// experiments`
    #[arg(value_name = "LEDGER.toml|NAME", value_parser = ledger())]
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

const EXAMPLE: &str = "\
A ledger file:
  title = \"What do the mitigations cost?\"
  workloads = [\"getppid\", \"page-fault\"]
  base = { kernel = \"debian:cloud-amd64\", boot_line = \"mitigations=off\" }
  add = [
    { name = \"pti\", boot_line = \"pti=on\" },
    { name = \"audit\", boot_line = \"audit=1\" },
  ]

Exit status:
  0  all were measured, also if slower  4   too few boots, or different work
  1  ktax or its host failed            69  a boot or a run failed, or an addition not built
  2  usage error                        130 stopped by Ctrl-C; the same --out resumes";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let name = args.ledger.display().to_string();
    let text = flow::ledger_text(&args.ledger)?;
    let mut file = Ledger::read(&text, &name)?;
    args.rows.choose_programs(&mut file)?;
    args.rows.apply(&mut file)?;
    let again = ["ktax", "ledger", &name].map(str::to_owned).into_iter().chain(args.rows.words());
    let ledger = Ledger::from_file(file, &name)?.asked_by(again.collect());
    let out = args.out.clone().unwrap_or_else(first_free);
    let again = format!("{} --out {}", shell_line(&ledger.again), shell_path(&out));
    args.host.measuring(&Terminal::new(), |session| {
        let ranked = flow::ledger::rank(&ledger, &out, session)?;
        print(args, ranked, &out, &again)
    })
}

fn print(
    args: &Args,
    ranked: Option<RankedLedger>,
    out: &Path,
    again: &str,
) -> Result<Exit, Error> {
    let Some(ranked) = ranked else {
        note!("ktax: stopped; resume with `{again}`");
        return Ok(Exit::Cancelled);
    };
    args.output.print(&ranked.table)?;
    say_where(out);
    if ranked.comparisons.iter().any(may_be_repeated) {
        note!("ktax: run what failed again with `{again}`");
    }
    // A slowdown is no failure of a ledger; a missing measurement is.
    match ranked.table.not_built.is_empty() {
        true => Ok(Exit::from_failures(&ranked.comparisons)),
        false => Ok(Exit::NotRun),
    }
}
