use std::path::{Path, PathBuf};

use super::store::Store;
use crate::cmd::analyse::analyse_and_keep;
use crate::cmd::args::HostArgs;
use crate::cmd::drive;
use crate::cmd::exit::{Exit, UsageError};
use crate::cmd::output::{text_options, write_stdout};
use crate::disk::sha256_of_file;
use crate::kernel;
use crate::model::{Bisection, Carrier, Chain, Effect, Plan, Point, Row, Side, Verdict};
use crate::plan::{self, Experiment};
use crate::report;
use crate::run::Ended;
use crate::rundir::RunDir;
use crate::stats::search::Search;

/// Go on with a search that was stopped, or print one that is finished
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of the search
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let store = Store::of(&args.dir);
    let bisection = store.read()?;
    let dir = RunDir::open(&store.bounds())?;
    let _lock = dir.lock()?;
    search(&store, &dir, bisection, &args.host, args.json)
}

/// What an operation costs one Side, in the first Layout.
pub fn cost(row: &Row, effect: &Effect, side: Side) -> f64 {
    effect.samples.get(side)[0] as f64 / row.ops as f64
}

/// Measures one place after the other, each kept at once, and prints what was found. `bounds` is
/// locked, so that nobody else searches here.
pub fn search(
    store: &Store,
    bounds: &RunDir,
    mut bisection: Bisection,
    host: &HostArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    while let Some(place) = next(&bisection) {
        if drive::is_cancelled() {
            return Ok(stopped(store));
        }
        note!("ktax: {}", report::place(&bisection, place));
        let Some(point) = measure(store, bounds.plan(), &bisection, place, host)? else {
            return Ok(stopped(store));
        };
        bisection.points.insert(place, point);
        store.write(&bisection)?;
    }
    let found = found(&bisection);
    let is_certain = found.iter().all(|carrier| carrier.at == carrier.after + 1);
    bisection.found = Some(found);
    store.write(&bisection)?;
    let text = match json {
        true => report::json(&bisection)?,
        false => report::bisection(&bisection, text_options()),
    };
    write_stdout(&text)?;
    note!("ktax: everything is in {}", store.root().display());
    Ok(if is_certain { Exit::Ok } else { Exit::Inconclusive })
}

fn stopped(store: &Store) -> Exit {
    note!("ktax: stopped; go on with `ktax bisect run {}`", store.root().display());
    Exit::Cancelled
}

fn with_search<T>(bisection: &Bisection, of: impl FnOnce(Search) -> T) -> T {
    let known = bisection.points.keys().map(|place| (*place, bisection.cost(*place))).collect();
    let (likely, negligible) = (&bisection.likely[..], bisection.negligible);
    of(Search { known: &known, likely, negligible })
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
    bounds: &Plan,
    bisection: &Bisection,
    place: usize,
    host: &HostArgs,
) -> anyhow::Result<Option<Point>> {
    check_patches(bisection, place)?;
    let experiment = experiment(store, bounds, bisection, place)?;
    let plan = match drive::plan(&experiment, host) {
        Ok(plan) => plan,
        Err(_) if drive::is_cancelled() => return Ok(None),
        Err(error) => return drive::why_unbuilt(error).map(|why| Some(Point::Skipped(why))),
    };
    check_same(bounds, &plan)?;
    let dir = drive::directory(&store.place(place), plan)?;
    let _lock = dir.lock()?;
    if drive::run(&dir, host)? == Ended::Cancelled {
        return Ok(None);
    }
    let comparison = analyse_and_keep(&dir)?;
    point(&comparison.rows[0], &bisection.metric).map(Some)
}

/// What a patch is, whatever its name.
pub fn content(patch: &str) -> anyhow::Result<String> {
    let hash = sha256_of_file(Path::new(patch)).map_err(|reason| UsageError::Unreadable {
        path: patch.to_owned(),
        reason,
        wanted: "a patch",
    })?;
    Ok(format!("sha256 {hash:.12}"))
}

/// Refuses patches that were edited while they are searched.
fn check_patches(bisection: &Bisection, place: usize) -> anyhow::Result<()> {
    if bisection.chain != Chain::Patches {
        return Ok(());
    }
    for patch in &bisection.elements[..place] {
        if content(&patch.name)? != patch.title {
            return Err(UsageError::Text(format!(
                "{} is not what it was when the search began; begin anew with `ktax bisect start`",
                patch.name
            ))
            .into());
        }
    }
    Ok(())
}

/// What is measured later compares with what was measured first only if nothing else has changed.
fn check_same(bounds: &Plan, plan: &Plan) -> anyhow::Result<()> {
    if plan.kernels.base.sha256 == bounds.kernels.base.sha256 && plan.key == bounds.key {
        return Ok(());
    }
    let (now, then) = (&plan.kernels.base.sha256[..12], &bounds.kernels.base.sha256[..12]);
    Err(UsageError::Text(format!(
        "the base is not what it was when the search began (its kernel is {now}, was {then}; or \
         QEMU or ktax is another): begin anew with `ktax bisect start`"
    ))
    .into())
}

/// One Layout is enough: what is compared has the same one.
fn experiment(
    store: &Store,
    bounds: &Plan,
    bisection: &Bisection,
    place: usize,
) -> anyhow::Result<Experiment> {
    let (chain, elements) = (bisection.chain, &bisection.elements[..place]);
    let config = match chain {
        Chain::Options => {
            let base = std::fs::read_to_string(store.config(0)?)?;
            store.write_config(place, &kernel::with_options(&base, elements)?)?
        }
        _ => PathBuf::new(),
    };
    let base = bounds.subjects.base.clone();
    let change = plan::subject_after(chain, &base, elements, &config.display().to_string());
    let title = format!("{} with {place} of {}", bisection.title, bisection.elements.len());
    Ok(Experiment {
        layouts: 1,
        seed: bounds.seed,
        threshold_percent: bounds.threshold_percent,
        workloads: Some(vec![bisection.row.clone()]),
        machine: bounds.machine.clone(),
        ..Experiment::of(title, base, change)
    })
}

/// What the change of a row costs.
///
/// # Errors
/// The host's: trying again may help.
fn point(row: &Row, metric: &str) -> anyhow::Result<Point> {
    if let Some(failed) = row.failures.first() {
        return match failed.failure.is_of_the_host() {
            true => Err(anyhow::anyhow!("{}; {}", failed.failure, failed.failure.next_step())),
            false => Ok(Point::Skipped(failed.failure.to_string())),
        };
    }
    let effect = row.effects.iter().find(|effect| effect.metric == metric);
    Ok(match effect.filter(|_| row.verdict != Verdict::DifferentWork) {
        Some(effect) => Point::Cost(cost(row, effect, Side::Change)),
        None => Point::Skipped(format!("different work: {}", row.different_work.join(", "))),
    })
}
