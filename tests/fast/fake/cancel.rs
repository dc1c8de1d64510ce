//! Ctrl-C at every moment: what is finished stays, the rest is made later.

use std::path::{Path, PathBuf};

use ktax::run::Ended;

use super::scene::Scene;
use crate::common::{scratch, tree};

fn scene() -> Scene {
    Scene::new(&["getppid", "pipe"]).layouts(2)
}

/// The Runs on disk; each has its profile.
fn runs(root: &Path) -> Vec<PathBuf> {
    if !root.join("boots").exists() {
        return Vec::new();
    }
    let names: Vec<PathBuf> = tree(&root.join("boots")).into_iter().map(|(name, _)| name).collect();
    let of_run = |name: &&PathBuf| {
        name.parent().is_some_and(|dir| dir.ends_with("runs"))
            && name.extension().is_some_and(|extension| extension == "json")
    };
    let runs: Vec<PathBuf> = names.iter().filter(of_run).cloned().collect();
    for run in &runs {
        assert!(names.contains(&run.with_extension("profile.tsv")), "{}", run.display());
    }
    runs
}

#[test]
fn stopped_at_any_call_it_ends_as_if_it_was_not() {
    let dir = scratch();
    let whole = dir.path().join("whole");
    let calls = scene().run(&whole).complete().calls.len();
    assert_eq!(calls, 12);
    for jobs in [1, 3] {
        for (number, answers) in (1..=calls).flat_map(|n| [(n, true), (n, false)]) {
            let root = dir.path().join(format!("{jobs}-{number}-{answers}"));
            let first = scene().jobs(jobs).cancel_at(number, answers).run(&root);
            assert!(matches!(first.ended, Ok(Ended::Cancelled)), "{:?}", first.ended);
            assert_eq!(first.calls.len(), number, "nothing is started after it");
            let done = runs(&root).len();
            assert_eq!(first.done, done, "{root:?}");
            // All calls before it, and it if it answered.
            let finished = &first.calls[..if answers { number } else { number - 1 }];
            let expected = finished.iter().filter(|call| !call.ends_with(" boot")).count();
            assert_eq!(done, expected, "{root:?}");
            let second = scene().jobs(jobs).run(&root).complete();
            assert_eq!(second.runs(), 8 - done, "no run is made twice");
            assert!(tree(&root) == tree(&whole), "{root:?}");
        }
    }
}

#[test]
fn stopped_in_its_first_boot_it_leaves_what_repeats_that() {
    let dir = scratch();
    let first = scene().cancel_at(1, false).run(dir.path());
    assert!(matches!(first.ended, Ok(Ended::Cancelled)));
    let names: Vec<PathBuf> = tree(dir.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["boots/000-base/argv", "lock", "plan.json"].map(Path::new));
}
