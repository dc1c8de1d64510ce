//! What every source of events records of a VM's threads.

use std::collections::BTreeMap;

use ktax_stats::histogram::{BUCKETS, bucket};

/// Why a guest was left: the architecture's number, and a detail that says how to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// `exit_reason`, `scause`, `KVM_EXIT_*`; a negative errno sign-extended.
    pub code: u64,
    /// The instruction set of the virtualization on x86, the class of a trap on arm64.
    pub detail: u32,
}

impl Reason {
    /// The time in the guest, from an entry to the next exit. No source has this detail.
    pub const GUEST: Reason = Reason { code: u64::MAX, detail: u32::MAX };
}

/// What a vCPU's thread does outside the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In the kernel, on a CPU.
    Kernel,
    /// In the VMM: on a CPU or waiting.
    User,
    /// Asleep in the kernel: a halted vCPU, or one that waits for a page.
    Halted,
    /// It could run and has no CPU.
    Preempted,
}

impl Stage {
    /// The first stage without a CPU. A thread that sleeps in the VMM stays in `User`.
    pub const FIRST_OFF: Stage = Stage::Halted;

    /// Whether the thread lost its CPU and has none yet.
    pub fn is_off(self) -> bool {
        self as usize >= Stage::FIRST_OFF as usize
    }
}

/// How many [`Stage`]s there are.
pub const STAGES: usize = 4;

/// One reason's times, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    pub squares: u128,
    /// By [`Stage`]; they add up to the sum.
    pub parts: [u64; STAGES],
    pub buckets: Vec<u64>,
}

impl Default for Times {
    fn default() -> Times {
        let buckets = vec![0; BUCKETS];
        Times { count: 0, sum: 0, least: 0, most: 0, squares: 0, parts: [0; STAGES], buckets }
    }
}

impl Times {
    /// Adds one duration.
    pub fn add(&mut self, duration: u64, parts: [u64; STAGES]) {
        self.least = if self.count == 0 { duration } else { self.least.min(duration) };
        self.most = self.most.max(duration);
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
        self.squares = self.squares.wrapping_add(u128::from(duration).pow(2));
        let add = |(mine, more): (&mut u64, u64)| *mine = mine.saturating_add(more);
        self.parts.iter_mut().zip(parts).for_each(add);
        self.buckets[bucket(duration)] += 1;
    }

    /// Adds the times of another.
    pub fn merge(&mut self, other: &Times) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
        let add = |(mine, more): (&mut u64, &u64)| *mine = mine.saturating_add(*more);
        self.parts.iter_mut().zip(&other.parts).for_each(add);
        self.buckets.iter_mut().zip(&other.buckets).for_each(add);
    }
}

/// One thread that has entered a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// When it was first seen, ns of CLOCK_MONOTONIC.
    pub first: u64,
    /// When it was last seen.
    pub last: u64,
    /// What has begun and not ended, and when it began.
    pub open: Option<(Reason, u64)>,
    /// Exits after an exit, and entries after an entry: the event between them is missing.
    pub unpaired: u64,
}

/// All that a source has recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// By thread id.
    pub threads: BTreeMap<u32, Thread>,
    /// By thread id and reason.
    pub rows: BTreeMap<(u32, Reason), Times>,
    /// When the recording ended, ns of CLOCK_MONOTONIC; nothing while it goes on.
    pub until: Option<u64>,
    /// Events that are in no row.
    pub lost: u64,
    /// Task switches and wakeups of the whole machine that the recorder missed.
    pub missed_switches: u64,
    /// What the recorder itself cost.
    pub cost: Option<Cost>,
}

/// How long the recorder's programs run, by the kernel's own count: averages, since only the first
/// runs are timed, and the VM may do something else afterwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// At an exit and the entry after it, ns.
    pub exit_ns: u64,
    /// At one task switch or wakeup of the machine, ns.
    pub switch_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_too_large_is_the_largest() {
        let mut times = Times::default();
        times.add(u64::MAX, [u64::MAX; STAGES]);
        let other = times.clone();
        times.merge(&other);
        assert_eq!((times.count, times.sum, times.parts), (2, u64::MAX, [u64::MAX; STAGES]));
    }
}
