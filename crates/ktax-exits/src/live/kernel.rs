//! Recorder that adds up exits in the kernel, with eBPF: no event is stored or copied. The second
//! half of this file wraps the bpf system call, its maps and its programs.

use std::any::Any;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event::Builder;
use perf_event::events::Tracepoint;

use super::program::{self, Maps};
use super::tracepoints::{Hook, HookPoint, Tracepoints};
use super::{EventSource, cannot_watch, no_ebpf, now_ns};
use crate::recording::{Reason, ReasonTimes, Recording, Thread};
use ktax_model::{RecorderCost, Result};
use ktax_stats::tables::BUCKETS;

/// Number of timed exits that give the average cost of an exit.
const TIMED_EXITS: u64 = 1000;

/// eBPF programs on tracepoints, and their maps.
pub struct BpfRecorder {
    threads: Map,
    rows: Map,
    /// Claimed slots of the two maps above.
    claims: Map,
    state: Map,
    /// End of the recording, ns.
    end_ns: Option<u64>,
    programs: Vec<(Program, Hook)>,
    /// Descriptors that keep the programs attached.
    attachments: Vec<Box<dyn Any>>,
    /// True if the kernel can time programs.
    is_timed: bool,
    /// Descriptor that keeps the kernel timing programs.
    timing: Option<OwnedFd>,
}

impl BpfRecorder {
    pub fn attach(points: &Tracepoints, process: u32) -> Result<BpfRecorder> {
        // Before Linux 5.11 maps count as locked memory. If raising the limit fails, making the
        // maps reports the error.
        let unlimited = rustix::process::Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Memlock, unlimited);
        let map =
            |kind, key, value, capacity| Map::new(kind, key, value, capacity).map_err(no_ebpf);
        let threads = map(MapKind::Array, 4, thread::BYTES, Maps::THREADS)?;
        let rows = map(MapKind::Array, 4, row::BYTES, Maps::ROWS)?;
        let claims = map(MapKind::Hash, 8, 8, Maps::THREADS + Maps::ROWS)?;
        let state = map(MapKind::Array, 4, 8, 2)?;
        let maps = Maps::new([&threads, &rows, &claims, &state].map(|map| map.fd.as_raw_fd()));
        let timing = enable_run_times().ok();
        let mut this = BpfRecorder {
            threads,
            rows,
            claims,
            state,
            end_ns: None,
            programs: vec![],
            attachments: vec![],
            is_timed: timing.is_some(),
            timing,
        };
        for point in &points.points {
            let code = program::assemble(point.hook, process, maps);
            let (program, attachment) = attach(point, &code)?;
            this.attachments.push(attachment);
            this.programs.push((program, point.hook));
        }
        this.set_counting(true).map_err(no_ebpf)?;
        Ok(this)
    }

    fn read(&self) -> io::Result<Recording> {
        let mut recording = Recording { end_ns: self.end_ns, ..Recording::default() };
        for key in self.claims.keys()? {
            let (slot, kind) = key.split_at(4);
            if kind == Maps::THREADS_KIND.to_ne_bytes() {
                let words = self.threads.value(slot)?;
                recording.threads.extend(words.map(|words| Thread::from_words(&words)));
            } else {
                let Some(words) = self.rows.value(slot)? else { continue };
                let (row, times) = ReasonTimes::from_words(&words);
                recording.rows.entry(row).or_default().merge(&times);
            }
        }
        let lost = self.state.value(&Maps::LOST.to_ne_bytes())?.unwrap_or_default();
        recording.lost_events = lost.try_into().map_or(0, u64::from_ne_bytes);
        let run_time = |(program, hook): &(Program, Hook)| Ok((*hook, program.run_time()?));
        let runs = self.programs.iter().map(run_time).collect::<io::Result<Vec<_>>>()?;
        let cost = average_cost(&runs, &mut recording);
        recording.cost = self.is_timed.then_some(cost);
        Ok(recording)
    }

    /// Makes the programs count events, or ignore them.
    fn set_counting(&self, is_counting: bool) -> io::Result<()> {
        self.state.set(&Maps::IS_COUNTING.to_ne_bytes(), &mut u64::from(is_counting).to_ne_bytes())
    }

    /// Stops timing the programs after [`TIMED_EXITS`], because timing adds a fifth to their cost.
    /// The reported cost is therefore the average of the first exits only.
    fn stop_timing_when_known(&mut self) -> io::Result<()> {
        if self.timing.is_none() {
            return Ok(());
        }
        let mut exits = 0;
        for (program, _) in self.programs.iter().filter(|(_, hook)| hook.is_guest_exit()) {
            exits += program.run_time()?.runs;
        }
        if exits >= TIMED_EXITS {
            self.timing = None;
        }
        Ok(())
    }
}

/// Returns the average cost of the programs, and adds the events that they missed to the Recording:
/// a program cannot run while another one runs on its CPU, as in an interrupt that wakes a thread.
fn average_cost(runs: &[(Hook, RunTime)], recording: &mut Recording) -> RecorderCost {
    let (mut exit_runs, mut switch_runs) = (RunTime::default(), RunTime::default());
    for (hook, run) in runs {
        let (sum, missed) = match hook.is_scheduler_event() {
            true => (&mut switch_runs, &mut recording.missed_switches),
            false => (&mut exit_runs, &mut recording.lost_events),
        };
        sum.ns += run.ns;
        // The entry after an exit adds to the cost of that exit, but is no exit of its own.
        sum.runs += if hook.is_scheduler_event() || hook.is_guest_exit() { run.runs } else { 0 };
        *missed += run.missed;
    }
    let average = |sum: RunTime| sum.ns.checked_div(sum.runs).unwrap_or(0);
    RecorderCost { exit_ns: average(exit_runs), switch_ns: average(switch_runs) }
}

/// Attaches a program to a tracepoint. A program that needs no record becomes a raw tracepoint:
/// there the kernel makes no record, which would cost more than the program itself.
fn attach(point: &HookPoint, code: &[u8]) -> Result<(Program, Box<dyn Any>)> {
    if !point.hook.needs_record() {
        // Kernels before 4.17 have no raw tracepoints.
        if let Ok(attached) = attach_raw(point, code) {
            return Ok(attached);
        }
    }
    let program = Program::load(ProgramKind::Tracepoint, code).map_err(no_ebpf)?;
    let failed = |error| cannot_watch(&point.event, error);
    // The kernel runs the program on every CPU, although the event is opened on one.
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    let mut event = builder.any_pid().one_cpu(0).build().map_err(failed)?;
    event.set_bpf(program.0.as_raw_fd()).map_err(failed)?;
    Ok((program, Box::new(event)))
}

fn attach_raw(point: &HookPoint, code: &[u8]) -> io::Result<(Program, Box<dyn Any>)> {
    let name = point.event.rsplit('/').next().unwrap_or_default();
    let name = CString::new(name)?;
    let program = Program::load(ProgramKind::RawTracepoint, code)?;
    let attachment = program.attach_raw(&name)?;
    Ok((program, Box::new(attachment)))
}

impl EventSource for BpfRecorder {
    fn name(&self) -> &'static str {
        "eBPF"
    }

    fn poll(&mut self) -> Result<()> {
        self.stop_timing_when_known().map_err(no_ebpf)
    }

    fn recording(&self) -> Result<Recording> {
        self.read().map_err(no_ebpf)
    }

    fn finish(&mut self) -> Result<()> {
        self.set_counting(false).map_err(no_ebpf)?;
        self.end_ns = Some(now_ns());
        self.attachments.clear();
        Ok(())
    }
}

// The bpf system call, its maps and its programs (include/uapi/linux/bpf.h).

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP_ELEM: u32 = 1;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_GET_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const ENABLE_STATS: u32 = 32;

const STATS_RUN_TIME: u32 = 0;

#[derive(Debug, Clone, Copy)]
enum MapKind {
    Hash = 1,
    Array = 2,
}

#[derive(Debug, Clone, Copy)]
enum ProgramKind {
    /// Runs at a perf event of a tracepoint, and gets its record.
    Tracepoint = 5,
    /// Runs at a tracepoint for which the kernel makes no record.
    RawTracepoint = 17,
}

#[derive(Debug)]
struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

#[derive(Debug)]
struct Program(OwnedFd);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RunTime {
    ns: u64,
    runs: u64,
    /// Number of events that the program missed because another program ran on that CPU.
    missed: u64,
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value_or_next: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
struct Info {
    fd: u32,
    bytes: u32,
    info: u64,
}

/// Number of 8-byte words of `struct bpf_prog_info` up to the last that ktax reads.
const INFO_WORDS: usize = 27;
/// Index of the words `run_time_ns`, `run_cnt` and `recursion_misses`.
const RUN_TIME_WORD: usize = 24;

/// Issues a bpf command. All addresses in `attr` must be valid during the call.
fn bpf<T>(command: u32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: attr is a whole structure of the command's layout, the kernel takes what is beyond
    // its size as zero, and reads and writes at most size_of::<T>() bytes of it; what it points to
    // is held by the callers in this file for the whole call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Takes ownership of a descriptor that a bpf command returned.
fn own_fd(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor, with close-on-exec, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn fd_number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

impl Map {
    fn new(kind: MapKind, key_bytes: usize, value_bytes: usize, capacity: u32) -> io::Result<Map> {
        let mut attr = [kind as u32, key_bytes as u32, value_bytes as u32, capacity];
        Ok(Map { fd: own_fd(bpf(MAP_CREATE, &mut attr)?), key_bytes, value_bytes })
    }

    fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let last_key = keys.last().map_or(0, |key| key.as_ptr() as u64);
            let mut next_key = vec![0u8; self.key_bytes];
            match none_if_missing(self.element(MAP_GET_NEXT_KEY, last_key, &mut next_key))? {
                Some(()) => keys.push(next_key),
                None => return Ok(keys),
            }
        }
    }

    fn value(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key_bytes);
        let mut value = vec![0u8; self.value_bytes];
        none_if_missing(
            self.element(MAP_LOOKUP_ELEM, key.as_ptr() as u64, &mut value).map(|()| value),
        )
    }

    /// Sets the value of a key. Both must have the map's sizes.
    fn set(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key_bytes, self.value_bytes));
        self.element(MAP_UPDATE_ELEM, key.as_ptr() as u64, value)
    }

    fn element(&self, command: u32, key: u64, value: &mut [u8]) -> io::Result<()> {
        let value_or_next = value.as_mut_ptr() as u64;
        let map = fd_number(&self.fd);
        bpf(command, &mut Element { map, padding: 0, key, value_or_next, flags: 0 }).map(drop)
    }
}

/// Turns the error of a missing key into `None`.
fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

impl Program {
    /// Loads a program. An error has the verifier's last lines.
    fn load(kind: ProgramKind, code: &[u8]) -> io::Result<Program> {
        const LICENCE: &CStr = c"GPL";
        let attr = |log: &mut [u8]| ProgLoad {
            kind: kind as u32,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            licence: LICENCE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        };
        let error = match bpf(PROG_LOAD, &mut attr(&mut [])) {
            Ok(fd) => return Ok(Program(own_fd(fd))),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
            Err(error) => error,
        };
        let mut log = vec![0u8; 1 << 20];
        drop(bpf(PROG_LOAD, &mut attr(&mut log)));
        let messages = String::from_utf8_lossy(&log);
        let messages = messages.trim_end_matches('\0').trim_end();
        let mut last_lines: Vec<&str> = messages.lines().rev().take(8).collect();
        last_lines.reverse();
        Err(io::Error::new(error.kind(), format!("{error}: {}", last_lines.join(" | "))))
    }

    /// Attaches the program to a tracepoint until the descriptor is closed.
    fn attach_raw(&self, tracepoint: &CStr) -> io::Result<OwnedFd> {
        let (name, program) = (tracepoint.as_ptr() as u64, fd_number(&self.0));
        bpf(RAW_TRACEPOINT_OPEN, &mut RawTracepointOpen { name, program, padding: 0 }).map(own_fd)
    }

    /// Returns the program's run time and counts since [`enable_run_times`].
    fn run_time(&self) -> io::Result<RunTime> {
        let mut words = [0u64; INFO_WORDS];
        let bytes = size_of_val(&words) as u32;
        let info = words.as_mut_ptr() as u64;
        bpf(OBJ_GET_INFO_BY_FD, &mut Info { fd: fd_number(&self.0), bytes, info })?;
        let [ns, runs, missed] = [0, 1, 2].map(|word| words[RUN_TIME_WORD + word]);
        Ok(RunTime { ns, runs, missed })
    }
}

/// Makes the kernel time programs until the descriptor is closed.
fn enable_run_times() -> io::Result<OwnedFd> {
    bpf(ENABLE_STATS, &mut STATS_RUN_TIME.clone()).map(own_fd)
}

/// Offsets in the map value of a thread. Each field is an 8-byte word, except the name.
pub mod thread {
    /// Time of the thread's last event, ns.
    pub const LAST: i16 = 0;
    /// Start of an open exit, ns; 0 while the thread is in the guest.
    pub const EXIT_NS: i16 = 8;
    /// Start of an open stay in the guest, ns; 0 while the thread is outside.
    pub const ENTRY_NS: i16 = 16;
    pub const REASON: i16 = 24;
    pub const DETAIL: i16 = 32;
    pub const STAGE: i16 = 40;
    pub const STAGE_BEFORE_SWITCH: i16 = 48;
    pub const PARTS: i16 = 56;
    /// Time of the thread's first entry or exit, ns.
    pub const FIRST: i16 = 88;
    pub const UNPAIRED: i16 = 96;
    /// The thread's id; 0 where the slot is free.
    pub const TID: i16 = 104;
    pub const COMM: i16 = 112;
    pub const BYTES: usize = 128;
}

/// Offsets in the map value of one thread and reason. Each field is an 8-byte word.
pub mod row {
    pub const COUNT: i16 = 0;
    pub const SUM: i16 = 8;
    pub const MIN: i16 = 16;
    pub const MAX: i16 = 24;
    pub const SQUARES_LOW: i16 = 32;
    pub const SQUARES_HIGH: i16 = 40;
    pub const PARTS: i16 = 48;
    /// The thread's id; 0 where the slot is free.
    pub const TID: i16 = 80;
    pub const DETAIL: i16 = 88;
    pub const CODE: i16 = 96;
    pub const BUCKETS: i16 = 104;
    pub const BYTES: usize = 104 + 8 * ktax_stats::tables::BUCKETS;
}

fn word(bytes: &[u8], offset: i16) -> u64 {
    let start = offset as usize;
    u64::from_ne_bytes(bytes[start..start + 8].try_into().expect("a word has eight bytes"))
}

impl Thread {
    /// Decodes the map value of a thread, of [`thread::BYTES`]; also returns the thread's id.
    pub fn from_words(bytes: &[u8]) -> (u32, Thread) {
        let name = &bytes[thread::COMM as usize..];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let reason = Reason {
            code: word(bytes, thread::REASON),
            detail: word(bytes, thread::DETAIL) as u32,
        };
        let open = match (word(bytes, thread::EXIT_NS), word(bytes, thread::ENTRY_NS)) {
            (0, 0) => None,
            (0, entry) => Some((Reason::GUEST, entry)),
            (exit, _) => Some((reason, exit)),
        };
        let decoded = Thread {
            name: String::from_utf8_lossy(name).into_owned(),
            first_ns: word(bytes, thread::FIRST),
            last_ns: word(bytes, thread::LAST),
            open,
            unpaired: word(bytes, thread::UNPAIRED),
        };
        (word(bytes, thread::TID) as u32, decoded)
    }
}

impl ReasonTimes {
    /// Decodes the map value of a row, of [`row::BYTES`]; also returns its thread id and reason.
    pub fn from_words(bytes: &[u8]) -> ((u32, Reason), ReasonTimes) {
        let field = |offset: i16| word(bytes, offset);
        let low = u128::from(field(row::SQUARES_LOW));
        let reason = Reason { code: field(row::CODE), detail: field(row::DETAIL) as u32 };
        let times = ReasonTimes {
            count: field(row::COUNT),
            sum: field(row::SUM),
            least: field(row::MIN),
            most: field(row::MAX),
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
    use crate::live::tracepoints::RecordField;

    #[test]
    fn missed_events_are_lost_and_missed_switches_are_counted_separately() {
        let number = RecordField { offset: 8, size: 4 };
        let run = |ns, runs, missed| RunTime { ns, runs, missed };
        let runs = [
            (Hook::Enter { filter: None }, run(100, 10, 1)),
            (Hook::Exit { reason: number, detail: None }, run(200, 11, 2)),
            (
                Hook::Switch { prev_pid: number, prev_state: number, next_pid: number },
                run(70, 5, 4),
            ),
            (Hook::Wakeup { pid: number }, run(80, 6, 8)),
        ];
        let mut recording = Recording { lost_events: 16, ..Recording::default() };
        let cost = average_cost(&runs, &mut recording);
        // 11 exits took 300 ns, and 11 events of the scheduler 150 ns.
        assert_eq!(cost, RecorderCost { exit_ns: 27, switch_ns: 13 });
        assert_eq!((recording.lost_events, recording.missed_switches), (19, 12));
    }
}
