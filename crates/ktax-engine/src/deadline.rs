//! Whether a guest is out of time. Other work on the host must not end it, and a hang must.

use super::clock::Clock;
use super::limits::Limits;
use ktax_model::Failure;

/// When one Boot or one Run must be done.
pub(super) struct Deadline {
    clock: Clock,
    /// How many virtual seconds were seen, and a clock since then.
    seen: (u64, Clock),
}

impl Deadline {
    /// Starts now. `clock` makes a clock of the process.
    pub fn new(clock: impl Fn() -> Clock) -> Deadline {
        Deadline { clock: clock(), seen: (0, clock()) }
    }

    /// Starts again.
    pub fn restart(&mut self) {
        self.clock.restart();
    }

    /// Looks at every limit; `virtual_s` asks for the virtual seconds since power-on.
    pub fn check(
        &mut self,
        limits: &Limits,
        virtual_s: impl FnOnce() -> u64,
    ) -> Result<(), Failure> {
        let limit_s = limits.time.as_secs();
        if !limits.is_counted {
            let is_late = self.clock.has_passed(limits.time);
            return if is_late { Err(Failure::RealTime { limit_s }) } else { Ok(()) };
        }
        let is_late = self.clock.ran() > limits.cpu_time();
        if !is_late && self.clock.real() <= limits.virtual_grace {
            return Ok(());
        }
        // A guest that is late is not disturbed any more by the question.
        let virtual_s = virtual_s();
        if virtual_s > limits.virtual_s {
            return Err(Failure::VirtualTime { limit_s: limits.virtual_s });
        }
        if is_late {
            return Err(Failure::CpuTime { limit_s: limits.cpu_time().as_secs() });
        }
        if self.stands_still(limits, virtual_s) {
            return Err(Failure::RealTime { limit_s });
        }
        Ok(())
    }

    /// A guest that is halted for ever takes no CPU time. Its clock stands still, unless a timer is
    /// left; then it flies. One that waits for the disk gets some of both.
    fn stands_still(&mut self, limits: &Limits, virtual_s: u64) -> bool {
        let (seen_s, since) = &mut self.seen;
        let went_on = virtual_s != *seen_s;
        if !went_on && !since.has_passed(limits.time) {
            return false;
        }
        // To be asked takes some CPU time as well.
        if !went_on && since.ran() < limits.time / 20 {
            return true;
        }
        *seen_s = virtual_s;
        since.restart();
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    const LIMIT_S: u64 = 100;

    /// As if the process had run and waited for so long, in so many seconds.
    fn later(deadline: &mut Deadline, process: &Path, real_s: u64, ran_s: u64, waited_s: u64) {
        let ticks = ran_s * rustix::param::clock_ticks_per_second();
        let task = process.join("task/1");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(process.join("stat"), format!("1 (q) S{} {ticks} 0 0 0", " 0".repeat(10)))
            .unwrap();
        std::fs::write(task.join("schedstat"), format!("0 {waited_s}000000000 1")).unwrap();
        for clock in [&mut deadline.clock, &mut deadline.seen.1] {
            clock.backdate(Duration::from_secs(real_s));
        }
    }

    /// What comes of a guest that has run for so long, and whose clock goes on or not.
    fn after(
        limits: &Limits,
        [real_s, ran_s, waited_s]: [u64; 3],
        virtual_s: u64,
    ) -> Option<Failure> {
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::by(process.path().to_owned()));
        later(&mut deadline, process.path(), real_s, ran_s, waited_s);
        deadline.check(limits, || virtual_s).err()
    }

    #[test]
    fn other_work_on_the_host_ends_no_counted_guest_and_a_hang_ends() {
        let limits = Limits::of_seconds(LIMIT_S);
        let (cpu, real) = (Failure::CpuTime { limit_s: 100 }, Failure::RealTime { limit_s: 100 });
        for (times, virtual_s, expected) in [
            // A hang is busy: it ends when it has had its time, however long that takes.
            ([101, 101, 0], 50, Some(cpu.clone())),
            ([9000, 101, 0], 50, Some(cpu)),
            // It waits for a CPU, also where the kernel says nothing of the waits, or half of them.
            ([9000, 99, 8901], 0, None),
            ([9000, 99, 4000], 0, None),
            ([9000, 99, 0], 0, None),
            // It waits for a disk: a virtual second in hours is enough.
            ([9000, 2, 0], 1, None),
            // It is halted.
            ([99, 0, 0], 0, None),
            ([101, 0, 0], 0, Some(real.clone())),
            ([101, 0, 2], 0, None),
            // It sleeps, also if the clock is asked for the first time when it has had its time.
            ([10, 1, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
            ([101, 101, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
        ] {
            assert_eq!(after(&limits, times, virtual_s), expected, "{times:?} {virtual_s}");
        }
        let timed = limits.without_virtual_time();
        assert_eq!(after(&timed, [101, 0, 0], 999), Some(real));
        assert_eq!(after(&timed, [101, 0, 2], 999), None);
    }

    #[test]
    fn a_guest_that_halts_late_is_noticed_too() {
        let limits = Limits::of_seconds(LIMIT_S);
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::by(process.path().to_owned()));
        for (real_s, ran_s, virtual_s, is_ok) in
            [(200, 20, 0, true), (90, 20, 3, true), (200, 20, 4, true), (101, 20, 4, false)]
        {
            later(&mut deadline, process.path(), real_s, ran_s, 0);
            assert_eq!(deadline.check(&limits, || virtual_s).is_ok(), is_ok, "{virtual_s}");
        }
    }
}
