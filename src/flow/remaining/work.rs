use std::collections::BTreeMap;
use std::time::Duration;

use super::rates::{Rates, Seen};
use super::shown::Shown;
use crate::run::Event;

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
