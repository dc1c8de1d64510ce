//! Removes Snapshots that were not used for a week: a cache that only grows fills the disk.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long a Snapshot is kept after its last use.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The file whose time says when its Snapshot was last used.
pub(super) const MARK: &str = "seal";

/// Records that the Snapshot in `dir` is used now. If that fails, it is booted again in a week.
pub(super) fn touch(dir: &Path) {
    let touch = || -> io::Result<()> {
        File::options().append(true).open(dir.join(MARK))?.set_modified(SystemTime::now())
    };
    drop(touch());
}

/// Removes the Snapshots in `parent` that were not used for [`KEPT`]. One that is in use was
/// touched when it was opened.
pub(super) fn evict(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let used = fs::metadata(entry.path().join(MARK)).and_then(|mark| mark.modified());
        if used.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT)) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_a_week_goes_and_what_is_touched_stays() {
        let parent = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - KEPT - Duration::from_secs(60);
        for name in ["old", "touched", "new", "unfinished"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        for name in ["old", "touched"] {
            let mark = File::create(parent.path().join(name).join(MARK)).unwrap();
            mark.set_modified(long_ago).unwrap();
        }
        File::create(parent.path().join("new").join(MARK)).unwrap();
        touch(&parent.path().join("touched"));
        evict(parent.path());
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["new", "touched", "unfinished"]);
    }
}
