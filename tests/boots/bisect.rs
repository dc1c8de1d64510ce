//! `ktax bisect` on real boots, over kernel parameters: what is planted is found, with its share; a
//! search that is stopped goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::recorder::Recorder;
use crate::common::{
    KERNEL, MEANINGLESS, QUICK_BOOT, cache, counts_plan, ktax, printed, quick, run, scratch, until,
};
use ktax::flow::bisect;
use ktax::model::{Bisection, Carrier, Chain, Point, Subject, Verdict};
use ktax::plan::{CountsExperiment, Experiment};
use ktax::report::Report;
use rustix::process::{Pid, Signal, kill_process};

/// Two of them cost getppid something: audit=1 most, and pti=on.
const PARAMETERS: &str = "ktax.a=1 pti=on ktax.b=1 audit=1 ktax.c=1";

fn start(out: &Path) -> Command {
    let mut command = ktax();
    let change = quick(PARAMETERS);
    command.args(["bisect", "start", "--kernel", KERNEL, "--base-boot-line", QUICK_BOOT]);
    command.args(["--change-boot-line", &change]);
    command.args(["-w", "getppid", "--json", "--out"]).arg(out);
    command
}

/// Makes the same search by the library, whose progress is one whole: both ends are its first part,
/// each place is another.
fn search_in_parts(out: &Path) {
    let recorder = Recorder::new();
    let change = quick(PARAMETERS);
    let [base, change] = [QUICK_BOOT, &change].map(|line| Subject::new(KERNEL, line));
    let title = "planted".to_owned();
    let mut method = CountsExperiment::between(base, change);
    method.workloads = Some(vec!["getppid".to_owned()]);
    let experiment = Experiment { title, seed: 1, threshold_percent: 0.1, method };
    bisect::start(experiment, out, &recorder.session()).unwrap();
    let (parts, ends) = (recorder.parts(), recorder.ends());
    // Five layouts of both ends, then one of each place.
    assert_eq!(ends[0], (10, 10));
    assert!(parts.len() >= 3 && ends.len() == parts.len() + 1, "{parts:?} {ends:?}");
    for (number, (part, (done, total))) in (1..).zip(parts.iter().zip(&ends[1..])) {
        assert_eq!((part.index, part.shares_base, *done), (number, true, 2 * (number + 1)));
        assert!(part.count > number && *total == 2 * part.count, "{parts:?} {ends:?}");
    }
    // At the end nothing is left.
    let last = ends.last().unwrap();
    assert_eq!(last.0, last.1);
}

fn bisection(out: &Path) -> Bisection {
    printed::bisection(&fs::read_to_string(out.join("bisection.json")).unwrap())
}

/// All that was measured, and what follows.
fn measured(out: &Path) -> (BTreeMap<usize, Point>, Option<Vec<Carrier>>) {
    let bisection = bisection(out);
    (bisection.points, bisection.carriers)
}

#[test]
fn all_that_carry_a_share_are_found_and_a_stopped_search_goes_on() {
    let dir = scratch();
    let uninterrupted = dir.path().join("whole");
    search_in_parts(&uninterrupted);
    let bisected = bisection(&uninterrupted);
    assert_eq!((bisected.chain, bisected.elements.len()), (Chain::Parameters, 5));
    let found = bisected.carriers.as_deref().unwrap();
    let names: Vec<_> =
        found.iter().map(|carrier| &*bisected.elements[carrier.count_before].name).collect();
    assert_eq!(names, ["audit=1", "pti=on"]);
    let shares: f64 = found.iter().map(|carrier| carrier.share_percent).sum();
    assert!((shares - 100.0).abs() < 1.0 && found[0].delta > found[1].delta, "{found:?}");

    let out = dir.path().join("stopped");
    let mut child = start(&out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the search begins", || out.join("bisection.json").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_ne!(measured(&out), measured(&uninterrupted));
    let ran = run(&mut start(&out));
    ran.says("resume it with `ktax bisect run");
    let ran = run(ktax().args(["bisect", "run"]).arg(&out)).exits(0);
    assert!(ran.stdout.contains("audit=1"), "{}", ran.stdout);
    assert_eq!(measured(&out), measured(&uninterrupted));
    // A finished search is printed, and not measured again.
    let again = run(ktax().args(["bisect", "run"]).arg(&out));
    assert_eq!(again.stdout, ran.stdout);
    let is_run = again.stderr.contains(" runs in ") || again.stderr.contains(" run in ");
    assert!(!is_run, "{}", again.stderr);
}

#[test]
#[ignore = "five layouts of both ends: make test-long"]
fn a_search_does_not_go_on_with_another_kernel_than_it_began_with() {
    let dir = scratch();
    let plan = counts_plan(
        &run(ktax().args(["plan", "--same", "--kernel", KERNEL, "-w", "getppid"])).stdout,
    );
    let image = cache().join("kernels").join(&plan.kernels.base.sha256).join("image");
    let (kernel, out) = (dir.path().join("bzImage"), dir.path().join("out"));
    fs::copy(image, &kernel).unwrap();
    run(ktax()
        .args(["bisect", "start", "-w", "getppid", "--base-boot-line", QUICK_BOOT])
        .args(["--change-boot-line", &quick(PARAMETERS)])
        .arg("--kernel")
        .arg(&kernel)
        .arg("--out")
        .arg(&out))
    .exits(0);
    // Make it look stopped before its last place.
    let path = out.join("bisection.json");
    let mut bisection = bisection(&out);
    bisection.carriers = None;
    let place = *bisection.points.keys().nth(1).unwrap();
    bisection.points.remove(&place).unwrap();
    fs::write(path, serde_json::to_vec(&bisection.saved()).unwrap()).unwrap();
    fs::remove_dir_all(out.join(format!("{place:05}"))).unwrap();
    let mut other = fs::read(&kernel).unwrap();
    other.push(0);
    fs::remove_file(&kernel).unwrap();
    fs::write(&kernel, other).unwrap();
    let ran = run(ktax().args(["bisect", "run"]).arg(&out)).exits(2);
    ran.says("the base is not what it was");
}

#[test]
fn impossible_searches_are_refused_before_a_measurement() {
    let change = "--change-boot-line";
    for (args, message) in [
        (&["-w", "getppid"][..], "base and change are the same"),
        (&["-w", "@lmbench", change, "a=1"], "bisect needs exactly one row"),
        (&["-w", "getppid", change, "a=1", "--config", "CONFIG_A=y"], "options and parameters"),
        (&["-w", "getppid", change, "a=1", "-l", "3"], "a verdict needs at least 5 layouts, not 3"),
    ] {
        let ran = run(ktax().args(["bisect", "start", "--kernel", "/none"]).args(args)).exits(2);
        ran.says(message);
    }
    let ran = run(ktax().args(["bisect", "run", "/none"])).exits(2);
    ran.says("`ktax bisect start --help`");
}

#[test]
#[ignore = "five layouts of both ends: make test-long"]
fn without_a_difference_there_is_nothing_to_search() {
    let dir = scratch();
    let out = dir.path().join("out");
    let ran = run(ktax()
        .args(["bisect", "start", "--kernel", KERNEL, "--base-boot-line", QUICK_BOOT])
        .args(["--change-boot-line", &quick(MEANINGLESS), "-w", "getppid"])
        .arg("--out")
        .arg(&out))
    .exits(0);
    let message = "There is nothing to search for. getppid: unchanged (would have seen ";
    for part in [message, "Base and change differ in 1 parameter. ", "run `ktax compare`"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    // The result is printed again without a measurement.
    let again = run(ktax().args(["bisect", "run", "--json"]).arg(&out)).exits(0);
    let comparison = printed::comparison(&again.stdout);
    assert_eq!(comparison.rows[0].verdict, Verdict::NoDetectedChange);
    assert!(again.stdout.contains(message), "{}", again.stdout);
    assert!(!again.stderr.contains(" runs in "), "{}", again.stderr);
    let report = run(ktax().arg("report").arg(&out));
    assert!(report.stdout.contains("getppid: unchanged"), "{}", report.stdout);
}
