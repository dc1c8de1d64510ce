//! Sweeps of settings that do not come to their end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ktax::model::read_results;
use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::common::{Need, ktax, own, require, run, scratch, until};

const QUICK: [&str; 9] = [
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
    own(&mut command).env("KTAX_STATE", state);
    Some(command)
}

#[test]
fn a_directory_that_is_there_is_refused_before_anything_is_measured() {
    let dir = scratch();
    let out = dir.path().join("run");
    fs::create_dir_all(out.join("thp=never")).unwrap();
    fs::write(out.join("thp=never/plan.json"), "{}").unwrap();
    let mut command = ktax();
    command.args(QUICK).args(["10", "--sweep", "thp=always,never", "--out"]).arg(&out);
    let ran = run(&mut command);
    assert_eq!((ran.status, out.join("thp=always").exists()), (2, false), "{}", ran.stderr);
    assert!(ran.stderr.contains("thp=never exists"), "{}", ran.stderr);
}

#[test]
fn every_run_is_named_and_the_machine_is_as_it_was() {
    let dir = scratch();
    let out = dir.path().join("run");
    // What the setting is before and after is seen from inside of the namespace.
    let path = format!("/proc/sys/{}", TTL.replace('.', "/"));
    let script = format!("cat {path}; \"$@\"; status=$?; cat {path}; exit $status");
    let starter = ["sh", "-c", &script, "sh"];
    let Some(mut command) = alone_behind(dir.path(), &starter) else { return };
    let sweep = format!("{TTL}=70,71");
    let ran = run(command.args(QUICK).args(["10", "--sweep", &sweep, "--peek", "--out"]).arg(&out));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    for number in [1, 2] {
        let line = format!("ktax: run {number} of 2; pairs: 10 of at most 10; A/A pairs: 8; ");
        assert!(ran.stderr.contains(&line), "{}", ran.stderr);
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
    let rows = || (0..lines.len()).filter(|at| lines[*at].starts_with("control-planted"));
    let between = |from: usize, to: usize| rows().filter(|at| (from..to).contains(at)).count();
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
    let dir = scratch();
    let out = dir.path().join("run");
    let Some(mut command) = alone(dir.path()) else { return };
    let sweep = format!("{TTL}=70,100");
    command.args(QUICK).args(["10", "--sweep", &sweep, "--format", "csv", "--out"]).arg(&out);
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
    // As text 100 comes before 70.
    let whole = run(ktax().args(["report", "--format", "csv"]).arg(&out));
    assert_eq!(whole.stdout, ran.stdout, "{}", whole.stderr);
}

#[test]
fn an_error_in_a_later_run_leaves_the_others_and_says_where() {
    let dir = scratch();
    let Some(mut command) = alone(dir.path()) else { return };
    let out = dir.path().join("run");
    // The kernel takes 1 to 255.
    let sweep = format!("{TTL}=64,300,65");
    let ran = run(command.args(QUICK).args(["10", "--sweep", &sweep, "--out"]).arg(&out));
    assert!(ran.stderr.contains("ip_default_ttl to \"300\""), "{}", ran.stderr);
    let at = |value: &str| out.join(format!("{TTL}={value}"));
    let said = format!(
        "ktax: stopped in run 2 of 3\nktax: done: `ktax report {}`\nktax: begun: resume with \
         `ktax run {}`\nktax: not begun: `ktax run {}`\n",
        at("64").display(),
        at("300").display(),
        at("65").display()
    );
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    let ran = run(ktax().arg("report").arg(at("64")));
    assert!(ran.stdout.contains("control-planted"), "{ran:?}");
    let run_of_last = alone(dir.path()).unwrap().arg("run").arg(at("65")).output().unwrap();
    assert!(matches!(run_of_last.status.code(), Some(0 | 3 | 4)), "{run_of_last:?}");
    // The directory of the sweep has the runs that are finished.
    let of_all = run(ktax().args(["report", "--json"]).arg(&out));
    let names = read_results(&of_all.stdout).unwrap().into_iter().map(|saved| saved.name);
    assert_eq!(names.collect::<Vec<_>>(), [format!("{TTL}=64"), format!("{TTL}=65")]);
}

#[test]
fn ctrl_c_in_a_later_run_says_what_there_is_of_each() {
    let dir = scratch();
    let Some(mut command) = alone(dir.path()) else { return };
    let out = dir.path().join("run");
    let values: Vec<String> = (64..84).map(|value: u32| value.to_string()).collect();
    let sweep = format!("{TTL}={}", values.join(","));
    command.args(QUICK).args(["10", "--sweep", &sweep, "--out"]).arg(&out);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let there = |value: &str, name: &str| out.join(format!("{TTL}={value}")).join(name).exists();
    until("the second is begun", || there("65", "lock"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    // Which was begun when the signal came depends on the machine; on each side of it nothing does.
    let state_of = |value: &String| {
        let of_it = |line: &&str| line.ends_with(&format!("={value}`"));
        let line = said.lines().find(of_it).unwrap_or_else(|| panic!("{value}: {said}"));
        let states = ["ktax: done: `ktax report", "ktax: begun: resume", "ktax: not begun: "];
        let state = states.iter().position(|state| line.starts_with(state));
        let is_there = (there(value, "report.md"), there(value, "lock"), there(value, "plan.json"));
        let expected = [(true, true, true), (false, true, true), (false, false, true)];
        assert_eq!(is_there, expected[state.unwrap_or_else(|| panic!("{line}"))], "{said}");
        state
    };
    let states: Vec<Option<usize>> = values.iter().map(state_of).collect();
    assert!(states.is_sorted(), "{said}");
    assert!(states[0] == Some(0) && states[19] == Some(2), "{said}");
    assert!(states.iter().filter(|state| **state == Some(1)).count() <= 1, "{said}");
}
