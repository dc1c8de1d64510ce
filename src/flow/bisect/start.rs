//! Base against change, and the elements between them.

use std::path::Path;

use super::error::BisectError;
use super::outcome::Search;
use super::search::{content, cost, search};
use super::store::Store;
use crate::flow::counts;
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::flow::whole::compare;
use crate::kernel;
use crate::model::{Bisection, Chain, Comparison, Effect, Element, Point, Row, Side, Subject};
use crate::plan::{self, CountsExperiment, Experiment, ExperimentMethod};
use crate::report::{self, NothingToSearch};
use crate::rundir::{AnyRunDir, RunDirError};
use crate::stats::exact::MIN_LAYOUTS;
use crate::text::shell_path;

/// An element that carries less than this of the whole is not looked for.
const NEGLIGIBLE: f64 = 0.01;

/// A function that carries less than this of the whole says nothing about who did it.
const TELLING: f64 = 0.1;

/// Compares base and change, then searches what lies between them, in a directory of its own.
///
/// # Errors
/// The experiment is not one that can be searched, or something on the host failed.
pub fn start(
    mut experiment: Experiment<CountsExperiment>,
    out: &Path,
    session: &Session<'_>,
) -> Result<Search, Error> {
    let of = &mut experiment.method;
    check_rows_and_layouts(of)?;
    for subject in [&mut of.base, &mut of.change] {
        make_absolute(subject)?;
    }
    let chain = plan::chain(&of.base, &of.change)?;
    let store = Store::of(out);
    store.check_free()?;
    session.check_names(&ExperimentMethod::Counts(of.clone()))?;
    let known = known_elements(chain, of)?;
    let plan = counts::plan(&experiment, session)?;
    let Some(comparison) = compare(&store.bounds(), plan.clone().with(Into::into), session)? else {
        let again = shell_path(store.root());
        let next = format!("type the same command again with --out {again}");
        return Ok(Search::Stopped { next });
    };
    let row = &comparison.rows[0];
    let Some(effect) = row.deciding().filter(|_| row.verdict.is_change()) else {
        let between = known.map(|known| report::elements(chain, known.len()));
        return Ok(nothing(comparison, between.unwrap_or_default()));
    };
    let elements = match known {
        Some(elements) => elements,
        None => options(&experiment.method, &store, session)?,
    };
    let likely = match chain {
        Chain::Commits => likely(&experiment.method.base, &elements, effect)?,
        _ => Vec::new(),
    };
    let again = report::search_again(&comparison);
    let bisection =
        Bisection { again, ..begin(&experiment.title, chain, elements, likely, row, effect) };
    store.write(&bisection)?;
    let _lock = AnyRunDir::open(&store.bounds())?.lock()?;
    search(&store, &plan, bisection, session)
}

/// Resumes a search that was stopped, or returns one that is finished.
///
/// # Errors
/// There is no search in `dir`, or something on the host failed.
pub fn resume(dir: &Path, session: &Session<'_>) -> Result<Search, Error> {
    let store = Store::of(dir);
    if let Some(comparison) = unsearched(&store)? {
        return Ok(nothing(comparison, String::new()));
    }
    let bisection = store.read()?;
    let bounds = AnyRunDir::open(&store.bounds())?;
    let _lock = bounds.lock()?;
    let AnyRunDir::Counts(counts) = &bounds else {
        let path = bounds.root().display().to_string();
        let reason = "it is not of the exact engine".into();
        return Err(RunDirError::Damaged { path, reason }.into());
    };
    search(&store, counts.plan(), bisection, session)
}

fn nothing(comparison: Comparison, between: String) -> Search {
    Search::Nothing(Box::new(NothingToSearch::of(comparison, between)))
}

/// Base against change of a search that ended there, because they do not differ.
fn unsearched(store: &Store) -> Result<Option<Comparison>, Error> {
    if store.has_search() || !store.bounds().is_dir() {
        return Ok(None);
    }
    let ended = AnyRunDir::open(&store.bounds())?.comparison()?;
    let is_change = |row: &Row| row.verdict.is_change();
    Ok(ended.filter(|comparison| !comparison.rows.iter().any(is_change)))
}

/// A search follows one number, and one that is sure.
fn check_rows_and_layouts(experiment: &CountsExperiment) -> Result<(), Error> {
    let rows = experiment.rows()?.len();
    let layouts = experiment.layouts;
    match (rows, layouts as usize >= MIN_LAYOUTS) {
        (1, true) => Ok(()),
        (1, false) => Err(BisectError::FewLayouts { layouts }.into()),
        _ => Err(BisectError::Rows { rows }.into()),
    }
}

/// A search can be resumed from another directory.
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

/// What lies between base and change, where that is known before anything is built: all but
/// options. Revisions become the commits that they are now.
fn known_elements(
    chain: Chain,
    experiment: &mut CountsExperiment,
) -> Result<Option<Vec<Element>>, Error> {
    let (base, change) = (&mut experiment.base, &mut experiment.change);
    match chain {
        Chain::Options => Ok(None),
        Chain::Parameters => Ok(Some(plan::elements(chain, base, change))),
        Chain::Patches => {
            let mut patches = plan::elements(chain, base, change);
            for patch in &mut patches {
                patch.title = content(&patch.name)?;
            }
            Ok(Some(patches))
        }
        Chain::Commits => {
            let revision = |subject: &Subject| subject.revision().unwrap_or_default().to_owned();
            let (first, commits) = kernel::commits(tree(base), &revision(base), &revision(change))?;
            let last = commits.last().map_or(&first, |commit| &commit.name);
            (base.kernel, change.kernel) = (format!("git:{first}"), format!("git:{last}"));
            Ok(Some(commits))
        }
    }
}

/// The options between the finished configurations of both, which are kept.
fn options(
    experiment: &CountsExperiment,
    store: &Store,
    session: &Session<'_>,
) -> Result<Vec<Element>, Error> {
    let (base, change) = (config(&experiment.base, session)?, config(&experiment.change, session)?);
    store.write_config(0, &base)?;
    Ok(kernel::options_between(&base, &change)?)
}

fn tree(subject: &Subject) -> &Path {
    Path::new(subject.tree.as_deref().unwrap_or("."))
}

/// What Kconfig made of a Subject.
fn config(subject: &Subject, session: &Session<'_>) -> Result<String, Error> {
    let built = session.obtain(subject)?;
    let path = built.config.expect("what was built has a configuration");
    Ok(std::fs::read_to_string(path)?)
}

/// The commits that touch the functions which carry the difference.
fn likely(base: &Subject, elements: &[Element], effect: &Effect) -> Result<Vec<usize>, Error> {
    let is_telling = |share: f64| share.abs() > TELLING * effect.delta.abs();
    let functions = effect.functions.iter();
    let telling = functions.filter(|one| is_telling(one.delta) || is_telling(one.rep_delta));
    let names: Vec<&str> = telling.map(|one| one.function.as_str()).collect();
    Ok(kernel::that_touch(tree(base), elements, &names)?)
}

fn begin(
    title: &str,
    chain: Chain,
    elements: Vec<Element>,
    likely: Vec<usize>,
    row: &Row,
    effect: &Effect,
) -> Bisection {
    let end = |side| Point::Cost(cost(row, effect, side));
    let points = [(0, end(Side::Base)), (elements.len(), end(Side::Change))];
    Bisection {
        title: title.to_owned(),
        chain,
        elements,
        likely,
        row: row.row.clone(),
        metric: effect.metric.clone(),
        negligible: effect.detectable.unwrap_or(0.0).max(effect.delta.abs() * NEGLIGIBLE),
        points: points.into(),
        again: Vec::new(),
        found: None,
    }
}
