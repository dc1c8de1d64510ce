use std::fs;
use std::path::PathBuf;

use crate::cmd::note::note;
use crate::flow::OrHost;

use super::super::exit::Exit;
use super::super::output::OutputArgs;
use super::super::progress::bar_of_runs;
use crate::analyse::{derive_columns, usual_columns};
use crate::cmd::host::cancel;
use crate::engine::Limits;
use crate::engine::host::Host;
use crate::flow::Error;
use crate::flow::cache_directory;
use crate::model::{FORMAT, NativeRow, NativeTable};
use crate::plan::{self, Definition, definitions};
use crate::report::NativePage;
use crate::run::run_natively;
use crate::text::escape;

/// Run one workload on the running kernel and print its samples
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run this workload or row, as `ktax workloads` lists it
    name: String,
    /// Set this parameter of `ktax workloads show NAME`; each value makes a row; repeat for more
    #[arg(short, long = "param", value_name = "NAME=VALUE[,VALUE…]")]
    params: Vec<String>,
    /// Run each row N times, each time in a new process
    #[arg(short, long, value_name = "N", default_value_t = 11)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// Also count: task clock, migrations, cycles, instructions, cache references and misses
    #[arg(long)]
    counters: bool,
    /// Stop a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: u64,
    /// Keep the programs in this directory [default: $XDG_CACHE_HOME/ktax]
    #[arg(long, value_name = "DIR", env = "KTAX_CACHE")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  ktax workloads run pipe
  ktax workloads run high-systime -p users=500,1000,1500,2000 --samples 1
  ktax workloads run fork-pages -p pages=0,16,1024 --json";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let definitions = definitions()?;
    let (definition, workloads) = plan::native_rows(&definitions, &args.name, &args.params)?;
    check_temporary_directory()?;
    plan::check_memory(&workloads, available_memory_bytes()?)?;
    let cancel = cancel()?;
    let limits = Limits::of_real_time(args.time_limit);
    let cache = cache_directory(args.cache.as_deref())?;
    let host = Host::new(&cache, limits, cancel)
        .context(format!("cannot write programs to {}", cache.display()), "give --cache DIR")?;
    let bar = bar_of_runs(workloads.len() * args.samples as usize);
    let (mut rows, mut exit) = (Vec::new(), Exit::Ok);
    for workload in &workloads {
        bar.set_message(workload.row.clone());
        let observe = || bar.inc(1);
        let row = run_natively(&host, workload, args.samples as usize, args.counters, &observe);
        let Some(row) = row else {
            exit = Exit::Cancelled;
            break;
        };
        if row.failure.is_some() {
            exit = Exit::NotRun;
        }
        rows.push(row);
    }
    bar.finish_and_clear();
    if exit == Exit::Cancelled {
        note!("ktax: stopped; all processes ended and their files are removed");
    }
    if !rows.is_empty() {
        let mut table = table(definition, rows);
        derive_columns(&mut table, &columns(definition));
        args.output.print(&NativePage { table: &table, counters: args.counters })?;
    }
    Ok(exit)
}

/// The workloads' files go below it; who is told so now need not look for the reason later.
fn check_temporary_directory() -> Result<(), Error> {
    match std::env::var_os("TMPDIR").map(PathBuf::from) {
        Some(dir) if !dir.is_absolute() || !dir.is_dir() => Err(Error::Usage(format!(
            "TMPDIR is {}, which is not the absolute path of a directory; set it to one",
            escape(&dir.to_string_lossy())
        ))),
        _ => Ok(()),
    }
}

/// What the kernel says can be had without swapping.
fn available_memory_bytes() -> Result<u64, Error> {
    let text =
        fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo", "mount /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| Error::host("/proc/meminfo has no MemAvailable; run a newer kernel"))
}

/// The names of what the workload is judged by.
fn columns(definition: &Definition) -> Vec<String> {
    match definition.columns.is_empty() {
        true => usual_columns(definition.bandwidth),
        false => definition.columns.clone(),
    }
}

/// The table before anything is derived from its rows.
fn table(definition: &Definition, rows: Vec<NativeRow>) -> NativeTable {
    NativeTable {
        format: FORMAT,
        workload: definition.name.clone(),
        title: definition.title.clone(),
        operation: definition.operation.clone(),
        original: definition.original.clone(),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        columns: Vec::new(),
        rows,
        growth: Vec::new(),
    }
}
