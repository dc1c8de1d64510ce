//! File systems that lack something: locks, room, the right to write.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::Asked;
use super::index::{ASKED, KILLED, answers, dump, file, filled, kill, lasting};
use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{Ran, run};

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");

/// A filter under which file locks fail, as on a file system without them.
fn without_locks() -> BpfProgram {
    let command = |number| {
        let is_it = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number);
        SeccompRule::new(vec![is_it.unwrap()]).unwrap()
    };
    // fcntl(F_SETLK, F_SETLKW and those of open files), and flock.
    let fcntl = [6, 7, 37, 38].map(command).to_vec();
    let rules = [(72, fcntl), (73, vec![])].into();
    let refused = SeccompAction::Errno(37); // ENOLCK
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        refused,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    filter.unwrap().try_into().unwrap()
}

fn under(filter: &BpfProgram, asked: &Asked, words: &[&str]) -> Ran {
    let mut command = asked.command(words);
    lock_free(&mut command, filter);
    run(&mut command)
}

fn lock_free(command: &mut Command, filter: &BpfProgram) {
    let filter = filter.clone();
    // SAFETY: the closure makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(move || apply_filter(&filter).map_err(io::Error::other)) };
}

#[test]
fn without_file_locks_the_answers_are_the_same_and_the_index_is_in_memory() {
    let asked = filled();
    let expected = answers(&asked);
    let filter = without_locks();
    for (words, expected) in ASKED.iter().zip(&expected) {
        let ran = under(&filter, &asked, words);
        assert!(lasting(&ran.stdout) == *expected, "{words:?}: {}", ran.stderr);
    }
    let ran = under(&filter, &asked, &["store", "index"]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("there is no file; give --cache"), "{}", ran.stderr);
    // The store itself locks nothing: it can be written.
    let run = asked.path().join("run");
    let other = asked.path().join("other");
    let words = ["store", "import", run.to_str().unwrap(), "--store", other.to_str().unwrap()];
    let ran = under(&filter, &asked, &words);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (0, "kept 4 new measurements and 1 new result\n")
    );
}

#[test]
fn a_cache_and_a_store_that_are_read_only_can_be_asked() {
    if !may_mount() {
        return;
    }
    let asked = filled();
    let expected = asked.said(&["history", "--json"]);
    let mount = "mount --bind \"$2\" /mnt && mount -o remount,bind,ro,noexec /mnt && \
                 KTAX_STORE=/mnt/store KTAX_CACHE=/mnt/cache \"$1\" history --json";
    for remove in [false, true] {
        if remove {
            fs::remove_dir_all(asked.path().join("cache")).unwrap();
        }
        let ran = in_namespace(mount, &[OsStr::new(KTAX), asked.path().as_os_str()]);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
}

#[test]
fn a_full_disk_beneath_the_index_costs_no_answer() {
    if !may_mount() {
        return;
    }
    let asked = filled();
    let expected = asked.said(&["history", "--json"]);
    // From no room for a directory to room for all of it.
    for pages in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144] {
        let script = "mount -t tmpfs -o size=$3k none /mnt && KTAX_CACHE=/mnt KTAX_STORE=\"$2\" \
                      \"$1\" history --json";
        let size = (4 * pages).to_string();
        let words = [OsStr::new(KTAX), asked.store.root().as_os_str(), OsStr::new(&size)];
        let ran = in_namespace(script, &words);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, expected.as_str()), "{}", ran.stderr);
    }
}

/// The store of another run is filled on a file system without locks, and asked on one with them.
#[test]
fn writers_that_are_killed_without_file_locks_lose_nothing() {
    let asked = filled();
    let expected = answers(&asked);
    let (objects, results) = (asked.store.objects().unwrap(), asked.store.results().unwrap());
    let filter = without_locks();
    let run = asked.path().join("run");
    let mut killed = 0;
    while killed < KILLED {
        for object in objects.iter().chain(&results).step_by(3) {
            let _ = fs::remove_file(object);
        }
        killed += kill(&asked, |command| {
            command.args(["store", "import"]).arg(&run);
            lock_free(command, &filter);
        });
        for object in asked.store.objects().unwrap() {
            asked.store.read(&object).unwrap();
        }
    }
    // What was removed is made again: of the run by its import, of the others by hand.
    let again = filled();
    asked.said(&["store", "import", again.store.root().to_str().unwrap()]);
    assert!(answers(&asked) == expected);
    assert!(dump(&file(&asked)) == dump(&file(&again)));
}
