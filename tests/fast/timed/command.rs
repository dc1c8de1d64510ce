use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ktax::engine::noise::Watch;
use ktax::model::{TimedPair, Verdict, read_results};
use ktax::plan::{Experiment, ExperimentMethod, TimesExperiment};
use ktax::{engine, flow};
use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::Value;

use crate::common::recorder::{Heard, Recorder};
use crate::common::{
    Loops, Need, is_alone, isolate, ktax, may_use_all, printed, require, run, run_alone, scratch,
    scratch_path, times_plan, until,
};

/// Pairs enough to be judged, of loops that take no time: nothing is asserted of times. The order
/// is the same in every run.
const QUICK: [&str; 9] =
    ["--same", "--engine", "host", "--seed", "1", "--loops", "1", "-w", "control-planted:ops=50"];

const TEN: [&str; 2] = ["--pairs", "10"];

#[test]
fn the_four_phases_are_the_one_command() {
    let (_dir, out) = scratch_path("run");
    run(ktax().arg("plan").args(QUICK).args(TEN).arg("--out").arg(&out)).exits(0);
    let ran = run(ktax().args(["run", "--json"]).arg(&out));
    let analysed = run(ktax().args(["analyse", "--json"]).arg(&out));
    // A resumed run ends like an uninterrupted one.
    assert_eq!((ran.stdout, ran.status), (analysed.stdout.clone(), analysed.status));
    let reported = run(ktax().args(["report", "--json"]).arg(&out));
    assert_eq!(analysed.stdout, reported.stdout, "{}{}", analysed.stderr, reported.stderr);
    // The exit status of a printing command says nothing about the rows.
    assert_eq!(reported.status, 0);
    let comparison = printed::comparison(&reported.stdout);
    // All A/A pairs of the pilot, too: without them there is no verdict.
    let times = comparison.times().unwrap();
    assert_eq!((times.pairs, times.controls), (10, 8), "{comparison:?}");
    assert!(comparison.rows[0].times().unwrap().ns.base.unwrap() > 0.0);
    for format in ["text", "csv", "markdown"] {
        run(ktax().args(["report", "-f", format]).arg(&out)).prints("control-planted");
    }
    run(ktax().args(["report", "-L", "lmbench"]).arg(&out)).exits(2);
}

#[test]
fn a_prefix_can_be_the_difference_of_the_sides() {
    let (dir, out) = scratch_path("run");
    // Four times the turns: no noise hides that, and no time is asserted. Of twenty pairs one may
    // be of a loop that was interrupted.
    let planted = ["--change-set", "prefix=env KTAX_PLANTED=3000", "--threshold", "50"];
    let ran = run(ktax()
        .arg("compare")
        .args(QUICK)
        .args(["--pairs", "20"])
        .args(planted)
        .args(["--json", "--out"])
        .arg(&out));
    let comparison = ran.comparison();
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
        .arg(dir.path().join("m")))
    .exits(69);
    ran.prints("no-such-command");
}

#[test]
fn a_sweep_has_a_row_of_each_value_and_a_run_of_each_setting() {
    let (dir, out) = scratch_path("run");
    let swept =
        ["--same", "--engine", "host", "--pairs", "10", "--loops", "1", "-w", "fork-pages:ops=3"];
    let ran = run(ktax()
        .arg("compare")
        .args(swept)
        .args(["--sweep", "pages=0,8", "--json", "--out"])
        .arg(&out));
    let comparison = ran.comparison();
    let rows: Vec<&str> = comparison.rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(rows, ["fork-pages:pages=0,ops=3", "fork-pages:pages=8,ops=3"], "{}", ran.stderr);
    // A setting's values are runs of their own, which cannot be one plan.
    let swept = ["--sweep", "kernel.no_such_thing=1,2"];
    run(ktax().arg("plan").args(QUICK).args(swept)).exits(2).says("`ktax compare`");
    // One value is one plan, with the setting.
    let ran = run(ktax().arg("plan").args(QUICK).args(["--sweep", "thp=never"]));
    let plan = times_plan(&ran.stdout).method;
    for side in [plan.asked.subjects.base, plan.asked.subjects.change] {
        assert_eq!(side.thp.as_deref(), Some("never"));
    }
    let ran =
        run(ktax().arg("compare").args(QUICK).args(swept).arg("--out").arg(dir.path().join("s")));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    ran.says("kernel.no_such_thing");
}

#[test]
fn a_sysctl_is_set_in_either_spelling() {
    for name in ["vm.swappiness", "vm/swappiness"] {
        let ran =
            run(ktax().arg("plan").args(QUICK).arg(format!("--change-set={name}=10"))).exits(0);
        let plan = times_plan(&ran.stdout).method;
        assert_eq!(plan.asked.subjects.change.sysctl[name], "10");
    }
}

#[test]
fn noise_is_that_of_the_cpus_that_ktax_may_use() {
    let cpus = Watch::start_on(&[]).unwrap().end().unwrap().cpus as usize;
    if cpus < 2 || !may_use_all(cpus) {
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
        .arg(&out))
    .exits(4);
    // A hypervisor may take from who is busy.
    let reasons = ["of the time of the CPUs in use", "a hypervisor ran something else"];
    assert!(reasons.iter().any(|reason| ran.stdout.contains(reason)), "{}", ran.stdout);
    ran.prints("inconclusive");
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
    let (_dir, out) = scratch_path("run");
    let mut child = begun(&out, 2);
    let pairs = || count(&out);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = child.wait().unwrap().code();
    let stopped = pairs();
    // The run may have ended before.
    assert!(status == Some(130) || stopped >= 18, "{status:?}");
    let comparison = run(ktax().args(["run", "--json"]).arg(&out)).comparison();
    // A machine that cannot measure is left after the pilot.
    let times = comparison.times().unwrap();
    assert!(times.pairs >= 40 || times.unfit.is_some(), "{comparison:?}");
    assert!(pairs() >= stopped);
}

#[test]
fn ktax_has_one_thread_while_it_measures() {
    let (_dir, out) = scratch_path("run");
    let mut child = begun(&out, 1);
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    assert_eq!(threads, 1);
}

#[test]
fn peeking_shows_estimates_and_changes_nothing() {
    let dir = scratch();
    let compared = |name: &str, peek: &[&str]| {
        let out = dir.path().join(name);
        let ran =
            run(ktax().arg("compare").args(QUICK).args(TEN).args(peek).arg("--out").arg(&out));
        let pairs = fs::read_dir(out.join("pairs")).unwrap().count();
        (ran.stderr, pairs, fs::read(out.join("plan.json")).unwrap())
    };
    let (stderr, pairs, plan) = compared("peek", &["--peek"]);
    assert!(stderr.contains("this does not change when the run stops"), "{stderr}");
    assert!(
        stderr.contains("pairs: 10 of at most 10; A/A pairs: 8; control-planted:ops=50 "),
        "{stderr}"
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
fn texts_of_a_run_directory_are_escaped() {
    let (_dir, out) = scratch_path("run");
    let ran = run(ktax().arg("compare").args(QUICK).args(TEN).arg("--out").arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    set_thp_of_change(&out, "\u{1b}]0;x\u{7}");
    let ran = run(ktax().arg("run").arg(&out));
    let output = ran.stdout + &ran.stderr;
    assert!(!output.contains(['\u{1b}', '\u{7}']), "{}", output.escape_debug());
    assert!(output.contains("\\u{1b}]0;x\\u{7}"), "{output}");
}

#[test]
fn sides_that_differ_undeclared_are_judged_when_that_is_allowed() {
    let (_dir, out) = scratch_path("run");
    let ran = run(ktax().arg("compare").args(QUICK).args(TEN).arg("--out").arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    // Make it look as if somebody had set it while the change ran.
    set_thp_of_change(&out, "sometimes");
    let plan = fs::read(out.join("plan.json")).unwrap();
    let refuses = |flags: &[&str]| {
        let comparison = run(ktax().args(["analyse", "--json"]).arg(&out).args(flags)).comparison();
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

// An observer sees all of a run, and the next run knows how long it took.

const ROW: &str = "control-planted:ops=50";

/// Ten pairs of loops that take no time.
fn quick() -> Experiment {
    let mut method = TimesExperiment::new(&engine::host::ENGINE);
    method.workloads = vec![ROW.to_owned()];
    (method.asked.pairs, method.asked.loops) = (Some(10), 2);
    let method = ExperimentMethod::Times(method);
    Experiment { title: "the same".to_owned(), seed: 1, threshold_percent: 1.0, method }
}

#[test]
fn a_clock_may_move_between_loops_and_every_pair_is_told() {
    if !is_alone() {
        // The state directory is the tests' own there.
        let command = ktax();
        let state = command.get_envs().find(|(name, _)| *name == "KTAX_STATE").unwrap().1.unwrap();
        let state = format!("KTAX_STATE={}", state.to_str().unwrap());
        let name = "timed::command::a_clock_may_move_between_loops_and_every_pair_is_told";
        return run_alone(&["env", &state], name);
    }
    let (dir, recorder) = (scratch(), Recorder::new());
    let session = recorder.session();
    let plan = flow::plan(&quick(), &session).unwrap();
    flow::compare(&dir.path().join("run"), plan, &session).unwrap().unwrap();
    let heard = recorder.heard();
    let count = |what: fn(&Heard) -> bool| heard.iter().filter(|event| what(event)).count();
    // There are 18 pairs of two boots with two loops each.
    assert_eq!(count(|event| *event == Heard::Tick), 18 * 2 * 2, "{heard:?}");
    let pairs = heard.iter().filter_map(|event| match event {
        Heard::Pairs(pairs, controls) => Some(pairs + controls),
        _ => None,
    });
    assert_eq!(pairs.collect::<Vec<_>>(), (0..=18).collect::<Vec<_>>());
    let Some(Heard::Learned(rates)) = heard.last() else { panic!("{heard:?}") };
    assert!(rates.run_seconds("timed-host", ROW).unwrap() > 0.0, "{rates:?}");
}

#[test]
fn the_time_of_a_run_is_the_estimate_of_the_next_plan() {
    let (dir, state, other) = (scratch(), scratch(), scratch());
    let out = dir.path().join("run");
    let quick = ["--same", "--engine", "host", "--loops", "1", "--pairs", "10", "-w", ROW];
    let planned = || {
        let ran = run(ktax().arg("plan").args(quick).env("KTAX_STATE", state.path())).exits(0);
        ran.stderr
    };
    let stderr = planned();
    assert!(stderr.contains("ktax: a pair takes about 0.050 s, and at most 10 pairs"), "{stderr}");
    assert!(stderr.contains("(a guess, because nothing was measured"), "{stderr}");
    let mut compare = ktax();
    compare.arg("compare").args(quick).arg("--out").arg(&out);
    let ran = run(compare.env("KTAX_STATE", state.path()));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    let rates = fs::read_to_string(state.path().join("rates.json")).unwrap();
    let rates: Value = serde_json::from_str(&rates).unwrap();
    assert!(rates["runs"][format!("timed-host/{ROW}")].as_f64().unwrap() > 0.0, "{rates}");
    let stderr = planned();
    assert!(stderr.contains("(based on earlier runs on this machine)"), "{stderr}");
    // Pairs that are there already may be of another machine, and teach nothing.
    let ran = run(ktax().arg("run").arg(&out).env("KTAX_STATE", other.path()));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert!(!other.path().join("rates.json").exists());
    // ktax uses this file: a loop takes a quarter of a second in it.
    let rates = format!(r#"{{"boots":{{"timed-host":0}},"runs":{{"timed-host/{ROW}":0.25}}}}"#);
    fs::write(state.path().join("rates.json"), rates).unwrap();
    let stderr = planned();
    assert!(stderr.contains("a pair takes about 0.50 s, and at most 10 pairs"), "{stderr}");
    assert!(stderr.contains(" about 9 s (based on earlier"), "{stderr}");
}

// Sweeps of settings that do not come to their end.

const QUICK_SWEEP: [&str; 9] = [
    "compare",
    "--same",
    "--engine",
    "host",
    "--loops",
    "1",
    "-w",
    "control-planted:ops=50",
    "--pairs",
];

const TTL: &str = "net.ipv4.ip_default_ttl";

/// ktax in a network namespace of its own, whose settings are nobody else's; `None` where this user
/// cannot write them.
#[track_caller]
fn alone(state: &Path) -> Option<Command> {
    alone_behind(state, &[])
}

/// A host that shares nothing, behind another command.
#[track_caller]
fn alone_behind(state: &Path, starter: &[&str]) -> Option<Command> {
    let unshared = if getuid().is_root() { "-n" } else { "-rn" };
    let path = format!("/proc/sys/{}", TTL.replace('.', "/"));
    let writes = format!("cat {path} >{path}");
    let can = Command::new("unshare").args([unshared, "sh", "-c", &writes]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !require(Need::Namespaces, can, "this user cannot write settings of a network namespace") {
        return None;
    }
    let mut command = Command::new("unshare");
    command.arg(unshared).args(starter).arg(env!("CARGO_BIN_EXE_ktax"));
    isolate(&mut command).env("KTAX_STATE", state);
    Some(command)
}

#[test]
fn an_existing_directory_is_refused_before_a_run() {
    let (_dir, out) = scratch_path("run");
    fs::create_dir_all(out.join("thp=never")).unwrap();
    fs::write(out.join("thp=never/plan.json"), "{}").unwrap();
    let mut command = ktax();
    command.args(QUICK_SWEEP).args(["10", "--sweep", "thp=always,never", "--out"]).arg(&out);
    let ran = run(&mut command);
    assert_eq!((ran.status, out.join("thp=always").exists()), (2, false), "{}", ran.stderr);
    ran.says("thp=never exists");
}

#[test]
fn every_run_is_named_and_settings_are_restored() {
    let (dir, out) = scratch_path("run");
    // The setting is read inside the namespace, before and after.
    let path = format!("/proc/sys/{}", TTL.replace('.', "/"));
    let script = format!("cat {path}; \"$@\"; status=$?; cat {path}; exit $status");
    let starter = ["sh", "-c", &script, "sh"];
    let Some(mut command) = alone_behind(dir.path(), &starter) else { return };
    let sweep = format!("{TTL}=70,71");
    let ran =
        run(command.args(QUICK_SWEEP).args(["10", "--sweep", &sweep, "--peek", "--out"]).arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    for number in [1, 2] {
        let line = format!("ktax: run {number} of 2; pairs: 10 of at most 10; A/A pairs: 8; ");
        ran.says(&line);
    }
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.first(), lines.last(), "{}", ran.stdout);
    let named = |value: &str| {
        let name = format!(", {TTL}={value}");
        lines
            .iter()
            .position(|line| line.ends_with(&name))
            .unwrap_or_else(|| panic!("{}", ran.stdout))
    };
    let rows = || (0..lines.len()).filter(|index| lines[*index].starts_with("control-planted"));
    let between =
        |from: usize, to: usize| rows().filter(|index| (from..to).contains(index)).count();
    assert!(between(named("70"), named("71")) > 0, "{}", ran.stdout);
    assert!(between(named("71"), lines.len()) > 0, "{}", ran.stdout);
    let worst = ["70", "71"]
        .map(|value| run(ktax().arg("analyse").arg(out.join(format!("{TTL}={value}")))).status);
    // Slower is more than no answer.
    let worst = if worst.contains(&3) { 3 } else { worst[0].max(worst[1]) };
    assert_eq!(ran.status, worst, "{}", ran.stderr);
}

/// In CSV as in text, by `ktax compare` as by `ktax report` of the same directories.
#[test]
fn a_sweep_is_printed_in_every_format_with_the_name_of_each_run() {
    let (dir, out) = scratch_path("run");
    let Some(mut command) = alone(dir.path()) else { return };
    let sweep = format!("{TTL}=70,100");
    command.args(QUICK_SWEEP).args(["10", "--sweep", &sweep, "--format", "csv", "--out"]).arg(&out);
    let ran = run(&mut command);
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    let names = ["70", "100"].map(|value| format!("{TTL}={value}"));
    let first = |line: &str| line.split(',').next().unwrap().to_owned();
    let column: Vec<String> = ran.stdout.lines().map(first).collect();
    assert_eq!(column, ["name", &names[0], &names[1]], "{}", ran.stdout);
    let paths = names.each_ref().map(|name| out.join(name));
    let again = run(ktax().args(["report", "--format", "csv"]).args(&paths));
    let below = format!("{}/", out.display());
    assert_eq!(again.stdout.replace(&below, ""), ran.stdout, "{}", again.stderr);
    assert_eq!(again.status, 0);
    // Sorted as text, 100 comes before 70.
    let direct = run(ktax().args(["report", "--format", "csv"]).arg(&out));
    assert_eq!(direct.stdout, ran.stdout, "{}", direct.stderr);
}

#[test]
fn an_error_in_a_later_run_keeps_earlier_results() {
    let dir = scratch();
    let Some(mut command) = alone(dir.path()) else { return };
    let out = dir.path().join("run");
    // The kernel takes 1 to 255.
    let sweep = format!("{TTL}=64,300,65");
    let ran = run(command.args(QUICK_SWEEP).args(["10", "--sweep", &sweep, "--out"]).arg(&out));
    ran.says("ip_default_ttl to \"300\"");
    let run_dir = |value: &str| out.join(format!("{TTL}={value}"));
    let message = format!(
        "ktax: stopped in run 2 of 3\nktax: done: `ktax report {}`\nktax: begun: resume with \
         `ktax run {}`\nktax: not begun: `ktax run {}`\n",
        run_dir("64").display(),
        run_dir("300").display(),
        run_dir("65").display()
    );
    ran.says(&message);
    run(ktax().arg("report").arg(run_dir("64"))).prints("control-planted");
    let run_of_last = alone(dir.path()).unwrap().arg("run").arg(run_dir("65")).output().unwrap();
    assert!(matches!(run_of_last.status.code(), Some(0 | 3 | 4)), "{run_of_last:?}");
    // The directory of the sweep has the runs that are finished.
    let of_all = run(ktax().args(["report", "--json"]).arg(&out));
    let names = read_results(&of_all.stdout).unwrap().into_iter().map(|saved| saved.name);
    assert_eq!(names.collect::<Vec<_>>(), [format!("{TTL}=64"), format!("{TTL}=65")]);
}

#[test]
fn ctrl_c_in_a_later_run_names_the_state_of_each_run() {
    let dir = scratch();
    let Some(mut command) = alone(dir.path()) else { return };
    let out = dir.path().join("run");
    let values: Vec<String> = (64..84).map(|value: u32| value.to_string()).collect();
    let sweep = format!("{TTL}={}", values.join(","));
    command.args(QUICK_SWEEP).args(["10", "--sweep", &sweep, "--out"]).arg(&out);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let there = |value: &str, name: &str| out.join(format!("{TTL}={value}")).join(name).exists();
    until("the second is begun", || there("65", "lock"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{stderr}");
    // Which was begun when the signal came depends on the machine; on each side of it nothing does.
    let state_of = |value: &String| {
        let of_it = |line: &&str| line.ends_with(&format!("={value}`"));
        let line = stderr.lines().find(of_it).unwrap_or_else(|| panic!("{value}: {stderr}"));
        let states = ["ktax: done: `ktax report", "ktax: begun: resume", "ktax: not begun: "];
        let state = states.iter().position(|state| line.starts_with(state));
        let is_there = (there(value, "report.md"), there(value, "lock"), there(value, "plan.json"));
        let expected = [(true, true, true), (false, true, true), (false, false, true)];
        assert_eq!(is_there, expected[state.unwrap_or_else(|| panic!("{line}"))], "{stderr}");
        state
    };
    let states: Vec<Option<usize>> = values.iter().map(state_of).collect();
    assert!(states.is_sorted(), "{stderr}");
    assert!(states[0] == Some(0) && states[19] == Some(2), "{stderr}");
    assert!(states.iter().filter(|state| **state == Some(1)).count() <= 1, "{stderr}");
}
