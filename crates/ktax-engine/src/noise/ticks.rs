//! The kernel's time accounting, in ticks (USER_HZ).

use std::collections::BTreeMap;

/// What a CPU's time was spent on, from /proc/stat (Documentation/filesystems/proc.rst, 1.7). Guest
/// time is part of user time, so it is not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Tasks and interrupts: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Idle time: idle, iowait.
    pub idle: u64,
    /// Stolen time: a hypervisor ran something else.
    pub steal: u64,
}

impl Ticks {
    fn parse(fields: &str) -> Option<Ticks> {
        let fields: Option<Vec<u64>> =
            fields.split_whitespace().map(|field| field.parse().ok()).collect();
        // Kernels before 2.6.11 have no steal time.
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

    /// The increase since `earlier`; 0 if a count decreased, as iowait's can.
    pub fn since(self, before: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    fn and(self, other: Ticks) -> Ticks {
        Ticks {
            busy: self.busy.saturating_add(other.busy),
            idle: self.idle.saturating_add(other.idle),
            steal: self.steal.saturating_add(other.steal),
        }
    }

    pub fn total(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }
}

/// `part` in percent of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { 100.0 * (part as f64 / total as f64) }
}

/// /proc/stat: all CPUs together, and each CPU that is online.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Stat {
    pub all: Ticks,
    pub cpus: BTreeMap<u32, Ticks>,
}

impl Stat {
    /// Parses /proc/stat. `None` if its first line is not that of all CPUs.
    pub fn parse(text: &str) -> Option<Stat> {
        let all = Ticks::parse(text.lines().next()?.strip_prefix("cpu ")?)?;
        let cpu = |line: &str| {
            let (number, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Ticks::parse(fields)?))
        };
        Some(Stat { all, cpus: text.lines().filter_map(cpu).collect() })
    }

    /// These CPUs together, and how many they are; all of them if one is not there or none is
    /// named.
    pub fn of(&self, cpus: &[u32]) -> (Ticks, usize) {
        let named: Option<Vec<Ticks>> =
            cpus.iter().map(|cpu| self.cpus.get(cpu).copied()).collect();
        match named {
            Some(named) if !named.is_empty() => {
                (named.iter().fold(Ticks::default(), |sum, cpu| sum.and(*cpu)), named.len())
            }
            _ => (self.all, self.cpus.len()),
        }
    }
}

/// From /proc/PID/stat the CPU time of the process with all its threads, and of its children that
/// it has waited for: utime, stime, cutime, cstime of proc(5).
pub fn own(text: &str) -> Option<u64> {
    // The second field is a name in parentheses. It can contain spaces and parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    // The times of children are signed in the format, but never negative.
    let mut sum = 0_u64;
    for _ in 0..4 {
        sum = sum.saturating_add(fields.next()?.parse().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
#[path = "ticks_tests.rs"]
mod tests;
