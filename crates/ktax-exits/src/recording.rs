//! Recordings of a VM's threads, the common result of all event sources, and [`Fold`], which adds
//! up events in Rust exactly as the programs of `live/program.rs` do in the kernel.

use std::collections::BTreeMap;

use ktax_model::RecorderCost;
use ktax_stats::tables::{BUCKETS, bucket};

/// Reason of an exit: the architecture's number, and a detail that qualifies the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// `exit_reason`, `scause`, `KVM_EXIT_*`; a negative errno sign-extended.
    pub code: u64,
    /// On x86 the processor's virtualization extension (`isa`), on arm64 the exception class.
    pub detail: u32,
}

impl Reason {
    /// The time in the guest, from an entry to the next exit. No real exit has this detail.
    pub const GUEST: Reason = Reason { code: u64::MAX, detail: u32::MAX };
}

/// State of a vCPU's thread, by which the time of an interval is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In the kernel, on a CPU.
    Kernel,
    /// In the VMM: on a CPU or waiting.
    User,
    /// Asleep in the kernel: a halted vCPU, or one that waits for a page.
    Halted,
    /// Runnable, but without a CPU.
    Preempted,
}

impl Stage {
    /// First of the stages without a CPU. A thread that sleeps in the VMM stays in `User`.
    pub const FIRST_OFF_CPU: Stage = Stage::Halted;

    /// Returns true if the thread was switched out and not switched in again.
    pub fn is_off_cpu(self) -> bool {
        self as usize >= Stage::FIRST_OFF_CPU as usize
    }
}

/// Number of [`Stage`]s.
pub const STAGES: usize = 4;

/// Durations of one thread's intervals with the same reason, ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonTimes {
    pub count: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
    /// Sum of squares, ns²; it wraps.
    pub squares: u128,
    /// Time in each [`Stage`]; the parts add up to `sum`.
    pub parts: [u64; STAGES],
    /// Number of intervals by [`bucket`] of their duration.
    pub buckets: Vec<u64>,
}

impl Default for ReasonTimes {
    fn default() -> ReasonTimes {
        let buckets = vec![0; BUCKETS];
        ReasonTimes { count: 0, sum: 0, least: 0, most: 0, squares: 0, parts: [0; STAGES], buckets }
    }
}

impl ReasonTimes {
    pub fn add(&mut self, duration: u64, parts: [u64; STAGES]) {
        self.least = if self.count == 0 { duration } else { self.least.min(duration) };
        self.most = self.most.max(duration);
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
        self.squares = self.squares.wrapping_add(u128::from(duration).pow(2));
        let add = |(sum, part): (&mut u64, u64)| *sum = sum.saturating_add(part);
        self.parts.iter_mut().zip(parts).for_each(add);
        self.buckets[bucket(duration)] += 1;
    }

    pub fn merge(&mut self, other: &ReasonTimes) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
        let add = |(sum, value): (&mut u64, &u64)| *sum = sum.saturating_add(*value);
        self.parts.iter_mut().zip(&other.parts).for_each(add);
        self.buckets.iter_mut().zip(&other.buckets).for_each(add);
    }
}

/// A vCPU's thread: a thread with at least one entry or exit of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub name: String,
    /// Time of the thread's first entry or exit, ns of CLOCK_MONOTONIC; 0 before that event.
    pub first_ns: u64,
    /// Time of the thread's last event, ns of CLOCK_MONOTONIC.
    pub last_ns: u64,
    /// Reason and start (ns) of the interval that has begun and not ended.
    pub open: Option<(Reason, u64)>,
    /// Number of exits that follow an exit, and of entries that follow an entry: each lacks the
    /// event between the two.
    pub unpaired: u64,
}

/// Threads of a VM, and their times by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    pub threads: BTreeMap<u32, Thread>,
    pub rows: BTreeMap<(u32, Reason), ReasonTimes>,
    /// End of the recording, ns of CLOCK_MONOTONIC; `None` while the recording runs.
    pub end_ns: Option<u64>,
    /// Number of events that are in no row.
    pub lost_events: u64,
    /// Number of task switches and wakeups of the whole machine that the recorder missed.
    pub missed_switches: u64,
    pub cost: Option<RecorderCost>,
}

/// Event of a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuEvent {
    /// The thread enters the guest.
    Enter,
    /// The thread has left the guest and is now in this stage.
    Exit(Reason, Stage),
    /// The last exit has this more precise reason.
    ReplaceReason(Reason),
    /// The thread is now in this stage.
    SetStage(Stage),
    /// The thread loses its CPU; a thread that is not runnable sleeps.
    SwitchOut { is_runnable: bool },
    /// The thread gets a CPU.
    SwitchIn,
    /// The sleeping thread becomes runnable.
    Wakeup,
}

/// State of a thread between two events.
#[derive(Debug, Clone)]
struct ThreadState {
    thread: Thread,
    stage: Stage,
    /// Stage before the thread lost its CPU.
    stage_before_switch: Stage,
    /// Time of the open interval in each stage, ns.
    parts: [u64; STAGES],
}

/// Adds up events, which must come in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    threads: BTreeMap<u32, ThreadState>,
    rows: BTreeMap<(u32, Reason), ReasonTimes>,
    pub lost_events: u64,
}

impl Fold {
    /// Adds an event at `now` ns. Switches and wakeups of a thread are ignored until the thread's
    /// first entry or exit.
    pub fn add(&mut self, tid: u32, name: &str, now: u64, event: VcpuEvent) {
        if matches!(event, VcpuEvent::SwitchOut { .. } | VcpuEvent::SwitchIn | VcpuEvent::Wakeup)
            && !self.has_thread(tid)
        {
            return;
        }
        let new_state = || {
            let name = name.to_owned();
            let thread = Thread { name, first_ns: 0, last_ns: now, open: None, unpaired: 0 };
            let (stage, stage_before_switch) = (Stage::Kernel, Stage::Kernel);
            ThreadState { thread, stage, stage_before_switch, parts: [0; STAGES] }
        };
        let state = self.threads.entry(tid).or_insert_with(new_state);
        if event == VcpuEvent::Wakeup && state.stage != Stage::Halted {
            return;
        }
        let now = state.add_stage_time(now);
        match event {
            VcpuEvent::Enter => {
                state.close(tid, now, |reason| reason != Reason::GUEST, &mut self.rows);
                state.thread.open = Some((Reason::GUEST, now));
                state.stage = Stage::Kernel;
            }
            VcpuEvent::Exit(reason, stage) => {
                state.close(tid, now, |reason| reason == Reason::GUEST, &mut self.rows);
                state.thread.open = Some((reason, now));
                state.stage = stage;
            }
            VcpuEvent::ReplaceReason(reason) => {
                let open = state.thread.open.as_mut();
                if let Some((open, _)) = open.filter(|(old, _)| *old != Reason::GUEST) {
                    *open = reason;
                }
            }
            VcpuEvent::SetStage(stage) => state.stage = stage,
            VcpuEvent::SwitchOut { is_runnable } => {
                // The SwitchIn before this SwitchOut was not seen.
                if state.stage.is_off_cpu() {
                    state.stage = state.stage_before_switch;
                }
                state.stage_before_switch = state.stage;
                state.stage = match (is_runnable, state.stage) {
                    (true, _) => Stage::Preempted,
                    (false, Stage::User) => Stage::User,
                    (false, _) => Stage::Halted,
                };
            }
            // The thread has a CPU already: its SwitchOut was not seen, or it slept in the VMM.
            VcpuEvent::SwitchIn if !state.stage.is_off_cpu() => {}
            VcpuEvent::SwitchIn => state.stage = state.stage_before_switch,
            VcpuEvent::Wakeup => state.stage = Stage::Preempted,
        }
    }

    pub fn has_thread(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Returns the sums so far.
    pub fn recording(&self) -> Recording {
        let threads = self.threads.iter().map(|(tid, state)| (*tid, state.thread.clone()));
        let threads = threads.collect();
        let (rows, lost_events) = (self.rows.clone(), self.lost_events);
        Recording { threads, rows, lost_events, ..Recording::default() }
    }
}

impl ThreadState {
    /// Adds the time since the last event to the current stage. Returns `now`, or the time of the
    /// last event if the clock stepped back.
    fn add_stage_time(&mut self, now: u64) -> u64 {
        let now = now.max(self.thread.last_ns);
        self.parts[self.stage as usize] += now - self.thread.last_ns;
        self.thread.last_ns = now;
        now
    }

    /// Adds the open interval to its row; an interval with another reason than expected is
    /// unpaired.
    fn close(
        &mut self,
        tid: u32,
        now: u64,
        is_expected: impl Fn(Reason) -> bool,
        rows: &mut BTreeMap<(u32, Reason), ReasonTimes>,
    ) {
        let Thread { first_ns, open, unpaired, .. } = &mut self.thread;
        if *first_ns == 0 {
            *first_ns = now;
        }
        if let Some((reason, start_ns)) = *open {
            *unpaired += u64::from(!is_expected(reason));
            rows.entry((tid, reason)).or_default().add(now - start_ns, self.parts);
        }
        self.parts = [0; STAGES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate() {
        let mut times = ReasonTimes::default();
        times.add(u64::MAX, [u64::MAX; STAGES]);
        let other = times.clone();
        times.merge(&other);
        assert_eq!((times.count, times.sum, times.parts), (2, u64::MAX, [u64::MAX; STAGES]));
    }
}
