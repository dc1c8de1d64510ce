//! Builds in a cache that is cleaned before, between and meanwhile.

use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::place::{Place, ends_with};
use ktax_host::cache::{Budget, CacheKind, clean, survey};

fn cache(place: &Place) -> PathBuf {
    place.dir.path().join("cache")
}

/// Removes what there is of one kind, as a cleaner does that finds it unused for longest.
fn remove(cache: &Path, kind: CacheKind) {
    for entry in survey(cache).of(kind) {
        File::open(&entry.path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    wait_for_children(cache);
    while survey(cache).of(kind).next().is_some() {
        let most = survey(cache).bytes() - 1;
        let cleaned = clean(cache, Budget::Bytes(most), true).unwrap().unwrap();
        assert_eq!(cleaned.removed.iter().map(|it| it.kind).collect::<Vec<_>>(), [kind]);
    }
}

/// What another test's thread starts meanwhile has the lock of a lane until it ends.
fn wait_for_children(cache: &Path) {
    while survey(cache).entries.iter().any(|entry| entry.in_use) {
        std::thread::yield_now();
    }
}

#[test]
fn what_was_removed_is_made_again_whatever_is_still_there() {
    let place = Place::new();
    let cache = cache(&place);
    let first = place.obtain(&place.source()).unwrap().identity.sha256;
    wait_for_children(&cache);
    clean(&cache, Budget::Bytes(0), true).unwrap();
    assert_eq!(survey(&cache).bytes(), 0);
    let again = place.obtain(&place.source()).unwrap();
    assert_eq!((again.identity.sha256, place.builds()), (first, 2));
    for (at, kind) in [CacheKind::SourceTrees, CacheKind::Lane, CacheKind::Kernel]
        .into_iter()
        .chain([CacheKind::SourceTrees, CacheKind::Lane])
        .enumerate()
    {
        remove(&cache, kind);
        let text = format!("int version{at};");
        place.write("kernel/sys.c", &format!("{text}\n"));
        let patch = place.patch(&text, "int patched;");
        assert!(ends_with(&place.obtain(&place.source()).unwrap(), &text), "{kind:?}");
        let patched = ktax_model::Subject { patches: vec![patch], ..place.source() };
        assert!(ends_with(&place.obtain(&patched).unwrap(), "int patched;"), "{kind:?}");
    }
    // The user's own files are no part of the cache.
    assert!(place.tree().join("kernel/sys.c").exists());
}

#[test]
fn a_build_that_runs_keeps_its_lane_and_its_trees() {
    let place = Place::new();
    let cache = cache(&place);
    place.write("kernel/sys.c", "int slow;\n");
    let cleaned = Cell::new(0);
    let clean_meanwhile = || {
        // It is asked once more when the build has ended.
        if cleaned.get() > 1 {
            return true;
        }
        clean(&cache, Budget::Bytes(0), true).unwrap();
        let is_building = cache.join("builds/lanes/0/objects/.config").exists();
        if is_building {
            let left: Vec<CacheKind> = survey(&cache).entries.iter().map(|it| it.kind).collect();
            assert!(left.contains(&CacheKind::Lane) && left.contains(&CacheKind::SourceTrees));
            cleaned.set(cleaned.get() + 1);
        }
        false
    };
    place.obtain_until(&place.source(), &clean_meanwhile).unwrap_err();
    assert!(cleaned.get() > 1);
    wait_for_children(&cache);
    clean(&cache, Budget::Bytes(0), true).unwrap();
    assert_eq!(survey(&cache).bytes(), 0);
}
