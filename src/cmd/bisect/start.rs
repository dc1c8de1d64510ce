use std::path::{Path, PathBuf};

use super::run::{content, cost, search};
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
use crate::stats::exact::MIN_LAYOUTS;

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
    let mut experiment = args.experiment.experiment()?;
    check_rows_and_layouts(&experiment)?;
    for subject in [&mut experiment.base, &mut experiment.change] {
        make_absolute(subject)?;
    }
    let chain = plan::chain(&experiment.base, &experiment.change)?;
    let store = Store::of(&args.out.clone().unwrap_or_else(first_free));
    store.check_free()?;
    let known = known_elements(chain, &mut experiment)?;
    let dir = drive::directory(&store.bounds(), drive::plan(&experiment, &args.host)?)?;
    let _lock = dir.lock()?;
    if drive::run(&dir, &args.host)? == Ended::Cancelled {
        let root = store.root().display();
        note!("ktax: stopped; go on with the same command and `--out {root}`");
        return Ok(Exit::Cancelled);
    }
    let comparison = analyse_and_keep(&dir)?;
    let row = &comparison.rows[0];
    let Some(effect) = row.deciding().filter(|_| row.verdict.is_change()) else {
        return Ok(nothing_to_search(&comparison, row, &store));
    };
    let elements = match known {
        Some(elements) => elements,
        None => options(&experiment, &store, &args.host)?,
    };
    let likely = match chain {
        Chain::Commits => likely(&experiment.base, &elements, effect)?,
        _ => Vec::new(),
    };
    let bisection = begin(&experiment.title, chain, elements, likely, row, effect);
    store.write(&bisection)?;
    search(&store, &dir, bisection, &args.host, args.json)
}

/// A search follows one number, and one that is sure.
fn check_rows_and_layouts(experiment: &Experiment) -> anyhow::Result<()> {
    let rows = plan::select(&plan::definitions()?, experiment.workloads.as_deref())?.len();
    let layouts = experiment.layouts as usize;
    let text = match (rows, layouts >= MIN_LAYOUTS) {
        (1, true) => return Ok(()),
        (1, false) => {
            format!("with {layouts} layouts there is no verdict; {MIN_LAYOUTS} are enough")
        }
        _ => format!(
            "a search follows one row, and these are {rows}; name one, such as `-w fork-exit`"
        ),
    };
    Err(UsageError::Text(text).into())
}

/// A search can be gone on with from another directory.
fn make_absolute(subject: &mut Subject) -> anyhow::Result<()> {
    let absolute = |path: &str| -> anyhow::Result<String> {
        Ok(std::path::absolute(path)?.display().to_string())
    };
    let is_here = |path: &str| Path::new(path).exists();
    let built_in = |name: &str| matches!(name, "base" | "defconfig" | "running");
    let files = subject.config.iter_mut().filter(|text| !text.contains('='));
    let files = files.chain(&mut subject.patches);
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

fn nothing_to_search(comparison: &Comparison, row: &Row, store: &Store) -> Exit {
    let why = match (row.verdict, row.failures.first()) {
        (Verdict::Failed, Some(failed)) => format!("{}: {}", failed.side.name(), failed.failure),
        (verdict, _) => verdict.text().to_owned(),
    };
    let bounds = store.bounds();
    note!(
        "ktax: {}: {why}; there is nothing to search for; `ktax report {}` has more",
        row.row,
        bounds.display()
    );
    Exit::of_measuring([comparison])
}

/// What lies between base and change, where that is known before anything is built: all but
/// options. Revisions become the commits that they are now.
fn known_elements(
    chain: Chain,
    experiment: &mut Experiment,
) -> anyhow::Result<Option<Vec<Element>>> {
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
    experiment: &Experiment,
    store: &Store,
    host: &HostArgs,
) -> anyhow::Result<Vec<Element>> {
    let (base, change) = (config(&experiment.base, host)?, config(&experiment.change, host)?);
    store.write_config(0, &base)?;
    Ok(kernel::options_between(&base, &change)?)
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
