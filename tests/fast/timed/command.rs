use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ktax::engine::noise::Watch;
use ktax::model::{TimedPair, Verdict};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Loops, ktax, may_use_all, printed, run, scratch, times_plan, until};

/// Pairs enough to be judged, of loops that take no time: nothing is asserted of times. The order
/// is the same in every run.
const QUICK: [&str; 9] =
    ["--same", "--engine", "host", "--seed", "1", "--loops", "1", "-w", "control-planted:ops=50"];

const TEN: [&str; 2] = ["--pairs", "10"];

#[test]
fn the_four_phases_are_the_one_command() {
    let dir = scratch();
    let out = dir.path().join("run");
    let planned = run(ktax().arg("plan").args(QUICK).args(TEN).arg("--out").arg(&out));
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    let ran = run(ktax().args(["run", "--json"]).arg(&out));
    let analysed = run(ktax().args(["analyse", "--json"]).arg(&out));
    // What is resumed ends as what was not stopped.
    assert_eq!((ran.stdout, ran.status), (analysed.stdout.clone(), analysed.status));
    let reported = run(ktax().args(["report", "--json"]).arg(&out));
    assert_eq!(analysed.stdout, reported.stdout, "{}{}", analysed.stderr, reported.stderr);
    // Who prints is told nothing of the rows.
    assert_eq!(reported.status, 0);
    let comparison = printed::comparison(&reported.stdout);
    // All A/A pairs of the pilot, too: without them there is no verdict.
    let of = comparison.times().unwrap();
    assert_eq!((of.pairs, of.controls), (10, 8), "{comparison:?}");
    assert!(comparison.rows[0].times().unwrap().ns.base.unwrap() > 0.0);
    for format in ["text", "csv", "markdown"] {
        let report = run(ktax().args(["report", "-f", format]).arg(&out));
        assert!(report.stdout.contains("control-planted"), "{format}: {}", report.stderr);
    }
    let shape = run(ktax().args(["report", "-L", "lmbench"]).arg(&out));
    assert_eq!(shape.status, 2, "{}", shape.stderr);
}

#[test]
fn a_command_in_front_is_what_differs() {
    let dir = scratch();
    let out = dir.path().join("run");
    // Four times the turns: no noise hides that, and no time is asserted. Of twenty pairs one may
    // be of a loop that was interrupted.
    let planted = ["--change-set", "prefix=env KTAX_PLANTED=3000", "--threshold", "50"];
    let ran = run(ktax()
        .arg("compare")
        .args(QUICK)
        .args(["--pairs", "20"])
        .args(planted)
        .arg("--json")
        .arg("--out")
        .arg(&out));
    let comparison = printed::comparison(&ran.stdout);
    match comparison.rows[0].verdict {
        Verdict::Slower => assert_eq!(ran.status, 3, "{}", ran.stderr),
        // A machine that cannot measure says so.
        Verdict::Inconclusive => assert_eq!(ran.status, 4, "{}", ran.stderr),
        other => panic!("{other:?}: {comparison:?}"),
    }
    let missing = ["--change-set", "prefix=no-such-command -x"];
    let ran = run(ktax()
        .arg("compare")
        .args(QUICK)
        .args(TEN)
        .args(missing)
        .arg("--out")
        .arg(dir.path().join("m")));
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    assert!(ran.stdout.contains("no-such-command"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_sweep_has_a_row_of_each_value_and_a_run_of_each_setting() {
    let dir = scratch();
    let out = dir.path().join("run");
    let swept =
        ["--same", "--engine", "host", "--pairs", "10", "--loops", "1", "-w", "fork-pages:ops=3"];
    let ran = run(ktax()
        .arg("compare")
        .args(swept)
        .args(["--sweep", "pages=0,8", "--json"])
        .arg("--out")
        .arg(&out));
    let comparison = printed::comparison(&ran.stdout);
    let rows: Vec<&str> = comparison.rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(rows, ["fork-pages:pages=0,ops=3", "fork-pages:pages=8,ops=3"], "{}", ran.stderr);
    // A setting's values are runs of their own, which cannot be one plan.
    let swept = ["--sweep", "kernel.no_such_thing=1,2"];
    let ran = run(ktax().arg("plan").args(QUICK).args(swept));
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("`ktax compare`"), "{}", ran.stderr);
    // One value is one plan, with the setting.
    let ran = run(ktax().arg("plan").args(QUICK).args(["--sweep", "thp=never"]));
    let plan = times_plan(&ran.stdout).method;
    for side in [plan.subjects.base, plan.subjects.change] {
        assert_eq!(side.thp.as_deref(), Some("never"));
    }
    let ran =
        run(ktax().arg("compare").args(QUICK).args(swept).arg("--out").arg(dir.path().join("s")));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("kernel.no_such_thing"), "{}", ran.stderr);
}

#[test]
fn a_sysctl_is_set_in_either_spelling() {
    for name in ["vm.swappiness", "vm/swappiness"] {
        let ran = run(ktax().arg("plan").args(QUICK).arg(format!("--change-set={name}=10")));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let plan = times_plan(&ran.stdout).method;
        assert_eq!(plan.subjects.change.sysctl[name], "10");
    }
}

#[test]
fn noise_is_that_of_the_cpus_that_ktax_may_use() {
    let all = Watch::start_on(&[]).unwrap().end().unwrap().cpus as usize;
    if all < 2 || !may_use_all(all) {
        return;
    }
    let (dir, program) = (scratch(), ktax());
    let out = dir.path().join("run");
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0"]).arg(program.get_program()).arg("compare").args(QUICK).args(TEN);
    for (name, value) in program.get_envs() {
        pinned.env(name, value.unwrap_or_default());
    }
    let ran = run(pinned.arg("--out").arg(&out));
    let pair = fs::read_to_string(out.join("pairs/0000.json"));
    let pair: TimedPair =
        serde_json::from_str(&pair.unwrap_or_else(|_| panic!("{}", ran.stderr))).unwrap();
    assert_eq!(pair.noise.cpus, 1);
}

#[test]
fn a_machine_whose_cpus_are_all_busy_is_inconclusive() {
    let cpus = Watch::start_on(&[]).unwrap().end().unwrap().cpus as usize;
    if !may_use_all(cpus) {
        return;
    }
    let (dir, _busy) = (scratch(), Loops::start(2 * cpus));
    let out = dir.path().join("run");
    // Ten loops, so that what others do meanwhile is more than a tick.
    let pairs = ["--loops", "10", "--pairs", "20", "-w", "control-planted:ops=2000"];
    let ran = run(ktax()
        .args(["compare", "--same", "--engine", "host"])
        .args(pairs)
        .arg("--out")
        .arg(&out));
    assert_eq!(ran.status, 4, "{}{}", ran.stdout, ran.stderr);
    // A hypervisor may take from who is busy.
    let reasons = ["of the time of the CPUs in use", "a hypervisor ran something else"];
    assert!(reasons.iter().any(|reason| ran.stdout.contains(reason)), "{}", ran.stdout);
    assert!(ran.stdout.contains("inconclusive"), "{}", ran.stdout);
}

/// A run of many pairs, when so many are there.
fn begun(out: &Path, pairs: usize) -> Child {
    let mut command: Command = ktax();
    command.arg("compare").args(QUICK).args(["--pairs", "40"]).arg("--out").arg(out);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("there are pairs, or it has ended", || {
        count(out) >= pairs || child.try_wait().unwrap().is_some()
    });
    if count(out) < pairs {
        panic!("{}", String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr));
    }
    child
}

fn count(out: &Path) -> usize {
    fs::read_dir(out.join("pairs")).map_or(0, Iterator::count)
}

#[test]
fn ctrl_c_keeps_the_pairs_and_the_run_goes_on() {
    let dir = scratch();
    let out = dir.path().join("run");
    let mut child = begun(&out, 2);
    let pairs = || count(&out);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap().code();
    let stopped = pairs();
    // It may have come to its end before.
    assert!(status == Some(130) || stopped >= 18, "{status:?}");
    let ran = run(ktax().args(["run", "--json"]).arg(&out));
    let comparison = printed::comparison(&ran.stdout);
    // A machine that cannot measure is left after the pilot.
    let of = comparison.times().unwrap();
    assert!(of.pairs >= 40 || of.unfit.is_some(), "{comparison:?}");
    assert!(pairs() >= stopped);
}

#[test]
fn nothing_of_ktax_runs_beside_what_is_measured() {
    let dir = scratch();
    let out = dir.path().join("run");
    let mut child = begun(&out, 1);
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    assert_eq!(threads, 1);
}

#[test]
fn who_peeks_sees_estimates_and_changes_nothing() {
    let dir = scratch();
    let compared = |name: &str, peek: &[&str]| {
        let out = dir.path().join(name);
        let ran =
            run(ktax().arg("compare").args(QUICK).args(TEN).args(peek).arg("--out").arg(&out));
        let pairs = fs::read_dir(out.join("pairs")).unwrap().count();
        (ran.stderr, pairs, fs::read(out.join("plan.json")).unwrap())
    };
    let (said, pairs, plan) = compared("peek", &["--peek"]);
    assert!(said.contains("this does not change when the run stops"), "{said}");
    assert!(
        said.contains("pairs: 10 of at most 10; A/A pairs: 8; control-planted:ops=50 "),
        "{said}"
    );
    let (silent, others, same) = compared("blind", &[]);
    assert!(!silent.contains("control-planted"), "{silent}");
    assert_eq!((pairs, plan), (others, same));
}

/// In all pairs of a run directory.
fn set_thp_of_change(out: &Path, value: &str) {
    for entry in fs::read_dir(out.join("pairs")).unwrap() {
        let path = entry.unwrap().path();
        let mut pair: TimedPair = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        pair.boots.change.facts.insert("THP".into(), value.into());
        fs::write(&path, serde_json::to_vec(&pair).unwrap()).unwrap();
    }
}

#[test]
fn what_a_run_directory_says_does_nothing_to_a_terminal() {
    let dir = scratch();
    let out = dir.path().join("run");
    let ran = run(ktax().arg("compare").args(QUICK).args(TEN).arg("--out").arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    set_thp_of_change(&out, "\u{1b}]0;x\u{7}");
    let ran = run(ktax().arg("run").arg(&out));
    let said = ran.stdout + &ran.stderr;
    assert!(!said.contains(['\u{1b}', '\u{7}']), "{}", said.escape_debug());
    assert!(said.contains("\\u{1b}]0;x\\u{7}"), "{said}");
}

#[test]
fn sides_that_differ_undeclared_are_judged_when_that_is_allowed() {
    let dir = scratch();
    let out = dir.path().join("run");
    let ran = run(ktax().arg("compare").args(QUICK).args(TEN).arg("--out").arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    // As if somebody had set it while the change ran.
    set_thp_of_change(&out, "sometimes");
    let plan = fs::read(out.join("plan.json")).unwrap();
    let refuses = |flags: &[&str]| {
        let ran = run(ktax().args(["analyse", "--json"]).arg(&out).args(flags));
        let comparison = printed::comparison(&ran.stdout);
        let warned = comparison.warnings.iter().any(|warning| warning.fact.contains("sometimes"));
        assert!(warned, "{comparison:?}");
        let unfit = comparison.times().unwrap().unfit.as_ref();
        unfit.is_some_and(|unfit| unfit.contains("--allow-differences"))
    };
    assert!(refuses(&[]));
    assert!(!refuses(&["--allow-differences"]));
    let ran = run(ktax().arg("run").arg(&out).arg("--allow-differences"));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert_eq!(fs::read(out.join("plan.json")).unwrap(), plan);
    assert!(refuses(&[]));
}
