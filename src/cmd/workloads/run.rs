use std::path::PathBuf;

use super::super::exit::Exit;
use super::super::output::OutputArgs;
use super::super::progress::{bar_of_runs, show};
use crate::cmd::choice::{number, workload};
use crate::cmd::host::cancel;
use crate::cmd::note::note;
use crate::flow::{Ended, Error, Limits, NativeOrder, cache_directory};
use crate::model::NativeTable;
use crate::report::{Named, Report};

/// Run workloads on the running kernel and print their samples
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run these workloads, rows or groups, as `ktax workloads` lists them
    #[arg(value_name = "NAME|@GROUP", required = true)]
    #[arg(value_parser = workload(), hide_possible_values = true)]
    names: Vec<String>,
    /// Set this parameter of `ktax workloads show NAME`; each value makes a row; repeat for more
    #[arg(short, long = "param", value_name = "NAME=VALUE[,VALUE…]")]
    params: Vec<String>,
    /// Run each row N times, each time in a new process
    #[arg(short, long, value_name = "N", default_value_t = 11)]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=10_000_u32))]
    samples: u32,
    /// Also count: task clock, migrations, cycles, instructions, cache references and misses
    #[arg(long)]
    counters: bool,
    /// Stop a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    #[arg(allow_negative_numbers = true, value_parser = number(1_u64..))]
    time_limit: u64,
    /// Keep the programs in this directory [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  ktax workloads run pipe
  ktax workloads run getppid stat @lmbench
  ktax workloads run high-systime -p users=500,1000,1500,2000 --samples 1
  ktax workloads run fork-pages -p pages=0,16,1024 --json";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let orders = NativeOrder::all(&args.names, &args.params, args.samples, args.counters)?;
    let cancel = cancel()?;
    let cache = cache_directory(args.cache.as_deref())?;
    let limits = Limits::with_seconds(args.time_limit);
    let bar = bar_of_runs(orders.iter().map(NativeOrder::runs).sum());
    let ran = NativeOrder::run_all(&orders, &cache, limits, cancel, &|moment| show(&bar, moment));
    bar.finish_and_clear();
    let (tables, ended) = ran?;
    if ended == Ended::Cancelled {
        note!("ktax: stopped; all processes ended and their files are removed");
    }
    let named = tables.iter().map(|table| Named {
        name: if orders.len() == 1 { "" } else { &table.workload },
        report: table,
    });
    let named: Vec<Named<'_>> = named.collect();
    let reports: Vec<&dyn Report> = named.iter().map(|page| page as &dyn Report).collect();
    if !reports.is_empty() {
        args.output.print_all(&reports)?;
    }
    Ok(exit(&tables, &ended))
}

fn exit(tables: &[NativeTable], ended: &Ended) -> Exit {
    let rows = || tables.iter().flat_map(|table| &table.rows);
    match ended {
        Ended::Cancelled => Exit::Cancelled,
        Ended::Complete if rows().any(|row| row.failure.is_some()) => Exit::NotRun,
        Ended::Complete => Exit::Ok,
    }
}
