//! Exits added up in the kernel: nothing is stored for one of them, and nothing copied.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::bpf::{self, Map, MapKind, Program};
use super::hook::{Hook, Point};
use super::points::Points;
use super::program::{self, KEY_BYTES, Maps};
use super::words::{row, thread};
use super::{LiveError, Source};
use crate::exits::recording::Reason;
use crate::exits::recording::{Cost, Recording, Thread, Times};

/// Threads that enter a guest, and reasons of all of them together.
const THREADS: u32 = 1024;
const ROWS: u32 = 4096;

/// Programs on tracepoints, and their maps.
pub struct InKernel {
    threads: Map,
    rows: Map,
    lost: Map,
    programs: Vec<(Program, Hook)>,
    /// They run for as long as these are held.
    attached: Vec<Counter>,
    run_times: Option<OwnedFd>,
}

impl InKernel {
    /// Watches the threads of a process from now on.
    pub fn attach(points: &Points, process: u32) -> Result<InKernel, LiveError> {
        // Before 5.11 maps count as locked memory; where it cannot be raised, making them says so.
        let none = rustix::process::Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, none);
        let map = |kind, key, value, room| Map::new(kind, key, value, room).map_err(LiveError::bpf);
        let threads = map(MapKind::Hash, 4, thread::BYTES, THREADS)?;
        let rows = map(MapKind::Hash, KEY_BYTES, row::BYTES, ROWS)?;
        let empty = map(MapKind::Array, 4, row::BYTES, 1)?;
        let lost = map(MapKind::Array, 4, 8, 1)?;
        let [a, b, c, d] = [&threads, &rows, &empty, &lost].map(bpf::reference);
        let maps = Maps { threads: a, rows: b, empty: c, lost: d };
        let run_times = bpf::count_run_times().ok();
        let mut this =
            InKernel { threads, rows, lost, programs: vec![], attached: vec![], run_times };
        for point in &points.points {
            let code = program::assemble(point.hook, process, maps);
            let program = Program::load(&code).map_err(LiveError::bpf)?;
            this.attached.push(attach(point, &program)?);
            this.programs.push((program, point.hook));
        }
        Ok(this)
    }

    fn read(&self) -> io::Result<Recording> {
        let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
        let threads = self.threads.entries()?;
        let threads = threads.iter().map(|(tid, words)| (number(tid), Thread::from_words(words)));
        let rows = self.rows.entries()?;
        let rows = rows.iter().map(|(key, words)| {
            let code = u64::from_ne_bytes(key[8..].try_into().expect("eight bytes"));
            let reason = Reason { code, detail: number(&key[4..8]) };
            ((number(&key[..4]), reason), Times::from_words(words))
        });
        let lost = self.lost.value(&0u32.to_ne_bytes())?.unwrap_or_default();
        let mut recording = Recording {
            threads: threads.collect(),
            rows: rows.collect(),
            lost: lost.try_into().map_or(0, u64::from_ne_bytes),
            ..Recording::default()
        };
        self.add_costs(&mut recording)?;
        Ok(recording)
    }

    /// What the programs took, and when they could not run because another one ran on that CPU: a
    /// wakeup comes in an interrupt, also in one that interrupts a program.
    fn add_costs(&self, recording: &mut Recording) -> io::Result<()> {
        let mut cost = Cost::default();
        for (program, hook) in &self.programs {
            let run = program.run_time()?;
            let (time, missed) = match hook.is_of_the_scheduler() {
                true => (&mut cost.switches_ns, &mut recording.missed_switches),
                false => (&mut cost.exits_ns, &mut recording.lost),
            };
            *time += run.ns;
            *missed += run.missed;
        }
        recording.cost = self.run_times.as_ref().map(|_| cost);
        Ok(())
    }
}

fn attach(point: &Point, program: &Program) -> Result<Counter, LiveError> {
    let failed = |error| LiveError::attach(&point.event, error);
    // The program runs on every CPU, whichever the event is on.
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    let mut event = builder.any_pid().one_cpu(0).build().map_err(failed)?;
    event.set_bpf(program.0.as_raw_fd()).map_err(failed)?;
    Ok(event)
}

impl Source for InKernel {
    fn name(&self) -> &'static str {
        "eBPF"
    }

    fn poll(&mut self) -> Result<(), LiveError> {
        Ok(())
    }

    fn recording(&self) -> Result<Recording, LiveError> {
        self.read().map_err(LiveError::bpf)
    }

    fn finish(mut self: Box<Self>) -> Result<Recording, LiveError> {
        self.attached.clear();
        self.recording()
    }
}
