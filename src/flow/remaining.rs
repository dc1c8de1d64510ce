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

/// Basis of an estimate, for messages.
pub fn estimate_basis(is_learned: bool) -> &'static str {
    match is_learned {
        true => "based on earlier runs on this machine",
        false => "a guess, because nothing was measured on this machine yet",
    }
}

/// Formats a duration below 10 s with two significant digits, because readers multiply the number.
/// Formats longer durations as [`format_duration`] does.
pub fn format_short_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.0995 => format!("{:.3} s", seconds),
        ..0.995 => format!("{:.2} s", seconds),
        ..9.95 => format!("{:.1} s", seconds),
        _ => format_duration(time),
    }
}

/// Formats a duration: `45 s`, `3 min 20 s`, `1 h 5 min`.
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

/// Seconds of a boot on a machine without learned rates.
const BOOT_S: f64 = 6.0;
/// Seconds of a run on a machine without learned rates.
const RUN_S: f64 = 0.4;

/// Weight of a learned rate, in measurements of this run: the rate of this run soon outweighs it.
const LEARNED_WEIGHT: f64 = 2.0;

/// Seconds that each piece of work takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// Boots, by engine.
    pub boots: BTreeMap<String, f64>,
    /// Runs, by engine and row.
    pub runs: BTreeMap<String, f64>,
    /// Bytes of a download, or files that are unpacked, kept or compiled, by kind of task.
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

    /// Mean of the finished pieces and of the learned rate; `default` without either.
    pub fn mean_with_stored(self, learned: Option<f64>, default: f64) -> f64 {
        match learned {
            Some(learned) => {
                (learned * LEARNED_WEIGHT + self.seconds) / (LEARNED_WEIGHT + self.count)
            }
            None => self.mean().unwrap_or(default),
        }
    }
}

impl Rates {
    /// Key of a row in [`Rates::runs`].
    pub fn run_key(engine: &str, row: &str) -> String {
        format!("{engine}/{row}")
    }

    /// Expected seconds of a boot, by the learned rate and the finished boots.
    fn expected_boot(&self, engine: &str, finished: FinishedWork) -> f64 {
        finished.mean_with_stored(self.boots.get(engine).copied(), BOOT_S)
    }

    /// Expected seconds of a run, by the learned rate and the finished runs of the row; for a row
    /// that never ran, the mean of all finished runs.
    fn expected_run(
        &self,
        engine: &str,
        row: &str,
        finished: FinishedWork,
        all: FinishedWork,
    ) -> f64 {
        finished.mean_with_stored(self.run_seconds(engine, row), all.mean().unwrap_or(RUN_S))
    }

    /// Learned seconds of a run; `None` if the row never ran.
    pub fn run_seconds(&self, engine: &str, row: &str) -> Option<f64> {
        self.runs.get(&Rates::run_key(engine, row)).copied()
    }

    /// Returns true if this engine has booted before.
    pub fn has_boots(&self, engine: &str) -> bool {
        self.boots.contains_key(engine)
    }
}

/// Maximum number of rows in the file. [`store_rates`] removes the rates of all rows beyond it.
const MAX_ROWS: usize = 4096;

/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// File of learned rates, in the state directory. Ordinary users have a directory of their own,
/// unless `KTAX_STATE` names one.
fn rates_path() -> Option<PathBuf> {
    let is_named = std::env::var_os("KTAX_STATE").is_some_and(|named| !named.is_empty());
    let dir = match is_named || rustix::process::geteuid().is_root() {
        true => Some(state_dir()),
        false => user_directory("XDG_STATE_HOME", ".local/state"),
    };
    dir.map(|dir| dir.join("rates.json"))
}

/// Loads the learned rates; empty without a readable file.
pub fn stored_rates() -> Rates {
    let text = rates_path().and_then(|path| read_own_text(&path, MAX_BYTES).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds rates to the file, which other runs may have changed meanwhile. Errors are ignored, because
/// rates only improve estimates.
pub fn store_rates(new: &Rates) {
    let mut rates = stored_rates();
    rates.boots.extend(new.boots.clone());
    rates.tasks.extend(new.tasks.clone());
    if rates.runs.len() > MAX_ROWS {
        rates.runs.clear();
    }
    rates.runs.extend(new.runs.clone());
    let Some((path, text)) = rates_path().zip(serde_json::to_string(&rates).ok()) else { return };
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = write_atomically(&path, text.as_bytes());
}

/// Limit of the shown time left: it grows by no more than the time that has passed, so that one
/// slow boot does not turn minutes into hours.
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
    /// Limits an estimate of the time left, and remembers it as shown.
    pub fn limit(&mut self, now: Duration, estimate: Duration) -> Duration {
        let limit = self.last.map(|last| last.left + now.saturating_sub(last.shown_at));
        let left = limit.map_or(estimate, |limit| estimate.min(limit));
        self.last = Some(ShownEstimate { shown_at: now, left });
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
    /// The only run.
    fn default() -> Part {
        Part { index: 0, count: 1, shares_base: false }
    }
}

/// State of a boot. `left` is its number of rows that have not begun.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BootState {
    Waiting { left: usize },
    Booting { left: usize, since: Duration },
    Running { left: usize, row: usize, since: Duration },
    BetweenRows { left: usize },
    Ended,
}

/// Remaining work of one or several runs. All times count from the start of the first run.
#[derive(Debug, Clone)]
pub struct RemainingRuns {
    learned: Rates,
    work: Work,
    boots: BTreeMap<usize, BootState>,
    finished_boots: FinishedWork,
    finished_runs: BTreeMap<String, FinishedWork>,
    part: Part,
    shown: ShownTime,
}

impl RemainingRuns {
    /// Creates an estimate without work.
    pub fn new(learned: Rates) -> RemainingRuns {
        let (work, boots, finished_boots, finished_runs, shown) = Default::default();
        let part = Part::default();
        RemainingRuns { learned, work, boots, finished_boots, finished_runs, part, shown }
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

    /// Updates the state of a boot by an event of the run.
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
                if left == 0 { BootState::Ended } else { BootState::BetweenRows { left } }
            }
            // The boot failed with all its rows.
            (Event::Done(..), _) => BootState::Ended,
            (Event::Booting(_) | Event::Booted(..) | Event::Lost(..), state) => state,
        };
        self.boots.insert(step, next);
    }

    /// Number of finished runs and of all runs, over all parts.
    pub fn run_counts(&self) -> (usize, usize) {
        let left = |state: &BootState| match *state {
            BootState::Waiting { left }
            | BootState::Booting { left, .. }
            | BootState::BetweenRows { left } => left,
            BootState::Running { left, .. } => left + 1,
            BootState::Ended => 0,
        };
        let total = self.work.runs();
        let left: usize = self.boots.values().map(left).sum();
        (self.part.index * total + total.saturating_sub(left), self.part.count * total)
    }

    /// Estimates the time left. The estimate grows by no more than the time since the last call.
    pub fn left(&mut self, now: Duration) -> Duration {
        let Part { index, count, shares_base } = self.part;
        let later_parts = count - index - 1;
        let waiting = BootState::Waiting { left: self.work.rows.len() };
        // Later parts with the same base only boot the change.
        let boots = if shares_base { self.work.boots / 2 } else { self.work.boots };
        let part_seconds = self.wall_seconds(now, &vec![waiting; boots]);
        let boots: Vec<BootState> = self.boots.values().copied().collect();
        let seconds = self.wall_seconds(now, &boots) + part_seconds * later_parts as f64;
        self.shown.limit(now, Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// Learned rates, with the rates of this run in their place.
    pub fn rates(&self) -> Rates {
        let mut rates = self.learned.clone();
        let engine = &self.work.engine;
        // Boots of less than a second came from the cache.
        if let Some(mean) = self.finished_boots.mean().filter(|mean| *mean >= 1.0) {
            rates.boots.insert(engine.clone(), mean);
        }
        for (row, finished) in &self.finished_runs {
            rates.runs.extend(finished.mean().map(|mean| (Rates::run_key(engine, row), mean)));
        }
        rates
    }

    /// Seconds until all of these boots end. The boots share the VMs, so the seconds are at least
    /// those of the longest boot.
    fn wall_seconds(&self, now: Duration, boots: &[BootState]) -> f64 {
        let costs: Vec<f64> = boots.iter().map(|state| self.boot_seconds(now, *state)).collect();
        let unfinished = boots.iter().filter(|state| **state != BootState::Ended).count();
        let parallel = self.work.jobs.clamp(1, unfinished.max(1)) as f64;
        costs.iter().copied().fold(costs.iter().sum::<f64>() / parallel, f64::max)
    }

    /// Seconds that a boot still needs in a VM of its own.
    fn boot_seconds(&self, now: Duration, state: BootState) -> f64 {
        let rest = |needed: f64, since: Duration| {
            (needed - now.saturating_sub(since).as_secs_f64()).max(0.0)
        };
        let boot = self.learned.expected_boot(&self.work.engine, self.finished_boots);
        match state {
            BootState::Waiting { left } => boot + self.rows_seconds(left),
            BootState::Booting { left, since } => rest(boot, since) + self.rows_seconds(left),
            BootState::Running { left, row, since } => {
                rest(self.row_seconds(row), since) + self.rows_seconds(left)
            }
            BootState::BetweenRows { left } => self.rows_seconds(left),
            BootState::Ended => 0.0,
        }
    }

    /// Expected seconds of the last `count` rows.
    fn rows_seconds(&self, count: usize) -> f64 {
        let rows = self.work.rows.len();
        (rows.saturating_sub(count)..rows).map(|row| self.row_seconds(row)).sum()
    }

    fn row_seconds(&self, row: usize) -> f64 {
        let Some(name) = self.work.rows.get(row) else { return 0.0 };
        let finished = self.finished_runs.get(name).copied().unwrap_or_default();
        let mut all = FinishedWork::default();
        for runs in self.finished_runs.values() {
            all.count += runs.count;
            all.seconds += runs.seconds;
        }
        self.learned.expected_run(&self.work.engine, name, finished, all)
    }
}

/// Upper bound of the remaining time of timed pairs, by the pairs of the same run. Times count from
/// the start of the first run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemainingPairs {
    part: Part,
    /// Time of the first call for this run, and the number of pairs that were done by then.
    start: Option<(Duration, usize)>,
    max_pairs: usize,
    shown: ShownTime,
}

impl RemainingPairs {
    /// Sets the position of the next run, whose speed does not follow from earlier runs.
    pub fn part(&mut self, part: Part) {
        self.part = part;
        self.start = None;
    }

    /// Position of the run, if there are several.
    pub fn part_of_several(&self) -> Option<Part> {
        Some(self.part).filter(|part| part.count > 1)
    }

    /// Time left in all runs, after `done` of at most `max_pairs` pairs of this run. `None` before
    /// the first new pair of this run has ended, or if `max_pairs` is unknown.
    pub fn left(
        &mut self,
        now: Duration,
        done: usize,
        max_pairs: Option<usize>,
    ) -> Option<Duration> {
        let (since, done_before) = *self.start.get_or_insert((now, done));
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

/// Default seconds for a byte of a download, or for a file, measured on a machine with two CPUs.
fn default_seconds(kind: TaskKind, cpus: f64) -> f64 {
    match kind {
        TaskKind::Download => 1.0 / (8.0 * 1024.0 * 1024.0),
        TaskKind::Unpack => 0.000_35,
        TaskKind::Import => 0.000_30,
        TaskKind::Compile => 0.7 / cpus,
    }
}

/// Remaining time of the tasks that get a kernel. Times count from the start of ktax.
#[derive(Debug, Clone)]
pub struct RemainingTask {
    rates: Rates,
    cpus: f64,
    /// Kind of the current task, its start, and the number of units that were done by then.
    current: Option<(TaskKind, Duration, u64)>,
    measured_rates: BTreeMap<String, f64>,
}

impl RemainingTask {
    /// Creates an estimate before the first task. `cpus` is the number of parallel compilations.
    pub fn new(rates: Rates, cpus: usize) -> RemainingTask {
        let (current, measured_rates) = Default::default();
        RemainingTask { rates, cpus: cpus.max(1) as f64, current, measured_rates }
    }

    /// Updates the state by the progress of a task. Returns an estimate, as a sentence, when a long
    /// task begins.
    pub fn update(&mut self, now: Duration, task: &KernelTask) -> Option<String> {
        let is_new = self.current.is_none_or(|(kind, ..)| kind != task.kind);
        if is_new {
            self.current = Some((task.kind, now, task.done));
        }
        if task.is_over {
            self.record_rate(now, task);
            self.current = None;
            return None;
        }
        let total = task.total.filter(|_| is_new)?;
        let seconds = self.seconds(task.kind) * total as f64;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let is_learned = self.rates.tasks.contains_key(task.kind.name());
        // Short tasks are not announced.
        (seconds >= 5.0).then(|| {
            format!(
                "{} takes about {} ({})",
                title(task),
                format_duration(time),
                estimate_basis(is_learned)
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

    /// Time left, by the pace of this task once a tenth of it is done, else by the learned rate.
    fn left(&self, now: Duration, task: &KernelTask) -> Option<Duration> {
        let total = task.total?;
        let (_, since, done_before) = self.current?;
        let (done, elapsed) = (task.done.saturating_sub(done_before), now.saturating_sub(since));
        let pace = match done * 10 >= total && done > 0 {
            true => elapsed.as_secs_f64() / done as f64,
            false => self.seconds(task.kind),
        };
        let missing = total.saturating_sub(task.done) as f64;
        let missing = match task.kind {
            // An import reports no progress.
            TaskKind::Import => missing - elapsed.as_secs_f64() / pace,
            _ => missing,
        };
        Duration::try_from_secs_f64((pace * missing).max(0.0)).ok()
    }

    /// Seconds for a byte or a file.
    fn seconds(&self, kind: TaskKind) -> f64 {
        let learned = self.rates.tasks.get(kind.name()).copied();
        learned.unwrap_or_else(|| default_seconds(kind, self.cpus))
    }

    /// Records the rate of a finished task. Short builds are skipped, because make itself takes
    /// most of their time.
    fn record_rate(&mut self, now: Duration, task: &KernelTask) {
        const MIN_UNITS: u64 = 100;
        let Some((_, since, done_before)) = self.current else { return };
        let units = task.done.saturating_sub(done_before);
        if units >= MIN_UNITS {
            let seconds = now.saturating_sub(since).as_secs_f64() / units as f64;
            self.measured_rates.insert(task.kind.name().to_owned(), seconds);
            self.rates.tasks.insert(task.kind.name().to_owned(), seconds);
        }
    }

    /// Rates of the finished tasks.
    pub fn measured_rates(&self) -> Rates {
        Rates { tasks: self.measured_rates.clone(), ..Rates::default() }
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
