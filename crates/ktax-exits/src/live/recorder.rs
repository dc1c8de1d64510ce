//! Records a VM: opens the source of events, and makes tables of what it has recorded.

use super::LiveError;
use super::kernel::InKernel;
use super::process::{Process, lives};
use super::ring::Ring;
use super::stats::Stats;
use super::timing::ExitTimes;
use super::tracepoints::{Level, Points, Tracefs, find_points};
use crate::recording::{Cost, Recording, Thread};
use crate::table::{CountedExits, Per, Recorded};
use ktax_model::{ExitTable, RecorderCost, Warning};

/// How events reach ktax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Programs in the kernel add them up.
    Bpf,
    /// They are copied through perf's ring buffers.
    Perf,
    /// No events: KVM's own statistics have counts, and the time of halts alone.
    Stats,
    /// No events: PowerPC's KVM has tables, the files timing and timings in debugfs.
    ExitTimes,
}

/// The user's choice; `None` means the best that this machine has.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecorderChoice {
    pub level: Option<Level>,
    pub via: Option<Via>,
}

/// The recorders of one process.
pub struct Recorder {
    process: u32,
    title: String,
    /// Whether the VM ran before.
    is_running: bool,
    /// Why eBPF could not be used.
    refused: Option<String>,
    began_ns: u64,
    backend: Backend,
}

enum Backend {
    Events(Vec<WatchedLevel>),
    Statistics(Stats),
    ExitTimes(ExitTimes),
}

struct WatchedLevel {
    points: Points,
    source: Box<dyn Source>,
}

impl Recorder {
    /// Starts recording. Without a chosen Level it records both, since some KVMs have the
    /// tracepoint kvm_exit and never fire it. What `is_running` is recorded from now on, and
    /// another VM from its first entry on.
    pub fn attach(
        process: &Process,
        title: &str,
        choice: RecorderChoice,
        is_running: bool,
    ) -> Result<Recorder, LiveError> {
        let mut refused = None;
        let backend = match choice.via {
            Some(Via::Stats) => Backend::Statistics(Stats::open(process, title)?),
            Some(Via::ExitTimes) => Backend::ExitTimes(ExitTimes::open(process, title)?),
            _ => Backend::Events(open_watches(process.pid, choice, &mut refused)?),
        };
        let (process, title, began_ns) = (process.pid, title.to_owned(), now_ns());
        Ok(Recorder { process, title, is_running, refused, began_ns, backend })
    }

    /// Takes new events; to be called some times a second.
    pub fn poll(&mut self) -> Result<(), LiveError> {
        let watches = match &mut self.backend {
            Backend::Statistics(_) => return Ok(()),
            Backend::ExitTimes(timing) => return timing.poll(),
            Backend::Events(watches) => watches,
        };
        watches.iter_mut().try_for_each(|watch| watch.source.poll())?;
        // Once the better one is known to work, the other would only cost time.
        if watches.len() > 1 && !watches[0].source.recording()?.rows.is_empty() {
            watches.truncate(1);
        }
        Ok(())
    }

    /// Returns the tables so far.
    pub fn tables(&self, per: Per) -> Result<Vec<ExitTable>, LiveError> {
        let seen = |watch: &WatchedLevel| {
            let (points, source) = (watch.points.clone(), watch.source.name());
            Ok(LevelRecording { points, source, recording: watch.source.recording()? })
        };
        match &self.backend {
            Backend::Statistics(stats) => Ok(self.timed(stats.tables()?)),
            Backend::ExitTimes(timing) => Ok(self.timed(timing.tables(per)?)),
            Backend::Events(watches) => {
                let seen = watches.iter().map(seen).collect::<Result<Vec<_>, LiveError>>()?;
                Ok(self.whole(seen).tables(per))
            }
        }
    }

    /// Stops recording and returns the tables; with `is_over` a thread counts to its last exit. The
    /// kernel is left as it was.
    pub fn finish(mut self, per: Per, is_over: bool) -> Result<Vec<ExitTable>, LiveError> {
        let seen = |watch: WatchedLevel| {
            let source = watch.source.name();
            Ok(LevelRecording { points: watch.points, source, recording: watch.source.finish()? })
        };
        match &mut self.backend {
            Backend::Statistics(stats) => {
                let tables = stats.tables()?;
                Ok(self.timed(tables))
            }
            Backend::ExitTimes(timing) => {
                timing.poll()?;
                let tables = timing.tables(per)?;
                Ok(self.timed(tables))
            }
            Backend::Events(watches) => {
                let watches = std::mem::take(watches);
                let seen = watches.into_iter().map(seen).collect::<Result<Vec<_>, LiveError>>()?;
                Ok(AllLevels { is_over, ..self.whole(seen) }.tables(per))
            }
        }
    }

    /// Sets the time since the recorder was attached: sources without events have no other.
    fn timed(&self, mut tables: Vec<ExitTable>) -> Vec<ExitTable> {
        let elapsed_ns = Some(now_ns().saturating_sub(self.began_ns));
        tables.iter_mut().for_each(|table| table.elapsed_ns = elapsed_ns);
        tables
    }

    fn whole(&self, seen: Vec<LevelRecording>) -> AllLevels {
        let (process, title, refused) = (self.process, self.title.clone(), self.refused.clone());
        let began_ns = self.is_running.then_some(self.began_ns);
        AllLevels { process, title, seen, began_ns, refused, is_over: false, now_ns: now_ns() }
    }
}

fn open_watches(
    process: u32,
    choice: RecorderChoice,
    refused: &mut Option<String>,
) -> Result<Vec<WatchedLevel>, LiveError> {
    let tracefs = Tracefs::find()?;
    let levels = match choice.level {
        Some(level) => vec![level],
        None => vec![Level::Exits, Level::Run],
    };
    let (mut watches, mut missing) = (Vec::new(), None);
    for level in levels {
        match find_points(level, &tracefs) {
            Ok(points) => {
                let source = open(&points, process, choice.via, refused)?;
                watches.push(WatchedLevel { points, source });
            }
            Err(error) => missing = missing.or(Some(error)),
        }
    }
    match missing {
        Some(error) if watches.is_empty() => Err(error),
        _ => Ok(watches),
    }
}

/// Opens eBPF unless something else was chosen, and perf's rings where the kernel refuses eBPF.
fn open(
    points: &Points,
    process: u32,
    via: Option<Via>,
    refused: &mut Option<String>,
) -> Result<Box<dyn Source>, LiveError> {
    match via {
        Some(Via::Perf) => Ok(Box::new(Ring::attach(points, process)?)),
        Some(Via::Bpf) => Ok(Box::new(InKernel::attach(points, process)?)),
        _ => match InKernel::attach(points, process) {
            Ok(source) => Ok(Box::new(source)),
            Err(LiveError::Bpf { reason }) => {
                *refused = Some(reason);
                Ok(Box::new(Ring::attach(points, process)?))
            }
            Err(error) => Err(error),
        },
    }
}

/// A source of events, which it adds up.
pub trait Source {
    /// Returns the name in tables.
    fn name(&self) -> &'static str;
    /// Takes new events; to be called some times a second.
    fn poll(&mut self) -> Result<(), LiveError>;
    /// Returns all so far.
    fn recording(&self) -> Result<Recording, LiveError>;
    /// Takes the last events and detaches from the kernel.
    fn finish(self: Box<Self>) -> Result<Recording, LiveError>;
}

/// Returns CLOCK_MONOTONIC in ns, which is also the kernel's stamp of every event here.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The recording of one level.
struct LevelRecording {
    pub points: Points,
    pub source: &'static str,
    pub recording: Recording,
}

/// The recordings of all levels.
struct AllLevels {
    pub process: u32,
    pub title: String,
    pub seen: Vec<LevelRecording>,
    /// When the recording began, if the VM ran already.
    pub began_ns: Option<u64>,
    /// Why eBPF could not be used.
    pub refused: Option<String>,
    /// Whether the recorded work is over: then a thread counts to its last exit.
    pub is_over: bool,
    pub now_ns: u64,
}

impl AllLevels {
    /// Makes the tables of the first level that saw a guest.
    pub fn tables(&self, per: Per) -> Vec<ExitTable> {
        let has_rows = |seen: &&LevelRecording| !seen.recording.rows.is_empty();
        let Some(seen) = self.seen.iter().find(has_rows).or(self.seen.first()) else {
            return vec![];
        };
        let moments = match seen.points.level {
            Level::Exits => "kvm_entry and kvm_exit",
            Level::Run => "KVM_RUN",
        };
        let recorded = Recorded {
            recording: &seen.recording,
            of: &self.title,
            source: &format!("{moments}, {}", seen.source),
            began: self.began_ns,
            name: &|reason| seen.points.names.name(reason),
            end: &|tid, thread| self.end(seen.recording.until, tid, thread),
            counted: &CountedExits::default(),
            has_switches: true,
            may_sleep: &|_| false,
        };
        let mut tables = recorded.tables(per);
        for table in &mut tables {
            table.warnings.extend(self.warnings(seen));
            if let Some(account) = &mut table.account {
                account.recorder = self.cost();
            }
        }
        tables
    }

    /// Returns when the recording of a thread ended, ns: for a dead thread, its last exit.
    fn end(&self, until: Option<u64>, tid: u32, thread: &Thread) -> u64 {
        match thread.open {
            Some((_, began)) if self.is_over || !lives(self.process, tid) => began,
            Some((_, began)) => until.unwrap_or(self.now_ns).max(began),
            None => until.unwrap_or(self.now_ns).max(thread.last),
        }
    }

    /// The cost of all recorders together.
    fn cost(&self) -> Option<RecorderCost> {
        let costs = self.seen.iter().filter_map(|seen| seen.recording.cost);
        let Cost { exit_ns, switch_ns } = costs.reduce(|a, b| Cost {
            exit_ns: a.exit_ns + b.exit_ns,
            switch_ns: a.switch_ns + b.switch_ns,
        })?;
        Some(RecorderCost { exit_ns, switch_ns })
    }

    fn warnings(&self, seen: &LevelRecording) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |fact: String, next_step: &str| {
            warnings.push(Warning { fact, next_step: next_step.to_owned() });
        };
        if let Some(reason) = &self.refused {
            let fact = format!("eBPF is refused here ({reason}), so perf copies each event");
            warn(fact, "run ktax with CAP_BPF to avoid the copies");
        }
        let first = self.seen.first().map(|first| first.points.level);
        if seen.recording.rows.is_empty() {
            let fact = "no vCPU left its guest or entered it".to_owned();
            let next = "record for longer, and give the VMM's own process, not one that starts it; \
                        use --via stats for a guest that never exits";
            warn(fact, next);
        } else if first != Some(seen.points.level) {
            let fact = "kvm_exit never fires here, so only exits that reach the VMM have reasons";
            warn(fact.to_owned(), "record on a host with hardware virtualization");
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Reason;

    #[test]
    fn a_thread_that_has_ended_was_no_vcpu_after_its_last_exit() {
        let process = std::process::id();
        let (title, seen) = (String::new(), vec![]);
        let (began_ns, refused) = (None, None);
        let whole =
            AllLevels { process, title, seen, began_ns, refused, is_over: false, now_ns: 900 };
        let name = String::new;
        let thread = |open| Thread { name: name(), first: 50, last: 100, open, unpaired: 0 };
        let (open, closed) = (thread(Some((Reason::GUEST, 100))), thread(None));
        // The first thread of a process has its number, and no thread has this one.
        let gone = 1 << 30;
        assert_eq!(whole.end(None, process, &open), 900);
        assert_eq!(whole.end(Some(500), process, &open), 500);
        assert_eq!(whole.end(None, gone, &open), 100);
        assert_eq!(whole.end(None, process, &closed), 900);
        assert_eq!(AllLevels { is_over: true, ..whole }.end(None, process, &open), 100);
    }
}
