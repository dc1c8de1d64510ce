//! Experiments: Subjects, rows and the method, with the checks that all methods share.

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
    KEYS, THRESHOLD_PERCENT, TIMED_THRESHOLD_PERCENT, bounds, check_bounds, default_number,
    with_flag,
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
    /// Copy of this experiment with another method.
    pub fn with_method<N>(&self, method: N) -> Experiment<N> {
        let Experiment { title, seed, threshold_percent, .. } = self;
        Experiment {
            title: title.clone(),
            seed: *seed,
            threshold_percent: *threshold_percent,
            method,
        }
    }

    /// Plan of this experiment, with the part of its method.
    pub(super) fn plan_with_method<P>(&self, method: P) -> Plan<P> {
        let Experiment { title, seed, threshold_percent, method } = self.with_method(method);
        Plan { format: FORMAT, title, seed, threshold_percent, method }
    }
}

/// Method of measuring, with its settings.
pub type ExperimentMethod = ByMethod<CountsExperiment, TimesExperiment, GuestsExperiment>;

/// Subjects whose kernels may be built from source; empty for timed experiments.
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
        // Times always differ a little, so a threshold of 0 would find a change in every row.
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
        // The title may consist of the boot lines, which the method has checked by now.
        let title = file.title.clone().unwrap_or_default();
        check_printable_line("the title", &title)?;
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

/// Method of an experiment. Only this function decides the method.
pub fn method_of(file: &ExperimentFile) -> Method {
    match (file.host, file.engine.map(|engine| engine.measures)) {
        (Some(_), _) => Method::Guests,
        (None, Some(Measures::Times { .. })) => Method::Times,
        (None, Some(Measures::Counts { .. }) | None) => Method::Counts,
    }
}

const EXACT: &str = "the exact engine";
const KVM_GUESTS: &str = "guests of a KVM host";

/// Refuses keys that do not apply to the method of the experiment.
pub fn check_keys(file: &ExperimentFile) -> Result<(), Error> {
    check_keys_of_method(file, method_of(file))
}

/// Refuses keys that do not apply to this method.
pub(super) fn check_keys_of_method(file: &ExperimentFile, method: Method) -> Result<(), Error> {
    let used_method = match (file.host, file.engine) {
        (Some(host), _) => host_description(host),
        (None, Some(engine)) => format!("the {} engine", engine.name),
        (None, None) => EXACT.to_owned(),
    };
    let refuse = |key: String, applies_to: &[String]| {
        Err(misplaced_key_error(&key, &applies_to.join(" and "), &used_method))
    };
    if method == Method::Guests && file.engine.is_some_and(is_timed) {
        return refuse("engine".into(), &["an experiment without host".into()]);
    }
    let is_running_kernel =
        file.engine.is_some_and(|engine| engine.runs_on == RunsOn::RunningKernel);
    let values = serde_json::to_value(file)?;
    for (name, methods) in ["", "base.", "change."].into_iter().flat_map(keys_of_table) {
        if !is_set(values.pointer(&format!("/{}", name.replace('.', "/")))) {
            continue;
        }
        if !methods.contains(&method) {
            return refuse(name, &method_names(methods));
        }
        // The machine of the running kernel cannot be chosen.
        if is_running_kernel && name.starts_with("machine.") {
            let counts = methods.contains(&Method::Counts).then(|| EXACT.to_owned());
            let guest_engines = timed_engines(|engine| engine.runs_on == RunsOn::Guests);
            let guest_engine = format!("the {guest_engines} engine");
            let applies_to: Vec<String> = counts.into_iter().chain([guest_engine]).collect();
            return refuse(name, &applies_to);
        }
    }
    Ok(())
}

/// Names and methods of the keys of a Side such as `base.`; if `side` is empty, of all other
/// tables.
fn keys_of_table(side: &str) -> impl Iterator<Item = (String, &'static [Method])> {
    KEYS.iter().filter_map(move |key| match key.name.strip_prefix("SIDE.") {
        Some(name) if !side.is_empty() => Some((format!("{side}{name}"), key.methods)),
        None if side.is_empty() => Some((key.name.to_owned(), key.methods)),
        _ => None,
    })
}

/// Returns true if the value of a key differs from the value in a file without the key.
fn is_set(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(values)) => !values.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => true,
    }
}

/// Describes an experiment with this host, in messages.
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

/// Names of the timed engines for which `is_included` returns true: `host and kvm`.
fn timed_engines(is_included: fn(&EngineEntry) -> bool) -> String {
    let timed = ENGINES.iter().filter(|engine| is_timed(engine) && is_included(engine));
    timed.map(|engine| engine.name).collect::<Vec<_>>().join(" and ")
}

/// Title of a comparison of two Subjects.
pub fn comparison_title(base: &Subject, change: &Subject) -> String {
    let words = |subject| joined_words(subject_words(subject));
    title_line(&words(base), &words(change))
}

/// Title of an experiment in one line, made of the keys of both Sides.
pub fn experiment_title(file: &ExperimentFile) -> String {
    let change = file.change.clone().unwrap_or_default();
    title_line(&side_words(&file.base), &side_words(&change))
}

/// Joins the words of both Sides. Escapes non-ASCII characters of paths, because titles are ASCII.
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
    let mut words = subject_words(&Subject { disk, ..keys.subject_with(kernel) });
    words.extend(keys.thp.iter().map(|thp| format!("thp={thp}")));
    words.extend(keys.governor.iter().map(|governor| format!("governor={governor}")));
    if !keys.prefix.is_empty() {
        words.push(format!("prefix={}", keys.prefix.join(" ")));
    }
    joined_words(words)
}

/// Words for a Subject, without its start configuration.
fn subject_words(subject: &Subject) -> Vec<String> {
    let without_setup = Subject { setup: None, start_config: None, ..subject.clone() };
    let setup =
        subject.setup.as_deref().map(|commands| format!("setup={}", first_characters(commands)));
    // The path of a kernel in the cache has its hash.
    [short_hashes(&subject.kernel), without_setup.variant_text()].into_iter().chain(setup).collect()
}

fn joined_words(mut words: Vec<String>) -> String {
    words.retain(|word| !word.is_empty());
    if words.is_empty() { "as it is".to_owned() } else { words.join(" ") }
}

/// The first characters of commands, for a title.
fn first_characters(commands: &str) -> String {
    const MAX_CHARACTERS: usize = 60;
    let start: String = commands.chars().take(MAX_CHARACTERS).collect();
    if start.len() < commands.len() { start + "..." } else { start }
}

/// Maximum delay before a Region, in loop iterations of two instructions: 10 ms of virtual time,
/// the longest period of a timer tick (HZ=100).
const MAX_PHASE: u64 = 5_000_000;

/// Upper bound of the padding of the boot line, in characters.
const MAX_PADDING: u64 = 64;

/// Refuses a number of Layouts that is out of bounds.
pub fn check_layouts(layouts: u32) -> Result<(), Error> {
    let default = Machine::default().default_layouts();
    let next_step = format!("remove it to use the default of {default}");
    check_bounds("layouts", layouts, Method::Counts).map_err(|error| error.next(next_step))
}

/// Draws Layouts, and orders the Steps: two adjacent Steps for each Layout, in random order.
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
pub fn layouts_from_seed(seed: u64, count: u32) -> Vec<Layout> {
    draw_layouts(seed, count).0
}

/// Draws the Steps of `count` Layouts from this seed.
pub fn steps_from_seed(seed: u64, count: u32) -> Vec<Step> {
    draw_steps(seed, count).1
}

/// Draws Layouts, and for each the Side that boots first.
fn draw_layouts(seed: u64, count: u32) -> (Vec<Layout>, Vec<Side>) {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let layout = Layout {
                seed: u32::try_from(random.bits() >> 33).expect("31 bits fit"),
                padding: u32::try_from(random.below(MAX_PADDING)).expect("6 bits fit"),
                phase: random.below(MAX_PHASE),
            };
            let first = Side::BOTH[usize::from(random.coin())];
            (layout, first)
        })
        .unzip()
}

/// Error of a key that does not apply to the method of the experiment.
pub(super) fn misplaced_key_error(key: &str, applies_to: &str, used_method: &str) -> Error {
    let key = with_flag(key);
    Error::user(format!(
        "{key} only applies to {applies_to}, and this experiment uses {used_method}"
    ))
    .next("remove it")
}

/// Start of the error message of a program.
pub(super) const PROGRAM_ERROR: &str = "the program cannot be run: ";

/// Error of a program, its hooks or its files.
pub(super) fn program_error(reason: impl AsRef<str>) -> Error {
    Error::user(format!("{PROGRAM_ERROR}{}", reason.as_ref()))
}

/// Error of a workload file.
pub fn definition_error(path: &str, reason: &str) -> Error {
    Error::user(format!("{path}: {reason}"))
}

/// Error of a repeated row.
pub(super) fn duplicate_row_error(row: &str) -> Error {
    Error::user(format!("{row} is named twice"))
        .next("name each row once, and give a program another name with --name")
}

/// Error if there is no row to measure.
pub(super) fn no_workload_error() -> Error {
    Error::user("the list of workloads is empty")
        .next("remove `workloads` to measure all default rows")
}

/// Error of a parameter or setting that cannot be swept.
pub(super) fn sweep_error(name: &str, reason: &str) -> Error {
    Error::user(format!("cannot sweep {name:?}: {reason}"))
}

/// Refuses guest memory that is out of bounds.
pub(super) fn check_memory_mib(memory_mib: u32) -> Result<(), Error> {
    const KEY: &str = "machine.memory_mib";
    let (bounds, default, key) = (bounds(KEY, Method::Counts), default_number(KEY), with_flag(KEY));
    match bounds.contains(&memory_mib) {
        true => Ok(()),
        false => {
            let (min, max) = bounds.into_inner();
            Err(Error::user(format!("{key} must be {min} to {max} MiB, not {memory_mib}"))
                .next(format!("remove it to use the default of {default} MiB")))
        }
    }
}

/// Error of an unknown feature of KVM. `similar` is a known feature with a similar name; `known`
/// lists the known features.
pub fn unknown_feature_error(name: &str, similar: Option<&str>, known: &str) -> Error {
    Error::user(format!(
        "KVM has no feature {name:?}{}; it has {known}",
        did_you_mean_quoted(similar)
    ))
}

/// Refuses a text that is not one line of printable ASCII; `name` names the text in the error.
pub(super) fn check_printable_line(name: &str, text: &str) -> Result<(), Error> {
    match text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        true => Ok(()),
        false => Err(Error::user(format!("{name} must be one printable line of ASCII"))
            .next("remove all other characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_shortens_hashes_in_paths() {
        let kernel = |digit: &str| format!("/cache/kernels/{}/image", digit.repeat(64));
        let mut file = ExperimentFile::default();
        file.base.kernel = Some(kernel("a"));
        file.change_mut().kernel = Some(kernel("b"));
        assert_eq!(
            experiment_title(&file),
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
