//! A workload on the running kernel: its rows, their samples, the table.

use std::fs;
use std::path::{Path, PathBuf};

use super::context::OrHost;
use super::error::Error;
use super::moment::Moment;
use crate::analyse::{derive_columns, usual_columns};
use crate::engine::host::Host;
use crate::engine::{Cancel, Limits, noise};
use crate::model::{NativeRow, NativeTable, Workload, fact};
use crate::plan::{self, Definition};
use crate::run::{Ended, run_natively};

/// A workload and its rows, which this machine has room for.
#[derive(Debug)]
pub struct NativeOrder {
    definition: Definition,
    workloads: Vec<Workload>,
    samples: usize,
    counters: bool,
}

impl NativeOrder {
    /// The rows that names and parameters stand for, one order for each name: each row runs
    /// `samples` times, with counters or without.
    ///
    /// # Errors
    /// There is no such row, a row is named twice, or this machine cannot run it.
    pub fn all(
        names: &[String],
        params: &[String],
        samples: u32,
        counters: bool,
    ) -> Result<Vec<NativeOrder>, Error> {
        let (definitions, samples) = (plan::definitions()?, samples as usize);
        let mut orders = Vec::new();
        for name in plan::native_names(&definitions, names)? {
            let (definition, workloads) = plan::native_rows(&definitions, &name, params)?;
            let definition = definition.clone();
            orders.push(NativeOrder { definition, workloads, samples, counters });
        }
        let rows = || orders.iter().flat_map(|order| &order.workloads);
        plan::each_once(rows().cloned().collect())?;
        check_temporary_directory()?;
        let available = available_memory_bytes()?;
        orders.iter().try_for_each(|order| plan::check_memory(&order.workloads, available))?;
        Ok(orders)
    }

    /// Runs one order after the other, and returns the tables that have rows.
    ///
    /// # Errors
    /// The programs cannot be written to the cache. What fails in a workload is a row.
    pub fn run_all(
        orders: &[NativeOrder],
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
        observe: &dyn Fn(Moment<'_>),
    ) -> Result<(Vec<NativeTable>, Ended), Error> {
        let mut tables = Vec::new();
        for order in orders {
            let (table, ended) = order.run(cache, limits.clone(), cancel.clone(), observe)?;
            tables.extend((!table.rows.is_empty()).then_some(table));
            if ended == Ended::Cancelled {
                return Ok((tables, ended));
            }
        }
        Ok((tables, Ended::Complete))
    }

    /// How many runs that makes.
    pub fn runs(&self) -> usize {
        self.workloads.len() * self.samples
    }

    /// Runs one row after the other. The table has the rows that are complete, also where the user
    /// stopped it.
    ///
    /// # Errors
    /// The programs cannot be written to the cache. What fails in a workload is a row.
    fn run(
        &self,
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
        observe: &dyn Fn(Moment<'_>),
    ) -> Result<(NativeTable, Ended), Error> {
        let host = Host::new(cache, limits, cancel)
            .context(format!("cannot write programs to {}", cache.display()), "give --cache DIR")?;
        let mut rows = Vec::new();
        let done = || observe(Moment::Done);
        for workload in &self.workloads {
            observe(Moment::Runs(&workload.row));
            match run_natively(&host, workload, self.samples, self.counters, &done) {
                Some(row) => rows.push(row),
                None => return Ok((self.table(rows), Ended::Cancelled)),
            }
        }
        Ok((self.table(rows), Ended::Complete))
    }

    fn table(&self, rows: Vec<NativeRow>) -> NativeTable {
        let definition = &self.definition;
        let mut table = NativeTable {
            workload: definition.name.clone(),
            title: definition.title.clone(),
            operation: definition.operation.clone(),
            original: definition.original.clone(),
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: noise::facts().remove(fact::CPU).unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            columns: Vec::new(),
            rows,
            growth: Vec::new(),
        };
        derive_columns(&mut table, &columns(definition));
        table
    }
}

/// The workloads' files go below it; who is told so now need not look for the reason later.
fn check_temporary_directory() -> Result<(), Error> {
    match std::env::var_os("TMPDIR").map(PathBuf::from) {
        Some(dir) if !dir.is_absolute() || !dir.is_dir() => {
            Err(Error::TemporaryDirectory { path: dir.to_string_lossy().into_owned() })
        }
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
