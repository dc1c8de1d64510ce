//! Exits added up in the kernel: nothing is stored for one of them, and nothing copied.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

use super::LiveError;
use super::bpf::{self, Map, MapKind, Program, ProgramKind, RunTime};
use super::program::{self, Maps};
use super::recorder::{Source, now_ns};
use super::tracepoints::{Hook, HookPoint, Points};
use crate::recording::{Cost, Reason, Recording, Thread, Times};
use ktax_stats::histogram::BUCKETS;

/// Number of timed exits after which the cost of one is known.
const ENOUGH_EXITS: u64 = 1000;

/// Programs on tracepoints, and their maps.
pub struct InKernel {
    threads: Map,
    rows: Map,
    taken: Map,
    state: Map,
    /// When events ceased to count.
    until: Option<u64>,
    programs: Vec<(Program, Hook)>,
    /// Held for as long as the programs run.
    attached: Vec<Attached>,
    /// Whether the kernel times programs at all.
    is_timed: bool,
    /// Held for as long as the kernel times programs.
    timing: Option<OwnedFd>,
}

impl InKernel {
    /// Watches the threads of a process from now on.
    pub fn attach(points: &Points, process: u32) -> Result<InKernel, LiveError> {
        // Before 5.11 maps count as locked memory; where it cannot be raised, making them says so.
        let none = rustix::process::Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, none);
        let map = |kind, key, value, room| Map::new(kind, key, value, room).map_err(LiveError::bpf);
        let threads = map(MapKind::Array, 4, thread::BYTES, Maps::THREADS)?;
        let rows = map(MapKind::Array, 4, row::BYTES, Maps::ROWS)?;
        let taken = map(MapKind::Hash, 8, 8, Maps::THREADS + Maps::ROWS)?;
        let state = map(MapKind::Array, 4, 8, 2)?;
        let maps = Maps::new([&threads, &rows, &taken, &state].map(bpf::reference));
        let timing = bpf::count_run_times().ok();
        let mut this = InKernel {
            threads,
            rows,
            taken,
            state,
            until: None,
            programs: vec![],
            attached: vec![],
            is_timed: timing.is_some(),
            timing,
        };
        for point in &points.points {
            let code = program::assemble(point.hook, process, maps);
            let (program, attached) = attach(point, &code)?;
            this.attached.push(attached);
            this.programs.push((program, point.hook));
        }
        this.switch(true).map_err(LiveError::bpf)?;
        Ok(this)
    }

    fn read(&self) -> io::Result<Recording> {
        let mut recording = Recording { until: self.until, ..Recording::default() };
        for (key, _) in self.taken.entries()? {
            let (number, kind) = key.split_at(4);
            if kind == Maps::KIND_OF_THREADS.to_ne_bytes() {
                let words = self.threads.value(number)?;
                recording.threads.extend(words.map(|words| Thread::from_words(&words)));
            } else {
                let Some(words) = self.rows.value(number)? else { continue };
                let (row, times) = Times::from_words(&words);
                recording.rows.entry(row).or_default().merge(&times);
            }
        }
        let lost = self.state.value(&Maps::LOST.to_ne_bytes())?.unwrap_or_default();
        recording.lost = lost.try_into().map_or(0, u64::from_ne_bytes);
        self.add_costs(&mut recording)?;
        Ok(recording)
    }

    /// Sets whether events count from now on.
    fn switch(&self, is_on: bool) -> io::Result<()> {
        self.state.set(&Maps::IS_ON.to_ne_bytes(), &mut u64::from(is_on).to_ne_bytes())
    }

    /// Adds the time that the programs took, and the events at which they could not run because
    /// another one ran on that CPU: a wakeup comes in an interrupt, also in one that interrupts a
    /// program.
    ///
    /// Timing them makes them dearer by a fifth, so it ends as soon as enough is known. So the cost
    /// is an average: what came later was not timed, and a VM that goes idle has other rates.
    fn add_costs(&self, recording: &mut Recording) -> io::Result<()> {
        let run = |(program, hook): &(Program, Hook)| Ok((*hook, program.run_time()?));
        let runs = self.programs.iter().map(run).collect::<io::Result<Vec<_>>>()?;
        let cost = average_cost(&runs, recording);
        recording.cost = self.is_timed.then_some(cost);
        Ok(())
    }

    /// Ends the timing of programs after [`ENOUGH_EXITS`].
    fn time_no_longer_than_needed(&mut self) -> io::Result<()> {
        if self.timing.is_none() {
            return Ok(());
        }
        let mut left = 0;
        for (program, _) in self.programs.iter().filter(|(_, hook)| hook.leaves()) {
            left += program.run_time()?.runs;
        }
        if left >= ENOUGH_EXITS {
            self.timing = None;
        }
        Ok(())
    }
}

/// Returns the average cost of the programs; adds the events that they missed to the Recording.
fn average_cost(runs: &[(Hook, RunTime)], recording: &mut Recording) -> Cost {
    let (mut at_exits, mut at_switches) = (RunTime::default(), RunTime::default());
    for (hook, run) in runs {
        let (all, missed) = match hook.is_scheduling() {
            true => (&mut at_switches, &mut recording.missed_switches),
            false => (&mut at_exits, &mut recording.lost),
        };
        all.ns += run.ns;
        // An exit has an entry after it, which belongs to it.
        all.runs += if hook.is_scheduling() || hook.leaves() { run.runs } else { 0 };
        *missed += run.missed;
    }
    let average = |all: RunTime| all.ns.checked_div(all.runs).unwrap_or(0);
    Cost { exit_ns: average(at_exits), switch_ns: average(at_switches) }
}

/// Keeps a program attached; held and never looked at.
#[expect(dead_code)]
enum Attached {
    VcpuEvent(Counter),
    Raw(OwnedFd),
}

/// Attaches a program, to the tracepoint itself where its record is not needed: making a record
/// costs more than the program.
fn attach(point: &HookPoint, code: &[u8]) -> Result<(Program, Attached), LiveError> {
    if !point.hook.reads_record() {
        // Kernels before 4.17 know none.
        if let Ok(attached) = attach_raw(point, code) {
            return Ok(attached);
        }
    }
    let program = Program::load(ProgramKind::Tracepoint, code).map_err(LiveError::bpf)?;
    let failed = |error| LiveError::attach(&point.event, error);
    // The program runs on every CPU, whichever the event is on.
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    let mut event = builder.any_pid().one_cpu(0).build().map_err(failed)?;
    event.set_bpf(program.0.as_raw_fd()).map_err(failed)?;
    Ok((program, Attached::VcpuEvent(event)))
}

fn attach_raw(point: &HookPoint, code: &[u8]) -> io::Result<(Program, Attached)> {
    let name = point.event.rsplit('/').next().unwrap_or_default();
    let name = CString::new(name)?;
    let program = Program::load(ProgramKind::RawTracepoint, code)?;
    let attached = program.attach_raw(&name)?;
    Ok((program, Attached::Raw(attached)))
}

impl Source for InKernel {
    fn name(&self) -> &'static str {
        "eBPF"
    }

    fn poll(&mut self) -> Result<(), LiveError> {
        self.time_no_longer_than_needed().map_err(LiveError::bpf)
    }

    fn recording(&self) -> Result<Recording, LiveError> {
        self.read().map_err(LiveError::bpf)
    }

    fn finish(mut self: Box<Self>) -> Result<Recording, LiveError> {
        self.switch(false).map_err(LiveError::bpf)?;
        self.until = Some(now_ns());
        self.attached.clear();
        self.recording()
    }
}

/// Offsets in a thread's record, which is made of the kernel's words.
pub mod thread {
    pub const SINCE: i16 = 0;
    pub const EXIT_AT: i16 = 8;
    pub const ENTRY_AT: i16 = 16;
    pub const REASON: i16 = 24;
    pub const DETAIL: i16 = 32;
    pub const STAGE: i16 = 40;
    pub const SAVED: i16 = 48;
    pub const PARTS: i16 = 56;
    pub const FIRST: i16 = 88;
    pub const UNPAIRED: i16 = 96;
    /// The thread's id; 0 where the slot is free.
    pub const TID: i16 = 104;
    pub const COMM: i16 = 112;
    pub const BYTES: usize = 128;
}

/// Offsets in the record of one reason of one thread.
pub mod row {
    pub const COUNT: i16 = 0;
    pub const SUM: i16 = 8;
    pub const LEAST: i16 = 16;
    pub const MOST: i16 = 24;
    pub const SQUARES_LOW: i16 = 32;
    pub const SQUARES_HIGH: i16 = 40;
    pub const PARTS: i16 = 48;
    /// The thread's id; 0 where the slot is free.
    pub const TID: i16 = 80;
    pub const DETAIL: i16 = 88;
    pub const CODE: i16 = 96;
    pub const BUCKETS: i16 = 104;
    pub const BYTES: usize = 104 + 8 * ktax_stats::histogram::BUCKETS;
}

fn word(bytes: &[u8], offset: i16) -> u64 {
    let start = offset as usize;
    u64::from_ne_bytes(bytes[start..start + 8].try_into().expect("it is eight bytes"))
}

impl Thread {
    /// Decodes the record of a thread, of [`thread::BYTES`]; returns the thread's id too.
    pub fn from_words(bytes: &[u8]) -> (u32, Thread) {
        let name = &bytes[thread::COMM as usize..];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let reason = Reason {
            code: word(bytes, thread::REASON),
            detail: word(bytes, thread::DETAIL) as u32,
        };
        let open = match (word(bytes, thread::EXIT_AT), word(bytes, thread::ENTRY_AT)) {
            (0, 0) => None,
            (0, entry) => Some((Reason::GUEST, entry)),
            (exit, _) => Some((reason, exit)),
        };
        let known = Thread {
            name: String::from_utf8_lossy(name).into_owned(),
            first: word(bytes, thread::FIRST),
            last: word(bytes, thread::SINCE),
            open,
            unpaired: word(bytes, thread::UNPAIRED),
        };
        (word(bytes, thread::TID) as u32, known)
    }
}

impl Times {
    /// Decodes the record of a row, of [`row::BYTES`]; returns its thread id and reason too.
    pub fn from_words(bytes: &[u8]) -> ((u32, Reason), Times) {
        let field = |offset: i16| word(bytes, offset);
        let low = u128::from(field(row::SQUARES_LOW));
        let reason = Reason { code: field(row::CODE), detail: field(row::DETAIL) as u32 };
        let times = Times {
            count: field(row::COUNT),
            sum: field(row::SUM),
            least: field(row::LEAST),
            most: field(row::MOST),
            squares: u128::from(field(row::SQUARES_HIGH)) << 64 | low,
            parts: std::array::from_fn(|part| field(row::PARTS + 8 * part as i16)),
            buckets: (0..BUCKETS).map(|index| field(row::BUCKETS + 8 * index as i16)).collect(),
        };
        ((field(row::TID) as u32, reason), times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tracepoints::Field;

    #[test]
    fn what_a_program_missed_is_lost_and_of_the_scheduler_said_apart() {
        let number = Field { offset: 8, size: 4 };
        let run = |ns, runs, missed| RunTime { ns, runs, missed };
        let runs = [
            (Hook::Enter { only: None }, run(100, 10, 1)),
            (Hook::Exit { reason: number, detail: None }, run(200, 11, 2)),
            (Hook::Switch { from: number, state: number, to: number }, run(70, 5, 4)),
            (Hook::Wakeup { thread: number }, run(80, 6, 8)),
        ];
        let mut recording = Recording { lost: 16, ..Recording::default() };
        let cost = average_cost(&runs, &mut recording);
        // 11 exits took 300 ns, and 11 events of the scheduler 150 ns.
        assert_eq!(cost, Cost { exit_ns: 27, switch_ns: 13 });
        assert_eq!((recording.lost, recording.missed_switches), (19, 12));
    }
}
