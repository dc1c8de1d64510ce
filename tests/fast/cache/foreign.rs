//! What is not ktax's is neither counted nor removed, whatever it is called and wherever it lies.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use ktax::cache::{Budget, clean, survey};

use super::{command, directory, file, hash};
use crate::common::{run, scratch};

/// All paths below a directory; links are not followed.
fn tree(root: &Path) -> Vec<String> {
    let ran = run(Command::new("find").arg(root));
    let mut paths: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
    paths.sort();
    paths
}

fn pipe(path: &Path) {
    assert_eq!(run(Command::new("mkfifo").arg(path)).status, 0);
}

#[test]
fn files_of_others_are_neither_counted_nor_removed() {
    let dir = scratch();
    let cache = dir.path();
    for name in ["snapshots/holiday", "kernels/my-kernel", "payload/x", "mine", "hosts/backup"] {
        directory(cache, name, 10, 9999);
    }
    let upper = hash(0xabc).to_uppercase();
    for name in ["symbols/notes", "hosts/a.cpio", &format!("symbols/{upper}"), "README"] {
        file(cache, name, 10, 9999);
    }
    // The names of entries, and not what entries are.
    file(cache, &format!("snapshots/{}", hash(1)), 10, 9999);
    directory(cache, &format!("symbols/{}", hash(2)), 10, 9999);
    pipe(&cache.join("symbols").join(hash(3)));
    // Nobody has built a kernel here, so these are of somebody else.
    for name in ["builds/ccache", "builds/trees.git", "builds/lanes/6.12"] {
        directory(cache, name, 10, 9999);
    }
    let before = tree(cache);
    assert_eq!(survey(cache).bytes(), 0, "{:?}", survey(cache));
    let ran = command(&["clean", "--all"], cache);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(tree(cache), before);
    // A lane that no build has locked is none of ktax's either.
    fs::create_dir(cache.join("builds/tmp")).unwrap();
    assert_eq!(survey(cache).entries_of_kind(ktax::cache::CacheKind::Lane).count(), 0);
}

#[test]
fn links_are_not_followed() {
    let dir = scratch();
    let (cache, outside) = (dir.path().join("cache"), dir.path().join("outside"));
    directory(&outside, "kept", 10, 9999);
    directory(&outside, &hash(1), 10, 9999);
    let entry = directory(&cache, &format!("snapshots/{}", hash(2)), 0, 10);
    symlink(&outside, entry.join("link")).unwrap();
    symlink(outside.join("kept/content"), entry.join("file")).unwrap();
    // An entry that is a link, and a directory of entries that is one.
    symlink(&outside, cache.join("snapshots").join(hash(3))).unwrap();
    symlink(&outside, cache.join("payload")).unwrap();
    symlink(&outside, cache.join("snapshots/.gone-link")).unwrap();
    let before = tree(&outside);
    assert_eq!(survey(&cache).entries.len(), 1);
    let cleaned = clean(&cache, Budget::Bytes(0), true).unwrap().unwrap();
    assert_eq!(cleaned.removed.len(), 1);
    assert!(!entry.exists() && cache.join("payload").exists());
    assert!(fs::symlink_metadata(cache.join("snapshots").join(hash(3))).is_ok());
    assert_eq!(tree(&outside), before);
}

/// Root reads everything, so the reader is somebody else.
#[test]
fn what_cannot_be_read_is_left_alone() {
    let dir = scratch();
    let cache = dir.path();
    let closed = directory(cache, &format!("snapshots/{}", hash(1)), 10, 9999);
    let open = directory(cache, &format!("snapshots/{}", hash(2)), 10, 10);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let found = survey(cache).entries.len();
    assert_eq!(found, if is_root { 2 } else { 1 });
    if !is_root {
        command(&["clean", "--all"], cache);
        assert!(closed.exists() && !open.exists());
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_cache_that_is_not_there_has_nothing_and_is_not_made() {
    let dir = scratch();
    let cache = dir.path().join("none");
    assert!(command(&["du"], &cache).stdout.starts_with("   0 bytes  "));
    let ran = command(&["clean", "--all"], &cache);
    assert_eq!((ran.status, cache.exists()), (0, false), "{}", ran.stderr);
    // A file in the place of the cache.
    fs::write(&cache, "").unwrap();
    let ran = command(&["clean", "--all"], &cache);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(cache.exists());
}
