//! `ktax bisect` with real builds: over the commits of a history, over options.

use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::model::{Bisection, Point};

use super::history::{COMMITS, History, PLANTED};
use super::{SOURCE, hunk_of_getppid};
use crate::common::{cache, ktax, printed, run, scratch, tree};

fn bisect(out: &Path, args: &[&str]) -> Bisection {
    let ran = run(ktax()
        .args(["bisect", "start", "--json", "-w", "getppid", "--out"])
        .arg(out)
        .args(args));
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::bisection(&ran.stdout)
}

/// The number of places that were built and measured.
fn measured(bisection: &Bisection) -> usize {
    bisection.points.values().filter(|point| matches!(point, Point::Cost(_))).count()
}

#[test]
fn the_commit_is_found_and_those_that_do_not_build_or_boot_are_skipped() {
    let dir = scratch();
    let history = History::new(dir.path());
    let before = tree(&history.repository);
    let ends = [&history.ids[0], &history.ids[16]].map(|id| format!("git:{id}"));
    let repository = history.repository.display().to_string();
    let out = dir.path().join("out");
    let bisection =
        bisect(&out, &["--tree", &repository, "--base", &ends[0], "--change", &ends[1]]);
    let found = bisection.found.as_deref().unwrap();
    assert_eq!((found.len(), found[0].after, found[0].at), (1, PLANTED - 1, PLANTED));
    assert!(found[0].delta > 8.0, "{found:?}");
    assert_eq!(bisection.elements[PLANTED - 1].name, history.ids[PLANTED]);
    assert_eq!(bisection.elements[PLANTED - 1].title, COMMITS[PLANTED - 1].0);
    let skipped = bisection.points.iter().filter_map(|(place, point)| match point {
        Point::Skipped(why) => Some((*place, why.as_str())),
        Point::Cost(_) => None,
    });
    let skipped: Vec<_> = skipped.collect();
    assert_eq!(skipped.len(), 2, "{:?}", bisection.points);
    assert!(skipped[0].0 == 6 && skipped[0].1.contains("panicked: planted"), "{skipped:?}");
    assert!(skipped[1].0 == 9 && skipped[1].1.contains("does not build: "), "{skipped:?}");
    assert!(measured(&bisection) <= 5, "{:?}", bisection.points);
    assert!(tree(&history.repository) == before, "the repository changed");
}

#[test]
fn git_bisect_finds_the_same_commit() {
    let dir = scratch();
    let history = History::new(dir.path());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&history.repository).args(args).env("KTAX_CACHE", cache());
        run(&mut git)
    };
    let (good, bad) = (&history.ids[0], &history.ids[16]);
    let started = git(&["bisect", "start", "--no-checkout", bad, good]);
    assert_eq!(started.status, 0, "{}", started.stderr);
    let base = format!("git:{good}");
    let compare = ["compare", "--bisect", "--base", &base, "--change", "git:BISECT_HEAD"];
    let ktax = ["bisect", "run", env!("CARGO_BIN_EXE_ktax")];
    let ran = git(&[&ktax[..], &compare, &["-w", "getppid"]].concat());
    let found = format!("{} is the first bad commit", history.ids[PLANTED]);
    assert!(ran.stdout.contains(&found), "{}\n{}", ran.stdout, ran.stderr);
}

const OPTIONS: usize = 40;

/// An experiment with forty options. Those in `costs` add so many instructions to getppid, the
/// others none.
fn options(dir: &Path, costs: &[(usize, u32)]) -> String {
    let option = |n: usize| format!("+config PLANTED_{n}\n+\tbool \"planted {n}\"\n");
    let kconfig: String = (1..=OPTIONS).map(option).collect();
    let nops = |(n, nops): &(usize, u32)| {
        format!("#ifdef CONFIG_PLANTED_{n}\n\tasm volatile(\".rept {nops}; nop; .endr\");\n#endif")
    };
    let lines: Vec<String> = costs.iter().map(nops).collect();
    let text = format!(
        "--- a/init/Kconfig\n+++ b/init/Kconfig\n@@ -1,2 +1,{} @@\n \
         # SPDX-License-Identifier: GPL-2.0-only\n{kconfig} config CC_VERSION_TEXT\n{}",
        2 + 2 * OPTIONS,
        hunk_of_getppid(&lines.join("\n")),
    );
    let patch = dir.join("options.patch");
    fs::write(&patch, text).unwrap();
    let set: Vec<String> = (1..=OPTIONS).map(|n| format!("\"CONFIG_PLANTED_{n}=y\"")).collect();
    let subject = format!("kernel = \"{SOURCE}\", patches = [\"{}\"]", patch.display());
    let experiment = dir.join("options.toml");
    let text = format!(
        "title = \"planted options\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, config = [{}] }}\n",
        set.join(", ")
    );
    fs::write(&experiment, text).unwrap();
    experiment.display().to_string()
}

#[test]
fn each_option_with_a_cost_is_found_with_its_share() {
    for costs in [&[(29, 30)][..], &[(7, 50), (33, 20)]] {
        let dir = scratch();
        let experiment = options(dir.path(), costs);
        let bisection = bisect(&dir.path().join("out"), &[&experiment]);
        assert_eq!(bisection.elements.len(), OPTIONS);
        let whole: u32 = costs.iter().map(|(_, nops)| nops).sum();
        let found = bisection.found.as_deref().unwrap();
        let names: Vec<_> = found.iter().map(|one| &*bisection.elements[one.after].name).collect();
        let planted: Vec<_> = costs.iter().map(|(n, _)| format!("CONFIG_PLANTED_{n}=y")).collect();
        assert_eq!(names, planted);
        for (one, (_, nops)) in found.iter().zip(costs) {
            let share = f64::from(*nops) / f64::from(whole) * 100.0;
            assert!((one.share_percent - share).abs() < 1.0, "{found:?}");
        }
        let built = measured(&bisection);
        assert!(built <= 12 && (costs.len() > 1 || built <= 8), "{:?}", bisection.points);
    }
}
