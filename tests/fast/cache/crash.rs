//! A cleaner that is killed leaves every entry whole or not there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use ktax::cache::{Holder, survey};

use super::{command, directory, file, hash};
use crate::common::{ktax, scratch, until};

const SNAPSHOTS: u32 = 12;
const FILES: usize = 300;

/// Snapshots of many files, so that a kill meets one of them half removed.
fn plant(cache: &Path) {
    for number in 0..SNAPSHOTS {
        let path = directory(cache, &format!("snapshots/{}", hash(number)), 0, 10);
        for at in 0..FILES {
            File::create(path.join(at.to_string())).unwrap();
        }
        super::age(&path, 10);
    }
}

/// The names of all snapshots and of what else is there, each with the number of its files.
fn seen(cache: &Path) -> Vec<(OsString, usize)> {
    let entries = fs::read_dir(cache.join("snapshots")).unwrap().flatten();
    let files = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    let mut seen: Vec<_> = entries.map(|entry| (entry.file_name(), files(&entry.path()))).collect();
    seen.sort();
    seen
}

#[test]
fn a_kill_in_the_middle_leaves_nothing_half() {
    let dir = scratch();
    let cache = dir.path();
    plant(cache);
    let mut in_the_middle = 0;
    while !survey(cache).entries.is_empty() {
        let before = seen(cache);
        let mut clean = ktax();
        clean.args(["cache", "clean", "--all", "--cache"]).arg(cache);
        let mut clean = clean.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("something is gone", || seen(cache) != before);
        clean.kill().unwrap();
        clean.wait().unwrap();
        let left = survey(cache);
        for entry in &left.entries {
            let files = fs::read_dir(&entry.path).unwrap().count();
            assert_eq!(files, FILES + 1, "{}", entry.path.display());
        }
        in_the_middle += usize::from(left.temporary_bytes > 0);
    }
    assert!(in_the_middle > 0, "no kill came in the middle");
    // The next one removes what the killed ones left.
    assert_eq!(command(&["clean", "--all"], cache).status, 0);
    let left = seen(cache);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_killed_processes_left_goes_and_what_others_write_stays() {
    let dir = scratch();
    let cache = dir.path();
    const DAYS: u64 = 2 * 24 * 60 * 60;
    let gone = [
        directory(cache, "snapshots/.gone-abc", 10, 0),
        directory(cache, "kernels/tmp/.tmpOLD", 10, DAYS),
        file(cache, "hosts/.new-old", 10, DAYS),
        file(cache, &format!("snapshots/{}.lock", hash(1)), 0, 0),
        directory(cache, "runs/.vm-left", 10, 0),
    ];
    File::create(gone[4].join("lock")).unwrap();
    let stay = [
        directory(cache, "builds/tmp/.tmpNEW", 10, 0),
        file(cache, "hosts/.new-new", 10, 0),
        file(cache, &format!("snapshots/{}.lock", hash(2)), 0, 0),
        directory(cache, "runs/.vm-runs", 10, 0),
    ];
    // Who makes a snapshot has its lock; a VM that runs has that of its directory.
    let making = ktax::disk::Lock::take(File::open(&stay[2]).unwrap()).unwrap();
    let lock = File::create(stay[3].join("lock")).unwrap();
    let running = ktax::disk::Lock::take(lock).unwrap();
    let ran = command(&["clean", "--cache-size", "unlimited"], cache);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for path in &gone {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in &stay {
        assert!(path.exists(), "{}", path.display());
    }
    drop((making, running));
}

#[test]
fn records_go_with_their_kernels_and_indexes_with_their_trees() {
    let dir = scratch();
    let cache = dir.path();
    let record = |name: &str, of: &str| {
        let path = file(cache, name, 0, 0);
        fs::write(&path, format!("{{\"image_sha256\":\"{of}\"}}")).unwrap();
        path
    };
    fs::create_dir_all(cache.join("builds/tmp")).unwrap();
    let [used, unused] = [1, 2].map(|n| directory(cache, &format!("kernels/{}", hash(n)), 10, 10));
    let stays = record("kernels/by-package/linux_1.json", &hash(1));
    let goes = [
        record("kernels/by-package/linux_2.json", &hash(2)),
        record(&format!("builds/by-recipe/{}.json", hash(9)), &hash(2)),
        directory(cache, "builds/trees.git", 10, 10),
        directory(cache, "builds/indexes", 10, 10),
        directory(cache, "builds/packages", 10, 10),
        unused,
    ];
    let holder = Holder::hold(&used).unwrap();
    assert_eq!(command(&["clean", "--all"], cache).status, 0);
    assert!(used.exists() && stays.exists());
    for path in &goes {
        assert!(!path.exists(), "{}", path.display());
    }
    drop(holder);
}
