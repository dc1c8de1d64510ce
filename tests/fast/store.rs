//! The store of measurements, on run directories that were made by hand.

mod crash;
mod full;
mod import;
mod special;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ktax::model::{CountsPlan, Failure, Measurement, Outcome, Run, Sample, Side, Signature};
use ktax::rundir::{AnyRunDir, RunDir};
use ktax::store::{Group, Kept, Store, StoreError, groups, measured, place_in};

use crate::common::{Ran, ktax, run, scratch};
use crate::fake::timed;
use crate::golden::fixtures::{self, Line, Made};

type Measured = Result<(Vec<Line>, Signature), Failure>;

fn call(_: Side, layout: usize) -> Measured {
    let lines = vec![("process", "entry_SYSCALL_64", 61 + layout as u64, 0)];
    Ok((lines, Signature::from([("calls".to_owned(), 400)])))
}

fn fails(side: Side, layout: usize) -> Measured {
    match (side, layout) {
        (Side::Change, 1) => Err(Failure::Refused { message: "no".into() }),
        _ => call(side, layout),
    }
}

const ROWS: &[Made] = &[
    ("getppid", "one call", call),
    ("stat", "one call", call),
    ("fork-pages:pages=16", "one fork", fails),
];

fn measured_dir(root: &Path) -> RunDir<CountsPlan> {
    fixtures::run_dir(root, "What is kept", 5, ROWS)
}

fn all(dir: &RunDir<CountsPlan>) -> Vec<(Group, Option<Measurement>)> {
    let of = |group: Group| (group.clone(), measured(dir, &group).unwrap());
    groups(dir.plan()).into_iter().map(of).collect()
}

/// A store with what a directory has measured, and how much that is.
fn filled(root: PathBuf, dir: &RunDir<CountsPlan>) -> (Store, usize) {
    let store = Store::new(root);
    let measurements: Vec<Measurement> = all(dir).into_iter().filter_map(|(_, it)| it).collect();
    for measurement in &measurements {
        assert_eq!(store.put(measurement).unwrap(), Kept::New);
        assert_eq!(store.put(measurement).unwrap(), Kept::Same);
    }
    (store, measurements.len())
}

/// `ktax store` with this command on a store.
fn command(words: &[&str], store: &Path) -> Ran {
    run(ktax().arg("store").args(words).arg("--store").arg(store))
}

#[test]
fn what_was_measured_comes_out_again_to_the_byte_and_failures_are_not_kept() {
    let dir = scratch();
    let first = measured_dir(&dir.path().join("first"));
    let (store, kept) = filled(dir.path().join("store"), &first);
    // Of three rows on two sides one failed.
    assert_eq!((kept, store.objects().unwrap().len()), (5, 5));
    let again = RunDir::create(&dir.path().join("again"), first.plan().clone()).unwrap();
    let _lock = again.lock().unwrap();
    for group in groups(again.plan()) {
        assert!(!group.is_begun(&again).unwrap(), "{}", group.row());
        if let Some(measurement) = store.get(&group.of).unwrap() {
            place_in(&again, &group, &measurement).unwrap();
            assert!(group.is_begun(&again).unwrap());
        }
    }
    for (group, measurement) in all(&first) {
        assert!(measured(&again, &group).unwrap() == measurement, "{}", group.row());
    }
}

#[test]
fn whatever_a_count_may_depend_on_is_another_measurement() {
    let dir = scratch();
    let first = measured_dir(&dir.path().join("run"));
    let (store, _) = filled(dir.path().join("store"), &first);
    let of = groups(first.plan()).remove(0).of;
    assert!(store.get(&of).unwrap().is_some());
    type Edit = fn(&mut ktax::model::Measurand);
    let edits: [Edit; 11] = [
        |of| of.kernel_sha256 = "cd".repeat(32),
        |of| of.boot_line.push_str(" quiet"),
        |of| of.machine.memory_mib += 1,
        |of| of.key.qemu.push('x'),
        |of| of.key.guest = "8".repeat(64),
        |of| of.key.machine.cpu = "qemu64".into(),
        |of| of.workload.ops += 1,
        |of| of.workload.params = [("pages".into(), 1)].into(),
        |of| of.layouts[0].seed += 1,
        |of| of.layouts.truncate(4),
        |of| of.layouts.swap(0, 1),
    ];
    for (at, edit) in edits.iter().enumerate() {
        let mut other = of.clone();
        edit(&mut other);
        assert!(store.get(&other).unwrap().is_none(), "edit {at}");
    }
}

#[test]
fn no_byte_of_an_object_changes_unseen() {
    let dir = scratch();
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let objects = store.objects().unwrap();
    let (path, whole) = (&objects[0], fs::read(&objects[0]).unwrap());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(path, &bytes).unwrap();
        assert!(matches!(store.read(path), Err(StoreError::Damaged { .. })), "byte {at}");
    }
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(path, &whole[..length]).unwrap();
        assert!(matches!(store.read(path), Err(StoreError::Damaged { .. })), "{length} bytes");
    }
    // Also a sound object under the name of another.
    fs::write(path, fs::read(&objects[1]).unwrap()).unwrap();
    let ran = command(&["fsck"], store.root());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(ran.stdout.contains(&format!("{} sound, 1 damaged", kept - 1)), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("quarantine/1-{name}")), "{}", ran.stdout);
    // Nothing else is lost, and it can be kept again.
    let ran = command(&["import", dir.path().join("run").to_str().unwrap()], store.root());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "kept 1 new measurement\n"));
    assert_eq!(command(&["fsck"], store.root()).stdout, format!("{kept} sound, 0 damaged\n"));
    let ran = command(&["gc", "--json"], store.root());
    assert!(ran.stdout.contains("quarantine/1-"), "{}", ran.stdout);
    assert!(!store.root().join("quarantine").join(format!("1-{name}")).exists());
}

/// Gzip's own tools read an object.
#[test]
fn an_object_is_gzip_for_everyone() {
    let dir = scratch();
    let (store, _) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let object = &store.objects().unwrap()[0];
    let ran = run(std::process::Command::new("gzip").arg("-dc").arg(object));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let read: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = store.read(object).unwrap();
    let of = serde_json::to_value(&expected.of).unwrap();
    assert_eq!(read["measurement"]["of"], of);
    // A function's line has the numbers of all layouts.
    let lines = read["profiles"]["lines"].as_array().unwrap();
    let line = lines.iter().position(|line| line.to_string().contains("entry_SYSCALL_64")).unwrap();
    assert_eq!(read["profiles"]["columns"][line][0].as_array().unwrap().len(), 5);
}

#[test]
fn other_counts_of_one_measurement_are_a_failure_that_names_both() {
    let dir = scratch();
    let root = dir.path().join("run");
    let run_dir = measured_dir(&root);
    let (store, kept) = filled(dir.path().join("store"), &run_dir);
    let step = &run_dir.plan().method.steps[0];
    let run: Run = run_dir.run(step, "getppid").unwrap().unwrap();
    let Outcome::Measured(sample) = run.outcome else { panic!() };
    let outcome = Outcome::Measured(Sample { tsc: sample.tsc + 1, ..sample });
    let profile = run_dir.profile_text(step, "getppid").unwrap();
    run_dir.write_run(step, &Run { row: run.row, outcome }, Some(&profile)).unwrap();
    let ran = command(&["import", root.to_str().unwrap()], store.root());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    for named in ["getppid of the base", "/objects/", "--verify-store", root.to_str().unwrap()] {
        assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
    }
    // Nobody knows which is right: nothing was changed, however often it is tried.
    assert_eq!(command(&["import", root.to_str().unwrap()], store.root()).status, 1);
    assert_eq!(store.objects().unwrap().len(), kept);
    assert!(!store.root().join("quarantine").exists());
}

#[test]
fn a_store_is_copied_and_a_second_time_nothing_is_new() {
    let dir = scratch();
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let other = dir.path().join("other");
    let export = |to: &Path| command(&["export", to.to_str().unwrap()], store.root()).stdout;
    assert_eq!(export(&other), format!("copied {kept} new measurements\n"));
    assert_eq!(export(&other), "copied 0 new measurements\n");
    let objects = |store: &Store| -> Vec<Vec<u8>> {
        store.objects().unwrap().iter().map(|path| fs::read(path).unwrap()).collect()
    };
    assert!(objects(&Store::new(other.clone())) == objects(&store));
    let third = dir.path().join("third");
    let ran = command(&["import", other.to_str().unwrap()], &third);
    assert_eq!(ran.stdout, format!("kept {kept} new measurements\n"));
    let ran = command(&["du"], &third);
    assert!(ran.stdout.contains(&format!("third: {kept} measurements in ")), "{}", ran.stdout);
    assert!(ran.stdout.ends_with(" KiB, 0 results in 0 bytes\n"), "{}", ran.stdout);
}

#[test]
fn what_has_no_counts_is_refused_and_an_empty_name_is_no_store() {
    let dir = scratch();
    let times = dir.path().join("times");
    AnyRunDir::create(&times, timed::plan().with(Into::into)).unwrap();
    let ran = command(&["import", times.to_str().unwrap()], &dir.path().join("store"));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("has no comparison yet"), "{}", ran.stderr);
    // The tests name none.
    let ran = run(ktax().args(["store", "du"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("KTAX_STORE is empty"), "{}", ran.stderr);
    let ran = run(ktax().args(["store", "du"]).env("KTAX_STORE", dir.path().join("other")));
    assert!(ran.stdout.contains("other: 0 measurements"), "{}", ran.stdout);
}

#[test]
fn what_ktax_did_not_set_aside_stays() {
    let dir = scratch();
    let (store, _) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let object = store.objects().unwrap().remove(0);
    let aside = store.move_aside(&object).unwrap();
    // Who comes second moves nothing.
    assert_eq!(store.move_aside(&object).unwrap(), aside);
    let quarantine = store.root().join("quarantine");
    assert_eq!(fs::read_dir(&quarantine).unwrap().count(), 1);
    let mine = quarantine.join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("thesis.txt"), "precious").unwrap();
    fs::write(quarantine.join("1-thesis.txt"), "precious").unwrap();
    assert_eq!(command(&["gc"], store.root()).stdout, "removed 1 file\n");
    assert!(!aside.exists() && mine.join("thesis.txt").exists());
    assert!(quarantine.join("1-thesis.txt").exists());
}

/// One file that cannot be read or moved hides no other.
#[test]
fn what_cannot_be_moved_is_named_and_a_file_without_end_is_damaged() {
    let dir = scratch();
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let objects = store.objects().unwrap();
    fs::remove_file(&objects[0]).unwrap();
    fs::File::create(&objects[0]).unwrap().set_len(3 << 30).unwrap();
    let quarantine = store.root().join("quarantine");
    fs::write(&quarantine, "in the way").unwrap();
    let named = objects[0].to_str().unwrap();
    let ran = command(&["fsck"], store.root());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stdout.starts_with(&format!("{} sound, 0 damaged\n{named}", kept - 1)), "{ran:?}");
    fs::remove_file(&quarantine).unwrap();
    let said = command(&["fsck"], store.root()).stdout;
    assert!(said.starts_with(&format!("{} sound, 1 damaged\n", kept - 1)), "{said}");
}

/// A path has bytes that are no text.
#[test]
fn any_path_can_be_a_store() {
    use std::os::unix::ffi::OsStrExt;
    let dir = scratch();
    let root = dir.path().join(std::ffi::OsStr::from_bytes(b"st\xff"));
    filled(root.clone(), &measured_dir(&dir.path().join("run")));
    for words in [&["du"][..], &["fsck"], &["gc"], &["index"], &["du", "--json"]] {
        assert_eq!(command(words, &root).status, 0, "{words:?}");
    }
    assert_eq!(run(ktax().args(["cache", "du", "--json", "--cache"]).arg(&root)).status, 0);
}

/// What was made together has one time: its order is that of its names.
#[test]
fn results_that_were_made_together_are_kept_together() {
    let dir = scratch();
    let saved = |at: usize| {
        let root = dir.path().join(format!("run-{at}"));
        fixtures::run_dir(&root, &format!("title {at}"), 5, &ROWS[..1]);
        run(ktax().arg("analyse").arg(&root));
        ktax::flow::saved(&[root]).unwrap().remove(0)
    };
    let all: Vec<_> = (0..4).map(saved).collect();
    let store = Store::new(dir.path().join("store"));
    store.put_results(all).unwrap();
    let times: Vec<_> = store.results().unwrap().iter().map(|path| modified(path)).collect();
    assert!(times.len() == 4 && times.iter().all(|time| *time == times[0]), "{times:?}");
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}
