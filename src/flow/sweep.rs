//! The runs of a sweep of settings, each in a directory of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::phases::plan;
use super::session::Session;
use crate::plan::{Experiment, ExperimentMethod};
use crate::rundir::AnyRunDir;
use crate::text::shell_path;

/// The Experiments that an Experiment makes, each with what it is called: one for each value of a
/// swept setting. Without any it is the one, without a name.
///
/// # Errors
/// One of them cannot be planned: nobody waits for the first to hear of the last.
pub fn points(experiment: &Experiment) -> Result<Vec<(String, Experiment)>, Error> {
    Ok(match &experiment.method {
        ExperimentMethod::Counts(_) => vec![(String::new(), experiment.clone())],
        ExperimentMethod::Times(of) => {
            named(experiment.with(of.clone()).of_settings()?, ExperimentMethod::Times)
        }
        ExperimentMethod::Guests(of) => {
            named(experiment.with(of.clone()).of_settings(), ExperimentMethod::Guests)
        }
    })
}

fn named<M: Clone>(
    points: Vec<(String, Experiment<M>)>,
    method: fn(M) -> ExperimentMethod,
) -> Vec<(String, Experiment)> {
    let of_any = |(name, point): (String, Experiment<M>)| {
        let any = point.with(method(point.method.clone()));
        (name, any)
    };
    points.into_iter().map(of_any).collect()
}

/// A file's name may have 255 bytes; more settings than that has are told apart by a number.
const NAME_BYTES: usize = 200;

/// The directories of points below `out`, no two the same. A setting's value may come from
/// anywhere, and have slashes.
pub fn directories<'a>(out: &Path, points: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    let mut taken = BTreeSet::new();
    let mut unique = |point: &str| {
        let plain = point.chars().map(|c| if is_plain(c) { c } else { '_' });
        let plain: String = plain.take(NAME_BYTES).collect();
        let numbered = (2u32..).map(|number| format!("{plain}_{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !taken.contains(name)).expect("numbers do not run out");
        taken.insert(name.clone());
        // Joined with nothing it would end in a slash.
        if name.is_empty() { out.to_owned() } else { out.join(name) }
    };
    points.map(&mut unique).collect()
}

/// Plans all points, then makes their directories. All of them are there before the first is
/// measured: what is wrong with the last is said at once, and each can be resumed.
///
/// # Errors
/// A point cannot be planned, or a directory cannot be made.
pub fn prepare(
    points: &[(String, Experiment)],
    paths: &[PathBuf],
    session: &Session<'_>,
) -> Result<Vec<AnyRunDir>, Error> {
    points.iter().try_for_each(|(_, point)| session.check_names(&point.method))?;
    let plans = points.iter().map(|(_, experiment)| plan(experiment, session));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    let dirs = paths.iter().zip(plans).map(|(path, plan)| AnyRunDir::create(path, plan));
    Ok(dirs.collect::<Result<Vec<_>, _>>()?)
}

/// What there is of runs that ended in the middle of one: a line for each.
pub fn left(dirs: &[&Path], ended: usize) -> Vec<String> {
    let line = |(at, dir): (usize, &&Path)| {
        let path = shell_path(dir);
        match at.cmp(&ended) {
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

    fn named(points: &[&str]) -> Vec<String> {
        let dirs = directories(Path::new("out"), points.iter().copied());
        let name = |dir: PathBuf| dir.strip_prefix("out").unwrap().to_str().unwrap().to_owned();
        dirs.into_iter().map(name).collect()
    }

    #[test]
    fn no_point_of_a_sweep_is_outside_its_directory() {
        let points = ["thp=never,vm.swappiness=10", "kernel.core_pattern=/../../x y"];
        assert_eq!(named(&points), [points[0], "kernel.core_pattern=_.._.._x_y"]);
        // Without a sweep it is the directory itself.
        assert_eq!(directories(Path::new("out"), [""].into_iter())[0].as_os_str(), "out");
    }

    #[test]
    fn no_two_points_have_the_same_directory() {
        assert_eq!(
            named(&["x=a/b", "x=a b", "x=a b_2", "x=a:b"]),
            ["x=a_b", "x=a_b_2", "x=a_b_2_2", "x=a_b_3"]
        );
        let [one, other] = ["1", "2"].map(|last| "x=é".repeat(100) + last);
        let names = named(&[&one, &other]);
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() < 255), "{names:?}");
    }

    #[test]
    fn what_there_is_of_each_run_is_said() {
        let dirs = ["out/a", "out/b", "out/c"].map(Path::new);
        assert_eq!(
            left(&dirs, 1),
            [
                "done: `ktax report out/a`",
                "begun: resume with `ktax run out/b`",
                "not begun: `ktax run out/c`",
            ]
        );
    }
}
