//! Kernels from source, of a tree in small.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::place::{Place, ends_with};
use crate::kernel::error::{BuildError, KernelError};
use crate::kernel::obtain::obtain_for;
use crate::kernel::source::commits;
use crate::kernel::talk::Talk;
use crate::kernel::target::Target;
use crate::model::Subject;

#[test]
fn what_is_asked_for_twice_is_built_once_whichever_way_it_is_named() {
    let place = Place::new();
    let first = place.obtain(&place.source()).unwrap();
    assert!(ends_with(&first, "int base;"), "{first:?}");
    assert_eq!(first.identity.release.as_deref(), Some("6.12"));
    assert!(first.config.is_some());
    let again = place.obtain(&place.source()).unwrap();
    let by_revision = place.obtain(&place.revision("HEAD")).unwrap();
    assert_eq!((&again, by_revision.identity.sha256), (&first, first.identity.sha256.clone()));
    assert_eq!(place.builds(), 1);
    let other = Subject { config: vec!["CONFIG_NET=n".into()], ..place.source() };
    place.obtain(&other).unwrap();
    assert_eq!(place.builds(), 2);
}

#[test]
fn kconfig_is_asked_anew_only_if_it_could_say_something_else() {
    let place = Place::new();
    let off = Subject { config: vec!["CONFIG_NET=n".into()], ..place.source() };
    place.obtain(&off).unwrap();
    place.write("kernel/sys.c", "int other;\n");
    place.obtain(&off).unwrap();
    assert_eq!((place.asked(), place.builds()), (1, 2));
    place.write("Kconfig", "config OTHER\n");
    place.obtain(&off).unwrap();
    assert_eq!((place.asked(), place.builds()), (2, 3));
    // What the base says already makes the same configuration; it is asked for, and not built.
    place.obtain(&place.source()).unwrap();
    place.obtain(&Subject { config: vec!["CONFIG_NET=y".into()], ..place.source() }).unwrap();
    assert_eq!((place.asked(), place.builds()), (4, 4));
}

#[test]
fn a_directory_counts_as_it_is_and_a_revision_as_it_was() {
    let place = Place::new();
    place.write("kernel/sys.c", "int dirty;\n");
    place.write("kernel/sys.o", "what .gitignore names is no source");
    let source = place.obtain(&place.source()).unwrap();
    assert!(ends_with(&source, "int dirty;"));
    assert!(ends_with(&place.obtain(&place.revision("HEAD")).unwrap(), "int base;"));
    let patch = place.patch("int dirty;", "int patched;");
    let patched = Subject { patches: vec![patch], ..place.source() };
    assert!(ends_with(&place.obtain(&patched).unwrap(), "int patched;"));
    assert!(ends_with(&place.obtain(&place.source()).unwrap(), "int dirty;"));
}

#[test]
fn what_a_build_or_ktax_left_in_a_tree_is_no_source() {
    let place = Place::new();
    fs::remove_dir_all(place.tree().join(".git")).unwrap();
    let before = place.obtain(&place.source()).unwrap();
    for file in ["ktax-1/plan.json", "search/bounds/plan.json", "kernel/sys.o"] {
        let path = place.tree().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    }
    assert_eq!(place.obtain(&place.source()).unwrap(), before);
    // A package's .gitignore that leaves out everything leaves out nothing here.
    place.write(".gitignore", "/*\n");
    let whole = place.obtain(&place.source()).unwrap();
    place.write(".config", "CONFIG_A=y\n");
    assert_eq!(place.obtain(&place.source()).unwrap(), whole);
    place.write("kernel/sys.c", "int seen;\n");
    assert!(ends_with(&place.obtain(&place.source()).unwrap(), "int seen;"));
}

#[test]
fn the_commits_of_a_line_are_all_there_and_those_of_none_are_refused() {
    let place = Place::new();
    let subjects = ["second", "", "\u{1b}[2Jfourth"];
    for subject in subjects {
        let commit = ["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject];
        place.git(&commit);
    }
    let (_, all) = commits(&place.tree(), "HEAD~3", "HEAD").unwrap();
    assert_eq!(all.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(), subjects);
    let (_, upto) = commits(&place.tree(), "HEAD~3", "HEAD~1").unwrap();
    assert_eq!(upto, all[..2]);
    let error = commits(&place.tree(), "HEAD", "HEAD~1").unwrap_err();
    assert!(matches!(error, BuildError::NoLine { .. }), "{error}");
}

#[test]
fn the_users_tree_and_repository_stay_as_they_are() {
    let place = Place::new();
    place.write("kernel/sys.c", "int dirty;\n");
    let before = state(&place.tree());
    let patch = place.patch("int dirty;", "int patched;");
    place.obtain(&place.source()).unwrap();
    place.obtain(&place.revision("HEAD")).unwrap();
    place.obtain(&Subject { patches: vec![patch], ..place.source() }).unwrap();
    let after = state(&place.tree());
    let changed: Vec<_> =
        after.iter().filter(|file| !before.contains(file)).map(|f| &f.0).collect();
    assert!(changed.is_empty() && after.len() == before.len(), "{changed:?}");
}

/// Every file below, .git included, with content and time; but git refreshes the time of an object
/// that it would have written and found there.
fn state(dir: &Path) -> Vec<(PathBuf, Vec<u8>, Option<SystemTime>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        match metadata.is_dir() {
            true => all.extend(state(&path)),
            false => {
                let is_object = path.components().any(|part| part.as_os_str() == "objects");
                let time = (!is_object).then(|| metadata.modified().unwrap());
                all.push((path.clone(), fs::read(&path).unwrap(), time));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn what_cannot_be_built_says_why() {
    let place = Place::new();
    let error = place.fail(&place.revision("no-such"));
    assert!(matches!(error, BuildError::UnknownRevision { .. }), "{error}");
    let empty = Subject::of(&format!("src:{}", place.dir.path().display()), "");
    assert!(matches!(place.fail(&empty), BuildError::NotATree { .. }));
    let patch = place.patch("int other;", "int patched;");
    let error = place.fail(&Subject { patches: vec![patch], ..place.source() });
    assert!(matches!(&error, BuildError::Patch { said, .. } if said.contains("sys.c")), "{error}");
    let lost = Subject { config: vec!["CONFIG_LOST=y".into()], ..place.source() };
    let error = place.fail(&lost).to_string();
    assert!(error.contains("CONFIG_LOST=y and makes it n: it depends on FOUND"), "{error}");
    place.write("kernel/sys.c", "error\n");
    let error = place.fail(&place.source()).to_string();
    assert!(error.starts_with("the build failed: kernel/sys.c:1: error: as asked"), "{error}");
    // After a failed build the next one goes on in the same place.
    place.write("kernel/sys.c", "int mended;\n");
    assert!(ends_with(&place.obtain(&place.source()).unwrap(), "int mended;"));
}

#[test]
fn a_build_that_is_stopped_stops_at_once_and_the_next_one_goes_on() {
    let place = Place::new();
    place.write("kernel/sys.c", "int slow;\n");
    // The lock is make's too: that it can be had again says that all of it goes.
    match place.obtain_until(&place.source(), &|| true) {
        Err(KernelError::Cancelled) => {}
        other => panic!("{other:?}"),
    }
    place.write("kernel/sys.c", "int quick;\n");
    assert!(ends_with(&place.obtain(&place.source()).unwrap(), "int quick;"));
}

#[test]
fn a_disk_that_is_full_is_no_fault_of_the_source() {
    let place = Place::new();
    place.write("kernel/sys.c", "int full;\n");
    let error = place.fail(&place.source());
    assert!(matches!(error, BuildError::DiskFull { .. }), "{error}");
}

#[test]
fn a_configuration_begins_with_what_is_said() {
    let place = Place::new();
    let fragment = place.dir.path().join("fragment");
    fs::write(&fragment, "# of a distribution\nCONFIG_OF_FILE=m\n").unwrap();
    let config = |start: &str| {
        let wanted = vec!["CONFIG_OWN=y".into()];
        let start_config = Some(start.to_owned());
        let subject = Subject { config: wanted, start_config, ..place.source() };
        fs::read_to_string(place.obtain(&subject).unwrap().config.unwrap()).unwrap()
    };
    assert!(config("base").contains("CONFIG_BLK_DEV_INITRD=y\n"));
    assert_eq!(config("defconfig"), "CONFIG_OF_ARCH=y\nCONFIG_OWN=y\n");
    let of_file = config(fragment.to_str().unwrap());
    assert!(of_file.ends_with("CONFIG_OF_FILE=m\n\nCONFIG_OWN=y\n"), "{of_file}");
}

#[test]
fn a_package_has_no_kernel_for_another_machine() {
    let place = Place::new();
    let subject = Subject::of("debian:cloud-amd64", "");
    let cache = place.dir.path().join("cache");
    let talk = Talk { note: &|_| {}, status: &|_| {}, is_cancelled: &|| false };
    let error = obtain_for(&Target::E500V2, &subject, &cache, &talk).unwrap_err();
    assert!(matches!(error, KernelError::NotFor { wanted: "powerpc", .. }), "{error}");
}

#[test]
fn what_is_not_built_takes_no_options() {
    let place = Place::new();
    let subject = Subject { config: vec!["CONFIG_A=y".into()], ..Subject::of("/boot/vmlinuz", "") };
    let error = place.obtain(&subject).unwrap_err();
    assert!(matches!(error, KernelError::NotBuilt { .. }), "{error}");
}
