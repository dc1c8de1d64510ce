//! How long a process could have run, and how long it did. On a busy machine a guest waits for a
//! CPU, and that must not count against its limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::noise::own;

/// The time of a process since a moment.
#[derive(Debug)]
pub struct Clock {
    process: PathBuf,
    since: Instant,
    waited: Duration,
    ran: Duration,
}

impl Clock {
    /// A clock for this process that starts now.
    pub fn of(process: u32) -> Clock {
        Clock::by(PathBuf::from(format!("/proc/{process}")))
    }

    /// By what is in such a directory.
    pub(super) fn by(process: PathBuf) -> Clock {
        let (waited, ran) = (Duration::ZERO, Duration::ZERO);
        let mut clock = Clock { process, since: Instant::now(), waited, ran };
        clock.restart();
        clock
    }

    /// Starts again from zero.
    pub fn restart(&mut self) {
        self.waited = waited_for_a_cpu(&self.process);
        self.ran = cpu_time(&self.process);
        self.since = Instant::now();
    }

    /// As if it had started so long before.
    #[cfg(test)]
    pub(super) fn backdate(&mut self, by: Duration) {
        self.since -= by;
    }

    /// The real time, with waits. Costs nothing.
    pub fn real(&self) -> Duration {
        self.since.elapsed()
    }

    /// The CPU time of all threads. Neither other work nor a slow disk adds to it.
    pub fn ran(&self) -> Duration {
        cpu_time(&self.process).saturating_sub(self.ran)
    }

    /// Whether more real time than this has passed, without waits for a CPU.
    pub fn has_passed(&self, limit: Duration) -> bool {
        // Reading what the kernel says is only worth it where the answer depends on it.
        self.real() > limit && {
            let waited = waited_for_a_cpu(&self.process).saturating_sub(self.waited);
            self.real().saturating_sub(waited) > limit
        }
    }
}

/// Of the thread that waited longest: in QEMU, the one that runs the guest. A kernel without
/// schedstat says nothing, and no wait is known.
fn waited_for_a_cpu(process: &Path) -> Duration {
    let of_task = |task: fs::DirEntry| {
        let line = fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(of_task).max().unwrap_or(0))
}

/// Zero for a process that has ended. QEMU has no children, whose time would be in it.
fn cpu_time(process: &Path) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let ticks = own(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
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
        clock.process = dir.path().to_owned();
        clock.waited = Duration::ZERO;
        assert!(!clock.has_passed(Duration::from_secs(59)));
        clock.restart();
        assert_eq!(clock.waited, Duration::from_secs(60));
    }

    #[test]
    fn only_time_on_a_cpu_is_cpu_time() {
        let dir = tempfile::tempdir().unwrap();
        let ran_for = |seconds: u64| {
            let ticks = seconds * rustix::param::clock_ticks_per_second();
            let line = format!("7 (a) b) R 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0\n");
            fs::write(dir.path().join("stat"), line).unwrap();
        };
        ran_for(10);
        let mut clock = Clock::by(dir.path().to_owned());
        clock.since -= Duration::from_secs(3600);
        ran_for(13);
        assert_eq!(clock.ran(), Duration::from_secs(6));
        clock.restart();
        assert_eq!(clock.ran(), Duration::ZERO);
    }
}
