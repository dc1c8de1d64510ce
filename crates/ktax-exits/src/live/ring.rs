//! Recorder for machines that refuse eBPF: perf's ring buffers copy each event to ktax, which adds
//! them up.

use std::fs;
use std::path::Path;

use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};
use rustix::process::{Resource, Rlimit};

use super::tracepoints::{FieldFilter, Hook, HookPoint, RecordField, SLEEPING_STATES, Tracepoints};
use super::{EventSource, cannot_watch, now_ns};
use crate::recording::{Fold, Reason, Recording, Stage, VcpuEvent};
use ktax_model::{Error, Result};

/// Maximum size of one ring. At 200 bytes for an event and ten reads a second, such a ring has room
/// for 800 000 events a second.
const MAX_RING_BYTES: usize = 1 << 24;
/// The kernel's smallest ring: one page.
const MIN_RING_BYTES: usize = 1 << 12;
/// Maximum size of all rings together, as long as none is at its minimum.
const MAX_ALL_RINGS_BYTES: usize = 1 << 29;

/// Ring buffers, one for each tracepoint and CPU, with the sums of their events.
pub struct PerfRings {
    process: u32,
    rings: Vec<(Sampler, Hook)>,
    /// Time, ns, from which all rings were enabled; older events are ignored.
    start_ns: u64,
    end_ns: Option<u64>,
    /// Events that are not added up yet, because another ring may have an older event.
    waiting: Vec<Sample>,
    /// Number of lost events in the rings' own reports.
    reported_lost: u64,
    fold: Fold,
}

/// An event that was read from a ring and is not decoded yet.
struct Sample {
    time_ns: u64,
    tid: u32,
    hook: Hook,
    record: Vec<u8>,
}

impl PerfRings {
    pub fn attach(points: &Tracepoints, process: u32) -> Result<PerfRings> {
        // Each ring has a file descriptor, and 128 CPUs need more than the usual limit of 1024.
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let maximum = Rlimit { current: limit.maximum, ..limit };
        let _ = rustix::process::setrlimit(Resource::Nofile, maximum);
        let (mut rings, cpus) = (Vec::new(), online_cpus());
        if cpus.is_empty() {
            return Err(Error::host("no CPU is listed in /sys/devices/system/cpu")
                .next("mount /sys, or run ktax outside of the container"));
        }
        let bytes = ring_bytes(cpus.len() * points.points.len());
        for cpu in cpus {
            for point in &points.points {
                let failed = |error| cannot_watch(&point.event, error);
                rings.push((open_ring(point, cpu, bytes).map_err(failed)?, point.hook));
            }
        }
        for (ring, _) in &mut rings {
            ring.enable().map_err(|error| cannot_watch("perf events", error))?;
        }
        let (start_ns, fold) = (now_ns(), Fold::default());
        let (end_ns, waiting, reported_lost) = (None, Vec::new(), 0);
        Ok(PerfRings { process, rings, start_ns, end_ns, waiting, reported_lost, fold })
    }

    /// Reads the rings and adds up the events up to `complete_ns`. Later events wait, because a
    /// ring may still get an older one.
    fn drain(&mut self, complete_ns: u64) {
        for (ring, hook) in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let (Some(time_ns), Some(pid), Some(tid), Some(raw)) =
                            (sample.time(), sample.pid(), sample.tid(), sample.raw())
                        else {
                            continue;
                        };
                        let is_late = self.end_ns.is_some_and(|end_ns| time_ns > end_ns);
                        if time_ns < self.start_ns || is_late {
                            continue;
                        }
                        if hook.is_scheduler_event() || pid == self.process {
                            let record = raw.to_vec();
                            self.waiting.push(Sample { time_ns, tid, hook: *hook, record });
                        }
                    }
                    Ok(Record::Lost(lost)) => self.reported_lost += lost.lost,
                    _ => {}
                }
            }
        }
        self.fold.lost_events = self.reported_lost;
        self.waiting.sort_by_key(|sample| sample.time_ns);
        let ready = self.waiting.partition_point(|sample| sample.time_ns <= complete_ns);
        for sample in self.waiting.drain(..ready) {
            for (tid, event) in decode(sample.hook, &sample.record, sample.tid) {
                // The fold needs a name only for a thread's first entry or exit.
                let needs_name = !self.fold.has_thread(tid) && !sample.hook.is_scheduler_event();
                let name = if needs_name { thread_name(self.process, tid) } else { String::new() };
                self.fold.add(tid, &name, sample.time_ns, event);
            }
        }
    }
}

/// Returns the size of each ring if there are `rings`: a power of two.
fn ring_bytes(rings: usize) -> usize {
    let share = (MAX_ALL_RINGS_BYTES / rings.max(1)).max(1);
    (1 << share.ilog2()).clamp(MIN_RING_BYTES, MAX_RING_BYTES)
}

/// Opens the ring of a tracepoint on one CPU.
fn open_ring(point: &HookPoint, cpu: usize, bytes: usize) -> std::io::Result<Sampler> {
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    builder.any_pid().one_cpu(cpu).include_kernel().clockid(Clock::MONOTONIC).sample_period(1);
    builder.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW);
    builder.wakeup_watermark(bytes / 2);
    builder.read_format(ReadFormat::LOST);
    let event = builder.build().or_else(|_| builder.read_format(ReadFormat::empty()).build())?;
    event.sampled(bytes)
}

fn thread_name(process: u32, tid: u32) -> String {
    let path = format!("/proc/{process}/task/{tid}/comm");
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

/// Returns the CPUs that are online: the directory of an offline one has no `topology`.
fn online_cpus() -> Vec<usize> {
    let is_online =
        |cpu: &usize| Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/topology")).exists();
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let number = |name: String| name.strip_prefix("cpu")?.parse().ok();
    entries.filter_map(name).filter_map(number).filter(is_online).collect()
}

impl EventSource for PerfRings {
    fn name(&self) -> &'static str {
        "perf ring buffer"
    }

    fn poll(&mut self) -> Result<()> {
        // An event gets its time shortly before it gets into its ring.
        const MARGIN_NS: u64 = 10_000_000;
        self.drain(now_ns().saturating_sub(MARGIN_NS));
        Ok(())
    }

    fn recording(&self) -> Result<Recording> {
        Ok(Recording { end_ns: self.end_ns, ..self.fold.recording() })
    }

    fn finish(&mut self) -> Result<()> {
        self.end_ns = Some(now_ns());
        for (ring, _) in &mut self.rings {
            ring.disable().map_err(|error| cannot_watch("perf events", error))?;
        }
        self.drain(u64::MAX);
        // A ring reports lost events only with a later event. Linux 6.0 and later also count them,
        // including the last ones; reading this count interrupts the CPU of an enabled event.
        let lost = |(ring, _): &mut (Sampler, Hook)| ring.read_full().ok()?.lost();
        let counted_lost: u64 = self.rings.iter_mut().filter_map(lost).sum();
        self.fold.lost_events = self.reported_lost.max(counted_lost);
        Ok(())
    }
}

/// Decodes a record of thread `tid` into events, each with its thread id; a task switch gives two.
/// Empty if the record is too short or its filter does not match.
pub fn decode(hook: Hook, record: &[u8], tid: u32) -> Vec<(u32, VcpuEvent)> {
    try_decode(hook, record, tid).unwrap_or_default()
}

fn try_decode(hook: Hook, record: &[u8], tid: u32) -> Option<Vec<(u32, VcpuEvent)>> {
    let number = |field| read_field(field, record);
    let is_match = |filter: FieldFilter| Some(number(filter.field)? as u32 == filter.value);
    Some(match hook {
        Hook::Enter { filter } => match filter.map_or(Some(true), is_match)? {
            true => vec![(tid, VcpuEvent::Enter)],
            false => vec![],
        },
        Hook::Exit { reason, detail } => {
            let detail = detail.map_or(Some(0), number)? as u32;
            let reason = Reason { code: number(reason)?, detail };
            vec![(tid, VcpuEvent::Exit(reason, Stage::Kernel))]
        }
        Hook::Return { reason, errno } => {
            let errno = number(errno)? as u32 as i32;
            let code = if errno < 0 { i64::from(errno) as u64 } else { number(reason)? };
            vec![(tid, VcpuEvent::Exit(Reason { code, detail: 0 }, Stage::User))]
        }
        Hook::ToUser => vec![(tid, VcpuEvent::SetStage(Stage::User))],
        Hook::ToKernel { filter } => match is_match(filter)? {
            true => vec![(tid, VcpuEvent::SetStage(Stage::Kernel))],
            false => vec![],
        },
        Hook::Switch { prev_pid, prev_state, next_pid } => {
            let is_runnable = number(prev_state)? & SLEEPING_STATES as u64 == 0;
            let switch_out = VcpuEvent::SwitchOut { is_runnable };
            let (prev_tid, next_tid) = (number(prev_pid)? as u32, number(next_pid)? as u32);
            vec![(prev_tid, switch_out), (next_tid, VcpuEvent::SwitchIn)]
        }
        Hook::Wakeup { pid } => vec![(number(pid)? as u32, VcpuEvent::Wakeup)],
    })
}

/// Reads an integer field; `None` if the record ends before the field does.
fn read_field(field: RecordField, record: &[u8]) -> Option<u64> {
    let start = usize::from(field.offset);
    let bytes = record.get(start..start + usize::from(field.size))?;
    Some(match bytes {
        [byte] => u64::from(*byte),
        [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rings_fit_into_their_limit() {
        assert_eq!(ring_bytes(0), MAX_RING_BYTES);
        assert_eq!(ring_bytes(6 * 4), MAX_RING_BYTES);
        for rings in [33, 1024, 1025, 6 * 256, 6 * 8192] {
            let bytes = ring_bytes(rings);
            assert!(bytes.is_power_of_two() && bytes * rings <= MAX_ALL_RINGS_BYTES, "{rings}");
        }
        assert_eq!(ring_bytes(usize::MAX), MIN_RING_BYTES);
    }
}
