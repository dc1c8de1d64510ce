//! Runs timed pairs of Boots until the caller has seen enough.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::driver::{Ended, at_most_twice};
use crate::native::judge_answer;
use crate::rundir::RunDir;
use ktax_engine::{Booted, Cancel, Stop, Timed};
use ktax_host::text::shell_path;
use ktax_model::{
    Error, Failure, Noise, Result, Side, Sides, TimedBlock, TimedBoot, TimedPair, TimedRun,
    TimedSubject, TimesPlan, Workload,
};
use ktax_stats::timed::{Order, Slot};

/// Drives timed pairs.
pub struct TimesDriver<'a> {
    pub dir: &'a RunDir<TimesPlan>,
    pub engine: &'a dyn Timed,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Whether another pair is wanted after these.
    pub wants_more: &'a dyn Fn(&[TimedPair]) -> bool,
    /// Whether a row is not worth another try after these pairs.
    pub never_ran: &'a dyn Fn(&Workload, &[TimedPair]) -> bool,
    /// Does its work and measures the noise of the machine meanwhile.
    pub watch: &'a dyn Fn(&mut dyn FnMut()) -> io::Result<Noise>,
}

impl TimesDriver<'_> {
    /// Continues after the pairs that are on disk.
    pub fn run(&self) -> Result<Ended> {
        self.dir.forget_console()?;
        let mut pairs = self.dir.pairs()?;
        for (index, slot) in Order::new(self.dir.plan().seed).enumerate() {
            if let Some(pair) = pairs.get(index) {
                if *pair != with_slot(pair, slot) {
                    let dir = self.dir.root().display();
                    let problem = format!("pair {index} in {dir} was not run in the planned order");
                    return Err(Error::user(problem).next("measure again into a new directory"));
                }
                continue;
            }
            if !(self.wants_more)(&pairs) {
                break;
            }
            if self.cancel.is_cancelled() {
                return Ok(Ended::Cancelled);
            }
            let rows: Vec<&Workload> = self
                .dir
                .plan()
                .method
                .workloads()
                .filter(|row| !(self.never_ran)(row, &pairs))
                .collect();
            let Some(pair) = self.pair(index as u32, slot, &rows)? else {
                return Ok(Ended::Cancelled);
            };
            self.dir.forget_comparison()?;
            self.dir.write_pair(&pair)?;
            pairs.push(pair);
        }
        Ok(Ended::Complete)
    }

    /// Adds a block: `boots` Boots of a Side within one boot of this machine, `boot_id`.
    pub fn block(&self, side: Side, boot_id: String, boots: u32) -> Result<Ended> {
        self.dir.forget_console()?;
        let subject = self.dir.plan().method.asked.subjects.get(side);
        let mut done = Ok(Vec::new());
        // The running kernel has no console of its own.
        let rows: Vec<&Workload> = self.dir.plan().method.workloads().collect();
        let boot = || Ok(self.boot(subject, &rows)?.0);
        let mut work = || done = (0..boots).map(|_| boot()).collect();
        let noise = (self.watch)(&mut work).map_err(unwatched)?;
        let Some(boots) = self.unless_stopped(done)? else { return Ok(Ended::Cancelled) };
        let index = self.dir.blocks()?.len() as u32;
        self.dir.forget_comparison()?;
        self.dir.write_block(&TimedBlock { index, side, boot_id, boots, noise })?;
        Ok(Ended::Complete)
    }

    /// Results of Boots; `None` if the user cancelled.
    fn unless_stopped<T>(&self, boots: Result<Vec<T>, Stop>) -> Result<Option<Vec<T>>> {
        match boots {
            Ok(boots) => Ok(Some(boots)),
            Err(Stop::Cancelled) => Ok(None),
            // A failure after a cancellation may come from the cancellation.
            Err(_) if self.cancel.is_cancelled() => Ok(None),
            Err(Stop::Failed(failure, console)) => {
                let console = self.dir.keep_console(&console)?;
                let next = next_step(&failure, console.as_deref());
                // The next Boot would fail, too.
                Err(Error::blamed(failure.blame(), failure.to_string()).next(next))
            }
        }
    }

    /// Runs one pair; `None` if the user cancelled.
    fn pair(&self, index: u32, slot: Slot, rows: &[&Workload]) -> Result<Option<TimedPair>> {
        let subjects = &self.dir.plan().method.asked.subjects;
        let change = if slot.is_control { &subjects.base } else { &subjects.change };
        let mut order = [&subjects.base, change];
        if slot.change_first {
            order.reverse();
        }
        let mut boots = Ok(Vec::new());
        let mut work = || boots = order.iter().map(|subject| self.boot(subject, rows)).collect();
        let noise = (self.watch)(&mut work).map_err(unwatched)?;
        let Some(mut boots) = self.unless_stopped(boots)? else { return Ok(None) };
        if slot.change_first {
            boots.reverse();
        }
        let [(base, of_base), (change, of_change)] =
            <[(TimedBoot, Vec<u8>); 2]>::try_from(boots).expect("two were asked for");
        self.dir.keep_consoles(index, &Sides { base: of_base, change: of_change })?;
        let Slot { is_control, change_first } = slot;
        let boots = Sides { base, change };
        Ok(Some(TimedPair { index, is_control, change_first, boots, noise }))
    }

    /// Runs a Boot; also returns the end of its console if something ended it early.
    fn boot(
        &self,
        subject: &TimedSubject,
        rows: &[&Workload],
    ) -> Result<(TimedBoot, Vec<u8>), Stop> {
        let times = self.dir.plan().method.asked.loops as usize;
        let loops: Vec<&Workload> =
            rows.iter().flat_map(|row| std::iter::repeat_n(*row, times)).collect();
        // The engine loses a Boot only before its first loop; later losses are failures of the rows
        // that did not run.
        let boot = || self.engine.boot(subject, &loops);
        let (booted, lost) = at_most_twice(self.cancel, |_| (), boot);
        let Booted { facts, wires, console } = booted?;
        let mut runs: BTreeMap<String, TimedRun> = BTreeMap::new();
        for (workload, wire) in loops.into_iter().zip(wires) {
            let run = runs.entry(workload.row.clone()).or_default();
            match wire.and_then(|wire| judge_answer(&wire, workload)) {
                Ok(done) => {
                    match done.values.get("nanoseconds") {
                        Some(&ns) => run.loops_ns.push(ns as f64 / workload.ops as f64),
                        None => run.failure = Some(Failure::Garbled { reason: "no time".into() }),
                    }
                    run.signature = done.signature;
                }
                Err(failure) => run.failure = Some(failure),
            }
        }
        Ok((TimedBoot { facts, runs, lost }, console))
    }
}

/// The load of the machine during a Boot is not known.
fn unwatched(error: io::Error) -> Error {
    Error::host(format!("cannot read /proc/stat: {error}")).next("mount /proc")
}

/// Next step for a failed Boot. These directories have no other files than those that are named.
fn next_step(failure: &Failure, console: Option<&Path>) -> String {
    use Failure::{Flood, Garbled, Panic, QemuDied, QemuLost, RealTime, Silent, VirtualTime};
    match (console, failure) {
        // The guest's output does not explain a lost QEMU.
        (_, QemuLost { .. }) => failure.next_step().into(),
        (Some(path), _) => {
            // The console lies in the run directory itself.
            let root = path.parent().unwrap_or(Path::new("."));
            format!("read {}, then resume with `ktax run {}`", path.display(), shell_path(root))
        }
        (None, Panic { .. } | RealTime { .. } | VirtualTime { .. } | Silent { .. })
        | (None, Garbled { .. } | Flood { .. } | QemuDied { .. }) => {
            "its console is empty; `ktax doctor` says whether guests boot here".into()
        }
        (None, other) => other.next_step().into(),
    }
}

fn with_slot(pair: &TimedPair, slot: Slot) -> TimedPair {
    let Slot { is_control, change_first } = slot;
    TimedPair { is_control, change_first, ..pair.clone() }
}
