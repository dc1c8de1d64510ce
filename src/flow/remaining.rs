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
pub fn basis(is_learned: bool) -> &'static str {
    match is_learned {
        true => "as earlier runs on this machine took",
        false => "a guess, because nothing was measured on this machine yet",
    }
}

/// Two significant digits for short durations; callers multiply the result. Longer ones as
/// [`spoken`].
pub fn precisely(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.0995 => format!("{:.3} s", seconds),
        ..0.995 => format!("{:.2} s", seconds),
        ..9.95 => format!("{:.1} s", seconds),
        _ => spoken(time),
    }
}

/// Duration in words: `45 s`, `3 min 20 s`, `1 h 5 min`.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{minutes} min {} s", seconds % 60),
        600..3600 => format!("{minutes} min"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Seconds of a boot and of a run if nothing is known.
const BOOT_S: f64 = 6.0;
const RUN_S: f64 = 0.4;

/// Earlier results count as this many new measurements, so that this run soon decides.
const WEIGHT: f64 = 2.0;

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

    /// Mean of these and of the known rate; `otherwise` if there is neither.
    pub fn with(self, known: Option<f64>, otherwise: f64) -> f64 {
        match known {
            Some(known) => (known * WEIGHT + self.seconds) / (WEIGHT + self.count),
            None => self.mean().unwrap_or(otherwise),
        }
    }
}

impl Rates {
    /// Key of a row in [`Rates::runs`].
    pub fn row(engine: &str, row: &str) -> String {
        format!("{engine}/{row}")
    }

    /// Seconds of a boot.
    fn boot(&self, engine: &str, seen: FinishedWork) -> f64 {
        seen.with(self.boots.get(engine).copied(), BOOT_S)
    }

    /// Seconds of a run; for a row that never ran, the mean of the others.
    fn run(&self, engine: &str, row: &str, seen: FinishedWork, others: FinishedWork) -> f64 {
        let known = self.runs.get(&Rates::row(engine, row)).copied();
        seen.with(known, others.mean().unwrap_or(RUN_S))
    }

    /// Learned seconds of a run.
    pub fn learned(&self, engine: &str, row: &str) -> Option<f64> {
        self.runs.get(&Rates::row(engine, row)).copied()
    }

    /// Returns true if this engine has booted before.
    pub fn knows(&self, engine: &str) -> bool {
        self.boots.contains_key(engine)
    }
}

/// Number of rows beyond which the file starts anew.
const RUNS_MAX: usize = 4096;

/// Size limit of the file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

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

/// Learned rates; empty without a file of this ktax.
pub fn learned() -> Rates {
    let text = rates_path().and_then(|path| read_own_text(&path, BYTES_MAX).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Writes rates, beside those that other runs have learned meanwhile. Errors are ignored, because
/// rates only improve estimates.
pub fn learn(new: &Rates) {
    let mut rates = learned();
    rates.boots.extend(new.boots.clone());
    rates.tasks.extend(new.tasks.clone());
    if rates.runs.len() > RUNS_MAX {
        rates.runs.clear();
    }
    rates.runs.extend(new.runs.clone());
    let Some((path, text)) = rates_path().zip(serde_json::to_string(&rates).ok()) else { return };
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = write_atomically(&path, text.as_bytes());
}

/// Time left that was shown last, and when. It grows by no more than the time that has passed, so
/// that one slow boot does not turn minutes into hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ShownTime(Option<(Duration, Duration)>);

impl ShownTime {
    /// Time to show if `left` is estimated.
    pub fn next(&mut self, now: Duration, left: Duration) -> Duration {
        let most = self.0.map(|(then, shown)| shown + now.saturating_sub(then));
        let left = most.map_or(left, |most| left.min(most));
        self.0 = Some((now, left));
        left
    }
}

/// Work of a run: boots, each with the same rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub engine: String,
    /// Number of boots.
    pub boots: usize,
    /// Rows of each boot, in order.
    pub rows: Vec<String>,
    /// VMs at a time.
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

/// State of a boot. `left` is the number of rows that come after.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BootState {
    Waiting { left: usize },
    Booting { left: usize, since: Duration },
    Running { left: usize, row: usize, since: Duration },
    Between { left: usize },
    Ended,
}

/// Work that is left of one or several runs. All times count from the start of the first.
#[derive(Debug, Clone)]
pub struct Remaining {
    known: Rates,
    work: Work,
    boots: BTreeMap<usize, BootState>,
    seen_boots: FinishedWork,
    seen_runs: BTreeMap<String, FinishedWork>,
    part: Part,
    shown: ShownTime,
}

impl Remaining {
    /// Without any work.
    pub fn new(known: Rates) -> Remaining {
        let (work, boots, seen_boots, seen_runs, shown) = Default::default();
        Remaining { known, work, boots, seen_boots, seen_runs, part: Part::default(), shown }
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

    /// Takes note of an event of the run.
    pub fn event(&mut self, now: Duration, event: &Event<'_>) {
        let (step, rows) = (event.step().index as usize, self.work.rows.len());
        let was = self.boots.get(&step).copied().unwrap_or(BootState::Ended);
        let next = match (event, was) {
            (Event::Found(_, found), _) if *found >= rows => BootState::Ended,
            (Event::Found(_, found), _) => BootState::Waiting { left: rows - found },
            (Event::Booting(_), BootState::Waiting { left }) => {
                BootState::Booting { left, since: now }
            }
            (Event::Running(_, name), _) => {
                if let BootState::Booting { since, .. } = was {
                    self.seen_boots.add(now.saturating_sub(since));
                }
                let row = self.work.rows.iter().position(|row| row == name).unwrap_or(rows);
                BootState::Running { left: rows.saturating_sub(row + 1), row, since: now }
            }
            (Event::Done(..), BootState::Running { left, row, since }) => {
                if let Some(name) = self.work.rows.get(row) {
                    self.seen_runs.entry(name.clone()).or_default().add(now.saturating_sub(since));
                }
                if left == 0 { BootState::Ended } else { BootState::Between { left } }
            }
            // The boot failed with all its rows.
            (Event::Done(..), _) => BootState::Ended,
            (Event::Booting(_) | Event::Booted(..) | Event::Lost(..), was) => was,
        };
        self.boots.insert(step, next);
    }

    /// Number of finished runs and of all, over all parts.
    pub fn runs(&self) -> (usize, usize) {
        let left = |state: &BootState| match *state {
            BootState::Waiting { left }
            | BootState::Booting { left, .. }
            | BootState::Between { left } => left,
            BootState::Running { left, .. } => left + 1,
            BootState::Ended => 0,
        };
        let total = self.work.runs();
        let left: usize = self.boots.values().map(left).sum();
        (self.part.index * total + total.saturating_sub(left), self.part.count * total)
    }

    /// Time left. From one call to the next it grows by no more than the time that has passed.
    pub fn left(&mut self, now: Duration) -> Duration {
        let Part { index, count, shares_base } = self.part;
        let later = count - index - 1;
        let fresh = BootState::Waiting { left: self.work.rows.len() };
        // Later parts with the same base only boot the change.
        let boots = if shares_base { self.work.boots / 2 } else { self.work.boots };
        let part = self.wall(now, &vec![fresh; boots]);
        let boots: Vec<BootState> = self.boots.values().copied().collect();
        let seconds = self.wall(now, &boots) + part * later as f64;
        self.shown.next(now, Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// Known rates with those of this run.
    pub fn rates(&self) -> Rates {
        let mut rates = self.known.clone();
        let engine = &self.work.engine;
        // Boots from the cache are faster than new ones.
        if let Some(mean) = self.seen_boots.mean().filter(|mean| *mean >= 1.0) {
            rates.boots.insert(engine.clone(), mean);
        }
        for (row, seen) in &self.seen_runs {
            rates.runs.extend(seen.mean().map(|mean| (Rates::row(engine, row), mean)));
        }
        rates
    }

    /// Seconds until all of these boots end: they share the VMs, and the longest has one to itself.
    fn wall(&self, now: Duration, boots: &[BootState]) -> f64 {
        let costs: Vec<f64> = boots.iter().map(|state| self.cost(now, *state)).collect();
        let unfinished = boots.iter().filter(|state| **state != BootState::Ended).count();
        let together = self.work.jobs.clamp(1, unfinished.max(1)) as f64;
        costs.iter().copied().fold(costs.iter().sum::<f64>() / together, f64::max)
    }

    /// Seconds that a boot still needs, alone.
    fn cost(&self, now: Duration, state: BootState) -> f64 {
        let still = |needed: f64, since: Duration| {
            (needed - now.saturating_sub(since).as_secs_f64()).max(0.0)
        };
        let boot = self.known.boot(&self.work.engine, self.seen_boots);
        match state {
            BootState::Waiting { left } => boot + self.rows(left),
            BootState::Booting { left, since } => still(boot, since) + self.rows(left),
            BootState::Running { left, row, since } => {
                still(self.row(row), since) + self.rows(left)
            }
            BootState::Between { left } => self.rows(left),
            BootState::Ended => 0.0,
        }
    }

    /// Seconds of the last `last` rows.
    fn rows(&self, last: usize) -> f64 {
        let rows = self.work.rows.len();
        (rows.saturating_sub(last)..rows).map(|row| self.row(row)).sum()
    }

    fn row(&self, row: usize) -> f64 {
        let Some(name) = self.work.rows.get(row) else { return 0.0 };
        let seen = self.seen_runs.get(name).copied().unwrap_or_default();
        let mut others = FinishedWork::default();
        for run in self.seen_runs.values() {
            others.count += run.count;
            others.seconds += run.seconds;
        }
        self.known.run(&self.work.engine, name, seen, others)
    }
}

/// Upper bound of the time that timed pairs still take, from the pairs of the same run. Times count
/// from the start of the first run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemainingPairs {
    part: Part,
    first: Option<(Duration, usize)>,
    most: usize,
    shown: ShownTime,
}

impl RemainingPairs {
    /// Sets the position of the next run. Pairs of another run say nothing about its speed.
    pub fn part(&mut self, part: Part) {
        self.part = part;
        self.first = None;
    }

    /// Position of the run, if there are several.
    pub fn part_of_several(&self) -> Option<Part> {
        Some(self.part).filter(|part| part.count > 1)
    }

    /// Time left in all runs, with `done` of at most `most` pairs of this one. `None` before its
    /// first pair has ended, or if `most` is unknown.
    pub fn left(&mut self, now: Duration, done: usize, most: Option<usize>) -> Option<Duration> {
        let (since, before) = *self.first.get_or_insert((now, done));
        let new = done.checked_sub(before).filter(|new| *new > 0)?;
        let most = most?;
        if most != self.most {
            // The amount of work has changed, so the estimate may jump.
            self.shown = ShownTime::default();
            self.most = most;
        }
        let later = self.part.count.saturating_sub(self.part.index + 1);
        let missing = most.saturating_sub(done) + most * later;
        let seconds = now.saturating_sub(since).as_secs_f64() / new as f64 * missing as f64;
        Some(self.shown.next(now, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }
}

/// Usual seconds for a byte of a download, or for a file, measured on a machine with two CPUs.
fn usual_seconds(kind: TaskKind, cpus: f64) -> f64 {
    match kind {
        TaskKind::Download => 1.0 / (8.0 * 1024.0 * 1024.0),
        TaskKind::Unpack => 0.000_35,
        TaskKind::Import => 0.000_30,
        TaskKind::Compile => 0.7 / cpus,
    }
}

/// Time left of the steps to get a kernel. Times count from the start of ktax.
#[derive(Debug, Clone)]
pub struct RemainingTask {
    rates: Rates,
    cpus: f64,
    begun: Option<(TaskKind, Duration, u64)>,
    learned: BTreeMap<String, f64>,
}

impl RemainingTask {
    /// Before the first step. `cpus` compile at the same time.
    pub fn new(rates: Rates, cpus: usize) -> RemainingTask {
        let (begun, learned) = Default::default();
        RemainingTask { rates, cpus: cpus.max(1) as f64, begun, learned }
    }

    /// Takes note of a step. Returns its estimate as a sentence when it begins and is long.
    pub fn see(&mut self, now: Duration, task: &KernelTask) -> Option<String> {
        let is_new = self.begun.is_none_or(|(kind, ..)| kind != task.kind);
        if is_new {
            self.begun = Some((task.kind, now, task.done));
        }
        if task.is_over {
            self.learn(now, task);
            self.begun = None;
            return None;
        }
        let total = task.total.filter(|_| is_new)?;
        let seconds = self.seconds(task.kind) * total as f64;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let is_learned = self.rates.tasks.contains_key(task.kind.name());
        // Short steps are not announced.
        (seconds >= 5.0).then(|| {
            format!("{} takes about {} ({})", title(task), spoken(time), basis(is_learned))
        })
    }

    /// Progress and time left of a step, as a line.
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
        let left = self.left(now, task).map(|left| format!(", about {} left", spoken(left)));
        format!("{}: {done}{}", title(task), left.unwrap_or_default())
    }

    /// Time left, by the pace of this step once a tenth of it is done, else by the known rate.
    fn left(&self, now: Duration, task: &KernelTask) -> Option<Duration> {
        let total = task.total?;
        let (_, since, before) = self.begun?;
        let (done, took) = (task.done.saturating_sub(before), now.saturating_sub(since));
        let pace = match done * 10 >= total && done > 0 {
            true => took.as_secs_f64() / done as f64,
            false => self.seconds(task.kind),
        };
        let missing = total.saturating_sub(task.done) as f64;
        let missing = match task.kind {
            // An import reports no progress.
            TaskKind::Import => missing - took.as_secs_f64() / pace,
            _ => missing,
        };
        Duration::try_from_secs_f64((pace * missing).max(0.0)).ok()
    }

    fn seconds(&self, kind: TaskKind) -> f64 {
        let known = self.rates.tasks.get(kind.name()).copied();
        known.unwrap_or_else(|| usual_seconds(kind, self.cpus))
    }

    /// Learns the rate of a step. Short builds are skipped, because make itself takes most of their
    /// time.
    fn learn(&mut self, now: Duration, task: &KernelTask) {
        const FEWEST: u64 = 100;
        let Some((_, since, before)) = self.begun else { return };
        let units = task.done.saturating_sub(before);
        if units >= FEWEST {
            let seconds = now.saturating_sub(since).as_secs_f64() / units as f64;
            self.learned.insert(task.kind.name().to_owned(), seconds);
            self.rates.tasks.insert(task.kind.name().to_owned(), seconds);
        }
    }

    /// Rates of the finished steps.
    pub fn learned(&self) -> Rates {
        Rates { tasks: self.learned.clone(), ..Rates::default() }
    }
}

fn title(task: &KernelTask) -> String {
    let does = match task.kind {
        TaskKind::Download => "downloading",
        TaskKind::Unpack => "unpacking",
        TaskKind::Import => "keeping the files of",
        TaskKind::Compile => "compiling",
    };
    format!("{does} {}", task.what)
}

#[cfg(test)]
#[path = "remaining_tests.rs"]
mod tests;
