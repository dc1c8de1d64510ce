use std::time::Duration;

use super::shown::Shown;
use super::work::Part;

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
