//! Experiments: Subjects, rows, and the method.

use ktax_engine::{ENGINES, EngineEntry, Measures};
use ktax_host::text::{did_you_mean_quoted, short_hashes};
use ktax_model::{
    ByMethod, FORMAT, HostKind, Layout, Machine, Method, Plan, RunsOn, Side, Sides, Step, Subject,
};
use ktax_stats::random::Random;
use serde_json::Value;

use crate::counts::CountsExperiment;
use crate::file::{ExperimentFile, SubjectKeys, checked_disk};
use crate::guests::GuestsExperiment;
use crate::keys::{
    KEYS, THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT, bounds, check_bounds, usual, with_flag,
};
use crate::times::TimesExperiment;

pub(crate) use ktax_model::{Error, ErrorKind};

/// A checked experiment: its Subjects and rows, with `M` as the method.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment<M = ExperimentMethod> {
    /// Title in one line.
    pub title: String,
    /// Random seed for the Layouts, or for the order of the pairs.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    pub method: M,
}

impl<M> Experiment<M> {
    pub fn with<N>(&self, method: N) -> Experiment<N> {
        let Experiment { title, seed, threshold_percent, .. } = self;
        Experiment {
            title: title.clone(),
            seed: *seed,
            threshold_percent: *threshold_percent,
            method,
        }
    }

    /// Plan of this experiment, with the method's part.
    pub(super) fn plan_of<P>(&self, method: P) -> Plan<P> {
        let Experiment { title, seed, threshold_percent, method } = self.with(method);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }
}

/// Method of measuring, with its settings.
pub type ExperimentMethod = ByMethod<CountsExperiment, TimesExperiment, GuestsExperiment>;

/// Subjects whose kernels may be built; none for timed kernels, which have no patches.
pub fn built_subjects(method: &ExperimentMethod) -> Vec<&Subject> {
    match method {
        ExperimentMethod::Counts(counts) => {
            let Sides { base, change } = &counts.asked.subjects;
            vec![base, change]
        }
        ExperimentMethod::Times(_) => Vec::new(),
        ExperimentMethod::Guests(GuestsExperiment { asked, .. }) => {
            let guests = asked.sides().filter_map(|side| side.subject.kernel.as_ref());
            std::iter::once(&asked.host_subject).chain(guests).collect()
        }
    }
}

/// Returns true if base and change are the same, so that only noise can differ.
fn has_same_sides(method: &ExperimentMethod) -> bool {
    match method {
        ExperimentMethod::Counts(counts) => counts.asked.subjects.are_equal(),
        ExperimentMethod::Times(times) => times.asked.subjects.are_equal(),
        ExperimentMethod::Guests(GuestsExperiment { asked, .. }) => {
            asked.change.as_ref() == Some(&asked.base)
        }
    }
}

impl Experiment {
    /// Checks the keys of a file or the command line.
    pub fn from_file(file: &ExperimentFile) -> Result<Experiment, Error> {
        let method = method_of(file);
        check_keys_of_method(file, method)?;
        let default_percent = match method {
            Method::Times => TIMED_THRESHOLD_PERCENT,
            _ => THRESHOLD_PERCENT,
        };
        let threshold_percent = file.threshold_percent.unwrap_or(default_percent);
        if !(0.0..=100.0).contains(&threshold_percent) {
            let key = with_flag("threshold_percent");
            return Err(Error::user(format!(
                "{key} must be 0 to 100 percent, not {threshold_percent}"
            ))
            .next("remove it to use the default of 0.1"));
        }
        // A time is never the same twice: a threshold of 0 would find something everywhere.
        if method == Method::Times && threshold_percent == 0.0 {
            let key = with_flag("threshold_percent");
            return Err(Error::user(format!(
                "{key} must be above 0 and at most 100 percent, not {threshold_percent}"
            ))
            .next("remove it to use the default of timed engines, 1"));
        }
        let method = match method {
            Method::Counts => ExperimentMethod::Counts(CountsExperiment::from_file(file)?),
            Method::Times => ExperimentMethod::Times(TimesExperiment::from_file(file)?),
            Method::Guests => ExperimentMethod::Guests(GuestsExperiment::from_file(file)?),
        };
        // If the title is made of the boot lines, they are checked before it.
        let title = file.title.clone().unwrap_or_default();
        printable_line("the title", &title)?;
        let seed = file.seed.unwrap_or(1);
        match has_same_sides(&method) && file.same != Some(true) {
            true => {
                Err(Error::user("base and change are the same, so there is nothing to compare")
                    .next(format!(
                        "change one of them, such as with --change-boot-line or --change-set, or \
                     measure noise with {}",
                        with_flag("same")
                    ))
                    .kind(ErrorKind::SameSides))
            }
            false => Ok(Experiment { title, seed, threshold_percent, method }),
        }
    }

    /// Parses and checks an experiment file; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Experiment, Error> {
        Experiment::from_file(&ExperimentFile::parse(text, path)?)
    }
}

/// The method of an experiment. No other code decides it.
pub fn method_of(file: &ExperimentFile) -> Method {
    match (file.host, file.engine.map(|engine| engine.measures)) {
        (Some(_), _) => Method::Guests,
        (None, Some(Measures::Times { .. })) => Method::Times,
        (None, Some(Measures::Counts { .. }) | None) => Method::Counts,
    }
}

const EXACT: &str = "the exact engine";
const KVM_GUESTS: &str = "guests of a KVM host";

/// Refuses a key that belongs to another method and so would do nothing.
pub fn check_keys(file: &ExperimentFile) -> Result<(), Error> {
    check_keys_of_method(file, method_of(file))
}

/// Refuses a key that this method does not have.
pub(super) fn check_keys_of_method(file: &ExperimentFile, method: Method) -> Result<(), Error> {
    let uses = match (file.host, file.engine) {
        (Some(host), _) => host_description(host),
        (None, Some(engine)) => format!("the {} engine", engine.name),
        (None, None) => EXACT.to_owned(),
    };
    let refuse =
        |key: String, applies_to: &[String]| Err(misplaced(&key, &applies_to.join(" and "), &uses));
    if method == Method::Guests && file.engine.is_some_and(is_timed) {
        return refuse("engine".into(), &["an experiment without host".into()]);
    }
    let is_here = file.engine.is_some_and(|engine| engine.runs_on == RunsOn::RunningKernel);
    let set = serde_json::to_value(file)?;
    for (name, methods) in ["", "base.", "change."].into_iter().flat_map(keys_of_table) {
        if !is_set(set.pointer(&format!("/{}", name.replace('.', "/")))) {
            continue;
        }
        if !methods.contains(&method) {
            return refuse(name, &method_names(methods));
        }
        // The machine of the running kernel cannot be chosen.
        if is_here && name.starts_with("machine.") {
            let counts = methods.contains(&Method::Counts).then(|| EXACT.to_owned());
            let guest_engines = timed_engines(|engine| engine.runs_on == RunsOn::Guests);
            let guest_engine = format!("the {guest_engines} engine");
            let applies_to: Vec<String> = counts.into_iter().chain([guest_engine]).collect();
            return refuse(name, &applies_to);
        }
    }
    Ok(())
}

/// Names of the keys of a Side, or of all other tables if `side` is empty, with their methods.
fn keys_of_table(side: &str) -> impl Iterator<Item = (String, &'static [Method])> {
    KEYS.iter().filter_map(move |key| match key.name.strip_prefix("SIDE.") {
        Some(name) if !side.is_empty() => Some((format!("{side}{name}"), key.methods)),
        None if side.is_empty() => Some((key.name.to_owned(), key.methods)),
        _ => None,
    })
}

/// Returns true if the value of a key differs from that of a file without it.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(values)) => !values.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => true,
    }
}

/// Words for an experiment with this host, in messages.
pub(super) fn host_description(host: HostKind) -> String {
    match host.name().strip_prefix("kvm-") {
        Some(board) => format!("{KVM_GUESTS} for {board}"),
        None => KVM_GUESTS.to_owned(),
    }
}

fn method_names(methods: &[Method]) -> Vec<String> {
    let name = |method: &Method| match method {
        Method::Counts => EXACT.to_owned(),
        Method::Times => format!("timed engines ({})", timed_engines(|_| true)),
        Method::Guests => KVM_GUESTS.to_owned(),
    };
    methods.iter().map(name).collect()
}

fn is_timed(engine: &EngineEntry) -> bool {
    matches!(engine.measures, Measures::Times { .. })
}

/// Names of those timed engines: `host and kvm`.
fn timed_engines(which: fn(&EngineEntry) -> bool) -> String {
    let timed = ENGINES.iter().filter(|engine| is_timed(engine) && which(engine));
    timed.map(|engine| engine.name).collect::<Vec<_>>().join(" and ")
}

/// Title of a comparison of two Subjects.
pub fn title_of(base: &Subject, change: &Subject) -> String {
    let words = |subject| joined_words(subject_words(subject));
    title_line(&words(base), &words(change))
}

/// Title of an experiment in one line: both Sides in words.
pub fn title(file: &ExperimentFile) -> String {
    let change = file.change.clone().unwrap_or_default();
    title_line(&side_words(&file.base), &side_words(&change))
}

/// A title must be ASCII, but a path need not be.
fn title_line(base: &str, change: &str) -> String {
    let title = format!("{base} against {change}");
    let ascii = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other.escape_default().to_string(),
    };
    title.chars().map(ascii).collect()
}

fn side_words(keys: &SubjectKeys) -> String {
    if keys.bare_metal {
        return "bare metal".to_owned();
    }
    let kernel = keys.kernel.as_deref().unwrap_or_default();
    let disk = keys.disk.as_ref().and_then(|keys| checked_disk(keys).ok().flatten());
    let mut words = subject_words(&Subject { disk, ..keys.subject_of(kernel) });
    words.extend(keys.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(keys.governor.iter().map(|governor| format!("governor={governor}")));
    if !keys.prefix.is_empty() {
        words.push(format!("prefix={}", keys.prefix.join(" ")));
    }
    joined_words(words)
}

/// Words for a Subject, without the configuration that its options are added to.
fn subject_words(subject: &Subject) -> Vec<String> {
    let alone = Subject { setup: None, start_config: None, ..subject.clone() };
    let setup =
        subject.setup.as_deref().map(|commands| format!("setup={}", first_characters(commands)));
    // The path of a kernel in the cache has its hash.
    [short_hashes(&subject.kernel), alone.variant_text()].into_iter().chain(setup).collect()
}

fn joined_words(mut words: Vec<String>) -> String {
    words.retain(|word| !word.is_empty());
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// The first characters of commands, for a title.
fn first_characters(commands: &str) -> String {
    const MOST: usize = 60;
    let start: String = commands.chars().take(MOST).collect();
    if start.len() < commands.len() { start + "..." } else { start }
}

/// Longest delay before a Region, in loop iterations of two instructions: 10 ms of virtual time,
/// the longest period of a timer tick (HZ=100).
const LONGEST_PHASE: u64 = 5_000_000;

/// The longest padding of the boot line, in characters.
const LONGEST_PADDING: u64 = 64;

/// Refuses a number of Layouts that ktax does not plan.
pub fn check_layouts(layouts: u32) -> Result<(), Error> {
    let usual = Machine::default().default_layouts();
    let next = format!("remove it to use the default of {usual}");
    check_bounds("layouts", layouts, Method::Counts).map_err(|error| error.next(next))
}

/// Draws Layouts, and the Steps in their order: two adjacent ones for each Layout, the first Side
/// of which is random.
pub fn draw_steps(seed: u64, count: u32) -> (Vec<Layout>, Vec<Step>) {
    let (layouts, firsts) = draw_layouts(seed, count);
    let pairs = firsts.iter().enumerate().flat_map(|(layout, first)| match first {
        Side::Base => [(layout, Side::Base), (layout, Side::Change)],
        Side::Change => [(layout, Side::Change), (layout, Side::Base)],
    });
    let steps = (0..).zip(pairs).map(|(index, (layout, side))| Step { index, side, layout });
    (layouts, steps.collect())
}

/// Draws `count` Layouts from this seed.
pub fn layouts_of(seed: u64, count: u32) -> Vec<Layout> {
    draw_layouts(seed, count).0
}

/// The Steps of `count` Layouts that were drawn from this seed.
pub fn steps_of(seed: u64, count: u32) -> Vec<Step> {
    draw_steps(seed, count).1
}

/// Draws Layouts, and for each the Side that boots first.
fn draw_layouts(seed: u64, count: u32) -> (Vec<Layout>, Vec<Side>) {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let layout = Layout {
                seed: u32::try_from(random.bits() >> 33).expect("31 bits fit"),
                padding: u32::try_from(random.below(LONGEST_PADDING)).expect("6 bits fit"),
                phase: random.below(LONGEST_PHASE),
            };
            let first = Side::BOTH[usize::from(random.coin())];
            (layout, first)
        })
        .unzip()
}

/// A key that does nothing in this experiment.
pub(super) fn misplaced(key: &str, applies_to: &str, uses: &str) -> Error {
    let key = with_flag(key);
    Error::user(format!("{key} only applies to {applies_to}, and this experiment uses {uses}"))
        .next("remove it")
}

/// Start of the error of a program.
pub(super) const PROGRAM: &str = "the program cannot be run: ";

/// Error of a program, its hooks or its files.
pub(super) fn program_error(reason: impl AsRef<str>) -> Error {
    Error::user(format!("{PROGRAM}{}", reason.as_ref()))
}

/// Error of a workload file.
pub fn definition_error(path: &str, reason: &str) -> Error {
    Error::user(format!("{path}: {reason}"))
}

/// Error of a repeated row.
pub(super) fn named_twice(row: &str) -> Error {
    Error::user(format!("{row} is named twice"))
        .next("name each row once, and give a program another name with --name")
}

/// Error if there is no row to measure.
pub(super) fn no_workload() -> Error {
    Error::user("the list of workloads is empty")
        .next("remove `workloads` to measure all default rows")
}

/// Error of something that cannot be swept.
pub(super) fn sweep_error(name: &str, reason: &str) -> Error {
    Error::user(format!("cannot sweep {name:?}: {reason}"))
}

/// Refuses guest memory that is out of bounds.
pub(super) fn check_memory_mib(memory_mib: u32) -> Result<(), Error> {
    const KEY: &str = "machine.memory_mib";
    let (bounds, usual, key) = (bounds(KEY, Method::Counts), usual(KEY), with_flag(KEY));
    match bounds.contains(&memory_mib) {
        true => Ok(()),
        false => {
            let (least, most) = bounds.into_inner();
            Err(Error::user(format!("{key} must be {least} to {most} MiB, not {memory_mib}"))
                .next(format!("remove it to use the default of {usual} MiB")))
        }
    }
}

/// Error of an unknown feature of KVM; `known` names the others.
pub fn unknown_feature(name: &str, near: Option<&str>, known: &str) -> Error {
    Error::user(format!("KVM has no feature {name:?}{}; it has {known}", did_you_mean_quoted(near)))
}

/// Refuses a text that is not one line of printable ASCII; `what` names it.
pub(super) fn printable_line(what: &str, text: &str) -> Result<(), Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err(Error::user(format!("{what} must be one printable line of ASCII"))
            .next("remove all other characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_path_of_64_digits() {
        let kernel = |digit: &str| format!("/cache/kernels/{}/image", digit.repeat(64));
        let mut file = ExperimentFile::default();
        file.base.kernel = Some(kernel("a"));
        file.change_mut().kernel = Some(kernel("b"));
        assert_eq!(
            title(&file),
            "/cache/kernels/aaaaaaaaaaaa/image against /cache/kernels/bbbbbbbbbbbb/image"
        );
    }
}

#[cfg(test)]
mod layout_tests {
    use super::*;

    #[test]
    fn fewer_layouts_are_a_prefix_of_more() {
        let (three, _) = draw_layouts(1, 3);
        let (nine, _) = draw_layouts(1, 9);
        assert_eq!(three, nine[..3]);
        assert_ne!(draw_layouts(2, 3).0, three);
    }

    #[test]
    fn all_three_perturbations_vary() {
        let (layouts, firsts) = draw_layouts(1, 5);
        for pair in layouts.windows(2) {
            assert_ne!(pair[0].seed, pair[1].seed);
            assert_ne!(pair[0].padding, pair[1].padding);
            assert_ne!(pair[0].phase, pair[1].phase);
        }
        assert!(firsts.contains(&Side::Base) && firsts.contains(&Side::Change));
    }
}
