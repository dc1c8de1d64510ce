//! Searches for the commits, options, patches or parameters that cause a difference.

use std::fs;
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
    AskedCounts, Bisection, Carrier, Chain, Comparison, CountsPlan, Effect, Element, ErrorContext,
    Plan, Point, Row, SavedResult, Side, Sides, Subject, Verdict, read_results,
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
    /// Base and change do not differ, so there is nothing to search.
    Nothing(Box<NothingToSearch>),
    /// The search has found the elements that cause the difference.
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

/// Share of the whole difference up to which a smaller difference is not searched.
const NEGLIGIBLE_SHARE: f64 = 0.01;

/// Share of the whole difference from which a function's own difference makes the commits that
/// touch the function likely causes.
const MIN_FUNCTION_SHARE: f64 = 0.1;

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
    let search_dir = SearchDir { root: out.to_owned() };
    if search_dir.bisection().exists() {
        let (path, shell_dir) = (out.display(), shell_path(out));
        return Err(Error::user(format!("{path} has a search already")).next(format!(
            "resume it with `ktax bisect run {shell_dir}`, or give --out a new name"
        )));
    }
    session.check_names(&ExperimentMethod::Counts(method.clone()))?;
    let known = known_elements(chain, method)?;
    let plan = counts::plan(&experiment, session)?;
    let Some(comparison) =
        compare(&search_dir.bounds(), plan.clone().map_method(Into::into), session)?
    else {
        let shell_dir = shell_path(&search_dir.root);
        let next = format!("type the same command again with --out {shell_dir}");
        return Ok(Search::Stopped { next });
    };
    let row = &comparison.rows[0];
    let Some(effect) = row.deciding_effect().filter(|_| row.verdict.is_change()) else {
        let between = known.map(|known| report::elements(chain, known.len()));
        return Ok(nothing_to_search(comparison, between.unwrap_or_default()));
    };
    let elements = match known {
        Some(elements) => elements,
        None => options_between(&experiment.method, &search_dir, session)?,
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
    search_dir.write(&bisection)?;
    let _lock = AnyRunDir::open(&search_dir.bounds())?.lock()?;
    search_places(&search_dir, &plan, bisection, session)
}

/// Resumes a search that was stopped, or returns one that is finished.
pub fn resume(dir: &Path, session: &Session<'_>) -> Result<Search, Error> {
    let search_dir = SearchDir { root: dir.to_owned() };
    if let Some(comparison) = comparison_without_change(&search_dir)? {
        return Ok(nothing_to_search(comparison, String::new()));
    }
    let bisection = search_dir.read()?;
    let bounds = AnyRunDir::open(&search_dir.bounds())?;
    let _lock = bounds.lock()?;
    let AnyRunDir::Counts(counts) = &bounds else {
        return Err(damaged(bounds.root(), "it is not of the exact engine"));
    };
    search_places(&search_dir, counts.plan(), bisection, session)
}

fn nothing_to_search(comparison: Comparison, between: String) -> Search {
    Search::Nothing(Box::new(NothingToSearch::new(comparison, between)))
}

/// Comparison of a search that ended because base and change do not differ; `None` for other
/// searches.
fn comparison_without_change(search_dir: &SearchDir) -> Result<Option<Comparison>, Error> {
    if search_dir.bisection().exists() || !search_dir.bounds().is_dir() {
        return Ok(None);
    }
    let finished = AnyRunDir::open(&search_dir.bounds())?.comparison()?;
    let is_change = |row: &Row| row.verdict.is_change();
    Ok(finished.filter(|comparison| !comparison.rows.iter().any(is_change)))
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
        let absolute = std::path::absolute(path);
        let absolute = absolute.or_host(format!("cannot use {path:?}"), "give an absolute path")?;
        Ok(absolute.display().to_string())
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
/// Revisions in `experiment` are replaced by the commits that they name now.
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

/// Options that differ between the final configurations. The base's configuration is written to the
/// search's directory.
fn options_between(
    experiment: &CountsExperiment,
    search_dir: &SearchDir,
    session: &Session<'_>,
) -> Result<Vec<Element>, Error> {
    let Sides { base, change } = &experiment.asked.subjects;
    let (base, change) = (built_config(base, session)?, built_config(change, session)?);
    search_dir.write_config(0, &base)?;
    kernel::options_between(&base, &change)
}

fn tree_of(subject: &Subject) -> &Path {
    Path::new(subject.tree.as_deref().unwrap_or("."))
}

/// Configuration of a Subject after Kconfig.
fn built_config(subject: &Subject, session: &Session<'_>) -> Result<String, Error> {
    let built = session.obtain(subject)?;
    let path = built.config.expect("a kernel that was built has a configuration");
    read_config(&path)
}

fn read_config(path: &Path) -> Result<String, Error> {
    let what = || format!("cannot read the configuration {}", path.display());
    fs::read_to_string(path).or_host(what(), "make the file readable")
}

/// Indexes of the commits that touch functions with a large part of the difference.
fn likely_commits(
    base: &Subject,
    elements: &[Element],
    effect: &Effect,
) -> Result<Vec<usize>, Error> {
    let is_large = |delta: f64| delta.abs() > MIN_FUNCTION_SHARE * effect.delta.abs();
    let functions = effect.functions.iter();
    let large =
        functions.filter(|function| is_large(function.delta) || is_large(function.rep_delta));
    let names: Vec<&str> = large.map(|function| function.function.as_str()).collect();
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
        negligible: effect.detectable.unwrap_or(0.0).max(effect.delta.abs() * NEGLIGIBLE_SHARE),
        points: points.into(),
        again: Vec::new(),
        carriers: None,
    }
}

/// Cost of one operation on one Side, in the first Layout.
fn cost_of_side(row: &Row, effect: &Effect, side: Side) -> f64 {
    effect.samples.get(side)[0] as f64 / row.ops as f64
}

/// Measures one place after the other, and writes the search to its directory after each. The
/// caller holds the lock of `bounds`, so that no other process searches in this directory.
fn search_places(
    search_dir: &SearchDir,
    bounds: &Plan<CountsPlan>,
    mut bisection: Bisection,
    session: &Session<'_>,
) -> Result<Search, Error> {
    let path = shell_path(&search_dir.root);
    let stopped = || Search::Stopped { next: format!("type `ktax bisect run {path}`") };
    while let Some(place) = with_search(&bisection, |search| search.next_position()) {
        if session.is_cancelled() {
            return Ok(stopped());
        }
        // The comparison of both ends is part 0.
        let index = bisection.points.len() - 1;
        let count = index + expected_places(&bisection, place);
        session.observer.part(Part { index, count, shares_base: true });
        session.observer.note(&report::point_name(&bisection, place));
        let Some(point) = measure_place(search_dir, bounds, &bisection, place, session)? else {
            return Ok(stopped());
        };
        bisection.points.insert(place, point);
        search_dir.write(&bisection)?;
    }
    bisection.carriers = Some(carriers(&bisection));
    write_result(&search_dir.root, BISECTION, &bisection)?;
    keep_result(&bisection, session);
    Ok(Search::Found(Box::new(bisection)))
}

/// Number of places that must be measured to find one element by binary search in the stretch
/// around `place`.
fn expected_places(bisection: &Bisection, place: usize) -> usize {
    let start = bisection.points.range(..place).next_back().map_or(0, |(start, _)| *start);
    let end = bisection.points.range(place..).next().map_or(place, |(end, _)| *end);
    let stretch = (end - start).max(2);
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

/// Measures one place; `None` if the user stopped the search.
fn measure_place(
    search_dir: &SearchDir,
    bounds: &Plan<CountsPlan>,
    bisection: &Bisection,
    place: usize,
    session: &Session<'_>,
) -> Result<Option<Point>, Error> {
    check_patches(bisection, place)?;
    let experiment = experiment_at(search_dir, bounds, bisection, place)?;
    let plan = match counts::plan(&experiment, session) {
        Ok(plan) => plan,
        Err(error) if error.is_cancelled() => return Ok(None),
        Err(error) => return why_unbuilt(error).map(|why| Some(Point::Skipped(why))),
    };
    check_same_base(bounds, &plan)?;
    let dir = search_dir.root.join(format!("{place:05}"));
    match compare_with_base_of(&search_dir.bounds(), &dir, plan.map_method(Into::into), session)? {
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
            return Err(Error::user(format!("{patch} was edited after the search began"))
                .next("start again in a new directory"));
        }
    }
    Ok(())
}

/// Refuses another base kernel, QEMU or ktax than that of the first comparison, because counts
/// would not compare.
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

/// Experiment for one place, with one Layout, which is the same on both Sides.
fn experiment_at(
    search_dir: &SearchDir,
    bounds: &Plan<CountsPlan>,
    bisection: &Bisection,
    place: usize,
) -> Result<Experiment<CountsExperiment>, Error> {
    let (chain, elements) = (bisection.chain, &bisection.elements[..place]);
    let config = match chain {
        Chain::Options => {
            let base = read_config(&search_dir.config(0)?)?;
            search_dir.write_config(place, &kernel::with_options(&base, elements)?)?
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

/// Cost of the change, or the reason why it has none. An error is a failure of the host, which may
/// not happen again.
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
        let root = std::path::absolute(&self.root)
            .or_host("cannot find the current directory", "go to one")?;
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
            _ => Err(refuse(format!("{BISECTION} has a result of another command"))),
        }
    }
}
