use std::collections::BTreeMap;
use std::time::Duration;

use super::rates::Rates;
use super::{basis, spoken};
use crate::kernel::{KernelTask, TaskKind};
use crate::text::counted;

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
mod tests {
    use super::*;

    fn task(done: u64, total: Option<u64>) -> KernelTask {
        KernelTask {
            kind: TaskKind::Compile,
            what: "src:linux".into(),
            done,
            total,
            is_over: false,
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_build_is_estimated_before_it_begins_and_by_its_own_pace_then() {
        let mut remaining = RemainingTask::new(Rates::default(), 2);
        let said = remaining.see(seconds(10), &task(0, Some(1000))).unwrap();
        assert!(said.starts_with("compiling src:linux takes about 5 min 50 s (a guess"), "{said}");
        // Once is enough.
        assert_eq!(remaining.see(seconds(11), &task(1, Some(1000))), None);
        let line = remaining.line(seconds(30), &task(50, Some(1000)));
        assert_eq!(line, "compiling src:linux: 50 of 1000 files, about 5 min 33 s left");
        let line = remaining.line(seconds(210), &task(500, Some(1000)));
        assert_eq!(line, "compiling src:linux: 500 of 1000 files, about 3 min 20 s left");
        assert_eq!(remaining.line(seconds(9), &task(7, None)), "compiling src:linux: 7 files");
    }

    #[test]
    fn what_a_build_took_is_what_the_next_one_takes() {
        let mut remaining = RemainingTask::new(Rates::default(), 2);
        remaining.see(seconds(0), &task(0, Some(1000)));
        remaining.see(seconds(800), &KernelTask { is_over: true, ..task(800, Some(1000)) });
        let learned = remaining.learned();
        assert_eq!(learned.tasks["compile"], 1.0);
        let mut next = RemainingTask::new(learned, 2);
        let said = next.see(seconds(0), &task(0, Some(600))).unwrap();
        assert!(
            said.ends_with("takes about 10 min (as earlier runs on this machine took)"),
            "{said}"
        );
        // A build of few files teaches nothing, and one that is over in a moment needs no word.
        next.see(seconds(1), &KernelTask { is_over: true, ..task(5, Some(600)) });
        assert_eq!(next.learned().tasks.len(), 0);
        assert_eq!(next.see(seconds(1), &task(0, Some(3))), None);
    }

    #[test]
    fn a_download_is_shown_in_mebibytes() {
        let download = |done| {
            let (kind, what) = (TaskKind::Download, "linux-source-6.1".into());
            KernelTask { kind, what, done, total: Some(133 << 20), is_over: false }
        };
        let mut remaining = RemainingTask::new(Rates::default(), 2);
        remaining.see(seconds(0), &download(0));
        let line = remaining.line(seconds(10), &download(66 << 20));
        assert_eq!(line, "downloading linux-source-6.1: 66 of 133 MiB, about 11 s left");
    }
}
