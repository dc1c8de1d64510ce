//! A snapshot on disk is used as it was made, or not at all.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::common::{
    KERNEL, MEANINGLESS, QUICK_BOOT, assert_no_orphans, comes, compare, files_below, ktax,
    measurements, own_cache, processes, run, scratch, until,
};

/// The memory files of all snapshots.
fn memories(cache: &Path) -> Vec<PathBuf> {
    let dirs = fs::read_dir(cache.join("snapshots")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        dirs.map(|dir| dir.join("ram")).filter(|path| path.exists()).collect();
    files.sort();
    files
}

fn inodes(files: &[PathBuf]) -> Vec<u64> {
    files.iter().map(|file| fs::metadata(file).unwrap().ino()).collect()
}

#[test]
fn a_snapshot_with_one_changed_byte_of_memory_is_made_again() {
    let dir = scratch();
    let cache = own_cache(dir.path());
    let args = ["-w", "control-loop:ops=1", "--layouts", "1", "--cache"];
    let args = [&args[..], &[cache.to_str().unwrap()]].concat();
    let run = |name: &str| {
        let out = dir.path().join(name);
        let (ran, _) = compare(&out, ["", MEANINGLESS], &args);
        assert!(matches!(ran.status, 0 | 4), "{}", ran.stderr);
        measurements(&out)
    };
    let first = run("first");
    let files = memories(&cache);
    let made = inodes(&files);
    assert_eq!(files.len(), 2);
    run("again");
    assert_eq!(inodes(&files), made, "a whole snapshot is used again");
    // The first 640 KiB are memory, and the kernel leaves some of them alone.
    let damaged = File::options().read(true).write(true).open(&files[0]).unwrap();
    let mut byte = [0];
    damaged.read_exact_at(&mut byte, 0x9000).unwrap();
    damaged.write_all_at(&[!byte[0]], 0x9000).unwrap();
    let third = run("third");
    let now = inodes(&files);
    assert!(now[0] != made[0] && now[1] == made[1], "{made:?} {now:?}");
    assert_eq!(third, first);
}

/// A file of a snapshot that is not finished.
fn is_being_made(cache: &Path, file: &str) -> bool {
    let entries = fs::read_dir(cache.join("snapshots")).into_iter().flatten().flatten();
    let mut unfinished =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".vm-"));
    unfinished.any(|entry| entry.path().join(file).exists())
}

#[test]
fn a_kill_during_a_snapshot_leaves_no_files() {
    let dir = scratch();
    let [uninterrupted, killed] = ["whole", "killed"].map(|name| {
        fs::create_dir(dir.path().join(name)).unwrap();
        let (out, cache) = (dir.path().join(name).join("out"), own_cache(&dir.path().join(name)));
        let mut plan = ktax();
        plan.args(["plan", "--same", "--kernel", KERNEL, "-w", "control-loop:ops=1"]);
        plan.args(["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT]);
        run(plan.args(["--layouts", "2", "--out"]).arg(&out).arg("--cache").arg(&cache)).exits(0);
        (out, cache)
    });
    let go = |(out, cache): &(PathBuf, PathBuf)| {
        let mut command = ktax();
        command.arg("run").arg(out).arg("--cache").arg(cache).env("TMPDIR", dir.path());
        command
    };
    // While the kernel boots, and while QEMU sends the state.
    for file in ["ram", "state"] {
        let mut command = go(&killed);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_there = comes(|| is_being_made(&killed.1, file));
        drop(child.kill());
        child.wait().unwrap();
        assert!(is_there, "no snapshot is being made");
        until("QEMU is gone", || processes(&killed.1).is_empty());
        assert_no_orphans(&killed.1);
        assert!(is_being_made(&killed.1, file), "the kill was in the middle");
    }
    let names = |cache: &Path| {
        let mut names: Vec<PathBuf> =
            files_below(cache).into_iter().map(|(path, _)| path).collect();
        names.sort();
        names
    };
    for directory in [&uninterrupted, &killed] {
        run(&mut go(directory)).exits(0);
    }
    assert_eq!(names(&killed.1), names(&uninterrupted.1));
    assert!(!is_being_made(&killed.1, ""), "an empty directory is left");
    assert!(measurements(&killed.0) == measurements(&uninterrupted.0), "the results differ");
}

// How long it takes: what `ktax plan` expects, and what it learns from runs.

/// A boot that is made, because one of the cache says nothing of how long it takes.
#[test]
fn a_plan_says_how_long_it_takes_as_earlier_runs_did() {
    let dir = scratch();
    let (cache, state) = (own_cache(dir.path()), dir.path().join("state"));
    let planned = |words: &[&str]| {
        let lines = ["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT];
        let mut command = ktax();
        command.env("KTAX_CACHE", &cache).env("KTAX_STATE", &state).args(words).args(lines);
        let ran =
            run(command.args(["--same", "--kernel", KERNEL, "-w", "getppid", "-l", "1"])).exits(0);
        ran.stderr
    };
    let stderr = planned(&["plan", "--jobs", "1"]);
    // Two boots of 6 s, and two runs of 0.4 s.
    assert!(stderr.contains("ktax: it takes about 13 s with 1 VM at a time (a guess"), "{stderr}");
    planned(&["compare", "--out", dir.path().join("out").to_str().unwrap()]);
    let rates: Value =
        serde_json::from_str(&fs::read_to_string(state.join("rates.json")).unwrap()).unwrap();
    let (boot, row) = (&rates["boots"]["exact"], &rates["runs"]["exact/getppid"]);
    assert!(boot.as_f64().unwrap() >= 1.0 && row.as_f64().unwrap() > 0.0, "{rates}");
    fs::write(state.join("rates.json"), r#"{"boots":{"exact":20},"runs":{"exact/getppid":2}}"#)
        .unwrap();
    let stderr = planned(&["plan", "--jobs", "1"]);
    let learned =
        "ktax: it takes about 44 s with 1 VM at a time (based on earlier runs on this machine";
    assert!(stderr.contains(learned), "{stderr}");
}
