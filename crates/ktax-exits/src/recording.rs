//! Recordings of a VM's threads, which every source of events makes, and [`Fold`], which adds up
//! events in Rust as the programs of `live/program.rs` do in the kernel.

use std::collections::BTreeMap;

use ktax_model::RecorderCost;
use ktax_stats::tables::{BUCKETS, bucket};

/// Reason of an exit: the architecture's number, and a detail that says how to read it.
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

/// The stages of a vCPU's thread outside the guest.
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
    /// First stage without a CPU. A thread that sleeps in the VMM stays in `User`.
    pub const FIRST_OFF: Stage = Stage::Halted;

    /// Returns true if the thread lost its CPU and has none yet.
    pub fn is_off(self) -> bool {
        self as usize >= Stage::FIRST_OFF as usize
    }
}

pub const STAGES: usize = 4;

/// One reason's times, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    pub squares: u128,
    /// Times by [`Stage`], which add up to the sum.
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
    pub name: String,
    /// Time of its first entry or exit, ns of CLOCK_MONOTONIC; 0 before that.
    pub first: u64,
    /// Time of its last event.
    pub last: u64,
    /// Interval that has begun and not ended, and its start.
    pub open: Option<(Reason, u64)>,
    /// Exits after an exit, and entries after an entry: the event between them is missing.
    pub unpaired: u64,
}

/// Threads and rows that a source has recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    pub threads: BTreeMap<u32, Thread>,
    pub rows: BTreeMap<(u32, Reason), Times>,
    /// End of the recording, ns of CLOCK_MONOTONIC; `None` while it goes on.
    pub until: Option<u64>,
    /// Events that are in no row.
    pub lost: u64,
    /// Task switches and wakeups of the whole machine that the recorder missed.
    pub missed_switches: u64,
    pub cost: Option<RecorderCost>,
}

/// Events of a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuEvent {
    /// Enters the guest.
    Enter,
    /// Has left the guest, and goes on in this stage.
    Left(Reason, Stage),
    /// Gives the reason of the last exit more precisely.
    Refined(Reason),
    /// Goes on in another stage.
    Moves(Stage),
    /// Loses the CPU, and could go on or not.
    Off { could_run: bool },
    /// Gets a CPU.
    On,
    /// Slept and could now run.
    Wakeup,
}

/// A thread between two events.
#[derive(Debug, Clone)]
struct ThreadState {
    thread: Thread,
    stage: Stage,
    /// Stage in which it lost its CPU.
    saved: Stage,
    parts: [u64; STAGES],
}

/// Adds up events, which come in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    threads: BTreeMap<u32, ThreadState>,
    rows: BTreeMap<(u32, Reason), Times>,
    pub lost: u64,
}

impl Fold {
    /// Adds one event at `now` ns. A thread is known from its first entry or exit; switches and
    /// wakeups of other threads are ignored.
    pub fn add(&mut self, tid: u32, name: &str, now: u64, event: VcpuEvent) {
        if matches!(event, VcpuEvent::Off { .. } | VcpuEvent::On | VcpuEvent::Wakeup)
            && !self.knows(tid)
        {
            return;
        }
        let fresh = || {
            let name = name.to_owned();
            let thread = Thread { name, first: 0, last: now, open: None, unpaired: 0 };
            let (stage, saved) = (Stage::Kernel, Stage::Kernel);
            ThreadState { thread, stage, saved, parts: [0; STAGES] }
        };
        let state = self.threads.entry(tid).or_insert_with(fresh);
        if event == VcpuEvent::Wakeup && state.stage != Stage::Halted {
            return;
        }
        let now = state.account(now);
        match event {
            VcpuEvent::Enter => {
                state.close(tid, now, |reason| reason != Reason::GUEST, &mut self.rows);
                state.thread.open = Some((Reason::GUEST, now));
                state.stage = Stage::Kernel;
            }
            VcpuEvent::Left(reason, stage) => {
                state.close(tid, now, |reason| reason == Reason::GUEST, &mut self.rows);
                state.thread.open = Some((reason, now));
                state.stage = stage;
            }
            VcpuEvent::Refined(reason) => {
                let open = state.thread.open.as_mut();
                if let Some((open, _)) = open.filter(|(old, _)| *old != Reason::GUEST) {
                    *open = reason;
                }
            }
            VcpuEvent::Moves(stage) => state.stage = stage,
            VcpuEvent::Off { could_run } => {
                // Off already: its On was not seen.
                if state.stage.is_off() {
                    state.stage = state.saved;
                }
                state.saved = state.stage;
                state.stage = match (could_run, state.stage) {
                    (true, _) => Stage::Preempted,
                    (false, Stage::User) => Stage::User,
                    (false, _) => Stage::Halted,
                };
            }
            // On already: its Off was not seen, or it slept in the VMM.
            VcpuEvent::On if !state.stage.is_off() => {}
            VcpuEvent::On => state.stage = state.saved,
            VcpuEvent::Wakeup => state.stage = Stage::Preempted,
        }
    }

    pub fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    pub fn recording(&self) -> Recording {
        let threads = self.threads.iter().map(|(tid, state)| (*tid, state.thread.clone()));
        let threads = threads.collect();
        Recording { threads, rows: self.rows.clone(), lost: self.lost, ..Recording::default() }
    }
}

impl ThreadState {
    /// Adds the time since the last event to the current stage; nothing if the clock steps back.
    fn account(&mut self, now: u64) -> u64 {
        let now = now.max(self.thread.last);
        self.parts[self.stage as usize] += now - self.thread.last;
        self.thread.last = now;
        now
    }

    fn close(
        &mut self,
        tid: u32,
        now: u64,
        is_expected: impl Fn(Reason) -> bool,
        rows: &mut BTreeMap<(u32, Reason), Times>,
    ) {
        let Thread { first, open, unpaired, .. } = &mut self.thread;
        if *first == 0 {
            *first = now;
        }
        if let Some((reason, began)) = *open {
            *unpaired += u64::from(!is_expected(reason));
            rows.entry((tid, reason)).or_default().add(now - began, self.parts);
        }
        self.parts = [0; STAGES];
    }
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
