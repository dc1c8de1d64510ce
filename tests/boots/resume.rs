//! Kill and resume, two writers, no orphans.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    self, KERNEL, QUICK_BOOT, SLOWER, assert_no_orphans, files_below, ktax, own_cache, quick, run,
    scratch, until,
};

/// Short ones: what is tested is between them.
const ROWS: [&str; 6] = ["-w", "getppid:ops=9", "-w", "pipe:ops=9", "-w", "fork-exit:ops=9"];
/// Number of runs of both sides under two layouts.
const RUNS: usize = 2 * 2 * ROWS.len() / 2;

fn plan(out: &Path) {
    let change = quick(SLOWER);
    let lines = ["--base-boot-line", QUICK_BOOT, "--change-boot-line", &change, "--layouts", "2"];
    let ran =
        run(ktax().args(["plan", "--kernel", KERNEL, "--out"]).arg(out).args(ROWS).args(lines));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// Files of a run that do not depend on time: all but the lock.
fn result(out: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_below(out);
    files.retain(|(path, _)| path != Path::new("lock"));
    files
}

fn finish(out: &Path) {
    // Two layouts are too few for a verdict.
    run(ktax().arg("run").arg(out)).exits(4);
    run(ktax().arg("analyse").arg(out).arg("--json")).exits(4);
}

fn start(out: &Path) -> Child {
    ktax().arg("run").arg(out).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// How many there are while it goes on.
fn runs(out: &Path) -> usize {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let runs = entries(out.join("boots")).flat_map(|boot| entries(boot.path().join("runs")));
    runs.filter(|run| run.path().extension().is_some_and(|end| end == "json")).count()
}

#[test]
fn a_run_killed_at_five_moments_ends_as_one_that_was_not() {
    let dir = scratch();
    let uninterrupted = dir.path().join("whole");
    plan(&uninterrupted);
    let started = Instant::now();
    finish(&uninterrupted);
    let wanted = result(&uninterrupted);
    // Warm by now: kills are spread over the runs, and over the time that one of them takes.
    let timed = dir.path().join("timed");
    plan(&timed);
    let started_warm = Instant::now();
    finish(&timed);
    let length = started_warm.elapsed().min(started.elapsed());
    assert!(result(&timed) == wanted);
    let mut partial = 0;
    for moment in 0..5 {
        let out = dir.path().join(format!("killed-{moment}"));
        plan(&out);
        let mut child = start(&out);
        while runs(&out) < moment * RUNS / 5 && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        std::thread::park_timeout(length / RUNS as u32 * moment as u32 / 5);
        drop(child.kill());
        child.wait().unwrap();
        assert_no_orphans(&out);
        let done = runs(&out);
        partial += usize::from(done > 0 && done < RUNS);
        finish(&out);
        assert!(result(&out) == wanted, "killed when {done} runs were done");
    }
    assert!(partial >= 2, "only {partial} kills were in the middle");
}

/// Whether a process has the lock on a file that it has open: `/proc/PID/fdinfo` says it.
fn has_lock(process: u32, file: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut of_file = open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == file));
    of_file.any(|fd| {
        let number = fd.file_name().into_string().unwrap();
        let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"));
        info.is_ok_and(|info| info.contains("lock:"))
    })
}

#[test]
fn a_second_writer_is_refused() {
    let dir = scratch();
    let out = dir.path().join("out");
    plan(&out);
    let mut first = start(&out);
    let lock = out.join("lock");
    until("the first has the lock", || has_lock(first.id(), &lock));
    // Keep it from ending before the others start.
    kill_process(Pid::from_child(&first), Signal::STOP).unwrap();
    let second = run(ktax().arg("run").arg(&out));
    let third = run(ktax().arg("analyse").arg(&out));
    drop(first.kill());
    first.wait().unwrap();
    for refused in [second, third] {
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        refused.says("in use by another ktax");
    }
    assert_no_orphans(&out);
}

#[test]
fn ctrl_c_cleans_up_and_says_how_to_resume() {
    let dir = scratch();
    let (out, cache) = (dir.path().join("out"), own_cache(dir.path()));
    plan(&out);
    let mut command = ktax();
    command.arg("run").arg(&out).arg("--cache").arg(&cache).stderr(Stdio::piped());
    let child = command.process_group(0).spawn().unwrap();
    // In the middle of the first boots: the snapshots are not there yet.
    while common::processes(&cache).is_empty() {
        std::thread::yield_now();
    }
    let pid = Pid::from_child(&child);
    // Signal the whole process group, as a terminal does.
    rustix::process::kill_process_group(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("resume with `ktax run"), "{stderr}");
    assert_no_orphans(&cache);
    let stored = files_below(&out);
    let is_boot = |path: &Path| path.file_name().is_some_and(|name| name == "boot.json");
    assert!(!stored.iter().any(|(path, _)| is_boot(path)), "stopping is no result: {stored:?}");
    let left = files_below(&cache.join("snapshots"));
    assert!(left.iter().all(|(path, _)| path.extension().is_some_and(|e| e == "lock")), "{left:?}");
}
