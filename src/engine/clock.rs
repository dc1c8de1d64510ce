//! How long a process could have run. On a busy machine a guest waits for a CPU, and that must not
//! count against its limit.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The real time of a process since a moment, without the time that it waited for a CPU.
#[derive(Debug)]
pub struct Clock {
    tasks: PathBuf,
    since: Instant,
    waited: Duration,
}

impl Clock {
    /// A clock for this process that starts now.
    pub fn of(process: u32) -> Clock {
        Clock::by(PathBuf::from(format!("/proc/{process}/task")))
    }

    /// By what is in such a directory.
    pub(super) fn by(tasks: PathBuf) -> Clock {
        let mut clock = Clock { tasks, since: Instant::now(), waited: Duration::ZERO };
        clock.restart();
        clock
    }

    /// Starts again from zero.
    pub fn restart(&mut self) {
        self.waited = waited_for_a_cpu(&self.tasks);
        self.since = Instant::now();
    }

    /// The real time, with waits. Costs nothing.
    pub fn real(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether more than this has passed, without waits.
    pub fn has_passed(&self, limit: Duration) -> bool {
        // Reading what the kernel says is only worth it where the answer depends on it.
        self.real() > limit && {
            let waited = waited_for_a_cpu(&self.tasks).saturating_sub(self.waited);
            self.real().saturating_sub(waited) > limit
        }
    }
}

/// Of the thread that waited longest: in QEMU, the one that runs the guest. A kernel without
/// schedstat says nothing, and no wait is known.
fn waited_for_a_cpu(tasks: &PathBuf) -> Duration {
    let of_task = |task: fs::DirEntry| {
        let line = fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(of_task).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_cpu_does_not_count() {
        let mut clock = Clock::of(std::process::id());
        clock.since -= Duration::from_secs(60);
        assert!(clock.has_passed(Duration::from_secs(59)));
        assert!(!clock.has_passed(Duration::from_secs(100)));
        // As if it had waited for all of that time.
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("task");
        for (task, waited) in [("1", "0 7 1\n"), ("2", "5 60000000000 9\n"), ("3", "")] {
            fs::create_dir_all(tasks.join(task)).unwrap();
            fs::write(tasks.join(task).join("schedstat"), waited).unwrap();
        }
        clock.tasks = tasks;
        clock.waited = Duration::ZERO;
        assert!(!clock.has_passed(Duration::from_secs(59)));
        clock.restart();
        assert_eq!(clock.waited, Duration::from_secs(60));
    }
}
