//! Counts: boots guests to the freeze, runs workloads from there, and judges the answers.

use std::path::PathBuf;

use crate::driver::{Boots, ReadyBoot, RunResult};
use crate::printed::{printed_numbers, recognised_suite};
use crate::rundir::profile;
use crate::rundir::profile::ProfileError;
use crate::times::with_missing_files;
use ktax_engine::wire::{Answer, Hello, Printed};
use ktax_engine::{Engine, Frozen, Limits, RawAnswer, Request, Stop, wire};
use ktax_host::text::{escape, escape_byte_lines};
use ktax_model::{
    Boot, CountsPlan, ErrorKind, Failure, Layout, Outcome, PrintedEnd, Region, Sample, Sides,
    Signature, Step, TracedCall, UserProgram, Workload,
};
use ktax_program::{PackedModules, SideArchives};

/// Boots of an engine that counts.
pub struct CountsBoots<'a> {
    pub engine: &'a dyn Engine,
    pub images: Sides<PathBuf>,
    pub modules: Sides<Option<PackedModules>>,
    /// Programs and setup of the Sides' guests.
    pub programs: Sides<SideArchives>,
    /// Limit of virtual time for a Region, in seconds.
    pub virtual_s: u64,
}

/// A Boot that counts: one guest for all rows without a user's program, and another guest for each
/// program.
struct CountsBoot<'a> {
    boots: &'a CountsBoots<'a>,
    plan: &'a CountsPlan,
    step: Step,
    /// Guest that is booted first.
    frozen: Box<dyn Frozen + 'a>,
    /// Program in that guest, as an index.
    program: Option<usize>,
}

impl CountsBoot<'_> {
    fn layout(&self) -> &Layout {
        &self.plan.layouts[self.step.layout]
    }
}

impl Boots for CountsBoots<'_> {
    type Plan = CountsPlan;
    type Sample = Sample;

    fn steps(plan: &CountsPlan) -> &[Step] {
        &plan.steps
    }

    fn rows(plan: &CountsPlan) -> Vec<&str> {
        plan.workloads.iter().map(|workload| workload.row.as_str()).collect()
    }

    fn script(&self, plan: &CountsPlan, step: &Step) -> String {
        let script = |program| self.engine.script(&self.request(plan, step, program));
        let first_script = script(first_program(plan));
        match plan.asked.guest.programs.len() {
            0 | 1 if plan.workloads.len() <= 1 => first_script,
            _ => {
                let rows = plan.asked.guest.programs.iter().map(UserProgram::row);
                let scripts = rows.enumerate().map(|(index, row)| (row, script(Some(index))));
                script_by_row(&first_script, scripts)
            }
        }
    }

    fn boot<'a>(
        &'a self,
        plan: &'a CountsPlan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<Sample> + 'a>, Stop> {
        let program = first_program(plan);
        let frozen = self.frozen(plan, step, program)?;
        Ok(Box::new(CountsBoot { boots: self, plan, step: step.clone(), frozen, program }))
    }
}

/// Index of the program in the guest that is booted first: the program of the only row. With
/// several rows there is none, so that a program whose setup fails does not fail other rows.
fn first_program(plan: &CountsPlan) -> Option<usize> {
    match plan.workloads.as_slice() {
        [row] => plan.program_of(&row.row),
        _ => None,
    }
}

/// Script that boots the guest of a row, by the file name of the row's order in `$1`.
fn script_by_row(default: &str, scripts: impl Iterator<Item = (String, String)>) -> String {
    let branch = |(row, script): (String, String)| format!("{row})\n{}\n;;\n", script.trim_end());
    let branches: String = scripts.map(branch).collect();
    let default = default.trim_end();
    format!("#!/bin/sh\ncase \"${{1##*/}}\" in\n{branches}*)\n{default}\n;;\nesac\n")
}

impl CountsBoots<'_> {
    /// Boots a guest with this program, if any, and checks the guest's kernel and setup.
    fn frozen(
        &self,
        plan: &CountsPlan,
        step: &Step,
        program: Option<usize>,
    ) -> Result<Box<dyn Frozen + '_>, Stop> {
        let frozen = self.engine.boot(&self.request(plan, step, program))?;
        check_kernel(plan, step, frozen.hello())?;
        match frozen.hello().failed.first() {
            Some(message) => {
                let modules = self.modules.get(step.side).as_ref();
                let names = modules.map_or(&[][..], |modules| &modules.names);
                Err(Failure::Refused { message: guest_message(message, names) }.into())
            }
            None => Ok(frozen),
        }
    }

    fn request(&self, plan: &CountsPlan, step: &Step, program: Option<usize>) -> Request {
        let programs = self.programs.get(step.side);
        Request {
            image: self.images.get(step.side).clone(),
            image_sha256: plan.kernels.get(step.side).sha256.clone(),
            boot_line: plan.asked.subjects.get(step.side).boot_line.clone(),
            machine: plan.asked.machine.clone(),
            layout: plan.layouts[step.layout].clone(),
            modules: self.modules.get(step.side).clone(),
            side_programs: programs.common.clone(),
            program: program.and_then(|index| programs.programs.get(index)).cloned(),
        }
    }
}

impl ReadyBoot<Sample> for CountsBoot<'_> {
    fn boot_record(&self) -> Boot {
        let Hello { release, build_id, ignored, busy, crc32c, is_unseeded, .. } =
            self.frozen.hello().clone();
        let release = Some(release);
        Boot { release, build_id, ignored, busy, crc32c, is_unseeded, ..Boot::default() }
    }

    fn console(&self) -> Option<Vec<u8>> {
        Some(self.frozen.console())
    }

    fn order(&self, row: usize) -> String {
        wire::order(&self.plan.workloads[row], self.layout())
    }

    /// Runs a row. A garbled answer is kept, because it helps to fix the workload.
    fn run(&self, row: usize, order: &str) -> Result<RunResult<Sample>, Stop> {
        let workload = &self.plan.workloads[row];
        let program = self.plan.program_of(&workload.row);
        let program_guest = match program == self.program {
            true => None,
            false => Some(self.boots.frozen(self.plan, &self.step, program)?),
        };
        let frozen = program_guest.as_ref().unwrap_or(&self.frozen);
        let run = || match workload.region {
            Region::Marked => frozen.run(order),
            Region::Boot => frozen.run_boot(order),
        };
        let answer = run()?;
        let is_first_layout = self.step.layout == 0;
        // A second Run with several CPUs must give the same profile, which has a hash of the order
        // in which the CPUs executed.
        let is_repeated = self.plan.asked.machine.cpus > 1 && is_first_layout;
        if is_repeated && run()?.profile != answer.profile {
            return Ok(RunResult::failed(Failure::NotRepeated, Vec::new()));
        }
        // The output of a program is kept for one layout, and for each failure.
        let is_kept =
            |has_failed: bool| workload.is_user_program() && (has_failed || is_first_layout);
        let printed = |has_failed| is_kept(has_failed).then(|| wire::parse_printed(&answer.wire));
        Ok(match measure_run(&answer, workload, self.boots.virtual_s) {
            Ok(MeasuredRun { sample, profile }) => RunResult {
                outcome: Outcome::Measured(sample),
                profile: Some(profile),
                garbled: None,
                console: Vec::new(),
                printed: printed(false),
            },
            Err(Failure::Program { message }) => {
                let message = with_missing_files(message, &**frozen, workload, self.layout())?;
                let failure = Failure::Program { message };
                RunResult { printed: printed(true), ..RunResult::failed(failure, Vec::new()) }
            }
            Err(failure) => {
                let is_garbled = matches!(failure, Failure::Garbled { .. });
                let garbled = is_garbled.then(|| escape_byte_lines(&answer.wire));
                let failed = RunResult::failed(failure, Vec::new());
                RunResult { garbled, printed: printed(true), ..failed }
            }
        })
    }
}

/// Runs a program again at a Step and returns its system calls, each with a hash of its result.
pub fn traced(
    boots: &CountsBoots<'_>,
    plan: &CountsPlan,
    step: &Step,
    program: &Workload,
) -> Result<Vec<TracedCall>, Stop> {
    let mut workload = program.clone();
    workload.params.insert("trace".to_owned(), 1);
    let request = boots.request(plan, step, plan.program_of(&program.row));
    let frozen = boots.engine.boot(&request)?;
    let order = wire::order(&workload, &plan.layouts[step.layout]);
    let answer = frozen.run(&order)?;
    match wire::parse_trace(&answer.wire, &workload.program) {
        Ok(Ok(calls)) => Ok(calls),
        Ok(Err(message)) => Err(Failure::Program { message }.into()),
        Err(error) => Err(Failure::Garbled { reason: error.to_string() }.into()),
    }
}

/// Replaces the index of a module in a guest's message by the module's name. The guest knows only
/// indices: `to load module 1.parameters: Invalid argument`.
fn guest_message(message: &str, modules: &[String]) -> String {
    let module_error = message.strip_prefix("to load module ").and_then(|rest| {
        let (index, reason) = rest.split_once(".parameters: ")?;
        Some((modules.get(index.parse::<usize>().ok()?)?, reason))
    });
    match module_error {
        Some((name, reason)) => format!("the module {name} cannot be loaded: {reason}"),
        None => format!("the guest failed {message}"),
    }
}

/// Refuses a guest whose kernel is not the planned one.
fn check_kernel(plan: &CountsPlan, step: &Step, hello: &Hello) -> Result<(), Failure> {
    let planned = plan.kernels.get(step.side);
    let differs = |planned: &Option<String>, running: &Option<String>| match (planned, running) {
        (Some(planned), Some(running)) => planned != running,
        _ => false,
    };
    let (planned, found) = if differs(&planned.release, &Some(hello.release.clone())) {
        (planned.release.clone(), hello.release.clone())
    } else if differs(&planned.build_id, &hello.build_id) {
        (planned.build_id.clone(), hello.build_id.clone().unwrap_or_default())
    } else {
        return Ok(());
    };
    Err(Failure::WrongKernel { planned: planned.unwrap_or_default(), found })
}

/// A Sample, and the unchanged text of its profile.
pub struct MeasuredRun {
    pub sample: Sample,
    pub profile: String,
}

/// Makes a Sample from the answer of a Run. All parts of the answer are checked, because the guest
/// may be wrong.
pub fn measure_run(
    answer: &RawAnswer,
    workload: &Workload,
    virtual_s: u64,
) -> Result<MeasuredRun, Failure> {
    let parsed = profile::parse(&answer.profile);
    if let Err(ProfileError::LimitReached { limit, cpus }) = parsed {
        return Err(Failure::CountedTime { limit_s: Limits::counted_seconds(limit), cpus });
    }
    let mut done = match wire::parse_answer(&answer.wire, &workload.program) {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(message)) if workload.is_user_program() => {
            return Err(Failure::Program { message });
        }
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }),
        Err(error) if error.kind == ErrorKind::Empty => {
            return Err(Failure::NoAnswer { console: answer.console_tail.clone() });
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }),
    };
    let Some(tsc) = done.tsc else {
        return Err(Failure::Garbled { reason: "the answer has no time stamp".into() });
    };
    let printed = workload.is_user_program().then(|| wire::parse_printed(&answer.wire));
    if let Some(printed) = &printed {
        let (signature, values) = (&mut done.signature, &mut done.values);
        read_printed(workload, printed, signature, values)?;
    }
    let deviations = workload.deviations(&done.signature).join("; ");
    if !deviations.is_empty() {
        return Err(Failure::WrongWork { deviations });
    }
    // With -icount shift=0, the time-stamp counter counts virtual nanoseconds.
    if tsc > virtual_s.saturating_mul(1_000_000_000) {
        return Err(Failure::VirtualTime { limit_s: virtual_s });
    }
    let parsed = parsed.map_err(|error| profile_failure(error, workload))?;
    let ops = workload.ops_of(&done.signature);
    if ops == 0 {
        let message = "it printed that it did 0 operations".to_owned();
        return Err(Failure::Program { message });
    }
    let counts = parsed.counts();
    let sample = Sample {
        ops,
        counts,
        total: parsed.total,
        tsc,
        signature: done.signature,
        values: done.values,
        printed: printed.as_ref().and_then(printed_end),
        notes: parsed.notes.clone(),
        parallel: parsed.parallel,
    };
    Ok(MeasuredRun { sample, profile: answer.profile.clone() })
}

/// Adds numbers from a program's output: the numbers that the user requested, and the operations of
/// a known suite.
fn read_printed(
    workload: &Workload,
    printed: &Printed,
    signature: &mut Signature,
    values: &mut Signature,
) -> Result<(), Failure> {
    let numbers = printed_numbers(&workload.numbers, printed);
    signature.extend(numbers.map_err(|message| {
        let message = escape(&message).to_string();
        Failure::Program { message }
    })?);
    let operations = |(suite, count)| (format!("{suite}{}", Sample::OPERATIONS_SUFFIX), count);
    values.extend(recognised_suite(printed).map(operations));
    Ok(())
}

/// Maximum number of output lines that a Sample keeps.
const MAX_LINES: usize = 6;

/// Maximum number of bytes of an output line that a Sample keeps.
const MAX_LINE_BYTES: usize = 160;

/// Last lines of a program's output; `None` if the program printed nothing.
fn printed_end(printed: &Printed) -> Option<PrintedEnd> {
    let stdout = printed.stdout.last_lines(MAX_LINES, MAX_LINE_BYTES);
    let stderr = printed.stderr.last_lines(MAX_LINES, MAX_LINE_BYTES);
    (!stdout.is_empty() || !stderr.is_empty()).then_some(PrintedEnd { stdout, stderr })
}

/// Failure of a Run whose profile cannot be used.
fn profile_failure(error: ProfileError, workload: &Workload) -> Failure {
    match error {
        // One pair of markers is that of the guest, around the whole program.
        ProfileError::Markers { begins, ends } if workload.is_user_program() => {
            let [begins, ends] = [begins, ends].map(|n| n.saturating_sub(1));
            let message =
                format!("it executed `begin` and `end` {begins} and {ends} times, not once each");
            Failure::Program { message }
        }
        ProfileError::Regions { regions: 2 } if workload.is_user_program() => {
            Failure::Program { message: "it executed `end` before `begin`".to_owned() }
        }
        error => Failure::Profile { reason: error.to_string() },
    }
}
