//! One place after the other.

use std::path::{Path, PathBuf};

use super::error::BisectError;
use super::outcome::Search;
use super::store::Store;
use crate::disk::sha256;
use crate::flow::error::Error;
use crate::flow::kept::keep;
use crate::flow::kernels::why_unbuilt;
use crate::flow::remaining::Part;
use crate::flow::session::Session;
use crate::flow::store::keep_result;
use crate::flow::whole::compare_with_base_of;
use crate::flow::{counts, file, workloads::definitions_of};
use crate::kernel;
use crate::model::{
    Bisection, Carrier, Chain, CountsPlan, Effect, Plan, Point, Row, Side, UserProgram, Verdict,
};
use crate::plan::{self, CountsExperiment, Experiment};
use crate::report;
use crate::stats::search::Known as Places;
use crate::text::shell_path;

/// What an operation costs one Side, in the first Layout.
pub(super) fn cost(row: &Row, effect: &Effect, side: Side) -> f64 {
    effect.samples.get(side)[0] as f64 / row.ops as f64
}

/// Measures one place after the other, each kept at once. `bounds` is locked, so that nobody else
/// searches here.
pub(super) fn search(
    store: &Store,
    bounds: &Plan<CountsPlan>,
    mut bisection: Bisection,
    session: &Session<'_>,
) -> Result<Search, Error> {
    let stopped =
        || Search::Stopped { next: format!("type `ktax bisect run {}`", shell_path(store.root())) };
    while let Some(place) = next(&bisection) {
        if session.is_cancelled() {
            return Ok(stopped());
        }
        // Both ends are one part; of the places between, those known are done.
        let at = bisection.points.len() - 1;
        let of = at + expected(&bisection, place);
        session.observer.part(Part { at, of, shares_base: true });
        session.observer.note(&report::place(&bisection, place));
        let Some(point) = measure(store, bounds, &bisection, place, session)? else {
            return Ok(stopped());
        };
        bisection.points.insert(place, point);
        store.write(&bisection)?;
    }
    bisection.found = Some(found(&bisection));
    keep(store.root(), "bisection.json", &bisection)?;
    keep_result(&bisection, session);
    Ok(Search::Found(Box::new(bisection)))
}

/// How many places must be measured to follow one carrier down to its element: each halves the
/// stretch around `place`.
fn expected(bisection: &Bisection, place: usize) -> usize {
    let before = bisection.points.range(..place).next_back().map_or(0, |(at, _)| *at);
    let after = bisection.points.range(place..).next().map_or(place, |(at, _)| *at);
    let stretch = (after - before).max(2);
    stretch.next_power_of_two().trailing_zeros() as usize
}

fn with_search<T>(bisection: &Bisection, of: impl FnOnce(Places) -> T) -> T {
    let known = bisection.points.keys().map(|place| (*place, bisection.cost(*place))).collect();
    let (likely, negligible) = (&bisection.likely[..], bisection.negligible);
    of(Places { known: &known, likely, negligible })
}

fn next(bisection: &Bisection) -> Option<usize> {
    with_search(bisection, |search| search.next())
}

fn found(bisection: &Bisection) -> Vec<Carrier> {
    let whole = bisection.ends().map_or(f64::NAN, |(base, change)| change - base);
    let carrier = |jump: crate::stats::search::Jump| Carrier {
        after: jump.after,
        at: jump.at,
        delta: jump.size,
        share_percent: jump.size / whole * 100.0,
    };
    with_search(bisection, |search| search.jumps()).into_iter().map(carrier).collect()
}

/// Measures one place; nothing if the user stopped it.
fn measure(
    store: &Store,
    bounds: &Plan<CountsPlan>,
    bisection: &Bisection,
    place: usize,
    session: &Session<'_>,
) -> Result<Option<Point>, Error> {
    check_patches(bisection, place)?;
    let experiment = experiment(store, bounds, bisection, place)?;
    let plan = match counts::plan(&experiment, session) {
        Ok(plan) => plan,
        Err(Error::Cancelled) => return Ok(None),
        Err(error) => return why_unbuilt(error).map(|why| Some(Point::Skipped(why))),
    };
    check_same(bounds, &plan)?;
    let dir = store.place(place);
    match compare_with_base_of(&store.bounds(), &dir, plan.with(Into::into), session)? {
        None => Ok(None),
        Some(comparison) => point(&comparison.rows[0], &bisection.metric).map(Some),
    }
}

/// What a patch is, whatever its name.
pub(super) fn content(patch: &str) -> Result<String, Error> {
    let path = Path::new(patch);
    let bytes = kernel::patch(path).map_err(|reason| file::unreadable(path, "a patch", reason))?;
    Ok(format!("sha256 {:.12}", sha256(bytes)))
}

/// Refuses patches that were edited while they are searched.
fn check_patches(bisection: &Bisection, place: usize) -> Result<(), Error> {
    if bisection.chain != Chain::Patches {
        return Ok(());
    }
    for patch in &bisection.elements[..place] {
        if content(&patch.name)? != patch.title {
            return Err(BisectError::EditedPatch { patch: patch.name.clone() }.into());
        }
    }
    Ok(())
}

/// What is measured later compares with what was measured first only if nothing else has changed.
fn check_same(bounds: &Plan<CountsPlan>, plan: &Plan<CountsPlan>) -> Result<(), BisectError> {
    let (planned, bounds) = (&plan.method, &bounds.method);
    if planned.kernels.base.sha256 == bounds.kernels.base.sha256 && planned.key == bounds.key {
        return Ok(());
    }
    let [now, then] = [planned, bounds].map(|of| of.kernels.base.sha256[..12].to_owned());
    Err(BisectError::OtherBase { now, then })
}

/// One Layout is enough: what is compared has the same one.
fn experiment(
    store: &Store,
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
    let base = bounds.method.subjects.base.clone();
    let change = plan::subject_after(chain, &base, elements, &config.display().to_string());
    let title = format!("{} with {place} of {}", bisection.title, bisection.elements.len());
    let CountsPlan { key, disk, programs, hooks, workloads_from, .. } = &bounds.method;
    let is_row = |program: &&UserProgram| program.row() == bisection.row;
    let programs: Vec<UserProgram> = programs.iter().filter(is_row).cloned().collect();
    let definitions = workloads_from.as_ref().map(|dir| definitions_of(Path::new(dir)));
    let method = CountsExperiment {
        layouts: 1,
        workloads: programs.is_empty().then(|| vec![bisection.row.clone()]),
        modules: key.modules.clone(),
        disk: disk.clone(),
        hooks: hooks.clone().map(Box::new),
        programs,
        workloads_from: workloads_from.clone(),
        definitions: definitions.transpose()?.unwrap_or_default(),
        machine: bounds.method.machine.clone(),
        ..CountsExperiment::between(base, change)
    };
    let Plan { seed, threshold_percent, .. } = *bounds;
    Ok(Experiment { title, seed, threshold_percent, method })
}

/// What the change of a row costs.
///
/// # Errors
/// The host's: trying again may help.
fn point(row: &Row, metric: &str) -> Result<Point, Error> {
    if let Some(failed) = row.failures.first() {
        return match failed.failure.is_of_the_host() {
            true => Err(Error::Failed(failed.failure.clone())),
            false => Ok(Point::Skipped(failed.failure.to_string())),
        };
    }
    let effect = row.effect(metric);
    Ok(match effect.filter(|_| row.verdict != Verdict::DifferentWork) {
        Some(effect) => Point::Cost(cost(row, effect, Side::Change)),
        None => {
            Point::Skipped(format!("different work: {}", row.reason.as_deref().unwrap_or_default()))
        }
    })
}
