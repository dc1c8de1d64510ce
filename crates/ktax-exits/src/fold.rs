//! Adds up a VM's events in Rust, as `live/program/` does in the kernel.

use std::collections::BTreeMap;

use super::recording::{Reason, Recording, STAGES, Stage, Thread, Times};

/// What happened to a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VcpuEvent {
    /// It enters the guest.
    Enter,
    /// It has left the guest, and goes on in this stage.
    Left(Reason, Stage),
    /// The reason for which it has left the guest is this one, more precisely.
    Refined(Reason),
    /// It goes on in another stage.
    Moves(Stage),
    /// It loses its CPU, and could go on or not.
    Off { could_run: bool },
    /// It gets a CPU.
    On,
    /// It slept and could run.
    Wakeup,
}

/// A thread between two events.
#[derive(Debug, Clone)]
struct State {
    name: String,
    since: u64,
    first: Option<u64>,
    open: Option<(Reason, u64)>,
    stage: Stage,
    /// The stage in which it lost its CPU.
    saved: Stage,
    parts: [u64; STAGES],
    unpaired: u64,
}

/// Adds up events, which come in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    threads: BTreeMap<u32, State>,
    rows: BTreeMap<(u32, Reason), Times>,
    /// Events that never came.
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
        let fresh = || State {
            name: name.to_owned(),
            since: now,
            first: None,
            open: None,
            stage: Stage::Kernel,
            saved: Stage::Kernel,
            parts: [0; STAGES],
            unpaired: 0,
        };
        let state = self.threads.entry(tid).or_insert_with(fresh);
        if event == VcpuEvent::Wakeup && state.stage != Stage::Halted {
            return;
        }
        let now = state.account(now);
        match event {
            VcpuEvent::Enter => {
                state.close(tid, now, |reason| reason != Reason::GUEST, &mut self.rows);
                state.open = Some((Reason::GUEST, now));
                state.stage = Stage::Kernel;
            }
            VcpuEvent::Left(reason, stage) => {
                state.close(tid, now, |reason| reason == Reason::GUEST, &mut self.rows);
                state.open = Some((reason, now));
                state.stage = stage;
            }
            VcpuEvent::Refined(reason) => {
                if let Some((open, _)) =
                    state.open.as_mut().filter(|(old, _)| *old != Reason::GUEST)
                {
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

    /// Whether the thread has entered or left a guest.
    pub fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Returns all that was added so far.
    pub fn recording(&self) -> Recording {
        let thread = |(tid, state): (&u32, &State)| {
            let thread = Thread {
                name: state.name.clone(),
                first: state.first.unwrap_or(0),
                last: state.since,
                open: state.open,
                unpaired: state.unpaired,
            };
            (*tid, thread)
        };
        let threads = self.threads.iter().map(thread).collect();
        Recording { threads, rows: self.rows.clone(), lost: self.lost, ..Recording::default() }
    }
}

impl State {
    /// Adds the time since the last event to the current stage; nothing if the clock steps back.
    fn account(&mut self, now: u64) -> u64 {
        let now = now.max(self.since);
        self.parts[self.stage as usize] += now - self.since;
        self.since = now;
        now
    }

    /// Adds the open duration to its row.
    fn close(
        &mut self,
        tid: u32,
        now: u64,
        is_expected: impl Fn(Reason) -> bool,
        rows: &mut BTreeMap<(u32, Reason), Times>,
    ) {
        self.first.get_or_insert(now);
        if let Some((reason, began)) = self.open {
            self.unpaired += u64::from(!is_expected(reason));
            rows.entry((tid, reason)).or_default().add(now - began, self.parts);
        }
        self.parts = [0; STAGES];
    }
}
