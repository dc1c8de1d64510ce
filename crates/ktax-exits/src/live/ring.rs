//! Events through perf's ring buffers, added up here, for machines that refuse eBPF.

use std::fs;
use std::path::Path;

use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};
use rustix::process::{Resource, Rlimit};

use super::tracepoints::{ASLEEP, Field, FieldFilter, Hook, HookPoint, Points};
use super::{Source, cannot_watch, now_ns};
use crate::recording::{Fold, Reason, Recording, Stage, VcpuEvent};
use ktax_model::Result;

/// Bytes of one ring, a power of two, and of all. At 200 bytes for an event and ten reads a second,
/// the largest has room for 800 000 events a second.
const RING_BYTES: std::ops::RangeInclusive<usize> = 1 << 19..=1 << 24;
const ALL_RINGS_BYTES: usize = 1 << 29;

/// Rings, one for each tracepoint and CPU, and their events.
pub struct Ring {
    process: u32,
    rings: Vec<(Sampler, Hook)>,
    /// Start of the time, ns, in which all rings were on.
    since: u64,
    until: Option<u64>,
    /// Events that may not be in order: another ring may have an older one.
    waiting: Vec<Sample>,
    /// Lost events that the rings have reported with a later one.
    told_lost: u64,
    fold: Fold,
}

struct Sample {
    time: u64,
    tid: u32,
    hook: Hook,
    record: Vec<u8>,
}

impl Ring {
    pub fn attach(points: &Points, process: u32) -> Result<Ring> {
        // One descriptor for each; 128 CPUs need more than the usual 1024.
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let most = Rlimit { current: limit.maximum, ..limit };
        let _ = rustix::process::setrlimit(Resource::Nofile, most);
        let (mut rings, cpus) = (Vec::new(), online_cpus());
        let share = ALL_RINGS_BYTES / (cpus.len() * points.points.len()).max(1);
        let bytes = (1 << share.ilog2()).clamp(*RING_BYTES.start(), *RING_BYTES.end());
        for cpu in cpus {
            for point in &points.points {
                let failed = |error| cannot_watch(&point.event, error);
                rings.push((open(point, cpu, bytes).map_err(failed)?, point.hook));
            }
        }
        for (ring, _) in &mut rings {
            ring.enable().map_err(|error| cannot_watch("perf events", error))?;
        }
        let (since, fold) = (now_ns(), Fold::default());
        Ok(Ring { process, rings, since, until: None, waiting: vec![], told_lost: 0, fold })
    }

    /// Reads the rings, and adds up the events up to `until`, since no ring can have an older one.
    fn drain(&mut self, until: u64) {
        for (ring, hook) in &mut self.rings {
            while let Some(record) = ring.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let (Some(time), Some(pid), Some(tid), Some(raw)) =
                            (sample.time(), sample.pid(), sample.tid(), sample.raw())
                        else {
                            continue;
                        };
                        if time < self.since || self.until.is_some_and(|until| time > until) {
                            continue;
                        }
                        if hook.is_scheduling() || pid == self.process {
                            let record = raw.to_vec();
                            self.waiting.push(Sample { time, tid, hook: *hook, record });
                        }
                    }
                    Ok(Record::Lost(lost)) => self.told_lost += lost.lost,
                    _ => {}
                }
            }
        }
        self.fold.lost = self.told_lost;
        self.waiting.sort_by_key(|sample| sample.time);
        let ready = self.waiting.partition_point(|sample| sample.time <= until);
        for sample in self.waiting.drain(..ready) {
            for (tid, event) in decode(sample.hook, &sample.record, sample.tid) {
                let is_known = self.fold.knows(tid) || sample.hook.is_scheduling();
                let name = if is_known { String::new() } else { thread_name(self.process, tid) };
                self.fold.add(tid, &name, sample.time, event);
            }
        }
    }
}

fn open(point: &HookPoint, cpu: usize, bytes: usize) -> std::io::Result<Sampler> {
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

impl Source for Ring {
    fn name(&self) -> &'static str {
        "perf ring buffer"
    }

    fn poll(&mut self) -> Result<()> {
        // Events stamped before now are in their rings, or about to be: hence the margin.
        const MARGIN_NS: u64 = 10_000_000;
        let until = now_ns().saturating_sub(MARGIN_NS);
        self.drain(until);
        Ok(())
    }

    fn recording(&self) -> Result<Recording> {
        Ok(Recording { until: self.until, ..self.fold.recording() })
    }

    fn finish(&mut self) -> Result<()> {
        self.until = Some(now_ns());
        for (ring, _) in &mut self.rings {
            ring.disable().map_err(|error| cannot_watch("perf events", error))?;
        }
        self.drain(u64::MAX);
        // A ring reports lost events with a later event; the kernel's own count, of 6.0 and later,
        // has the last too. Reading it while events count is an interrupt for their CPU.
        let count = |(ring, _): &mut (Sampler, Hook)| ring.read_full().ok()?.lost();
        let counted: u64 = self.rings.iter_mut().filter_map(count).sum();
        self.fold.lost = self.told_lost.max(counted);
        Ok(())
    }
}

/// Returns the events of one record, which thread `tid` caused: a task switch is two. Empty for a
/// record that is too short.
pub fn decode(hook: Hook, record: &[u8], tid: u32) -> Vec<(u32, VcpuEvent)> {
    events(hook, record, tid).unwrap_or_default()
}

fn events(hook: Hook, record: &[u8], tid: u32) -> Option<Vec<(u32, VcpuEvent)>> {
    let number = |field| unsigned(field, record);
    let passes = |only: FieldFilter| Some(number(only.field)? as u32 == only.value);
    Some(match hook {
        Hook::Enter { only } => match only.map_or(Some(true), passes)? {
            true => vec![(tid, VcpuEvent::Enter)],
            false => vec![],
        },
        Hook::Exit { reason, detail } => {
            let detail = detail.map_or(Some(0), number)? as u32;
            let reason = Reason { code: number(reason)?, detail };
            vec![(tid, VcpuEvent::Left(reason, Stage::Kernel))]
        }
        Hook::Return { reason, errno } => {
            let errno = number(errno)? as u32 as i32;
            let code = if errno < 0 { i64::from(errno) as u64 } else { number(reason)? };
            vec![(tid, VcpuEvent::Left(Reason { code, detail: 0 }, Stage::User))]
        }
        Hook::ToUser => vec![(tid, VcpuEvent::Moves(Stage::User))],
        Hook::ToKernel { only } => match passes(only)? {
            true => vec![(tid, VcpuEvent::Moves(Stage::Kernel))],
            false => vec![],
        },
        Hook::Switch { from, state, to } => {
            let could_run = number(state)? & ASLEEP as u64 == 0;
            let off = VcpuEvent::Off { could_run };
            vec![(number(from)? as u32, off), (number(to)? as u32, VcpuEvent::On)]
        }
        Hook::Wakeup { thread } => vec![(number(thread)? as u32, VcpuEvent::Wakeup)],
    })
}

fn unsigned(field: Field, record: &[u8]) -> Option<u64> {
    let start = usize::from(field.offset);
    let bytes = record.get(start..start + usize::from(field.size))?;
    Some(match bytes {
        [byte] => u64::from(*byte),
        [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}
