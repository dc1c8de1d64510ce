//! What somebody uses stays, whoever it is, and for as long as they use it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ktax::cache::{Budget, clean, survey};

use super::{command, directory, hash, json, lane, one_of_each};
use crate::common::{ktax, scratch, until};

/// Another process that has the lock of a file or a directory until it is killed.
struct Other(Child);

impl Other {
    fn locks(path: &Path, how: &str) -> Other {
        let mut flock = Command::new("flock");
        flock.args([how, "--no-fork"]).arg(path).args(["sh", "-c", "echo held; exec cat"]);
        let mut child = flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Other(child)
    }

    /// As `kill -9`.
    fn kill_it(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn what_another_process_uses_stays_until_it_is_killed() {
    let dir = scratch();
    let cache = dir.path();
    let planted = one_of_each(cache);
    for (kind, path) in &planted {
        one_of_each(cache);
        let other = match kind {
            ktax::cache::CacheKind::Lane => Other::locks(&path.join("lock"), "--exclusive"),
            _ => Other::locks(path, "--shared"),
        };
        let du = json(&command(&["du", "--json"], cache));
        let in_use: u64 = du["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| kind["in_use"].as_u64().unwrap())
            .sum();
        assert_eq!(in_use, 1, "{kind:?}: {du}");
        let ran = command(&["clean", "--all"], cache);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains(" are in use\n"), "{}", ran.stdout);
        let left: Vec<_> = survey(cache).entries.into_iter().map(|entry| entry.path).collect();
        assert_eq!(left, [path.as_path()], "{kind:?}");
        other.kill_it();
        command(&["clean", "--all"], cache);
        assert_eq!(survey(cache).bytes(), 0, "{kind:?}");
    }
}

/// The least recently used one is in use, so the next one goes in its place.
#[test]
fn what_is_in_use_counts_and_others_make_room() {
    let dir = scratch();
    let cache = dir.path();
    let plant = |number, age| directory(cache, &format!("snapshots/{}", hash(number)), 100, age);
    let [used, next, newest] = [plant(1, 30), plant(2, 20), plant(3, 10)];
    let holder = ktax::cache::Holder::hold(&used).unwrap();
    // Whoever uses it has set its time.
    super::age(&used, 30);
    let most = survey(cache).bytes() - 1;
    let cleaned = clean(cache, Budget::Bytes(most), true).unwrap().unwrap();
    assert_eq!(cleaned.removed.iter().map(|entry| &entry.path).collect::<Vec<_>>(), [&next]);
    assert!(used.exists() && newest.exists() && cleaned.in_use > 0);
    drop(holder);
}

/// A real ktax uses the guest's programs.
#[test]
fn the_programs_of_a_running_ktax_stay_until_it_is_killed() {
    let dir = scratch();
    let cache = dir.path().join("cache");
    let mut running = ktax();
    running.args(["workloads", "run", "getppid", "--samples", "10000", "--cache"]).arg(&cache);
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let in_use = || survey(&cache).entries.iter().filter(|entry| entry.in_use).count();
    until("the programs are in use", || in_use() == 1);
    let programs = fs::read_dir(cache.join("payload")).unwrap().next().unwrap().unwrap().path();
    command(&["clean", "--all"], &cache);
    assert!(programs.exists());
    running.kill().unwrap();
    running.wait().unwrap();
    until("nobody uses them", || in_use() == 0);
    command(&["clean", "--all"], &cache);
    assert!(!programs.exists());
}

/// A cleaner that waits for a build would wait for an hour.
#[test]
fn nobody_waits_for_a_lock_of_an_entry_and_two_cleaners_take_turns() {
    let dir = scratch();
    let cache = dir.path();
    let lane = lane(cache, "6.12", 10);
    let build = Other::locks(&lane.join("lock"), "--exclusive");
    let cleaner = Other::locks(cache, "--exclusive");
    assert!(clean(cache, Budget::Bytes(0), false).unwrap().is_none());
    cleaner.kill_it();
    let cleaned = clean(cache, Budget::Bytes(0), false).unwrap().unwrap();
    assert!(cleaned.removed.is_empty() && lane.exists());
    build.kill_it();
}
