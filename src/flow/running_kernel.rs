//! Runs workloads natively, and counts commands, on the running kernel.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;
use super::session::RunEvent;
use crate::analyse::{self, default_columns, derive_columns};
use crate::engine::host::Host;
use crate::engine::{Cancel, Limits, command, noise};
use crate::model::{
    ErrorContext, NativeRow, NativeTable, StatCommand, StatCounts, StatTable, Workload, fact,
};
use crate::plan::{self, Definition};
use crate::run::{Ended, run_natively};
use crate::stats::random::Random;
use crate::text::{escape, escape_path, shell_line};

/// Workload to run natively, with its rows. This machine has enough memory for them.
#[derive(Debug)]
pub struct NativeWorkload {
    definition: Definition,
    workloads: Vec<Workload>,
    samples: usize,
    counters: bool,
}

impl NativeWorkload {
    /// Workloads of these names, with these parameters. Each row runs `samples` times, with
    /// counters if `counters` is true.
    pub fn all(
        names: &[String],
        params: &[String],
        samples: u32,
        counters: bool,
    ) -> Result<Vec<NativeWorkload>, Error> {
        let (definitions, samples) = (plan::definitions()?, samples as usize);
        let mut native_workloads = Vec::new();
        for name in plan::native_names(&definitions, names)? {
            let (definition, workloads) = plan::native_rows(&definitions, &name, params)?;
            let definition = definition.clone();
            native_workloads.push(NativeWorkload { definition, workloads, samples, counters });
        }
        let rows = || native_workloads.iter().flat_map(|native| &native.workloads);
        plan::unique_rows(rows().cloned().collect())?;
        check_temporary_directory()?;
        let available = available_memory_bytes()?;
        let mut all = native_workloads.iter();
        all.try_for_each(|native| plan::check_memory(&native.workloads, available))?;
        Ok(native_workloads)
    }

    /// Runs one workload after the other. Returns the tables that have rows.
    pub fn run_all(
        native_workloads: &[NativeWorkload],
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
        observe: &dyn Fn(RunEvent<'_>),
    ) -> Result<(Vec<NativeTable>, Ended), Error> {
        let mut tables = Vec::new();
        for native in native_workloads {
            let (table, ended) = native.run(cache, limits.clone(), cancel.clone(), observe)?;
            tables.extend((!table.rows.is_empty()).then_some(table));
            if ended == Ended::Cancelled {
                return Ok((tables, ended));
            }
        }
        Ok((tables, Ended::Complete))
    }

    /// Number of runs of all rows.
    pub fn runs(&self) -> usize {
        self.workloads.len() * self.samples
    }

    /// Runs one row after the other. If the user stops the run, the table has the complete rows. A
    /// failure of a workload is a row, not an error.
    fn run(
        &self,
        cache: &Path,
        limits: Limits,
        cancel: Cancel,
        observe: &dyn Fn(RunEvent<'_>),
    ) -> Result<(NativeTable, Ended), Error> {
        let host = Host::new(cache, limits, cancel)
            .or_host(format!("cannot write programs to {}", cache.display()), "give --cache DIR")?;
        let mut rows = Vec::new();
        let done = || observe(RunEvent::Ended);
        for workload in &self.workloads {
            observe(RunEvent::Started(&workload.row));
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
        derive_columns(&mut table, &column_names(definition));
        table
    }
}

/// Refuses a wrong `TMPDIR` before the workloads create files there.
fn check_temporary_directory() -> Result<(), Error> {
    match std::env::var_os("TMPDIR").map(PathBuf::from) {
        Some(dir) if !dir.is_absolute() || !dir.is_dir() => {
            let dir = escape_path(&dir);
            let message = format!("TMPDIR is {dir}, which is not the absolute path of a directory");
            Err(Error::user(message).next("set it to one"))
        }
        _ => Ok(()),
    }
}

/// Memory that is available without swapping, in bytes.
fn available_memory_bytes() -> Result<u64, Error> {
    let text =
        fs::read_to_string("/proc/meminfo").or_host("cannot read /proc/meminfo", "mount /proc")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| Error::host("/proc/meminfo has no MemAvailable; run a newer kernel"))
}

/// Names of the columns of the workload's table.
fn column_names(definition: &Definition) -> Vec<String> {
    match definition.columns.is_empty() {
        true => default_columns(definition.bandwidth),
        false => definition.columns.clone(),
    }
}

/// Commands to count, and the options of the runs.
#[derive(Debug)]
pub struct StatRequest {
    /// One command; or two, the base and the change.
    pub commands: Vec<Vec<String>>,
    /// Number of runs of each command.
    pub runs: u32,
    /// Seed of the random order within each pair; only for two commands.
    pub seed: Option<u64>,
    /// True if the output of the commands is shown.
    pub shows_output: bool,
    /// True if failed runs are counted, too.
    pub ignores_failure: bool,
}

/// Runs and counts the commands; `None` if the user stopped them.
pub fn stat(
    request: &StatRequest,
    cancel: &Cancel,
    observe: &dyn Fn(RunEvent<'_>),
) -> Result<Option<StatTable>, Error> {
    let mut sides: Vec<RepeatedCommand> =
        request.commands.iter().cloned().map(RepeatedCommand::new).collect();
    let mut random = Random::new(request.seed.unwrap_or_default());
    for _ in 0..request.runs {
        let change_first = random.coin();
        if change_first {
            sides.reverse();
        }
        let ended = sides.iter_mut().try_for_each(|side| side.run_once(request, cancel, observe));
        if change_first {
            sides.reverse();
        }
        match ended {
            Err(error) if error.is_cancelled() => return Ok(None),
            ended => ended?,
        }
    }
    Ok(Some(stat_table(sides, request)))
}

/// Command, and the counts of its runs.
struct RepeatedCommand {
    command: StatCommand,
    counted: Vec<StatCounts>,
}

impl RepeatedCommand {
    fn new(words: Vec<String>) -> RepeatedCommand {
        let command = StatCommand { words, failures: Vec::new() };
        RepeatedCommand { command, counted: Vec::new() }
    }

    /// Runs the command once more.
    fn run_once(
        &mut self,
        request: &StatRequest,
        cancel: &Cancel,
        observe: &dyn Fn(RunEvent<'_>),
    ) -> Result<(), Error> {
        let shown = shell_line(&self.command.words);
        observe(RunEvent::Started(&shown));
        let ended = command::run(&self.command.words, request.shows_output, cancel)?;
        observe(RunEvent::Ended);
        if let Some(failure) = command::failure(ended.status) {
            if !request.ignores_failure {
                let last_words = last_words(&ended.stderr_tail);
                return Err(Error::host(format!("`{shown}` failed with {failure}{last_words}"))
                    .next(
                        "use --show-output to see all that it prints, or --ignore-failure to count \
                         failed runs too",
                    ));
            }
            self.command.failures.push(failure);
        }
        self.counted.push(ended.counted);
        Ok(())
    }
}

/// Last three lines that are not empty, to be appended to a message.
fn last_words(output: &[u8]) -> String {
    const MAX_LINES: usize = 3;
    let output = String::from_utf8_lossy(output);
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", escape(&last.join(" | "))) }
}

fn stat_table(sides: Vec<RepeatedCommand>, request: &StatRequest) -> StatTable {
    let (commands, counted): (Vec<StatCommand>, Vec<Vec<StatCounts>>) =
        sides.into_iter().map(|side| (side.command, side.counted)).unzip();
    StatTable {
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        commands,
        runs: request.runs as usize,
        seed: request.seed,
        rows: analyse::counters(&counted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_three_lines_without_controls() {
        assert_eq!(last_words(b"one\ntwo\n\n three\nfo\x1bur\n"), ": two | three | fo\\u{1b}ur");
        assert_eq!(last_words(b"\n"), "");
    }
}
