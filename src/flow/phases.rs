//! Runs the phases of any method: one by one, together, or once for each value of a sweep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use super::remaining::{RemainingRuns, estimate_basis, format_duration, stored_rates};
use super::session::Session;
use super::store::keep_result;
use super::{counts, guests, results, times, touching};
use crate::analyse;
use crate::model::{Comparison, ErrorKind, Plan, PlanMethod, Warning};
use crate::plan::{Experiment, ExperimentMethod};
use crate::report::Report;
use crate::run::Ended;
use crate::rundir::AnyRunDir;
use crate::text::{counted, shell_path};

/// Plans an Experiment: gets its Kernels, and draws layouts or orders. Nothing is measured.
pub fn plan(experiment: &Experiment, session: &Session<'_>) -> Result<Plan, Error> {
    session.check_names(&experiment.method)?;
    if let ExperimentMethod::Counts(method) = &experiment.method {
        if method.workloads.is_none() {
            let rows = method.rows()?.into_iter().map(|row| row.row).collect::<Vec<_>>();
            let remark = touching::patches_remark(&method.asked.subjects.change, &rows)?;
            remark.into_iter().for_each(|remark| session.observer.note(&remark));
        }
    }
    let plan: Plan = match &experiment.method {
        ExperimentMethod::Counts(method) => {
            counts::plan(&experiment.with_method(method.clone()), session)?.map_method(Into::into)
        }
        ExperimentMethod::Times(method) => {
            times::plan(&experiment.with_method(method.clone()), session)?.map_method(Into::into)
        }
        ExperimentMethod::Guests(method) => {
            guests::plan(&experiment.with_method(method.clone()), session)?.map_method(Into::into)
        }
    };
    // Report a mistyped name before the run.
    if let Some(Warning { fact, next_step }) = analyse::same_image_warning(&plan.method) {
        session.observer.note(&format!("{fact}; {next_step}"));
    }
    Ok(plan)
}

/// Makes the missing Boots and Runs of a run directory, which the caller has locked. A failure in a
/// guest is a row, not an error.
pub fn run(dir: &AnyRunDir, options: Options, session: &Session<'_>) -> Result<Ended, Error> {
    match dir {
        AnyRunDir::Counts(dir) => {
            options.refuse_timed_options("the exact engine")?;
            counts::run(dir, session)
        }
        AnyRunDir::Times(dir) => times::run(dir, options, session),
        AnyRunDir::Guests(dir) => {
            options.refuse_timed_options("guests of a KVM host")?;
            guests::run(dir, session)
        }
    }
}

/// Compares the Sides, and writes the Comparison and its reports to the directory.
pub fn analyse(dir: &AnyRunDir, options: Options) -> Result<Comparison, Error> {
    let comparison = match dir {
        AnyRunDir::Counts(dir) => {
            options.refuse_timed_options("the exact engine")?;
            analyse::counts(dir)?
        }
        AnyRunDir::Times(dir) => times::analyse(dir, options)?,
        AnyRunDir::Guests(dir) => {
            options.refuse_timed_options("guests of a KVM host")?;
            analyse::guests(dir)?
        }
    };
    dir.write_comparison(&comparison.saved())?;
    for (name, text) in results::reports(&comparison)? {
        dir.write_report(name, &text)?;
    }
    Ok(comparison)
}

/// Next step for a run directory that only has its Plan.
pub fn planned(dir: &AnyRunDir) -> String {
    let path = shell_path(dir.root());
    match dir {
        AnyRunDir::Counts(dir) => {
            let plan = &dir.plan().method;
            let boots = counted(plan.steps.len(), "boot");
            let rows = counted(plan.workloads.len(), "row");
            format!("planned {boots} with {rows}; run them with `ktax run {path}`")
        }
        AnyRunDir::Times(dir) => times::planned(dir),
        AnyRunDir::Guests(dir) => {
            let plan = &dir.plan().method;
            let guests = counted(plan.steps.len() * plan.asked.rows.len(), "guest");
            format!("planned {guests}; run them with `ktax run {path}`")
        }
    }
}

/// Estimated duration of a Plan, as a sentence. Timed plans have an upper bound, because they stop
/// as soon as all verdicts are certain.
pub fn estimate(plan: &Plan, session: &Session<'_>) -> Option<String> {
    let work = match &plan.method {
        PlanMethod::Counts(plan) => counts::work(plan, session),
        PlanMethod::Guests(plan) => guests::work(plan, session),
        PlanMethod::Times(plan) => return times::estimate(plan, &stored_rates()),
    };
    let rates = stored_rates();
    let basis = estimate_basis(rates.has_boots(&work.engine));
    let jobs = work.jobs.min(work.boots);
    let mut remaining = RemainingRuns::new(rates);
    remaining.begin(work);
    let duration = format_duration(remaining.left(Duration::ZERO));
    let vms = counted(jobs, "VM");
    Some(format!("it takes about {duration} with {vms} at a time ({basis})"))
}

/// Options of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// True if a timed run shows estimates before it has ended.
    pub peek: bool,
    /// True if the Sides of a timed run may differ in facts that the experiment does not declare.
    pub allow_differences: bool,
}

impl Options {
    /// Refuses options that only apply to timed runs.
    fn refuse_timed_options(self, uses: &'static str) -> Result<(), Error> {
        let option = match self {
            Options { peek: true, .. } => "--peek",
            Options { allow_differences: true, .. } => "--allow-differences",
            _ => return Ok(()),
        };
        let message = format!("{option} only applies to timed runs, and this run uses {uses}");
        Err(Error::user(message).next("remove it"))
    }
}

/// Refuses, before anything is fetched or measured, whatever [`run`] would refuse.
pub fn check(experiment: &Experiment, options: Options) -> Result<(), Error> {
    match &experiment.method {
        ExperimentMethod::Counts(_) => options.refuse_timed_options("the exact engine"),
        ExperimentMethod::Times(times) => times::check(&experiment.with_method(times.clone())),
        ExperimentMethod::Guests(_) => options.refuse_timed_options("guests of a KVM host"),
    }
}

/// Runs and analyses a Plan in a directory. The directory is created, or the run in it is resumed
/// if it has the same Plan. `None` if the user stopped the run.
pub fn compare(
    path: &Path,
    plan: Plan,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    run_and_analyse(&open_or_create(path, plan)?, Options::default(), session)
}

/// Compares like [`compare`], but takes the base's results from the run directory `first` if both
/// bases are the same.
pub fn compare_with_base_of(
    first: &Path,
    path: &Path,
    plan: Plan,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let dir = open_or_create(path, plan)?;
    {
        let _lock = dir.lock()?;
        dir.adopt_base(&AnyRunDir::open(first)?)?;
    }
    run_and_analyse(&dir, Options::default(), session)
}

/// Runs and analyses the Plan of a directory, and keeps the result in the store. `None` if the user
/// stopped the run.
pub fn measure(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let comparison = run_and_analyse(dir, options, session)?;
    if let Some(comparison) = &comparison {
        keep_result(comparison, session);
    }
    Ok(comparison)
}

/// Analyses a Plan that was run, and keeps the result in the store.
pub fn analyse_and_keep(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Comparison, Error> {
    let comparison = analyse(dir, options)?;
    keep_result(&comparison, session);
    Ok(comparison)
}

fn run_and_analyse(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let _lock = dir.lock()?;
    match run(dir, options, session)? {
        Ended::Cancelled => Ok(None),
        Ended::Complete => analyse(dir, Options::default()).map(Some),
    }
}

fn open_or_create(path: &Path, plan: Plan) -> Result<AnyRunDir, Error> {
    match AnyRunDir::open(path) {
        Ok(dir) if dir.plan() == plan => Ok(dir),
        Ok(_) => Err(Error::user(format!("{} has another plan", path.display()))
            .next("give --out a new name")),
        Err(error) if error.kind == ErrorKind::NoRunDirectory => AnyRunDir::create(path, plan),
        Err(error) => Err(error),
    }
}

/// Experiments of a sweep of settings, one for each value, with their names. Without a sweep, the
/// only one is the Experiment itself, and its name is empty.
pub fn sweep_points(experiment: &Experiment) -> Result<Vec<(String, Experiment)>, Error> {
    Ok(match &experiment.method {
        ExperimentMethod::Counts(_) => vec![(String::new(), experiment.clone())],
        ExperimentMethod::Times(method) => for_any_method(
            experiment.with_method(method.clone()).each_setting()?,
            ExperimentMethod::Times,
        ),
        ExperimentMethod::Guests(method) => for_any_method(
            experiment.with_method(method.clone()).each_setting(),
            ExperimentMethod::Guests,
        ),
    })
}

fn for_any_method<M: Clone>(
    points: Vec<(String, Experiment<M>)>,
    method: fn(M) -> ExperimentMethod,
) -> Vec<(String, Experiment)> {
    let with_any_method = |(name, point): (String, Experiment<M>)| {
        let any = point.with_method(method(point.method.clone()));
        (name, any)
    };
    points.into_iter().map(with_any_method).collect()
}

/// Length limit of a directory's name, which leaves room for a number: file systems allow 255
/// bytes.
const NAME_BYTES: usize = 200;

/// Directories of the points below `out`. Unsafe characters, such as slashes in values, become `_`,
/// and numbers keep equal names apart.
pub fn sweep_directories<'a>(out: &Path, points: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    let mut taken = BTreeSet::new();
    let mut unique = |point: &str| {
        let plain = point.chars().map(|c| if is_plain(c) { c } else { '_' });
        let plain: String = plain.take(NAME_BYTES).collect();
        let numbered = (2u32..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !taken.contains(name)).expect("numbers do not run out");
        taken.insert(name.clone());
        // `join("")` would add a slash.
        if name.is_empty() { out.to_owned() } else { out.join(name) }
    };
    points.map(&mut unique).collect()
}

/// Plans all points, then creates their directories. An error in the last point is reported before
/// the first is measured, and each point can be resumed.
pub fn prepare_sweep(
    points: &[(String, Experiment)],
    paths: &[PathBuf],
    session: &Session<'_>,
) -> Result<Vec<AnyRunDir>, Error> {
    points.iter().try_for_each(|(_, point)| session.check_names(&point.method))?;
    let plans = points.iter().map(|(_, experiment)| plan(experiment, session));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    let dirs = paths.iter().zip(plans).map(|(path, plan)| AnyRunDir::create(path, plan));
    dirs.collect::<Result<Vec<_>, _>>()
}

/// One line for each run of a sweep that stopped in run number `ended`.
pub fn describe_runs(dirs: &[&Path], ended: usize) -> Vec<String> {
    let line = |(index, dir): (usize, &&Path)| {
        let path = shell_path(dir);
        match index.cmp(&ended) {
            std::cmp::Ordering::Less => format!("done: `ktax report {path}`"),
            std::cmp::Ordering::Equal => format!("begun: resume with `ktax run {path}`"),
            std::cmp::Ordering::Greater => format!("not begun: `ktax run {path}`"),
        }
    };
    dirs.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_names(points: &[&str]) -> Vec<String> {
        let dirs = sweep_directories(Path::new("out"), points.iter().copied());
        let name = |dir: PathBuf| dir.strip_prefix("out").unwrap().to_str().unwrap().to_owned();
        dirs.into_iter().map(name).collect()
    }

    #[test]
    fn no_point_of_a_sweep_is_outside_its_directory() {
        let points = ["thp=never,vm.swappiness=10", "kernel.core_pattern=/../../x y"];
        assert_eq!(directory_names(&points), [points[0], "kernel.core_pattern=_.._.._x_y"]);
        // Without a sweep the only directory is `out` itself.
        assert_eq!(sweep_directories(Path::new("out"), [""].into_iter())[0].as_os_str(), "out");
    }

    #[test]
    fn no_two_points_have_the_same_directory() {
        assert_eq!(
            directory_names(&["x=a/b", "x=a b", "x=a b_2", "x=a:b"]),
            ["x=a_b", "x=a_b_2", "x=a_b_2_2", "x=a_b_3"]
        );
        let [first, other] = ["1", "2"].map(|last| "x=é".repeat(100) + last);
        let names = directory_names(&[&first, &other]);
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() < 255), "{names:?}");
    }

    #[test]
    fn a_stopped_sweep_describes_each_run() {
        let dirs = ["out/a", "out/b", "out/c"].map(Path::new);
        assert_eq!(
            describe_runs(&dirs, 1),
            [
                "done: `ktax report out/a`",
                "begun: resume with `ktax run out/b`",
                "not begun: `ktax run out/c`",
            ]
        );
    }
}
