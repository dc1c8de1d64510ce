//! A store that cannot be written: said, and as it was before.

use super::{filled, measured_dir};
use crate::common::mounts::{in_namespace, may_mount};
use crate::common::scratch;

#[test]
fn a_full_disk_is_said_and_the_store_is_as_before() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let root = dir.path().join("run");
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&root));
    // From no room for a directory to room for all but one: each writing step meets the full disk.
    for pages in 1..=2 * kept {
        let script = "mount -t tmpfs -o size=$4 none /mnt && mkdir -p /mnt/store && \
                      \"$1\" store import \"$2\" --store /mnt/store; echo status $?; \
                      \"$1\" store fsck --store /mnt/store";
        let size = format!("{}k", 4 * (pages + 1));
        let words = [env!("CARGO_BIN_EXE_ktax"), root.to_str().unwrap(), "", &size];
        let ran = in_namespace(script, &words);
        if ran.stdout.contains("status 0") {
            assert!(pages > 2, "{}", ran.stdout);
            continue;
        }
        assert!(ran.stdout.contains("status 1\n"), "{size}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
        assert!(ran.stderr.contains("free disk space of the store"), "{}", ran.stderr);
        assert!(ran.stdout.contains(" sound, 0 damaged"), "{size}: {}", ran.stdout);
    }
    assert_eq!(store.objects().unwrap().len(), kept);
}

#[test]
fn a_store_that_is_read_only_can_be_read() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let root = dir.path().join("run");
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&root));
    let script = "mount --bind \"$3\" /mnt && mount -o remount,bind,ro,noexec /mnt && \
                  \"$1\" store import \"$2\" --store /mnt && \"$1\" store du --store /mnt";
    let words =
        [env!("CARGO_BIN_EXE_ktax"), root.to_str().unwrap(), store.root().to_str().unwrap()];
    let ran = in_namespace(script, &words);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains(&format!("/mnt: {kept} measurements")), "{}", ran.stdout);
}
