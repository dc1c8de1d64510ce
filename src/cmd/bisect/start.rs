use std::path::{Path, PathBuf};

use super::run::{cost, search};
use super::store::Store;
use crate::cmd::analyse::analyse_and_keep;
use crate::cmd::args::{ExperimentArgs, HostArgs, first_free};
use crate::cmd::drive;
use crate::cmd::exit::{Exit, UsageError};
use crate::kernel;
use crate::model::{Bisection, Chain, Comparison, Effect, Element, FORMAT, Point, Row, Side};
use crate::model::{Subject, Verdict};
use crate::plan::{self, Experiment};
use crate::run::Ended;

/// An element that carries less than this of the whole is not looked for.
const NEGLIGIBLE: f64 = 0.01;

/// A function that carries less than this of the whole says nothing about who did it.
const TELLING: f64 = 0.1;

/// Compare base and change, then search
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Directory to make for the search [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let experiment = args.experiment.experiment()?;
    let chain = plan::chain(&experiment.base, &experiment.change)?;
    check_one_row(&experiment)?;
    let store = Store::of(&args.out.clone().unwrap_or_else(first_free));
    store.check_free()?;
    let dir = drive::directory(&store.bounds(), drive::plan(&experiment, &args.host)?)?;
    let _lock = dir.lock()?;
    if drive::run(&dir, &args.host)? == Ended::Cancelled {
        let root = store.root().display();
        eprintln!("ktax: stopped; go on with the same command and `--out {root}`");
        return Ok(Exit::Cancelled);
    }
    let comparison = analyse_and_keep(&dir)?;
    let row = &comparison.rows[0];
    let Some(effect) = row.deciding().filter(|_| row.verdict.is_change()) else {
        return Ok(nothing_to_search(&comparison, row, &store));
    };
    let elements = elements(chain, &experiment, &store, &args.host)?;
    let likely = match chain {
        Chain::Commits => likely(&experiment.base, &elements, effect)?,
        _ => Vec::new(),
    };
    let bisection = begin(&experiment.title, chain, elements, likely, row, effect);
    store.write(&bisection)?;
    search(&store, &dir, bisection, &args.host, args.json)
}

/// A search follows one number.
fn check_one_row(experiment: &Experiment) -> anyhow::Result<()> {
    let rows = plan::select(&plan::definitions()?, experiment.workloads.as_deref())?;
    match rows.len() {
        1 => Ok(()),
        rows => Err(UsageError::Text(format!(
            "a search follows one row, and these are {rows}; name one, such as `-w fork-exit`"
        ))
        .into()),
    }
}

fn nothing_to_search(comparison: &Comparison, row: &Row, store: &Store) -> Exit {
    let why = match (row.verdict, row.failures.first()) {
        (Verdict::Failed, Some(failed)) => format!("{}: {}", failed.side.name(), failed.failure),
        (verdict, _) => verdict.text().to_owned(),
    };
    let bounds = store.bounds();
    eprintln!(
        "ktax: {}: {why}; there is nothing to search for; `ktax report {}` has more",
        row.row,
        bounds.display()
    );
    Exit::of_measuring([comparison])
}

/// What lies between base and change. Of options, the configurations of both are kept.
fn elements(
    chain: Chain,
    experiment: &Experiment,
    store: &Store,
    host: &HostArgs,
) -> anyhow::Result<Vec<Element>> {
    let (base, change) = (&experiment.base, &experiment.change);
    match chain {
        Chain::Commits => {
            let revision = |subject: &Subject| subject.kernel.replacen("git:", "", 1);
            Ok(kernel::commits(tree(base), &revision(base), &revision(change))?)
        }
        Chain::Options => {
            let config = |subject| config(subject, host);
            let (base, change) = (config(base)?, config(change)?);
            store.write_config(0, &base)?;
            Ok(kernel::options_between(&base, &change)?)
        }
        Chain::Patches | Chain::Parameters => Ok(plan::elements(chain, base, change)),
    }
}

fn tree(subject: &Subject) -> &Path {
    Path::new(subject.tree.as_deref().unwrap_or("."))
}

/// What Kconfig made of a Subject.
fn config(subject: &Subject, host: &HostArgs) -> anyhow::Result<String> {
    let built = drive::obtain(subject, &host.cache()?)?;
    let path = built.config.expect("what was built has a configuration");
    Ok(std::fs::read_to_string(path)?)
}

/// The commits that touch the functions which carry the difference.
fn likely(base: &Subject, elements: &[Element], effect: &Effect) -> anyhow::Result<Vec<usize>> {
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
        format: FORMAT,
        title: title.to_owned(),
        chain,
        elements,
        likely,
        row: row.row.clone(),
        metric: effect.metric.clone(),
        negligible: effect.detectable.max(effect.delta.abs() * NEGLIGIBLE),
        points: points.into(),
        found: None,
    }
}
