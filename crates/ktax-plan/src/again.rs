//! Command lines that repeat a comparison, a search or a history.

use crate::keys::{Group, KEYS, SWITCH, Scope, THRESHOLD_PERCENT, Values};
use ktax_host::text::shell_line;
use ktax_model::{
    AskedCounts, AskedGuest, AskedTimes, Comparison, ComparisonMethod, CountsComparison, History,
    HistoryAsked, HistoryLine, HistoryPoint, METRICS, Machine, Model, Row, RunsOn, Side, Sides,
    Subject, TimedMachine, TimedSubject, TimesComparison, UserProgram,
};

/// Experiment whose command line is printed: counts or times.
pub(super) struct Request<'a> {
    pub counts: Option<&'a AskedCounts>,
    pub times: Option<&'a AskedTimes>,
    /// Names of the headline rows, without rows of programs.
    pub rows: Vec<&'a str>,
    /// Names of the other rows, without rows of programs.
    pub secondary: Vec<&'a str>,
    pub layouts: usize,
    pub seed: u64,
    pub threshold_percent: f64,
}

impl Request<'_> {
    /// Machine of a counted guest, and machine of a timed guest; one of them is `None`.
    pub(super) fn machines(&self) -> (Option<&Machine>, Option<&TimedMachine>) {
        (self.counts.map(|counts| &counts.machine), self.times.map(|times| &times.machine))
    }

    pub(super) fn has_same_sides(&self) -> bool {
        self.counts.is_some_and(|counts| counts.subjects.are_equal())
            || self.times.is_some_and(|times| times.subjects.are_equal())
    }
}

/// One Side of a [`Request`].
#[derive(Clone, Copy)]
pub(super) enum RequestedSide<'a> {
    Counts(Side, &'a Subject),
    /// Settings of the running kernel, or a guest.
    Times(RunsOn, &'a TimedSubject),
}

/// Words of the command that repeats these rows of a comparison; empty if no command line can
/// express the comparison.
pub fn repeat_command(comparison: &Comparison, rows: &[Row]) -> Vec<String> {
    let threshold_percent = comparison.threshold_percent;
    let words = match &comparison.method {
        ComparisonMethod::Counts(counts) => counts_command(rows, threshold_percent, counts),
        ComparisonMethod::Times(times) => times_command(rows, threshold_percent, times),
        ComparisonMethod::Guests(_) => None,
    };
    words.unwrap_or_default()
}

/// Words of the command that searches between the two Sides of a comparison; empty if no command
/// line can express the comparison.
pub fn search_command(comparison: &Comparison) -> Vec<String> {
    if comparison.counts().is_none() {
        return Vec::new();
    }
    let mut words = repeat_command(comparison, &comparison.rows);
    if let Some(command) = words.get_mut(1) {
        *command = "bisect".to_owned();
        words.insert(2, "start".to_owned());
    }
    words
}

/// Commands that compare two points of a line of a history. Most points differ only in their
/// kernels, so the flags of the last command are kept for the next.
pub struct HistorySteps<'a> {
    line: &'a HistoryLine,
    threshold_percent: f64,
    /// Flags of the last pair of points, after the values on which the flags depend.
    last: Option<(PairKey<'a>, Option<StepFlags>)>,
}

/// Boot lines of two points, and true if both have the same kernel.
type PairKey<'a> = ([&'a str; 2], bool);

/// Flags of a pair of points.
struct StepFlags {
    words: Vec<String>,
    /// The words as a shell reads them.
    line: String,
}

impl<'a> HistorySteps<'a> {
    pub fn new(line: &'a HistoryLine, threshold_percent: f64) -> HistorySteps<'a> {
        HistorySteps { line, threshold_percent, last: None }
    }

    /// Words of the command for these points of the line; empty if a kernel has no package.
    pub fn words(&mut self, base: &'a HistoryPoint, change: &'a HistoryPoint) -> Vec<String> {
        self.command(base, change).map_or(Vec::new(), |(mut words, flags)| {
            words.extend_from_slice(&flags.words);
            words
        })
    }

    /// The command for these points as a shell reads it; `None` if a kernel has no package.
    pub fn shell_line(
        &mut self,
        base: &'a HistoryPoint,
        change: &'a HistoryPoint,
    ) -> Option<String> {
        let (words, flags) = self.command(base, change)?;
        Some(format!("{} {}", shell_line(words), flags.line))
    }

    /// Words up to the kernels, and the flags after them.
    fn command(
        &mut self,
        base: &'a HistoryPoint,
        change: &'a HistoryPoint,
    ) -> Option<(Vec<String>, &StepFlags)> {
        let (base_package, change_package) = base.package.as_ref().zip(change.package.as_ref())?;
        let boot_lines = [&*base.boot_line, &*change.boot_line];
        let key = (boot_lines, base_package == change_package);
        if self.last.as_ref().is_none_or(|(last_key, _)| *last_key != key) {
            let subjects = Sides {
                base: Subject::new(base_package, boot_lines[0]),
                change: Subject::new(change_package, boot_lines[1]),
            };
            let words = self.flags(subjects);
            let flags = words.map(|words| StepFlags { line: shell_line(&words), words });
            self.last = Some((key, flags));
        }
        let (_, flags) = self.last.as_ref()?;
        let mut words = CommandLine::compare();
        words.kernels(base_package.clone(), change_package.clone());
        Some((words.0, flags.as_ref()?))
    }

    fn flags(&self, subjects: Sides<Subject>) -> Option<Vec<String>> {
        let HistoryAsked { machine, layouts, seed } = self.line.asked.as_ref()?;
        let (machine, guest) = (machine.clone(), AskedGuest::default());
        let counts = AskedCounts { machine, subjects, guest, calibration: None };
        let mut flags = CommandLine(Vec::new());
        flags.keys(&Request {
            counts: Some(&counts),
            times: None,
            rows: vec![&self.line.row],
            secondary: Vec::new(),
            layouts: *layouts,
            seed: *seed,
            threshold_percent: self.threshold_percent,
        })?;
        Some(flags.0)
    }
}

/// Words of the command that prints a line of a history from the store.
pub fn history_command(history: &History, line: &HistoryLine) -> Vec<String> {
    let mut words = CommandLine(["ktax", "history", &line.row].map(str::to_owned).to_vec());
    if let Some(function) = &history.function {
        words.option("--function", function);
    }
    if history.metric != METRICS[0].name {
        words.option("--metric", &history.metric);
    }
    if history.threshold_percent != THRESHOLD_PERCENT {
        words.option("--threshold", history.threshold_percent);
    }
    words.0
}

fn counts_command(
    rows: &[Row],
    threshold_percent: f64,
    counts: &CountsComparison,
) -> Option<Vec<String>> {
    let AskedCounts { machine, subjects: Sides { base, change }, guest, .. } = &counts.asked;
    let user_programs = user_programs(&guest.programs);
    let measured = rows.iter().filter(|row| row.computed_from().is_none());
    let is_complete = measured.filter(|row| is_program(row)).count() == user_programs.len();
    let programs = programs_before_sizes(&user_programs);
    let is_one_line = is_complete
        && programs.len() <= 1
        && (guest.hooks.is_none() || programs.is_empty())
        && is_archive_known(counts)
        && have_same_sources(base, change)
        && machine.model.as_ref().is_none_or(is_built_in);
    if !is_one_line {
        return None;
    }
    let kernel = |side: Side| {
        let subject = counts.asked.subjects.get(side);
        // The same package name may later stand for another version.
        let is_package = subject.kernel.starts_with("debian:");
        let source = if is_package { &counts.kernels.get(side).source } else { &subject.kernel };
        source.clone()
    };
    let mut words = CommandLine::compare();
    words.kernels(kernel(Side::Base), kernel(Side::Change));
    words.keys(&Request {
        counts: Some(&counts.asked),
        times: None,
        rows: row_names(rows.iter()),
        secondary: Vec::new(),
        layouts: counts.layouts,
        seed: counts.seed,
        threshold_percent,
    })?;
    guest.hooks.iter().for_each(|hooks| words.flags(program_flags(hooks, &[], true)));
    programs.into_iter().for_each(|(program, sizes)| words.program(program, sizes));
    Some(words.0)
}

fn times_command(
    rows: &[Row],
    threshold_percent: f64,
    times: &TimesComparison,
) -> Option<Vec<String>> {
    let asked = &times.plan.asked;
    let Sides { base, change } = &asked.subjects;
    let programs = user_programs(&asked.programs);
    if rows.iter().filter(|row| is_program(row)).count() != programs.len() || programs.len() > 1 {
        return None;
    }
    let mut words = CommandLine::compare();
    words.option("--engine", &asked.engine);
    if asked.is_guest(Side::Change) {
        let [base_kernel, change_kernel] =
            [base, change].map(|subject| subject.kernel.clone().unwrap_or_default());
        match base.bare_metal {
            true => {
                words.0.push("--bare-metal".to_owned());
                words.option("--change", change_kernel);
            }
            false => words.kernels(base_kernel, change_kernel),
        }
    }
    words.keys(&Request {
        counts: None,
        times: Some(asked),
        rows: row_names(rows.iter().filter(|row| row.headline)),
        secondary: row_names(rows.iter().filter(|row| !row.headline)),
        layouts: 0,
        seed: times.seed,
        threshold_percent,
    })?;
    programs.into_iter().for_each(|program| words.program(program, &[]));
    Some(words.0)
}

impl Request<'_> {
    fn side(&self, side: Side) -> Option<RequestedSide<'_>> {
        let counted = self.counts.map(|counts| counts.subjects.get(side));
        let timed = self.times.map(|times| (times.runs_on, times.subjects.get(side)));
        counted
            .map(|subject| RequestedSide::Counts(side, subject))
            .or(timed.map(|(runs_on, subject)| RequestedSide::Times(runs_on, subject)))
    }

    /// Flags of the keys of the Sides, then of the keys of the experiment, each with its value.
    /// `None` if no flag sets a key.
    fn flags(&self) -> Option<Vec<(&'static str, String)>> {
        let mut flags = Vec::new();
        let mut add = |flag: &'static str, values: Values| {
            let is_printable = !flag.is_empty() || values.is_empty();
            flags.extend(values.into_iter().map(|value| (flag, value)));
            is_printable.then_some(())
        };
        for group in [Group::Source, Group::BootLine, Group::Settings] {
            for (index, side) in Side::BOTH.into_iter().enumerate() {
                let Some(requested) = self.side(side) else { continue };
                for key in KEYS {
                    match key.scope {
                        Scope::Side(key_group, values) if key_group == group => {
                            add(key.flags[index], values(requested))?;
                        }
                        _ => {}
                    }
                }
            }
        }
        for key in KEYS {
            if let Scope::File(values) = key.scope {
                add(key.flags[0], values(self))?;
            }
        }
        Some(flags)
    }
}

/// Keys that hooks have in common with programs.
const HOOK_KEYS: [&str; 6] = [
    "program.files",
    "program.root",
    "program.trace_files",
    "program.env",
    "program.setup",
    "program.prepare",
];

/// Flags of a program with its sizes, each with its value; with `is_hooks` only the keys of hooks.
fn program_flags(
    program: &UserProgram,
    sizes: &[u64],
    is_hooks: bool,
) -> Vec<(&'static str, String)> {
    let mut flags = Vec::new();
    for key in KEYS.iter().filter(|key| !is_hooks || HOOK_KEYS.contains(&key.name)) {
        if let Scope::Program(values) = key.scope {
            flags.extend(values(program, sizes).into_iter().map(|value| (key.flags[0], value)));
        }
    }
    flags
}

fn is_program(row: &Row) -> bool {
    UserProgram::is_program_row(&row.row)
}

fn row_names<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a str> {
    rows.filter(|row| !is_program(row)).map(|row| row.row.as_str()).collect()
}

/// The programs that no workload file defines.
fn user_programs(programs: &[UserProgram]) -> Vec<&UserProgram> {
    programs.iter().filter(|program| !program.is_from_workload_file).collect()
}

/// Each distinct program before `{size}` was replaced, with its sizes.
fn programs_before_sizes<'a>(programs: &[&'a UserProgram]) -> Vec<(&'a UserProgram, &'a [u64])> {
    let mut distinct: Vec<(&UserProgram, &[u64])> = Vec::new();
    for program in programs.iter().copied() {
        let sized = program.size.as_ref().map(|size| (&size.program, &size.sizes[..]));
        let original = sized.unwrap_or((program, &[]));
        if !distinct.contains(&original) {
            distinct.push(original);
        }
    }
    distinct
}

/// Returns true if the contents of the guests' archive are known: stores of older releases keep
/// only its hash.
fn is_archive_known(counts: &CountsComparison) -> bool {
    let AskedCounts { subjects: Sides { base, change }, guest, .. } = &counts.asked;
    let AskedGuest { disk, programs, hooks, .. } = guest;
    let has_side_settings = base.has_settings() || change.has_settings();
    counts.key.programs.is_empty()
        || has_side_settings
        || disk.is_some()
        || !programs.is_empty()
        || hooks.is_some()
}

/// Returns true if flags can name the sources of both kernels: `--start-config` and `--tree` set
/// both Sides.
fn have_same_sources(base: &Subject, change: &Subject) -> bool {
    base.start_config == change.start_config && base.tree == change.tree
}

/// Returns true if `--model` takes the model by name. A model in a file of the user may be deleted.
fn is_built_in(model: &Model) -> bool {
    !model.name().ends_with(".toml")
}

/// Words of a command line; options with their defaults are left out.
struct CommandLine(Vec<String>);

impl CommandLine {
    fn compare() -> CommandLine {
        CommandLine(["ktax", "compare"].map(str::to_owned).to_vec())
    }

    fn option(&mut self, flag: &str, value: impl ToString) {
        let value = value.to_string();
        match value.starts_with('-') {
            // In a word of its own, the value would be parsed as an option.
            true => self.0.push(format!("{flag}={value}")),
            false => self.0.extend([flag.to_owned(), value]),
        }
    }

    fn kernels(&mut self, base: String, change: String) {
        if base == change {
            self.option("--kernel", base);
        } else {
            self.option("--base", base);
            self.option("--change", change);
        }
    }

    /// Adds the flags of all keys except kernels and programs; `None` if no flag sets one of the
    /// keys.
    fn keys(&mut self, request: &Request<'_>) -> Option<()> {
        self.flags(request.flags()?);
        Some(())
    }

    fn flags(&mut self, flags: Vec<(&'static str, String)>) {
        for (flag, value) in flags {
            match value == SWITCH {
                true => self.0.push(flag.to_owned()),
                false => self.option(flag, value),
            }
        }
    }

    fn program(&mut self, program: &UserProgram, sizes: &[u64]) {
        self.flags(program_flags(program, sizes, false));
        if program.script.is_none() {
            self.0.push("--".to_owned());
            self.0.extend(program.command.iter().cloned());
        }
    }
}
