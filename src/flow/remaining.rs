//! How long it still takes: what earlier runs taught, and what this one does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::{read_own_text, write_atomically};
use crate::engine::host::journal::state_dir;
use crate::kernel::{KernelTask, TaskKind};
use crate::run::Event;
use crate::text::counted;

/// What an estimate rests on, in words.
pub fn basis(is_learned: bool) -> &'static str {
    match is_learned {
        true => "as earlier runs on this machine took",
        false => "a guess, because nothing was measured on this machine yet",
    }
}

/// As [`spoken`], but two digits of what is short: a multiple of it is what is said of the whole.
pub fn precisely(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.0995 => format!("{:.3} s", seconds),
        ..0.995 => format!("{:.2} s", seconds),
        ..9.95 => format!("{:.1} s", seconds),
        _ => spoken(time),
    }
}

/// As a person says it: `45 s`, `3 min 20 s`, `1 h 5 min`.
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

/// A boot and a run of which nothing is known, in seconds.
const BOOT_S: f64 = 6.0;
const RUN_S: f64 = 0.4;

/// What is known counts as so many new measurements: it gives way to what this machine does now.
const WEIGHT: f64 = 2.0;

/// How many seconds each piece of work takes, by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// A boot, by the engine.
    pub boots: BTreeMap<String, f64>,
    /// A run, by the engine and the row.
    pub runs: BTreeMap<String, f64>,
    /// A byte of a download, or a file that is unpacked, kept or compiled, by the kind of task.
    pub tasks: BTreeMap<String, f64>,
}

/// The seconds of pieces of one kind that ended.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    pub count: f64,
    pub seconds: f64,
}

impl Seen {
    pub fn add(&mut self, time: Duration) {
        self.count += 1.0;
        self.seconds += time.as_secs_f64();
    }

    pub fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }

    /// The mean of these and of what was known before.
    pub fn with(self, known: Option<f64>, otherwise: f64) -> f64 {
        match known {
            Some(known) => (known * WEIGHT + self.seconds) / (WEIGHT + self.count),
            None => self.mean().unwrap_or(otherwise),
        }
    }
}

impl Rates {
    /// The name of a row's rate.
    pub fn row(engine: &str, row: &str) -> String {
        format!("{engine}/{row}")
    }

    /// Seconds of a boot.
    fn boot(&self, engine: &str, seen: Seen) -> f64 {
        seen.with(self.boots.get(engine).copied(), BOOT_S)
    }

    /// Seconds of a run; of a row that never ran, those of the others.
    fn run(&self, engine: &str, row: &str, seen: Seen, others: Seen) -> f64 {
        let known = self.runs.get(&Rates::row(engine, row)).copied();
        seen.with(known, others.mean().unwrap_or(RUN_S))
    }

    /// Seconds of a run that was learned.
    pub fn learned(&self, engine: &str, row: &str) -> Option<f64> {
        self.runs.get(&Rates::row(engine, row)).copied()
    }

    /// Whether anything is known of that engine.
    pub fn knows(&self, engine: &str) -> bool {
        self.boots.contains_key(engine)
    }
}

/// More rows than anybody has; a file beyond that begins anew.
const RUNS_MAX: usize = 4096;

/// The file may not be larger.
const BYTES_MAX: u64 = 1 << 20;

/// The state directory; of an ordinary user one of their own, unless another is named.
fn path() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let is_named = std::env::var_os("KTAX_STATE").is_some_and(|named| !named.is_empty());
    let dir = match is_named || rustix::process::geteuid().is_root() {
        true => Some(state_dir()),
        false => absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .map(|state| state.join("ktax")),
    };
    dir.map(|dir| dir.join("rates.json"))
}

/// What is known; nothing where there is no file, or none of this ktax.
pub fn learned() -> Rates {
    let text = path().and_then(|path| read_own_text(&path, BYTES_MAX).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Keeps it, beside what other runs learned in the meantime.
pub fn learn(new: &Rates) {
    let mut all = learned();
    all.boots.extend(new.boots.clone());
    all.tasks.extend(new.tasks.clone());
    if all.runs.len() > RUNS_MAX {
        all.runs.clear();
    }
    all.runs.extend(new.runs.clone());
    let Some((path, text)) = path().zip(serde_json::to_string(&all).ok()) else { return };
    if let Some(dir) = path.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = write_atomically(&path, text.as_bytes());
}

/// The time left that was shown last, and when. From one to the next it grows by no more than the
/// time that passed in between: one slow boot does not turn minutes into hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shown(Option<(Duration, Duration)>);

impl Shown {
    /// What is shown where so much is left.
    pub fn next(&mut self, now: Duration, left: Duration) -> Duration {
        let most = self.0.map(|(then, shown)| shown + now.saturating_sub(then));
        let left = most.map_or(left, |most| left.min(most));
        self.0 = Some((now, left));
        left
    }
}

/// What a run has to do: so many boots, each with these rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// What boots them.
    pub engine: String,
    /// Boots.
    pub boots: usize,
    /// The rows of each, in their order.
    pub rows: Vec<String>,
    /// VMs at a time.
    pub jobs: usize,
}

impl Work {
    /// All runs of all boots.
    pub fn runs(&self) -> usize {
        self.boots * self.rows.len()
    }
}

/// One of several runs that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub at: usize,
    /// About so many there are.
    pub of: usize,
    /// Whether all have one base, which is measured in the first alone.
    pub shares_base: bool,
}

impl Part {
    /// A run that is all there is.
    pub const ALONE: Part = Part { at: 0, of: 1, shares_base: false };
}

/// Where a boot is. `left` are the rows that come after.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Waiting { left: usize },
    Booting { left: usize, since: Duration },
    Running { left: usize, row: usize, since: Duration },
    Between { left: usize },
    Ended,
}

/// What is left of one or several runs that follow each other. Times are since its start.
#[derive(Debug, Clone)]
pub struct Remaining {
    known: Rates,
    work: Work,
    boots: BTreeMap<usize, At>,
    seen_boots: Seen,
    seen_runs: BTreeMap<String, Seen>,
    part: Part,
    shown: Shown,
}

impl Remaining {
    /// Nothing to do yet.
    pub fn new(known: Rates) -> Remaining {
        let (work, boots, seen_boots, seen_runs, shown) = Default::default();
        Remaining { known, work, boots, seen_boots, seen_runs, part: Part::ALONE, shown }
    }

    /// The run that begins next is this one.
    pub fn part(&mut self, part: Part) {
        if part.of != self.part.of {
            // There is more to do than was known, or less: that is news.
            self.shown = Shown::default();
        }
        self.part = Part { of: part.of.max(part.at + 1), ..part };
    }

    /// Its work.
    pub fn begin(&mut self, work: Work) {
        let waiting = At::Waiting { left: work.rows.len() };
        self.boots = (0..work.boots).map(|boot| (boot, waiting)).collect();
        self.work = work;
    }

    /// Something of it happened.
    pub fn event(&mut self, now: Duration, event: &Event<'_>) {
        let (step, rows) = (event.step().index as usize, self.work.rows.len());
        let was = self.boots.get(&step).copied().unwrap_or(At::Ended);
        let next = match (event, was) {
            (Event::Found(_, found), _) if *found >= rows => At::Ended,
            (Event::Found(_, found), _) => At::Waiting { left: rows - found },
            (Event::Booting(_), At::Waiting { left }) => At::Booting { left, since: now },
            (Event::Running(_, name), _) => {
                if let At::Booting { since, .. } = was {
                    self.seen_boots.add(now.saturating_sub(since));
                }
                let row = self.work.rows.iter().position(|row| row == name).unwrap_or(rows);
                At::Running { left: rows.saturating_sub(row + 1), row, since: now }
            }
            (Event::Done(..), At::Running { left, row, since }) => {
                if let Some(name) = self.work.rows.get(row) {
                    self.seen_runs.entry(name.clone()).or_default().add(now.saturating_sub(since));
                }
                if left == 0 { At::Ended } else { At::Between { left } }
            }
            // The boot failed, and all of its rows with it.
            (Event::Done(..), _) => At::Ended,
            (Event::Booting(_) | Event::Booted(..) | Event::Lost(..), was) => was,
        };
        self.boots.insert(step, next);
    }

    /// So many runs are done, of so many, over all parts.
    pub fn runs(&self) -> (usize, usize) {
        let left = |at: &At| match *at {
            At::Waiting { left } | At::Booting { left, .. } | At::Between { left } => left,
            At::Running { left, .. } => left + 1,
            At::Ended => 0,
        };
        let all = self.work.runs();
        let left: usize = self.boots.values().map(left).sum();
        (self.part.at * all + all.saturating_sub(left), self.part.of * all)
    }

    /// The time that is left. From one call to the next it grows by no more than the time that
    /// passed in between.
    pub fn left(&mut self, now: Duration) -> Duration {
        let Part { at, of, shares_base } = self.part;
        let later = of - at - 1;
        let fresh = At::Waiting { left: self.work.rows.len() };
        // Of a later part with the same base, the change's boots.
        let boots = if shares_base { self.work.boots / 2 } else { self.work.boots };
        let part = self.wall(now, &vec![fresh; boots]);
        let boots: Vec<At> = self.boots.values().copied().collect();
        let seconds = self.wall(now, &boots) + part * later as f64;
        self.shown.next(now, Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// What this run taught, beside what was known.
    pub fn rates(&self) -> Rates {
        let mut rates = self.known.clone();
        let engine = &self.work.engine;
        // A boot from the cache says nothing of one that is made.
        if let Some(mean) = self.seen_boots.mean().filter(|mean| *mean >= 1.0) {
            rates.boots.insert(engine.clone(), mean);
        }
        for (row, seen) in &self.seen_runs {
            rates.runs.extend(seen.mean().map(|mean| (Rates::row(engine, row), mean)));
        }
        rates
    }

    /// Seconds until all of these end: they share the VMs, and the longest has one to itself.
    fn wall(&self, now: Duration, boots: &[At]) -> f64 {
        let costs: Vec<f64> = boots.iter().map(|at| self.cost(now, *at)).collect();
        let unfinished = boots.iter().filter(|at| **at != At::Ended).count();
        let together = self.work.jobs.clamp(1, unfinished.max(1)) as f64;
        costs.iter().copied().fold(costs.iter().sum::<f64>() / together, f64::max)
    }

    /// Seconds that a boot still needs, alone.
    fn cost(&self, now: Duration, at: At) -> f64 {
        let still = |whole: f64, since: Duration| {
            (whole - now.saturating_sub(since).as_secs_f64()).max(0.0)
        };
        let boot = self.known.boot(&self.work.engine, self.seen_boots);
        match at {
            At::Waiting { left } => boot + self.rows(left),
            At::Booting { left, since } => still(boot, since) + self.rows(left),
            At::Running { left, row, since } => still(self.row(row), since) + self.rows(left),
            At::Between { left } => self.rows(left),
            At::Ended => 0.0,
        }
    }

    /// Seconds of the last rows.
    fn rows(&self, last: usize) -> f64 {
        let rows = self.work.rows.len();
        (rows.saturating_sub(last)..rows).map(|row| self.row(row)).sum()
    }

    fn row(&self, row: usize) -> f64 {
        let Some(name) = self.work.rows.get(row) else { return 0.0 };
        let seen = self.seen_runs.get(name).copied().unwrap_or_default();
        let mut others = Seen::default();
        for one in self.seen_runs.values() {
            others.count += one.count;
            others.seconds += one.seconds;
        }
        self.known.run(&self.work.engine, name, seen, others)
    }
}

/// How long timed pairs still take at most: each as long as those of the same run took. Times are
/// since the start of the first run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingPairs {
    part: Part,
    first: Option<(Duration, usize)>,
    most: usize,
    shown: Shown,
}

impl RemainingPairs {
    /// None are done yet.
    pub fn new() -> RemainingPairs {
        RemainingPairs { part: Part::ALONE, first: None, most: 0, shown: Shown::default() }
    }

    /// The run that begins next is this one. What pairs of another run took says nothing of it.
    pub fn part(&mut self, part: Part) {
        self.part = part;
        self.first = None;
    }

    /// Which run of how many, where there are several.
    pub fn of_several(&self) -> Option<Part> {
        Some(self.part).filter(|part| part.of > 1)
    }

    /// The time left in all runs, where so many pairs of this one are done, of at most so many.
    /// `None` before the first one of this run ended, or where the most is not known.
    pub fn left(&mut self, now: Duration, done: usize, most: Option<usize>) -> Option<Duration> {
        let (since, before) = *self.first.get_or_insert((now, done));
        let new = done.checked_sub(before).filter(|new| *new > 0)?;
        let most = most?;
        if most != self.most {
            // There is more to do than was known, or less: that is news.
            self.shown = Shown::default();
            self.most = most;
        }
        let later = self.part.of.saturating_sub(self.part.at + 1);
        let missing = most.saturating_sub(done) + most * later;
        let seconds = now.saturating_sub(since).as_secs_f64() / new as f64 * missing as f64;
        Some(self.shown.next(now, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }
}

impl Default for RemainingPairs {
    fn default() -> Self {
        RemainingPairs::new()
    }
}

/// Seconds for a unit of which nothing is known, measured on a machine with two CPUs: a byte of a
/// download, a file.
fn usual_seconds(kind: TaskKind, cpus: f64) -> f64 {
    match kind {
        TaskKind::Download => 1.0 / (8.0 * 1024.0 * 1024.0),
        TaskKind::Unpack => 0.000_35,
        TaskKind::Import => 0.000_30,
        TaskKind::Compile => 0.7 / cpus,
    }
}

/// How long steps on the way to a kernel still take. Times are since the start of ktax.
#[derive(Debug, Clone)]
pub struct RemainingTask {
    rates: Rates,
    cpus: f64,
    begun: Option<(TaskKind, Duration, u64)>,
    learned: BTreeMap<String, f64>,
}

impl RemainingTask {
    /// Nothing has begun. `cpus` compile at the same time.
    pub fn new(rates: Rates, cpus: usize) -> RemainingTask {
        let (begun, learned) = Default::default();
        RemainingTask { rates, cpus: cpus.max(1) as f64, begun, learned }
    }

    /// Takes note of a step. When it begins, returns how long it takes, as a sentence.
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
        // What is done in a moment needs no word.
        (seconds >= 5.0).then(|| {
            format!("{} takes about {} ({})", title(task), spoken(time), basis(is_learned))
        })
    }

    /// How far the step is and how long it still takes, for a line of progress.
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

    /// The pace of this step, once a tenth of it is done; before that, what is known.
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
            // Nobody sees how far it is.
            TaskKind::Import => missing - took.as_secs_f64() / pace,
            _ => missing,
        };
        Duration::try_from_secs_f64((pace * missing).max(0.0)).ok()
    }

    fn seconds(&self, kind: TaskKind) -> f64 {
        let known = self.rates.tasks.get(kind.name()).copied();
        known.unwrap_or_else(|| usual_seconds(kind, self.cpus))
    }

    /// A build of few files says little about a file: make itself takes longer.
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

    /// What the steps have taken, for later estimates.
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
