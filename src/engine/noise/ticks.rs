//! The kernel's time accounts, all in the same ticks (USER_HZ).

use std::collections::BTreeMap;

/// What /proc/stat says a CPU's time went to: Documentation/filesystems/proc.rst, 1.7. A guest's
/// time is in the user's already, and so is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Tasks and interrupts: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Nothing to do: idle, iowait.
    pub idle: u64,
    /// A hypervisor ran something else.
    pub steal: u64,
}

impl Ticks {
    fn parse(fields: &str) -> Option<Ticks> {
        let fields: Option<Vec<u64>> =
            fields.split_whitespace().map(|field| field.parse().ok()).collect();
        // Kernels before 2.6.11 have no steal.
        let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = &fields?[..] else {
            return None;
        };
        let sum = |parts: &[&u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(**part));
        Some(Ticks {
            busy: sum(&[user, nice, system, irq, softirq]),
            idle: sum(&[idle, iowait]),
            steal: rest.first().copied().unwrap_or(0),
        })
    }

    /// What was added since; nothing where a count went back, as iowait's does.
    pub fn since(self, before: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    pub fn total(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }
}

/// So many of all, in percent; 0 of nothing.
pub(super) fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { 100.0 * (part as f64 / total as f64) }
}

/// /proc/stat: all CPUs together, and each that is online.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stat {
    pub all: Ticks,
    pub cpus: BTreeMap<u32, Ticks>,
}

impl Stat {
    /// Nothing where the first line is not of all CPUs.
    pub fn parse(text: &str) -> Option<Stat> {
        let all = Ticks::parse(text.lines().next()?.strip_prefix("cpu ")?)?;
        let cpu = |line: &str| {
            let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Ticks::parse(fields)?))
        };
        Some(Stat { all, cpus: text.lines().filter_map(cpu).collect() })
    }
}

/// Of /proc/PID/stat: the CPU time of the process with all its threads, and of its children that
/// have ended and were waited for, with theirs: utime, stime, cutime, cstime of proc(5).
pub(super) fn own(text: &str) -> Option<u64> {
    // The second field is a name in parentheses, which may itself have spaces and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    // The times of children are signed, and never negative.
    let mut sum = 0_u64;
    for _ in 0..4 {
        sum = sum.saturating_add(fields.next()?.parse().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
#[path = "ticks_tests.rs"]
mod tests;
