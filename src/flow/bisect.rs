//! Searches for the commits, options, patches or parameters that carry a difference.

use std::path::{Path, PathBuf};

use super::Error;
use super::counts;
use super::phases::{compare, compare_with_base_of};
use super::programs::definitions_of;
use super::remaining::Part;
use super::results::{self, BISECTION, RESULT_MAX, write_result};
use super::session::{Session, why_unbuilt};
use super::store::keep_result;
use crate::disk::{read_own_text, sha256};
use crate::kernel;
use crate::model::{
    AskedCounts, Bisection, Carrier, Chain, Comparison, CountsPlan, Effect, Element, Plan, Point,
    Row, SavedResult, Side, Sides, Subject, Verdict, read_results,
};
use crate::plan::{self, CountsExperiment, Experiment, ExperimentMethod};
use crate::report::{self, JSON, NothingToSearch, Report, TextOptions, render};
use crate::rundir::{AnyRunDir, damaged};
use crate::stats::exact::MIN_LAYOUTS;
use crate::stats::search::JumpSearch;
use crate::text::{escape, shell_path};

/// End of a search.
#[derive(Debug)]
pub enum Search {
    Stopped {
        /// Command that resumes the search.
        next: String,
    },
    /// Base and change do not differ in a way that can be searched.
    Nothing(Box<NothingToSearch>),
    /// The search has found the elements that carry the difference.
    Found(Box<Bisection>),
}

impl Search {
    /// Result to print; `None` for a search that was stopped.
    pub fn result(&self) -> Option<&dyn Report> {
        match self {
            Search::Stopped { .. } => None,
            Search::Nothing(nothing) => Some(&**nothing),
            Search::Found(bisection) => Some(&**bisection),
        }
    }
}

/// Share of the whole difference below which an element is not searched for.
const NEGLIGIBLE: f64 = 0.01;

/// Share of the whole difference above which a function points to the commit that caused it.
const TELLING: f64 = 0.1;

/// Compares base and change, then searches the elements between them. `out` is the directory of the
/// search.
pub fn start(
    mut experiment: Experiment<CountsExperiment>,
    out: &Path,
    session: &Session<'_>,
) -> Result<Search, Error> {
    let method = &mut experiment.method;
    check_rows_and_layouts(method)?;
    let Sides { base, change } = &mut method.asked.subjects;
    make_absolute(base)?;
    make_absolute(change)?;
    let chain = plan::chain(base, change)?;
    let store = SearchDir { root: out.to_owned() };
    if store.bisection().exists() {
        let (path, again) = (out.display(), shell_path(out));
        return Err(Error::user(format!("{path} has a search already"))
            .next(format!("resume it with `ktax bisect run {again}`, or give --out a new name")));
    }
    session.check_names(&ExperimentMethod::Counts(method.clone()))?;
    let known = known_elements(chain, method)?;
    let plan = counts::plan(&experiment, session)?;
    let Some(comparison) = compare(&store.bounds(), plan.clone().map_method(Into::into), session)?
    else {
        let again = shell_path(&store.root);
        let next = format!("type the same command again with --out {again}");
        return Ok(Search::Stopped { next });
    };
    let row = &comparison.rows[0];
    let Some(effect) = row.deciding_effect().filter(|_| row.verdict.is_change()) else {
        let between = known.map(|known| report::elements(chain, known.len()));
        return Ok(nothing_to_search(comparison, between.unwrap_or_default()));
    };
    let elements = match known {
        Some(elements) => elements,
        None => options_between(&experiment.method, &store, session)?,
    };
    let likely = match chain {
        Chain::Commits => {
            likely_commits(&experiment.method.asked.subjects.base, &elements, effect)?
        }
        _ => Vec::new(),
    };
    let again = plan::search_command(&comparison);
    let bisection = Bisection {
        again,
        ..new_bisection(&experiment.title, chain, elements, likely, row, effect)
    };
    store.write(&bisection)?;
    let _lock = AnyRunDir::open(&store.bounds())?.lock()?;
    search_places(&store, &plan, bisection, session)
}

/// Resumes a search that was stopped, or returns one that is finished.
pub fn resume(dir: &Path, session: &Session<'_>) -> Result<Search, Error> {
    let store = SearchDir { root: dir.to_owned() };
    if let Some(comparison) = unsearched(&store)? {
        return Ok(nothing_to_search(comparison, String::new()));
    }
    let bisection = store.read()?;
    let bounds = AnyRunDir::open(&store.bounds())?;
    let _lock = bounds.lock()?;
    let AnyRunDir::Counts(counts) = &bounds else {
        return Err(damaged(bounds.root(), "it is not of the exact engine"));
    };
    search_places(&store, counts.plan(), bisection, session)
}

fn nothing_to_search(comparison: Comparison, between: String) -> Search {
    Search::Nothing(Box::new(NothingToSearch::new(comparison, between)))
}

/// Comparison of base and change of a search that ended because they do not differ.
fn unsearched(store: &SearchDir) -> Result<Option<Comparison>, Error> {
    if store.bisection().exists() || !store.bounds().is_dir() {
        return Ok(None);
    }
    let ended = AnyRunDir::open(&store.bounds())?.comparison()?;
    let is_change = |row: &Row| row.verdict.is_change();
    Ok(ended.filter(|comparison| !comparison.rows.iter().any(is_change)))
}

/// Refuses several rows, because a search follows one cost, and fewer layouts than a verdict needs.
fn check_rows_and_layouts(experiment: &CountsExperiment) -> Result<(), Error> {
    let rows = experiment.rows()?.len();
    let layouts = experiment.layouts;
    match (rows, layouts as usize >= MIN_LAYOUTS) {
        (1, true) => Ok(()),
        (1, false) => Err(Error::user(format!(
            "a verdict needs at least {MIN_LAYOUTS} layouts, not {layouts}; remove --layouts"
        ))),
        _ => Err(Error::user(format!(
            "bisect needs exactly one row, but {rows} are selected; name one, such as -w fork-exit"
        ))),
    }
}

/// Makes all paths absolute, so that the search can be resumed from another directory.
fn make_absolute(subject: &mut Subject) -> Result<(), Error> {
    let absolute = |path: &str| -> Result<String, Error> {
        Ok(std::path::absolute(path)?.display().to_string())
    };
    let is_here = |path: &str| Path::new(path).exists();
    let built_in = |name: &str| matches!(name, "base" | "defconfig" | "running");
    let files = subject.config.iter_mut().filter(|text| !text.contains('='));
    let patches = subject.patches.iter_mut();
    let files = files.chain(patches.filter(|path| !kernel::is_built_in(Path::new(path))));
    for path in files.chain(subject.start_config.as_mut().filter(|name| !built_in(name))) {
        *path = absolute(path)?;
    }
    if subject.revision().is_some() {
        subject.tree = Some(absolute(subject.tree.as_deref().unwrap_or("."))?);
    }
    match subject.kernel.strip_prefix("src:") {
        Some(directory) => subject.kernel = format!("src:{}", absolute(directory)?),
        None if is_here(&subject.kernel) => subject.kernel = absolute(&subject.kernel)?,
        None => {}
    }
    Ok(())
}

/// Elements between base and change; `None` for options, which are only known after a build.
/// Revisions become the commits that they name now.
fn known_elements(
    chain: Chain,
    experiment: &mut CountsExperiment,
) -> Result<Option<Vec<Element>>, Error> {
    let Sides { base, change } = &mut experiment.asked.subjects;
    match chain {
        Chain::Options => Ok(None),
        Chain::Parameters => Ok(Some(plan::elements(chain, base, change))),
        Chain::Patches => {
            let mut patches = plan::elements(chain, base, change);
            for patch in &mut patches {
                patch.title = patch_hash(&patch.name)?;
            }
            Ok(Some(patches))
        }
        Chain::Commits => {
            let revision = |subject: &Subject| subject.revision().unwrap_or_default().to_owned();
            let (first, commits) =
                kernel::commits(tree_of(base), &revision(base), &revision(change))?;
            let last = commits.last().map_or(&first, |commit| &commit.name);
            (base.kernel, change.kernel) = (format!("git:{first}"), format!("git:{last}"));
            Ok(Some(commits))
        }
    }
}

/// Options that differ between the finished configurations, which are written to the directory.
fn options_between(
    experiment: &CountsExperiment,
    store: &SearchDir,
    session: &Session<'_>,
) -> Result<Vec<Element>, Error> {
    let Sides { base, change } = &experiment.asked.subjects;
    let (base, change) = (built_config(base, session)?, built_config(change, session)?);
    store.write_config(0, &base)?;
    kernel::options_between(&base, &change)
}

fn tree_of(subject: &Subject) -> &Path {
    Path::new(subject.tree.as_deref().unwrap_or("."))
}

/// Configuration of a Subject after Kconfig.
fn built_config(subject: &Subject, session: &Session<'_>) -> Result<String, Error> {
    let built = session.obtain(subject)?;
    let path = built.config.expect("what was built has a configuration");
    Ok(std::fs::read_to_string(path)?)
}

/// Indexes of the commits that touch the functions which carry the difference.
fn likely_commits(
    base: &Subject,
    elements: &[Element],
    effect: &Effect,
) -> Result<Vec<usize>, Error> {
    let is_telling = |share: f64| share.abs() > TELLING * effect.delta.abs();
    let functions = effect.functions.iter();
    let telling =
        functions.filter(|function| is_telling(function.delta) || is_telling(function.rep_delta));
    let names: Vec<&str> = telling.map(|function| function.function.as_str()).collect();
    kernel::commits_touching(tree_of(base), elements, &names)
}

fn new_bisection(
    title: &str,
    chain: Chain,
    elements: Vec<Element>,
    likely: Vec<usize>,
    row: &Row,
    effect: &Effect,
) -> Bisection {
    let end = |side| Point::Cost(cost_of_side(row, effect, side));
    let points = [(0, end(Side::Base)), (elements.len(), end(Side::Change))];
    Bisection {
        title: title.to_owned(),
        chain,
        elements,
        likely_elements: likely,
        row: row.row.clone(),
        metric: effect.metric.clone(),
        negligible: effect.detectable.unwrap_or(0.0).max(effect.delta.abs() * NEGLIGIBLE),
        points: points.into(),
        again: Vec::new(),
        carriers: None,
    }
}

/// Cost of one operation on one Side, in the first Layout.
fn cost_of_side(row: &Row, effect: &Effect, side: Side) -> f64 {
    effect.samples.get(side)[0] as f64 / row.ops as f64
}

/// Measures one place after the other, and writes each to the directory. The caller holds the lock
/// of `bounds`, so that nobody else searches here.
fn search_places(
    store: &SearchDir,
    bounds: &Plan<CountsPlan>,
    mut bisection: Bisection,
    session: &Session<'_>,
) -> Result<Search, Error> {
    let stopped =
        || Search::Stopped { next: format!("type `ktax bisect run {}`", shell_path(&store.root)) };
    while let Some(place) = with_search(&bisection, |search| search.next_position()) {
        if session.is_cancelled() {
            return Ok(stopped());
        }
        // The first comparison measured both ends, and is one part.
        let index = bisection.points.len() - 1;
        let count = index + expected_places(&bisection, place);
        session.observer.part(Part { index, count, shares_base: true });
        session.observer.note(&report::point_name(&bisection, place));
        let Some(point) = measure_place(store, bounds, &bisection, place, session)? else {
            return Ok(stopped());
        };
        bisection.points.insert(place, point);
        store.write(&bisection)?;
    }
    bisection.carriers = Some(carriers(&bisection));
    write_result(&store.root, "bisection.json", &bisection)?;
    keep_result(&bisection, session);
    Ok(Search::Found(Box::new(bisection)))
}

/// Number of places that must be measured to follow one carrier to its element: each halves the
/// stretch around `place`.
fn expected_places(bisection: &Bisection, place: usize) -> usize {
    let before = bisection.points.range(..place).next_back().map_or(0, |(place, _)| *place);
    let after = bisection.points.range(place..).next().map_or(place, |(place, _)| *place);
    let stretch = (after - before).max(2);
    stretch.next_power_of_two().trailing_zeros() as usize
}

fn with_search<T>(bisection: &Bisection, search: impl FnOnce(JumpSearch) -> T) -> T {
    let known = bisection.points.keys().map(|place| (*place, bisection.cost(*place))).collect();
    let (likely, negligible) = (&bisection.likely_elements[..], bisection.negligible);
    search(JumpSearch { known: &known, likely, negligible })
}

fn carriers(bisection: &Bisection) -> Vec<Carrier> {
    let difference = bisection.ends().map_or(f64::NAN, |(base, change)| change - base);
    let carrier = |jump: crate::stats::search::Jump| Carrier {
        count_before: jump.last_before,
        count_with: jump.first_after,
        delta: jump.size,
        share_percent: jump.size / difference * 100.0,
    };
    with_search(bisection, |search| search.jumps()).into_iter().map(carrier).collect()
}

/// Measures one place; `None` if the user stopped it.
fn measure_place(
    store: &SearchDir,
    bounds: &Plan<CountsPlan>,
    bisection: &Bisection,
    place: usize,
    session: &Session<'_>,
) -> Result<Option<Point>, Error> {
    check_patches(bisection, place)?;
    let experiment = experiment_at(store, bounds, bisection, place)?;
    let plan = match counts::plan(&experiment, session) {
        Ok(plan) => plan,
        Err(error) if error.is_cancelled() => return Ok(None),
        Err(error) => return why_unbuilt(error).map(|why| Some(Point::Skipped(why))),
    };
    check_same_base(bounds, &plan)?;
    let dir = store.root.join(format!("{place:05}"));
    match compare_with_base_of(&store.bounds(), &dir, plan.map_method(Into::into), session)? {
        None => Ok(None),
        Some(comparison) => point_of_row(&comparison.rows[0], &bisection.metric).map(Some),
    }
}

/// Short hash of a patch's content.
fn patch_hash(patch: &str) -> Result<String, Error> {
    let path = Path::new(patch);
    let bytes =
        kernel::read_patch(path).map_err(|reason| results::unreadable(path, "a patch", reason))?;
    Ok(format!("sha256 {:.12}", sha256(bytes)))
}

/// Refuses patches that were edited during the search.
fn check_patches(bisection: &Bisection, place: usize) -> Result<(), Error> {
    if bisection.chain != Chain::Patches {
        return Ok(());
    }
    for patch in &bisection.elements[..place] {
        if patch_hash(&patch.name)? != patch.title {
            let patch = &patch.name;
            return Err(Error::user(format!("{patch} is not what it was when the search began"))
                .next("start again in a new directory"));
        }
    }
    Ok(())
}

/// Refuses another base kernel, QEMU or ktax: later counts would not compare with the first ones.
fn check_same_base(bounds: &Plan<CountsPlan>, plan: &Plan<CountsPlan>) -> Result<(), Error> {
    let (planned, bounds) = (&plan.method, &bounds.method);
    if planned.kernels.base.sha256 == bounds.kernels.base.sha256 && planned.key == bounds.key {
        return Ok(());
    }
    let [now, then] = [planned, bounds].map(|plan| plan.kernels.base.sha256[..12].to_owned());
    // If the hashes are equal, QEMU or ktax has changed.
    Err(Error::user(format!(
        "the base is not what it was when the search began (its kernel is {now}, was {then}; or \
         QEMU or ktax is another): start again in a new directory"
    )))
}

/// Experiment for one place, with one Layout: both sides have the same one.
fn experiment_at(
    store: &SearchDir,
    bounds: &Plan<CountsPlan>,
    bisection: &Bisection,
    place: usize,
) -> Result<Experiment<CountsExperiment>, Error> {
    let (chain, elements) = (bisection.chain, &bisection.elements[..place]);
    let config = match chain {
        Chain::Options => {
            let base = std::fs::read_to_string(store.config(0)?)?;
            store.write_config(place, &kernel::with_options(&base, elements)?)?
        }
        _ => PathBuf::new(),
    };
    let mut asked = AskedCounts { calibration: None, ..bounds.method.asked.clone() };
    let (base, config) = (&asked.subjects.base, config.display().to_string());
    asked.subjects.change = plan::subject_after(chain, base, elements, &config);
    let title = format!("{} with {place} of {}", bisection.title, bisection.elements.len());
    asked.guest.programs.retain(|program| program.row() == bisection.row);
    let definitions = asked.guest.workloads_from.as_ref().map(|dir| definitions_of(Path::new(dir)));
    let is_program = !asked.guest.programs.is_empty();
    let method = CountsExperiment {
        engine: &plan::ENGINES[0],
        layouts: 1,
        workloads: (!is_program).then(|| vec![bisection.row.clone()]),
        definitions: definitions.transpose()?.unwrap_or_default(),
        asked,
    };
    let Plan { seed, threshold_percent, .. } = *bounds;
    Ok(Experiment { title, seed, threshold_percent, method })
}

/// Cost of the change, or why it has none. An error means a fault of the host: trying again may
/// help.
fn point_of_row(row: &Row, metric: &str) -> Result<Point, Error> {
    if let Some(failed) = row.failures.first() {
        return match failed.failure.is_worth_retrying() {
            true => Err(failed.failure.clone().into()),
            false => Ok(Point::Skipped(failed.failure.to_string())),
        };
    }
    let effect = row.effect(metric);
    Ok(match effect.filter(|_| row.verdict != Verdict::DifferentWork) {
        Some(effect) => Point::Cost(cost_of_side(row, effect, Side::Change)),
        None => {
            Point::Skipped(format!("different work: {}", row.reason.as_deref().unwrap_or_default()))
        }
    })
}

/// Directory of a search: `bisection.json`, `bounds/` with the whole difference, and a run
/// directory for each place that was measured.
struct SearchDir {
    root: PathBuf,
}

impl SearchDir {
    /// Run directory that compares base and change.
    fn bounds(&self) -> PathBuf {
        self.root.join("bounds")
    }

    fn bisection(&self) -> PathBuf {
        self.root.join(BISECTION)
    }

    /// Path of the configuration of a place; the base is place 0.
    fn config(&self, place: usize) -> Result<PathBuf, Error> {
        // The path is in the plan, which must not depend on the current directory.
        let root = std::path::absolute(&self.root)?;
        Ok(root.join(format!("{place:05}.config")))
    }

    fn write_config(&self, place: usize, text: &str) -> Result<PathBuf, Error> {
        let path = self.config(place)?;
        results::write(&path, text)?;
        Ok(path)
    }

    fn write(&self, bisection: &Bisection) -> Result<(), Error> {
        results::write(&self.bisection(), &render(bisection, JSON, TextOptions::default())?)
    }

    fn read(&self) -> Result<Bisection, Error> {
        let refuse = |reason: String| {
            let path = self.root.display();
            Error::user(format!("{path} is not a directory of a search: {reason}"))
                .next("`ktax bisect start --help` says how to start one")
        };
        let text =
            read_own_text(&self.bisection(), RESULT_MAX).map_err(|e| refuse(e.to_string()))?;
        let saved = read_results(&text).map_err(|e| refuse(escape(&e.to_string())))?.pop();
        match saved.map(|saved| saved.result) {
            Some(SavedResult::Bisection(bisection)) => Ok(*bisection),
            _ => Err(refuse("its bisection.json is another result".into())),
        }
    }
}
