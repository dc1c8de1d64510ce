//! The kernel's counters of a process and all its children, from its next exec on.

use std::fs;
use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware, Software};
use perf_event::{Builder, Counter};
use rustix::io::Errno;
use rustix::process::Pid;

use ktax_model::{Count, Counted};

/// Whether kernel or user mode is counted.
#[derive(Clone, Copy)]
enum Mode {
    User,
    Kernel,
    Both,
}

type NamedEvent = (&'static str, Builder<'static>);

const DTLB_MISSES: Cache =
    Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };

/// Groups of events that the kernel counts during the same periods: all events of a group have a
/// hardware counter, or none. Groups are small, because the kernel refuses one with more events
/// than the CPU has counters.
fn groups() -> [Vec<NamedEvent>; 5] {
    let software = |name, event: Software| (name, builder(event, Mode::Both));
    let cpu = |name, event: Hardware, mode| (name, builder(event, mode));
    [
        vec![
            // User mode needs no permission; this event does not tell kernel time from user time.
            ("task-clock", builder(Software::TASK_CLOCK, Mode::User)),
            software("cpu-migrations", Software::CPU_MIGRATIONS),
            software("context-switches", Software::CONTEXT_SWITCHES),
            software("page-faults", Software::PAGE_FAULTS),
            software("minor-faults", Software::PAGE_FAULTS_MIN),
            software("major-faults", Software::PAGE_FAULTS_MAJ),
        ],
        vec![
            cpu("cycles-user", Hardware::CPU_CYCLES, Mode::User),
            cpu("instructions-user", Hardware::INSTRUCTIONS, Mode::User),
        ],
        vec![
            cpu("cycles-kernel", Hardware::CPU_CYCLES, Mode::Kernel),
            cpu("instructions-kernel", Hardware::INSTRUCTIONS, Mode::Kernel),
        ],
        vec![
            cpu("cache-references", Hardware::CACHE_REFERENCES, Mode::Both),
            cpu("cache-misses", Hardware::CACHE_MISSES, Mode::Both),
        ],
        vec![("dtlb-misses", builder(DTLB_MISSES, Mode::Both))],
    ]
}

fn builder<E: Event>(event: E, mode: Mode) -> Builder<'static> {
    let mut builder = Builder::new(event);
    builder.inherit(true).enable_on_exec(true);
    match mode {
        Mode::User => {}
        Mode::Kernel => drop(builder.include_kernel().exclude_user(true)),
        Mode::Both => drop(builder.include_kernel()),
    }
    builder
}

/// The counters of one process; a counter that could not be opened has its reason.
pub struct Counters(Vec<(&'static str, Result<Counter, String>)>);

impl Counters {
    /// Opens every counter of a stopped process. They start at its next exec.
    pub fn open(pid: Pid) -> Counters {
        let mut all = Vec::new();
        for group in groups() {
            let first = all.len();
            for (name, mut builder) in group {
                builder.observe_pid(pid.as_raw_pid());
                let leader = all.get_mut(first..).and_then(|group| group.iter_mut().find_map(open));
                let counter = match leader {
                    Some(leader) => builder.build_with_group(leader).or_else(|_| builder.build()),
                    None => builder.build(),
                };
                all.push((name, counter.map_err(|error| refused(&error))));
            }
        }
        Counters(all)
    }

    /// Returns the counts until now, children that still run included.
    pub fn read(&mut self) -> Counted {
        let mut counted: Counted =
            self.0.iter_mut().map(|(name, counter)| (*name, read(counter))).collect();
        for (whole, user, kernel) in [
            ("cycles", "cycles-user", "cycles-kernel"),
            ("instructions", "instructions-user", "instructions-kernel"),
        ] {
            counted.insert(whole, sum(&counted[user], &counted[kernel]));
        }
        counted
    }
}

/// Returns the counter if it is open: the first open one of a group is its leader.
fn open<'a>(
    (_, counter): &'a mut (&'static str, Result<Counter, String>),
) -> Option<&'a mut Counter> {
    counter.as_mut().ok()
}

fn read(counter: &mut Result<Counter, String>) -> Count {
    let counter = match counter {
        Ok(counter) => counter,
        Err(reason) => return Count::Not(reason.clone()),
    };
    match counter.read_full() {
        Ok(seen) => {
            let nanoseconds =
                |time: Option<std::time::Duration>| time.unwrap_or_default().as_nanos() as f64;
            scaled(seen.count(), nanoseconds(seen.time_enabled()), nanoseconds(seen.time_running()))
        }
        Err(error) => Count::Not(refused(&error)),
    }
}

/// Scales a count that the kernel took during a part of the time to the whole time.
fn scaled(count: u64, enabled_ns: f64, running_ns: f64) -> Count {
    if running_ns == 0.0 {
        let reason = "it never ran: others hold the CPU's counters, or the command is of another \
                      user; end the other users of counters, such as the NMI watchdog \
                      (sysctl kernel.nmi_watchdog=0), or run ktax as root";
        return Count::Not(reason.to_owned());
    }
    Count::Seen {
        value: count as f64 * enabled_ns / running_ns,
        counted_percent: running_ns / enabled_ns * 100.0,
    }
}

fn sum(one: &Count, other: &Count) -> Count {
    match (one, other) {
        (
            Count::Seen { value: one, counted_percent: first },
            Count::Seen { value: other, counted_percent: second },
        ) => Count::Seen { value: one + other, counted_percent: first.min(*second) },
        (Count::Not(reason), _) | (_, Count::Not(reason)) => Count::Not(reason.clone()),
    }
}

/// Says why the kernel refused a counter, and what to do about it.
fn refused(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {
            "no PMU here that counts it; use a machine that has one, or a VM with a virtual PMU \
             (QEMU with KVM: -cpu host,pmu=on)"
                .to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            let path = "/proc/sys/kernel/perf_event_paranoid";
            let level = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            not_permitted(level)
        }
        _ => format!("{error}; perf_event_open(2) lists what that can mean"),
    }
}

fn not_permitted(level: Option<i32>) -> String {
    match level {
        Some(level) if level > 1 => format!(
            "not permitted: kernel.perf_event_paranoid is {level}; type `sudo sysctl \
             kernel.perf_event_paranoid=1`, or run ktax as root"
        ),
        Some(level) => format!(
            "not permitted although kernel.perf_event_paranoid is {level}: a container or a \
             security module forbids it; run ktax outside of it"
        ),
        None => "not permitted, and there is no kernel.perf_event_paranoid to read; build the \
                 kernel with CONFIG_PERF_EVENTS"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::STAT_COUNTERS;

    #[test]
    fn every_counter_is_asked_for_and_no_other() {
        let mut asked: Vec<&str> = groups()
            .iter()
            .flatten()
            .map(|(name, _)| *name)
            .chain(["cycles", "instructions"])
            .collect();
        let mut listed = STAT_COUNTERS.map(|counter| counter.name).to_vec();
        asked.sort_unstable();
        listed.sort_unstable();
        assert_eq!(asked, listed);
    }

    #[test]
    fn all_begin_with_the_command_and_take_in_what_it_starts() {
        for (name, builder) in groups().iter().flatten() {
            let attrs = builder.attrs();
            let all = (attrs.disabled(), attrs.enable_on_exec(), attrs.inherit());
            assert_eq!(all, (1, 1, 1), "{name}");
        }
    }

    #[test]
    fn what_shared_the_counters_is_scaled_and_says_so() {
        assert_eq!(scaled(500, 1e6, 1e6), Count::Seen { value: 500.0, counted_percent: 100.0 });
        assert_eq!(scaled(500, 1e6, 0.25e6), Count::Seen { value: 2000.0, counted_percent: 25.0 });
        // A counter that never ran is not zero.
        assert!(matches!(scaled(0, 1e6, 0.0), Count::Not(reason) if reason.contains("never ran")));
    }

    #[test]
    fn a_sum_is_counted_as_rarely_as_its_rarer_part_and_not_without_one() {
        let seen = |value, counted_percent| Count::Seen { value, counted_percent };
        assert_eq!(sum(&seen(1.0, 50.0), &seen(2.0, 75.0)), seen(3.0, 50.0));
        let not = Count::Not("why".to_owned());
        assert_eq!(sum(&seen(1.0, 50.0), &not), not);
        assert_eq!(sum(&not, &seen(1.0, 50.0)), not);
    }

    #[test]
    fn a_refusal_has_its_reason_and_the_next_step() {
        let refusal = |errno: Errno| refused(&io::Error::from(errno));
        assert!(refusal(Errno::NOENT).starts_with("no PMU here"), "{}", refusal(Errno::NOENT));
        assert!(refusal(Errno::ACCESS).starts_with("not permitted"), "{}", refusal(Errno::ACCESS));
        assert!(not_permitted(Some(2)).contains("perf_event_paranoid is 2; type `sudo sysctl"));
        assert!(not_permitted(Some(-1)).contains("although kernel.perf_event_paranoid is -1"));
        assert!(not_permitted(None).contains("CONFIG_PERF_EVENTS"));
    }
}
