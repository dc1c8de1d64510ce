//! An observer that writes down what it is told, in order.

use std::sync::Mutex;

use ktax::flow::remaining::{Part, Rates, RemainingRuns, Work};
use ktax::flow::{Event, Observer, Progress, Session, Timing};

use super::cache;

/// Something that an observer was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Part(Part),
    Begin(Work),
    /// Runs that are done then, and all, as [`RemainingRuns`] knows them.
    Done(usize, usize),
    End,
    Learned(Rates),
    Tick,
    /// Pairs and A/A pairs.
    Pairs(usize, usize),
}

/// Writes it down.
pub struct Recorder {
    remaining: Mutex<RemainingRuns>,
    heard: Mutex<Vec<Heard>>,
}

impl Recorder {
    pub fn new() -> Recorder {
        let remaining = Mutex::new(RemainingRuns::new(Rates::default()));
        Recorder { remaining, heard: Mutex::default() }
    }

    /// A session that is looked on, with the cache of all tests.
    pub fn session(&self) -> Session<'_> {
        Session { cache: cache(), ..Session::new(self).unwrap() }
    }

    /// All of it, in order.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The parts, in order.
    pub fn parts(&self) -> Vec<Part> {
        let part = |heard| match heard {
            Heard::Part(part) => Some(part),
            _ => None,
        };
        self.heard().into_iter().filter_map(part).collect()
    }

    /// Runs that were done and all, when each part ended.
    pub fn ends(&self) -> Vec<(usize, usize)> {
        let heard = self.heard();
        let ends = heard.windows(2).filter(|pair| pair[1] == Heard::End);
        let runs = ends.map(|pair| match pair[0] {
            Heard::Done(done, total) => (done, total),
            _ => panic!("{heard:?}"),
        });
        runs.collect()
    }

    fn hear(&self, heard: Heard) {
        self.heard.lock().unwrap().push(heard);
    }
}

impl Observer for Recorder {
    fn part(&self, part: Part) {
        self.remaining.lock().unwrap().part(part);
        self.hear(Heard::Part(part));
    }

    fn begin(&self, work: &Work) {
        self.remaining.lock().unwrap().begin(work.clone());
        self.hear(Heard::Begin(work.clone()));
    }

    fn event(&self, event: &Event<'_>) {
        let mut remaining = self.remaining.lock().unwrap();
        remaining.event(std::time::Duration::ZERO, event);
        let (done, total) = remaining.run_counts();
        self.hear(Heard::Done(done, total));
    }

    fn end(&self, _timing: &Timing) {
        self.hear(Heard::End);
    }

    fn rates_measured(&self, rates: &Rates) {
        self.hear(Heard::Learned(rates.clone()));
    }

    fn tick(&self) {
        self.hear(Heard::Tick);
    }

    fn pairs(&self, done: &Progress, _estimates: Option<&[(String, f64)]>) {
        self.hear(Heard::Pairs(done.pairs, done.controls));
    }
}
