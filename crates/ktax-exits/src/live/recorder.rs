use super::error::LiveError;
use super::kernel::InKernel;
use super::points::{self, Level, Points};
use super::process::Process;
use super::ring::Ring;
use super::source::{Source, now_ns};
use super::stats::Stats;
use super::timing::ExitTimes;
use super::tracefs::Tracefs;
use super::whole::{Seen, Whole};
use crate::table::Per;
use ktax_model::ExitTable;

/// How events reach ktax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Programs in the kernel add them up.
    Bpf,
    /// They are copied through perf's ring buffers.
    Perf,
    /// There are no events: KVM's own statistics have counts, and the time of halts alone.
    Stats,
    /// There are no events: PowerPC's KVM has tables, the files timing and timings in debugfs.
    ExitTimes,
}

/// What the user chose; nothing means the best that this machine has.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecorderChoice {
    pub level: Option<Level>,
    pub via: Option<Via>,
}

/// The recorders of one process.
pub struct Recorder {
    process: u32,
    of: String,
    /// Whether its VM ran before.
    is_running: bool,
    /// Why eBPF could not be used.
    refused: Option<String>,
    began_ns: u64,
    by: By,
}

enum By {
    Events(Vec<Watch>),
    Statistics(Stats),
    ExitTimes(ExitTimes),
}

struct Watch {
    points: Points,
    source: Box<dyn Source>,
}

impl Recorder {
    /// Starts recording. Without a chosen Level it records both, since some KVMs have the
    /// tracepoint kvm_exit and never fire it. What `is_running` is recorded from now on, and
    /// another VM from its first entry on.
    pub fn attach(
        process: &Process,
        of: &str,
        choice: RecorderChoice,
        is_running: bool,
    ) -> Result<Recorder, LiveError> {
        let mut refused = None;
        let by = match choice.via {
            Some(Via::Stats) => By::Statistics(Stats::open(process, of)?),
            Some(Via::ExitTimes) => By::ExitTimes(ExitTimes::open(process, of)?),
            _ => By::Events(watches(process.pid, choice, &mut refused)?),
        };
        let (process, of, began_ns) = (process.pid, of.to_owned(), now_ns());
        Ok(Recorder { process, of, is_running, refused, began_ns, by })
    }

    /// Takes new events; to be called some times a second.
    pub fn poll(&mut self) -> Result<(), LiveError> {
        let watches = match &mut self.by {
            By::Statistics(_) => return Ok(()),
            By::ExitTimes(timing) => return timing.poll(),
            By::Events(watches) => watches,
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
        let seen = |watch: &Watch| {
            let (points, source) = (watch.points.clone(), watch.source.name());
            Ok(Seen { points, source, recording: watch.source.recording()? })
        };
        match &self.by {
            By::Statistics(stats) => Ok(self.timed(stats.tables()?)),
            By::ExitTimes(timing) => Ok(self.timed(timing.tables(per)?)),
            By::Events(watches) => {
                let seen = watches.iter().map(seen).collect::<Result<Vec<_>, LiveError>>()?;
                Ok(self.whole(seen).tables(per))
            }
        }
    }

    /// Stops recording and returns the tables; with `is_over` a thread counts to its last exit. The
    /// kernel is left as it was.
    pub fn finish(mut self, per: Per, is_over: bool) -> Result<Vec<ExitTable>, LiveError> {
        let seen = |watch: Watch| {
            let source = watch.source.name();
            Ok(Seen { points: watch.points, source, recording: watch.source.finish()? })
        };
        match &mut self.by {
            By::Statistics(stats) => {
                let tables = stats.tables()?;
                Ok(self.timed(tables))
            }
            By::ExitTimes(timing) => {
                timing.poll()?;
                let tables = timing.tables(per)?;
                Ok(self.timed(tables))
            }
            By::Events(watches) => {
                let watches = std::mem::take(watches);
                let seen = watches.into_iter().map(seen).collect::<Result<Vec<_>, LiveError>>()?;
                Ok(Whole { is_over, ..self.whole(seen) }.tables(per))
            }
        }
    }

    /// The same with the time since the recorder was attached: what has no events has no moments.
    fn timed(&self, mut tables: Vec<ExitTable>) -> Vec<ExitTable> {
        let elapsed_ns = Some(now_ns().saturating_sub(self.began_ns));
        tables.iter_mut().for_each(|table| table.elapsed_ns = elapsed_ns);
        tables
    }

    fn whole(&self, seen: Vec<Seen>) -> Whole {
        let (process, of, refused) = (self.process, self.of.clone(), self.refused.clone());
        let began_ns = self.is_running.then_some(self.began_ns);
        Whole { process, of, seen, began_ns, refused, is_over: false, now_ns: now_ns() }
    }
}

fn watches(
    process: u32,
    choice: RecorderChoice,
    refused: &mut Option<String>,
) -> Result<Vec<Watch>, LiveError> {
    let tracefs = Tracefs::find()?;
    let levels = match choice.level {
        Some(level) => vec![level],
        None => vec![Level::Exits, Level::Run],
    };
    let (mut watches, mut missing) = (Vec::new(), None);
    for level in levels {
        match points::points(level, &tracefs) {
            Ok(points) => {
                let source = open(&points, process, choice.via, refused)?;
                watches.push(Watch { points, source });
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
