//! Runs timed pairs of Boots until the caller needs no more, and programs on the running kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, io};

use ktax_engine::host::Host;
use ktax_engine::wire::{Answer, Done};
use ktax_engine::{BootOutput, Cancel, Frozen, Stop, Timed, wire};
use ktax_host::text::{escape, escape_bytes, shell_path};
use ktax_model::{
    Error, ErrorKind, Failure, Layout, NamedFiles, NativeRow, NativeSample, Noise, Result, Side,
    Sides, TimedBlock, TimedBoot, TimedPair, TimedRun, TimedSubject, TimesPlan, Workload,
};
use ktax_program::missing_files;
use ktax_stats::timed::{PairOrder, PairSlot};

use crate::driver::{Ended, retry_if_lost};
use crate::printed::printed_numbers;
use crate::rundir::RunDir;

/// Runs timed pairs and blocks of Boots.
pub struct TimesDriver<'a> {
    pub dir: &'a RunDir<TimesPlan>,
    pub engine: &'a dyn Timed,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Returns true if another pair is needed after these.
    pub wants_more: &'a dyn Fn(&[TimedPair]) -> bool,
    /// Returns true if a row should not be run again after these pairs.
    pub never_ran: &'a dyn Fn(&Workload, &[TimedPair]) -> bool,
    /// Calls a function and returns the noise of the machine during the call.
    pub watch: &'a dyn Fn(&mut dyn FnMut()) -> io::Result<Noise>,
}

impl TimesDriver<'_> {
    /// Runs pairs after those that are on disk.
    pub fn run(&self) -> Result<Ended> {
        self.dir.remove_failed_console()?;
        let mut pairs = self.dir.pairs()?;
        for (index, slot) in PairOrder::new(self.dir.plan().seed).enumerate() {
            if let Some(pair) = pairs.get(index) {
                if *pair != with_slot(pair, slot) {
                    let dir = self.dir.root().display();
                    let problem = format!("pair {index} in {dir} was not run in the planned order");
                    return Err(Error::user(problem).next("measure again in a new directory"));
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
            let Some(pair) = self.run_pair(index as u32, slot, &rows)? else {
                return Ok(Ended::Cancelled);
            };
            self.dir.remove_comparison()?;
            self.dir.write_pair(&pair)?;
            pairs.push(pair);
        }
        Ok(Ended::Complete)
    }

    /// Runs a block: this number of Boots of a Side, within the machine's boot `boot_id`.
    pub fn run_block(&self, side: Side, boot_id: String, boots: u32) -> Result<Ended> {
        self.dir.remove_failed_console()?;
        let subject = self.dir.plan().method.asked.subjects.get(side);
        let mut done = Ok(Vec::new());
        // A Boot on the running kernel has no console to keep.
        let rows: Vec<&Workload> = self.dir.plan().method.workloads().collect();
        let boot = || Ok(self.boot(subject, &rows)?.0);
        let mut work = || done = (0..boots).map(|_| boot()).collect();
        let noise = (self.watch)(&mut work).map_err(noise_error)?;
        let Some(boots) = self.finished_boots(done)? else { return Ok(Ended::Cancelled) };
        let index = self.dir.blocks()?.len() as u32;
        self.dir.remove_comparison()?;
        self.dir.write_block(&TimedBlock { index, side, boot_id, boots, noise })?;
        Ok(Ended::Complete)
    }

    /// Results of Boots; `None` if the user cancelled, an error if a Boot failed as a whole.
    fn finished_boots<T>(&self, boots: Result<Vec<T>, Stop>) -> Result<Option<Vec<T>>> {
        match boots {
            Ok(boots) => Ok(Some(boots)),
            Err(Stop::Cancelled) => Ok(None),
            // A failure after a cancellation may come from the cancellation.
            Err(_) if self.cancel.is_cancelled() => Ok(None),
            Err(Stop::Failed(failure, console)) => {
                let console = self.dir.write_failed_console(&console)?;
                let next = next_step(&failure, console.as_deref());
                // Another Boot would fail the same way.
                Err(Error::blamed(failure.blame(), failure.to_string()).next(next))
            }
        }
    }

    /// Runs one pair; `None` if the user cancelled.
    fn run_pair(
        &self,
        index: u32,
        slot: PairSlot,
        rows: &[&Workload],
    ) -> Result<Option<TimedPair>> {
        let subjects = &self.dir.plan().method.asked.subjects;
        let change = if slot.is_control { &subjects.base } else { &subjects.change };
        let mut order = [&subjects.base, change];
        if slot.change_first {
            order.reverse();
        }
        let mut boots = Ok(Vec::new());
        let mut work = || boots = order.iter().map(|subject| self.boot(subject, rows)).collect();
        let noise = (self.watch)(&mut work).map_err(noise_error)?;
        let Some(mut boots) = self.finished_boots(boots)? else { return Ok(None) };
        if slot.change_first {
            boots.reverse();
        }
        let [(base, base_console), (change, change_console)] =
            <[(TimedBoot, Vec<u8>); 2]>::try_from(boots).expect("two boots were made");
        let consoles = Sides { base: base_console, change: change_console };
        self.dir.write_consoles(index, &consoles)?;
        let PairSlot { is_control, change_first } = slot;
        let boots = Sides { base, change };
        Ok(Some(TimedPair { index, is_control, change_first, boots, noise }))
    }

    /// Makes a Boot. Also returns the end of its console, if the Boot ended early.
    fn boot(
        &self,
        subject: &TimedSubject,
        rows: &[&Workload],
    ) -> Result<(TimedBoot, Vec<u8>), Stop> {
        let loops_per_row = self.dir.plan().method.asked.loops as usize;
        let loops: Vec<&Workload> =
            rows.iter().flat_map(|row| std::iter::repeat_n(*row, loops_per_row)).collect();
        // The engine reports a lost Boot only before its first loop. If the host ends a Boot later,
        // the rows that did not run are failed.
        let boot = || self.engine.boot(subject, &loops);
        let (booted, lost) = retry_if_lost(self.cancel, |_| (), boot);
        let BootOutput { facts, wires, console } = booted?;
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
        Ok((TimedBoot { facts, runs, retry_reason: lost }, console))
    }
}

/// Error of the measurement of noise.
fn noise_error(error: io::Error) -> Error {
    Error::host(format!("cannot measure the load of this machine: {error}")).next("mount /proc")
}

/// Next step for a failed Boot. It names only files that a run directory of times has.
fn next_step(failure: &Failure, console: Option<&Path>) -> String {
    use Failure::{Flood, Garbled, NoAnswer, Panic, QemuDied, QemuLost, RealTime, VirtualTime};
    match (console, failure) {
        // The console does not explain why the host ended QEMU.
        (_, QemuLost { .. }) => failure.next_step().into(),
        (Some(path), _) => {
            // The console's file is in the run directory.
            let root = path.parent().unwrap_or(Path::new("."));
            format!("read {}, then resume with `ktax run {}`", path.display(), shell_path(root))
        }
        (None, Panic { .. } | RealTime { .. } | VirtualTime { .. } | NoAnswer { .. })
        | (None, Garbled { .. } | Flood { .. } | QemuDied { .. }) => {
            "its console is empty; `ktax doctor` says whether guests boot here".into()
        }
        (None, other) => other.next_step().into(),
    }
}

/// A pair with the order of a slot.
fn with_slot(pair: &TimedPair, slot: PairSlot) -> TimedPair {
    let PairSlot { is_control, change_first } = slot;
    TimedPair { is_control, change_first, ..pair.clone() }
}

/// Runs a row on the running kernel, each time in a new process, until the first failure; `None` if
/// the user cancelled. `observe` is called after each Run.
pub fn run_natively(
    host: &Host,
    workload: &Workload,
    runs: usize,
    counters: bool,
    observe: &dyn Fn(),
) -> Option<NativeRow> {
    let mut row = NativeRow {
        workload: workload.clone(),
        samples: Vec::new(),
        failure: None,
        uncounted: Default::default(),
        cells: Vec::new(),
    };
    for _ in 0..runs {
        match host.run(&[], workload, counters).map(|wire| judge_answer(&wire, workload)) {
            Ok(Ok(done)) => {
                row.uncounted = done.uncounted;
                let (signature, values) = (done.signature, done.values);
                row.samples.push(NativeSample { signature, values });
            }
            Ok(Err(failure)) | Err(Stop::Failed(failure, _)) => {
                row.failure = Some(failure);
                return Some(row);
            }
            Err(Stop::Cancelled) => return None,
        }
        observe();
    }
    Some(row)
}

/// Checks the answer of a program. A native program is trusted no more than one in a guest.
pub(super) fn judge_answer(wire: &[u8], workload: &Workload) -> Result<Done, Failure> {
    let mut done = match wire::parse_answer(wire, &workload.program) {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }),
        Err(error) if error.kind == ErrorKind::Truncated => {
            return Err(Failure::NoAnswer { console: escape_bytes(wire) });
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }),
    };
    if !workload.numbers.is_empty() {
        let numbers = printed_numbers(&workload.numbers, &wire::parse_printed(wire));
        let refused = |reason: String| Failure::Refused { message: escape(&reason).to_string() };
        done.signature.extend(numbers.map_err(refused)?);
    }
    let deviations = workload.deviations(&done.signature).join("; ");
    if deviations.is_empty() { Ok(done) } else { Err(Failure::WrongWork { deviations }) }
}

/// Maximum number of missing files that a message names.
const MAX_NAMED_FILES: usize = 4;

/// Runs a program once on this machine, in a sandbox, and returns the files that it names.
pub fn named_files(host: &Host, program: &Workload) -> Result<NamedFiles, Stop> {
    let answer = host.run(&[], &traced_workload(program), false)?;
    parse_files(&answer, program)
}

/// Adds to the message of a failed program the names of files that this machine has and the guest
/// lacks. To find them, the program runs again in the guest with its system calls traced.
pub(super) fn with_missing_files(
    message: String,
    frozen: &dyn Frozen,
    program: &Workload,
    layout: &Layout,
) -> Result<String, Stop> {
    let answer = frozen.run(&wire::order(&traced_workload(program), layout));
    let named = match answer.and_then(|answer| parse_files(&answer.wire, program)) {
        Ok(named) => named,
        Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        // The message has the program's failure already, without missing files.
        Err(Stop::Failed(..)) => return Ok(message),
    };
    let current_dir = env::current_dir().unwrap_or_default();
    Ok(message + &missing_files_text(&missing_files(&named, &current_dir)))
}

/// End of a message about missing files, with the next step.
fn missing_files_text(missing: &[String]) -> String {
    let shown = missing.iter().take(MAX_NAMED_FILES).cloned().collect::<Vec<_>>().join(", ");
    let next = "add --trace-files, or --file for each";
    match missing.len() {
        0 => String::new(),
        1 => format!("; the guest lacks {shown}, which is on this machine: {next}"),
        count if count <= MAX_NAMED_FILES => {
            format!("; the guest lacks {shown}, which are on this machine: {next}")
        }
        count => {
            let more = count - MAX_NAMED_FILES;
            format!("; the guest lacks {shown} and {more} more, which are on this machine: {next}")
        }
    }
}

/// Workload of the program with the parameter that traces the program's files.
fn traced_workload(program: &Workload) -> Workload {
    let mut traced = program.clone();
    traced.params.insert("trace".to_owned(), NamedFiles::TRACE_MODE);
    traced
}

/// Parses the files in the answer of a traced program.
fn parse_files(answer: &[u8], program: &Workload) -> Result<NamedFiles, Stop> {
    match wire::parse_files(answer, &program.program) {
        Ok(Ok(files)) => Ok(files),
        Ok(Err(message)) => Err(Failure::Program { message }.into()),
        Err(error) => Err(Failure::Garbled { reason: error.to_string() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_four_missing_files_are_named() {
        let names = |count: usize| (0..count).map(|i| format!("/{i}")).collect::<Vec<_>>();
        assert_eq!(missing_files_text(&[]), "");
        assert!(
            missing_files_text(&names(1))
                .starts_with("; the guest lacks /0, which is on this machine: ")
        );
        assert!(
            missing_files_text(&names(4))
                .starts_with("; the guest lacks /0, /1, /2, /3, which are")
        );
        assert!(
            missing_files_text(&names(9))
                .contains("/3 and 5 more, which are on this machine: add --trace")
        );
    }
}
