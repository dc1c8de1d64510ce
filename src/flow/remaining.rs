//! Estimates how long work still takes, from earlier runs and from this one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::session::user_directory;
use crate::disk::{read_own_text, write_atomically};
use crate::engine::host::state_dir;
use crate::kernel::{KernelTask, TaskKind};
use crate::run::Event;
use crate::text::counted;

/// Basis of an estimate, in words.
pub fn estimate_basis(has_stored_rates: bool) -> &'static str {
    match has_stored_rates {
        true => "as earlier runs on this machine took",
        false => "a guess, because nothing was measured on this machine yet",
    }
}

/// Duration with two significant digits below 10 s, because readers multiply short durations; else
/// as [`format_duration`].
pub fn format_short_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.0995 => format!("{:.3} s", seconds),
        ..0.995 => format!("{:.2} s", seconds),
        ..9.95 => format!("{:.1} s", seconds),
        _ => format_duration(time),
    }
}

/// Duration in units for people: `45 s`, `3 min 20 s`, `1 h 5 min`.
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{minutes} min {} s", seconds % 60),
        600..3600 => format!("{minutes} min"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Seconds of a boot without a stored rate.
const DEFAULT_BOOT_S: f64 = 6.0;
/// Seconds of a run without a stored rate.
const DEFAULT_RUN_S: f64 = 0.4;

/// Number of new measurements that a stored rate counts as: small, so that the current run soon
/// decides.
const STORED_WEIGHT: f64 = 2.0;

/// Seconds that each piece of work takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// Boots, by engine.
    pub boots: BTreeMap<String, f64>,
    /// Runs, by engine and row.
    pub runs: BTreeMap<String, f64>,
    /// Seconds of a downloaded byte, or of a file that is unpacked, imported or compiled, by kind
    /// of task.
    pub tasks: BTreeMap<String, f64>,
}

/// Number and seconds of finished pieces of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct FinishedWork {
    pub count: f64,
    pub seconds: f64,
}

impl FinishedWork {
    pub fn add(&mut self, time: Duration) {
        self.count += 1.0;
        self.seconds += time.as_secs_f64();
    }

    pub fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }

    /// Weighted mean of these pieces and a stored rate; `default` if there is neither.
    pub fn mean_with_stored(self, stored: Option<f64>, default: f64) -> f64 {
        match stored {
            Some(stored) => (stored * STORED_WEIGHT + self.seconds) / (STORED_WEIGHT + self.count),
            None => self.mean().unwrap_or(default),
        }
    }
}

impl Rates {
    /// Key of a row in [`Rates::runs`].
    pub fn run_key(engine: &str, row: &str) -> String {
        format!("{engine}/{row}")
    }

    /// Seconds of a boot.
    fn boot_seconds(&self, engine: &str, finished: FinishedWork) -> f64 {
        finished.mean_with_stored(self.boots.get(engine).copied(), DEFAULT_BOOT_S)
    }

    /// Estimated seconds of a run. A row without a rate takes as long as the mean of `all_runs`.
    fn estimated_run_seconds(
        &self,
        engine: &str,
        row: &str,
        finished: FinishedWork,
        all_runs: FinishedWork,
    ) -> f64 {
        finished.mean_with_stored(
            self.run_seconds(engine, row),
            all_runs.mean().unwrap_or(DEFAULT_RUN_S),
        )
    }

    /// Seconds of a run of this row; `None` if the row has no rate.
    pub fn run_seconds(&self, engine: &str, row: &str) -> Option<f64> {
        self.runs.get(&Rates::run_key(engine, row)).copied()
    }

    /// Returns true if there is a rate of this engine's boots.
    pub fn has_boots(&self, engine: &str) -> bool {
        self.boots.contains_key(engine)
    }
}

/// Maximum number of rows with a stored rate; all are removed when there are more.
const MAX_RUNS: usize = 4096;

/// Size limit of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// File of stored rates, in the state directory: the one that `KTAX_STATE` names, else
/// /var/lib/ktax for root and a directory in the home directory for other users.
fn rates_path() -> Option<PathBuf> {
    let is_named = std::env::var_os("KTAX_STATE").is_some_and(|named| !named.is_empty());
    let dir = match is_named || rustix::process::geteuid().is_root() {
        true => Some(state_dir()),
        false => user_directory("XDG_STATE_HOME", ".local/state"),
    };
    dir.map(|dir| dir.join("rates.json"))
}

/// Rates of earlier runs; empty if there is no file or it cannot be read.
pub fn stored_rates() -> Rates {
    let text = rates_path().and_then(|path| read_own_text(&path, MAX_BYTES).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds rates to the file. Errors are ignored, because rates only improve estimates.
pub fn store_rates(new: &Rates) {
    let mut rates = stored_rates();
    rates.boots.extend(new.boots.clone());
    rates.tasks.extend(new.tasks.clone());
    if rates.runs.len() > MAX_RUNS {
        rates.runs.clear();
    }
    rates.runs.extend(new.runs.clone());
    let Some((path, text)) = rates_path().zip(serde_json::to_string(&rates).ok()) else { return };
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = write_atomically(&path, text.as_bytes());
}

/// Time left that was shown last, and when it was shown. The shown time grows by no more than the
/// time that has passed, so that one slow boot does not turn minutes into hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ShownTime {
    last: Option<ShownEstimate>,
}

/// Time left that was shown, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownEstimate {
    shown_at: Duration,
    left: Duration,
}

impl ShownTime {
    /// Limits the estimate `left` to the time to show now.
    pub fn limit(&mut self, now: Duration, left: Duration) -> Duration {
        let max = self.0.map(|(then, shown)| shown + now.saturating_sub(then));
        let left = max.map_or(left, |max| left.min(max));
        self.0 = Some((now, left));
        left
    }
}

/// Boots of a run, each with the same rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub engine: String,
    /// Number of boots.
    pub boots: usize,
    /// Rows of each boot, in order.
    pub rows: Vec<String>,
    /// Maximum number of VMs at a time.
    pub jobs: usize,
}

impl Work {
    /// Number of all runs.
    pub fn runs(&self) -> usize {
        self.boots * self.rows.len()
    }
}

/// Position of a run among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the run, from 0.
    pub index: usize,
    /// Approximate number of runs.
    pub count: usize,
    /// True if all runs have the same base, which only the first measures.
    pub shares_base: bool,
}

impl Default for Part {
    /// A run that is the only one.
    fn default() -> Part {
        Part { index: 0, count: 1, shares_base: false }
    }
}

/// State of a boot. `left` is the number of rows that have not begun.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BootState {
    Waiting { left: usize },
    Booting { left: usize, since: Duration },
    Running { left: usize, row: usize, since: Duration },
    BetweenRuns { left: usize },
    Ended,
}

/// Estimate of the time left of one or several runs. All times count from the start of the first
/// run.
#[derive(Debug, Clone)]
pub struct RemainingRuns {
    known: Rates,
    work: Work,
    boots: BTreeMap<usize, BootState>,
    finished_boots: FinishedWork,
    finished_runs: BTreeMap<String, FinishedWork>,
    part: Part,
    shown: ShownTime,
}

impl RemainingRuns {
    /// Estimate without any work.
    pub fn new(known: Rates) -> RemainingRuns {
        let (work, boots, finished_boots, finished_runs, shown) = Default::default();
        RemainingRuns {
            known,
            work,
            boots,
            finished_boots,
            finished_runs,
            part: Part::default(),
            shown,
        }
    }

    /// Sets the position of the next run.
    pub fn part(&mut self, part: Part) {
        if part.count != self.part.count {
            // The amount of work has changed, so the estimate may jump.
            self.shown = ShownTime::default();
        }
        self.part = Part { count: part.count.max(part.index + 1), ..part };
    }

    /// Sets the work of the run.
    pub fn begin(&mut self, work: Work) {
        let waiting = BootState::Waiting { left: work.rows.len() };
        self.boots = (0..work.boots).map(|boot| (boot, waiting)).collect();
        self.work = work;
    }

    /// Updates the state of the event's boot, and the rates.
    pub fn event(&mut self, now: Duration, event: &Event<'_>) {
        let (step, rows) = (event.step().index as usize, self.work.rows.len());
        let state = self.boots.get(&step).copied().unwrap_or(BootState::Ended);
        let next = match (event, state) {
            (Event::Found(_, found), _) if *found >= rows => BootState::Ended,
            (Event::Found(_, found), _) => BootState::Waiting { left: rows - found },
            (Event::Booting(_), BootState::Waiting { left }) => {
                BootState::Booting { left, since: now }
            }
            (Event::Running(_, name), _) => {
                if let BootState::Booting { since, .. } = state {
                    self.finished_boots.add(now.saturating_sub(since));
                }
                let row = self.work.rows.iter().position(|row| row == name).unwrap_or(rows);
                BootState::Running { left: rows.saturating_sub(row + 1), row, since: now }
            }
            (Event::Done(..), BootState::Running { left, row, since }) => {
                if let Some(name) = self.work.rows.get(row) {
                    self.finished_runs
                        .entry(name.clone())
                        .or_default()
                        .add(now.saturating_sub(since));
                }
                if left == 0 { BootState::Ended } else { BootState::BetweenRuns { left } }
            }
            // The boot failed with all its rows.
            (Event::Done(..), _) => BootState::Ended,
            (Event::Booting(_) | Event::Booted(..) | Event::Lost(..), state) => state,
        };
        self.boots.insert(step, next);
    }

    /// Numbers of finished runs and of all runs, over all parts.
    pub fn runs(&self) -> (usize, usize) {
        let left = |state: &BootState| match *state {
            BootState::Waiting { left }
            | BootState::Booting { left, .. }
            | BootState::BetweenRuns { left } => left,
            BootState::Running { left, .. } => left + 1,
            BootState::Ended => 0,
        };
        let total = self.work.runs();
        let left: usize = self.boots.values().map(left).sum();
        (self.part.index * total + total.saturating_sub(left), self.part.count * total)
    }

    /// Time left. It grows by no more than the time that has passed since the last call.
    pub fn left(&mut self, now: Duration) -> Duration {
        let Part { index, count, shares_base } = self.part;
        let later_parts = count - index - 1;
        let waiting = BootState::Waiting { left: self.work.rows.len() };
        // Later parts with the same base only boot the change.
        let boots = if shares_base { self.work.boots / 2 } else { self.work.boots };
        let part = self.wall_seconds(now, &vec![waiting; boots]);
        let boots: Vec<BootState> = self.boots.values().copied().collect();
        let seconds = self.wall_seconds(now, &boots) + part * later_parts as f64;
        self.shown.limit(now, Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// Stored rates, replaced by the rates of this run where it has some.
    pub fn rates(&self) -> Rates {
        let mut rates = self.learned.clone();
        let engine = &self.work.engine;
        // Boots from the cache are faster than new ones.
        if let Some(mean) = self.finished_boots.mean().filter(|mean| *mean >= 1.0) {
            rates.boots.insert(engine.clone(), mean);
        }
        for (row, finished) in &self.finished_runs {
            rates.runs.extend(finished.mean().map(|mean| (Rates::run_key(engine, row), mean)));
        }
        rates
    }

    /// Seconds until all of these boots end: the boots share the VMs, and each boot uses one VM.
    fn wall_seconds(&self, now: Duration, boots: &[BootState]) -> f64 {
        let costs: Vec<f64> = boots.iter().map(|state| self.boot_seconds(now, *state)).collect();
        let unfinished = boots.iter().filter(|state| **state != BootState::Ended).count();
        let vms = self.work.jobs.clamp(1, unfinished.max(1)) as f64;
        costs.iter().copied().fold(costs.iter().sum::<f64>() / vms, f64::max)
    }

    /// Seconds that a boot still needs in a VM of its own.
    fn boot_seconds(&self, now: Duration, state: BootState) -> f64 {
        let rest = |total: f64, since: Duration| {
            (total - now.saturating_sub(since).as_secs_f64()).max(0.0)
        };
        let boot = self.known.boot_seconds(&self.work.engine, self.finished_boots);
        match state {
            BootState::Waiting { left } => boot + self.last_rows_seconds(left),
            BootState::Booting { left, since } => rest(boot, since) + self.last_rows_seconds(left),
            BootState::Running { left, row, since } => {
                rest(self.row_seconds(row), since) + self.last_rows_seconds(left)
            }
            BootState::BetweenRuns { left } => self.last_rows_seconds(left),
            BootState::Ended => 0.0,
        }
    }

    /// Seconds of the last `count` rows.
    fn last_rows_seconds(&self, count: usize) -> f64 {
        let rows = self.work.rows.len();
        (rows.saturating_sub(count)..rows).map(|row| self.row_seconds(row)).sum()
    }

    fn row_seconds(&self, row: usize) -> f64 {
        let Some(name) = self.work.rows.get(row) else { return 0.0 };
        let finished = self.finished_runs.get(name).copied().unwrap_or_default();
        let mut all_runs = FinishedWork::default();
        for run in self.finished_runs.values() {
            all_runs.count += run.count;
            all_runs.seconds += run.seconds;
        }
        self.known.estimated_run_seconds(&self.work.engine, name, finished, all_runs)
    }
}

/// Upper bound of the time left of timed runs, from the speed of the current run's pairs. Times
/// count from the start of the first run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemainingPairs {
    part: Part,
    /// Time of the first call of `left` for the current run, and the pairs that were done then.
    first: Option<(Duration, usize)>,
    max_pairs: usize,
    shown: ShownTime,
}

impl RemainingPairs {
    /// Sets the position of the next run, and forgets the speed of the last one.
    pub fn part(&mut self, part: Part) {
        self.part = part;
        self.start = None;
    }

    /// Position of the run, if there are several.
    pub fn part_of_several(&self) -> Option<Part> {
        Some(self.part).filter(|part| part.count > 1)
    }

    /// Time left of all runs, if `done` of at most `max_pairs` pairs of the current run are done.
    /// `None` before its first pair has ended, or if `max_pairs` is unknown.
    pub fn left(
        &mut self,
        now: Duration,
        done: usize,
        max_pairs: Option<usize>,
    ) -> Option<Duration> {
        let (since, done_before) = *self.first.get_or_insert((now, done));
        let new = done.checked_sub(done_before).filter(|new| *new > 0)?;
        let max_pairs = max_pairs?;
        if max_pairs != self.max_pairs {
            // The amount of work has changed, so the estimate may jump.
            self.shown = ShownTime::default();
            self.max_pairs = max_pairs;
        }
        let later_runs = self.part.count.saturating_sub(self.part.index + 1);
        let missing = max_pairs.saturating_sub(done) + max_pairs * later_runs;
        let seconds = now.saturating_sub(since).as_secs_f64() / new as f64 * missing as f64;
        Some(self.shown.limit(now, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }
}

/// Seconds of a downloaded byte, or of a file, without a stored rate. They were measured on a
/// machine with two CPUs.
fn default_seconds(kind: TaskKind, cpus: f64) -> f64 {
    match kind {
        TaskKind::Download => 1.0 / (8.0 * 1024.0 * 1024.0),
        TaskKind::Unpack => 0.000_35,
        TaskKind::Import => 0.000_30,
        TaskKind::Compile => 0.7 / cpus,
    }
}

/// Time left of downloads, unpackings, imports and builds of kernels. Times count from the start of
/// ktax.
#[derive(Debug, Clone)]
pub struct RemainingTask {
    rates: Rates,
    cpus: f64,
    /// Current step, when it began, and the units that were done then.
    begun: Option<(TaskKind, Duration, u64)>,
    /// Rates of the finished steps, by kind of task.
    measured: BTreeMap<String, f64>,
}

impl RemainingTask {
    /// Estimate before the first step. `cpus` files are compiled at a time.
    pub fn new(rates: Rates, cpus: usize) -> RemainingTask {
        let (begun, measured) = Default::default();
        RemainingTask { rates, cpus: cpus.max(1) as f64, begun, measured }
    }

    /// Updates the current step. When a long step begins, returns a sentence with its estimate.
    pub fn update(&mut self, now: Duration, task: &KernelTask) -> Option<String> {
        let is_new = self.begun.is_none_or(|(kind, ..)| kind != task.kind);
        if is_new {
            self.current = Some((task.kind, now, task.done));
        }
        if task.is_over {
            self.measure_rate(now, task);
            self.begun = None;
            return None;
        }
        let total = task.total.filter(|_| is_new)?;
        let seconds = self.seconds(task.kind) * total as f64;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let has_rate = self.rates.tasks.contains_key(task.kind.name());
        // Short steps are not announced.
        (seconds >= 5.0).then(|| {
            format!(
                "{} takes about {} ({})",
                title(task),
                format_duration(time),
                estimate_basis(has_rate)
            )
        })
    }

    /// Progress and time left of a task, as a line.
    pub fn line(&self, now: Duration, task: &KernelTask) -> String {
        let done = match (task.kind, task.total) {
            (TaskKind::Import, total) => counted(total.unwrap_or_default() as usize, "file"),
            (TaskKind::Download, Some(total)) => {
                format!("{} of {} MiB", task.done >> 20, total >> 20)
            }
            (TaskKind::Download, None) => format!("{} MiB", task.done >> 20),
            (_, Some(total)) => format!("{} of {}", task.done, counted(total as usize, "file")),
            (_, None) => counted(task.done as usize, "file"),
        };
        let left =
            self.left(now, task).map(|left| format!(", about {} left", format_duration(left)));
        format!("{}: {done}{}", title(task), left.unwrap_or_default())
    }

    /// Time left: by the rate of this step if a tenth of it is done, else by the stored rate.
    fn left(&self, now: Duration, task: &KernelTask) -> Option<Duration> {
        let total = task.total?;
        let (_, since, done_before) = self.begun?;
        let (done, took) = (task.done.saturating_sub(done_before), now.saturating_sub(since));
        let rate = match done * 10 >= total && done > 0 {
            true => took.as_secs_f64() / done as f64,
            false => self.seconds(task.kind),
        };
        let missing = total.saturating_sub(task.done) as f64;
        let missing = match task.kind {
            // An import reports no progress.
            TaskKind::Import => missing - took.as_secs_f64() / rate,
            _ => missing,
        };
        Duration::try_from_secs_f64((rate * missing).max(0.0)).ok()
    }

    /// Seconds for a byte or a file.
    fn seconds(&self, kind: TaskKind) -> f64 {
        let known = self.rates.tasks.get(kind.name()).copied();
        known.unwrap_or_else(|| default_seconds(kind, self.cpus))
    }

    /// Measures the rate of a finished step. Short builds are skipped, because make itself takes
    /// most of their time.
    fn measure_rate(&mut self, now: Duration, task: &KernelTask) {
        const MIN_UNITS: u64 = 100;
        let Some((_, since, done_before)) = self.begun else { return };
        let units = task.done.saturating_sub(done_before);
        if units >= MIN_UNITS {
            let seconds = now.saturating_sub(since).as_secs_f64() / units as f64;
            self.measured.insert(task.kind.name().to_owned(), seconds);
            self.rates.tasks.insert(task.kind.name().to_owned(), seconds);
        }
    }

    /// Rates of the finished steps.
    pub fn measured_rates(&self) -> Rates {
        Rates { tasks: self.measured.clone(), ..Rates::default() }
    }
}

fn title(task: &KernelTask) -> String {
    let activity = match task.kind {
        TaskKind::Download => "downloading",
        TaskKind::Unpack => "unpacking",
        TaskKind::Import => "keeping the files of",
        TaskKind::Compile => "compiling",
    };
    format!("{activity} {}", task.what)
}

#[cfg(test)]
#[path = "remaining_tests.rs"]
mod tests;
