//! A snapshot on disk is used as it was made, or not at all.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::common::{QUICK_BOOT, compare, measurements, own_cache, scratch};

/// The memory files of all snapshots.
fn memories(cache: &Path) -> Vec<PathBuf> {
    let dirs = fs::read_dir(cache.join("snapshots")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        dirs.map(|dir| dir.join("ram")).filter(|it| it.exists()).collect();
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
        let change = format!("{QUICK_BOOT} ktax.none=1");
        let (ran, _) = compare(&out, [QUICK_BOOT, &change], &args);
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
