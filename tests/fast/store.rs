//! The store of measurements, on run directories that were made by hand.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use ktax::model::{
    CountsPlan, FORMAT, Failure, Measurement, Outcome, Run, Sample, Side, Signature,
};
use ktax::rundir::{AnyRunDir, RunDir};
use ktax::store::{
    PutOutcome, SideRow, Store, StoreError, encode_measurement, measured, side_rows, write_stored,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{Ran, isolate, ktax, run, scratch, scratch_path};
use crate::fake::timed;
use crate::golden::cases::{self, Line, Made};

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
    cases::run_dir(root, "What is kept", 5, ROWS)
}

fn groups_of(dir: &RunDir<CountsPlan>) -> Vec<(SideRow, Option<Measurement>)> {
    let with_measurement = |group: SideRow| (group.clone(), measured(dir, &group).unwrap());
    side_rows(dir.plan()).into_iter().map(with_measurement).collect()
}

/// A store with what a directory has measured, and how much that is.
fn filled(root: PathBuf, dir: &RunDir<CountsPlan>) -> (Store, usize) {
    let store = Store::new(root);
    let measurements: Vec<Measurement> =
        groups_of(dir).into_iter().filter_map(|(_, measurement)| measurement).collect();
    for measurement in &measurements {
        assert_eq!(store.put(measurement).unwrap(), PutOutcome::New);
        assert_eq!(store.put(measurement).unwrap(), PutOutcome::Same);
    }
    (store, measurements.len())
}

/// A directory with a run in `run/`, and `store/` with what it has measured, and how much that is.
fn kept_store() -> (TempDir, Store, usize) {
    let dir = scratch();
    let (store, count) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    (dir, store, count)
}

/// `ktax store` with this command on a store.
fn command(words: &[&str], store: &Path) -> Ran {
    run(ktax().arg("store").args(words).arg("--store").arg(store))
}

#[test]
fn what_was_measured_comes_out_again_to_the_byte_and_failures_are_not_kept() {
    let dir = scratch();
    let first = measured_dir(&dir.path().join("first"));
    let (store, count) = filled(dir.path().join("store"), &first);
    // One of three rows failed on one of two sides.
    assert_eq!((count, store.objects().unwrap().len()), (5, 5));
    let again = RunDir::create(&dir.path().join("again"), first.plan().clone()).unwrap();
    let _lock = again.lock().unwrap();
    for group in side_rows(again.plan()) {
        assert!(!group.is_begun(&again).unwrap(), "{}", group.row());
        if let Some(measurement) = store.get(&group.measurand).unwrap() {
            write_stored(&again, &group, &measurement).unwrap();
            assert!(group.is_begun(&again).unwrap());
        }
    }
    for (group, measurement) in groups_of(&first) {
        assert!(measured(&again, &group).unwrap() == measurement, "{}", group.row());
    }
}

#[test]
fn whatever_a_count_may_depend_on_is_another_measurement() {
    let dir = scratch();
    let first = measured_dir(&dir.path().join("run"));
    let (store, _) = filled(dir.path().join("store"), &first);
    let measurand = side_rows(first.plan()).remove(0).measurand;
    assert!(store.get(&measurand).unwrap().is_some());
    type Edit = fn(&mut ktax::model::Measurand);
    let edits: [Edit; 11] = [
        |measurand| measurand.kernel_sha256 = "cd".repeat(32),
        |measurand| measurand.boot_line.push_str(" quiet"),
        |measurand| measurand.machine.memory_mib += 1,
        |measurand| measurand.key.qemu.push('x'),
        |measurand| measurand.key.guest = "8".repeat(64),
        |measurand| measurand.key.machine.cpu = "qemu64".into(),
        |measurand| measurand.workload.ops += 1,
        |measurand| measurand.workload.params = [("pages".into(), 1)].into(),
        |measurand| measurand.layouts[0].seed += 1,
        |measurand| measurand.layouts.truncate(4),
        |measurand| measurand.layouts.swap(0, 1),
    ];
    for (index, edit) in edits.iter().enumerate() {
        let mut other = measurand.clone();
        edit(&mut other);
        assert!(store.get(&other).unwrap().is_none(), "edit {index}");
    }
}

#[test]
fn no_byte_of_an_object_changes_unseen() {
    let (dir, store, count) = kept_store();
    let objects = store.objects().unwrap();
    let (path, content) = (&objects[0], fs::read(&objects[0]).unwrap());
    for index in 0..content.len() {
        let mut bytes = content.clone();
        bytes[index] ^= 1 << (index % 8);
        fs::write(path, &bytes).unwrap();
        assert!(matches!(store.read(path), Err(StoreError::Damaged { .. })), "byte {index}");
    }
    for length in [0, 1, content.len() / 2, content.len() - 1] {
        fs::write(path, &content[..length]).unwrap();
        assert!(matches!(store.read(path), Err(StoreError::Damaged { .. })), "{length} bytes");
    }
    // A sound object under another name is damaged, too.
    fs::write(path, fs::read(&objects[1]).unwrap()).unwrap();
    let ran = command(&["fsck"], store.root()).exits(1);
    let name = path.file_name().unwrap().to_str().unwrap();
    ran.prints(format!("{} sound, 1 damaged", count - 1)).prints(format!("quarantine/1-{name}"));
    // Nothing else is lost, and it can be kept again.
    let ran = command(&["import", dir.path().join("run").to_str().unwrap()], store.root());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "kept 1 new measurement\n"));
    assert_eq!(command(&["fsck"], store.root()).stdout, format!("{count} sound, 0 damaged\n"));
    command(&["gc", "--json"], store.root()).prints("quarantine/1-");
    assert!(!store.root().join("quarantine").join(format!("1-{name}")).exists());
}

/// Gzip's own tools read an object.
#[test]
fn an_object_is_gzip_for_everyone() {
    let (_dir, store, _) = kept_store();
    let object = &store.objects().unwrap()[0];
    let ran = run(std::process::Command::new("gzip").arg("-dc").arg(object));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let read: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = store.read(object).unwrap();
    let saved = serde_json::to_value(&expected.measurand).unwrap();
    assert_eq!(read["measurement"]["of"], saved);
    // A function's line has the numbers of all layouts.
    let lines = read["profiles"]["lines"].as_array().unwrap();
    let line = lines.iter().position(|line| line.to_string().contains("entry_SYSCALL_64")).unwrap();
    assert_eq!(read["profiles"]["columns"][line][0].as_array().unwrap().len(), 5);
}

#[test]
fn other_counts_of_one_measurement_are_a_failure_that_names_both() {
    let (dir, root) = scratch_path("run");
    let run_dir = measured_dir(&root);
    let (store, count) = filled(dir.path().join("store"), &run_dir);
    let step = &run_dir.plan().method.steps[0];
    let run: Run = run_dir.run(step, "getppid").unwrap().unwrap();
    let Outcome::Measured(sample) = run.outcome else { panic!() };
    let outcome = Outcome::Measured(Sample { tsc: sample.tsc + 1, ..sample });
    let profile = run_dir.profile_text(step, "getppid").unwrap();
    run_dir.write_run(step, &Run { row: run.row, outcome }, Some(&profile)).unwrap();
    let ran = command(&["import", root.to_str().unwrap()], store.root()).exits(1);
    for named in ["getppid of the base", "/objects/", "--verify-store", root.to_str().unwrap()] {
        ran.says(named);
    }
    // Nobody knows which is right: nothing was changed, however often it is tried.
    assert_eq!(command(&["import", root.to_str().unwrap()], store.root()).status, 1);
    assert_eq!(store.objects().unwrap().len(), count);
    assert!(!store.root().join("quarantine").exists());
}

#[test]
fn a_store_is_copied_and_a_second_time_nothing_is_new() {
    let (dir, store, count) = kept_store();
    let other = dir.path().join("other");
    let export = |to: &Path| command(&["export", to.to_str().unwrap()], store.root()).stdout;
    assert_eq!(export(&other), format!("copied {count} new measurements\n"));
    assert_eq!(export(&other), "copied 0 new measurements\n");
    let objects = |store: &Store| -> Vec<Vec<u8>> {
        store.objects().unwrap().iter().map(|path| fs::read(path).unwrap()).collect()
    };
    assert!(objects(&Store::new(other.clone())) == objects(&store));
    let third = dir.path().join("third");
    let ran = command(&["import", other.to_str().unwrap()], &third);
    assert_eq!(ran.stdout, format!("kept {count} new measurements\n"));
    let ran = command(&["du"], &third);
    ran.prints(format!("third: {count} measurements in "));
    assert!(ran.stdout.ends_with(" KiB, 0 results in 0 bytes\n"), "{}", ran.stdout);
}

#[test]
fn what_has_no_counts_is_refused_and_an_empty_name_is_no_store() {
    let (dir, times) = scratch_path("times");
    AnyRunDir::create(&times, timed::plan().map_method(Into::into)).unwrap();
    let ran = command(&["import", times.to_str().unwrap()], &dir.path().join("store")).exits(2);
    ran.says("has no comparison yet");
    // The tests name none.
    run(ktax().args(["store", "du"])).exits(2).says("KTAX_STORE is empty");
    let ran = run(ktax().args(["store", "du"]).env("KTAX_STORE", dir.path().join("other")));
    ran.prints("other: 0 measurements");
}

#[test]
fn what_ktax_did_not_set_aside_stays() {
    let (_dir, store, _) = kept_store();
    let object = store.objects().unwrap().remove(0);
    let aside = store.move_aside(&object).unwrap();
    // The second process moves nothing.
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
    let (_dir, store, count) = kept_store();
    let objects = store.objects().unwrap();
    fs::remove_file(&objects[0]).unwrap();
    fs::File::create(&objects[0]).unwrap().set_len(3 << 30).unwrap();
    let quarantine = store.root().join("quarantine");
    fs::write(&quarantine, "in the way").unwrap();
    let named = objects[0].to_str().unwrap();
    let ran = command(&["fsck"], store.root()).exits(1);
    assert!(ran.stdout.starts_with(&format!("{} sound, 0 damaged\n{named}", count - 1)), "{ran:?}");
    fs::remove_file(&quarantine).unwrap();
    let stdout = command(&["fsck"], store.root()).stdout;
    assert!(stdout.starts_with(&format!("{} sound, 1 damaged\n", count - 1)), "{stdout}");
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

/// Results that were made together have one time; their order is that of their names.
#[test]
fn results_that_were_made_together_are_kept_together() {
    let dir = scratch();
    let saved = |index: usize| {
        let root = dir.path().join(format!("run-{index}"));
        cases::run_dir(&root, &format!("title {index}"), 5, &ROWS[..1]);
        run(ktax().arg("analyse").arg(&root));
        ktax::flow::saved(&[root]).unwrap().remove(0)
    };
    let results: Vec<_> = (0..4).map(saved).collect();
    let store = Store::new(dir.path().join("store"));
    store.put_results(results).unwrap();
    let times: Vec<_> = store.results().unwrap().iter().map(|path| modified(path)).collect();
    assert!(times.len() == 4 && times.iter().all(|time| *time == times[0]), "{times:?}");
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

// Writers that are killed at any moment lose nothing of what was kept.

/// At once, and in all.
const WRITERS: usize = 16;
const KILLED: usize = 100;

#[test]
fn sixteen_writers_of_which_a_hundred_are_killed_lose_nothing() {
    let (dir, root) = scratch_path("run");
    let run_dir = measured_dir(&root);
    let (expected, count) = filled(dir.path().join("expected"), &run_dir);
    assert_eq!(count, 2 * ROWS.len() - 1);
    let store = Store::new(dir.path().join("store"));
    let import = || {
        let mut command = ktax();
        command.args(["store", "import"]).arg(&root).arg("--store").arg(store.root());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut killed = 0;
    while killed < KILLED {
        let mut writers: Vec<_> = (0..WRITERS).map(|_| import()).collect();
        // Each after another number of looks, so that some have begun and some are done.
        for (index, writer) in writers.iter_mut().enumerate() {
            let mut looks = index * 40;
            while looks > 0 && writer.try_wait().unwrap().is_none() {
                looks -= 1;
            }
            writer.kill().unwrap();
            killed += usize::from(!writer.wait().unwrap().success());
        }
        // Every file is complete.
        for object in store.objects().unwrap() {
            store.read(&object).unwrap();
        }
    }
    command(&["import", root.to_str().unwrap()], store.root()).exits(0);
    let bytes = |store: &Store| -> Vec<Vec<u8>> {
        store.objects().unwrap().iter().map(|path| std::fs::read(path).unwrap()).collect()
    };
    assert!(bytes(&store) == bytes(&expected));
    // Unfinished files are removed once nobody can be writing them, and nothing else is.
    assert!(command(&["gc"], store.root()).stdout.starts_with("removed 0 files"));
    for file in unfinished(&store) {
        std::fs::File::open(file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let left = store.leftovers().unwrap().len();
    let ran = command(&["gc"], store.root());
    assert!(ran.stdout.starts_with(&format!("removed {left} file")), "{}", ran.stdout);
    assert!(bytes(&store) == bytes(&expected) && store.leftovers().unwrap().is_empty());
}

fn unfinished(store: &Store) -> Vec<std::path::PathBuf> {
    let dirs = std::fs::read_dir(store.root().join("objects")).unwrap();
    let files = dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".new-")).collect()
}

// A store that cannot be written: said, and as it was before.

#[test]
fn a_full_disk_is_said_and_the_store_is_as_before() {
    if !may_mount() {
        return;
    }
    let (dir, store, count) = kept_store();
    let root = dir.path().join("run");
    // From no room for a directory to room for all but one: each writing step meets the full disk.
    for pages in 1..=2 * count {
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
        ran.says("No space left on device").says("free disk space of the store");
        ran.prints(" sound, 0 damaged");
    }
    assert_eq!(store.objects().unwrap().len(), count);
}

#[test]
fn a_store_that_is_read_only_can_be_read() {
    if !may_mount() {
        return;
    }
    let (dir, store, count) = kept_store();
    let root = dir.path().join("run");
    let script = "mount --bind \"$3\" /mnt && mount -o remount,bind,ro,noexec /mnt && \
                  \"$1\" store import \"$2\" --store /mnt && \"$1\" store du --store /mnt";
    let words =
        [env!("CARGO_BIN_EXE_ktax"), root.to_str().unwrap(), store.root().to_str().unwrap()];
    in_namespace(script, &words).exits(0).prints(format!("/mnt: {count} measurements"));
}

// Files from elsewhere, in which anything may be wrong.

const IMPORTED_AGAIN: &str = "kept 0 new measurements; 2 items could not be kept\n";

/// One file that says nothing stops no other.
#[test]
fn what_cannot_be_kept_is_named_and_the_rest_is_kept() {
    let (dir, store, count) = kept_store();
    let objects = store.objects().unwrap();
    let newer = Measurement { format: FORMAT + 1, ..store.read(&objects[0]).unwrap() };
    fs::remove_file(&objects[0]).unwrap();
    store.put(&newer).unwrap();
    fs::write(&objects[1], "damaged").unwrap();
    let words = ["import", store.root().to_str().unwrap(), "--json"];
    let third = dir.path().join("third");
    let ran = command(&words, &third);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &json["new"]), (1, &(count - 2).into()), "{}", ran.stderr);
    for object in &objects[..2] {
        let named = object.to_str().unwrap();
        ran.says(named);
        assert!(json["refused"].to_string().contains(named), "{json}");
    }
    // Import again with `--store`.
    let ran = run(ktax().args(&words[..2]).arg("--store").arg(&third));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, IMPORTED_AGAIN), "{}", ran.stderr);
}

/// Changed files do not enter the store, and nothing else is lost.
#[test]
fn what_is_wrong_is_refused_and_the_rest_is_imported() {
    let dir = scratch();
    let (store, path_of) = (dir.path().join("store"), |name: &str| dir.path().join(name));
    let run_dir = measured_dir(&path_of("run"));
    let step = run_dir.plan().method.steps[0].name();
    let run_file = |name: &str| path_of("run/boots").join(&step).join("runs").join(name);
    let profile = fs::read_to_string(run_file("getppid.profile.tsv")).unwrap();
    fs::write(
        run_file("getppid.profile.tsv"),
        profile.replacen("fn\tprocess\t", "fn\tprocess\t1", 1),
    )
    .unwrap();
    fs::write(run_file("stat.json"), "{").unwrap();
    let nothing = path_of("nothing.json");
    fs::write(&nothing, "{}").unwrap();
    let root = path_of("run");
    let words = ["import", nothing.to_str().unwrap(), root.to_str().unwrap()];
    let ran = command(&words, &store);
    // Of five measurements two are wrong; of the change one failed when it was measured.
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (1, "kept 3 new measurements; 3 items could not be kept\n"),
        "{}",
        ran.stderr
    );
    for named in ["getppid of the", "stat.json", "nothing.json"] {
        ran.says(named);
    }
    assert_eq!(command(&["fsck"], &store).stdout, "3 sound, 0 damaged\n");
}

/// A directory that only looks like a store is refused.
#[test]
fn a_directory_with_results_is_no_store() {
    let dir = scratch();
    let run_dir = measured_dir(&dir.path().join("run"));
    fs::create_dir(run_dir.root().join("results")).unwrap();
    let store = dir.path().join("store");
    let ran = command(&["import", run_dir.root().to_str().unwrap()], &store);
    assert_eq!(ran.stdout, "kept 5 new measurements\n", "{}", ran.stderr);
    let site = dir.path().join("site/results");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("0123456789ab.html"), "<p>").unwrap();
    assert_eq!(command(&["import", dir.path().join("site").to_str().unwrap()], &store).status, 2);
}

/// A result has the name of what is in it: a damaged one is made whole by who has it.
#[test]
fn a_damaged_result_is_kept_again() {
    let (dir, root) = scratch_path("run");
    let run_dir = measured_dir(&root);
    run(ktax().arg("analyse").arg(&root));
    let store = Store::new(dir.path().join("store"));
    let import = || command(&["import", run_dir.root().to_str().unwrap()], store.root()).stdout;
    assert_eq!(import(), "kept 5 new measurements and 1 new result\n");
    let result = store.results().unwrap().remove(0);
    let content = fs::read(&result).unwrap();
    fs::remove_file(&result).unwrap();
    fs::write(&result, &content[1..]).unwrap();
    assert_eq!(import(), "kept 0 new measurements and 1 new result\n");
    assert!(fs::read(&result).unwrap() == content);
}

// Special files with the name of an object: nobody waits for them, and they hide nothing else.

/// Puts something else than a file at a path, and says what ktax calls it.
type Put = fn(&Path, &Path) -> &'static str;

fn fifo(path: &Path, _: &Path) -> &'static str {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    "a FIFO"
}

fn directory(path: &Path, _: &Path) -> &'static str {
    fs::create_dir(path).unwrap();
    fs::write(path.join("thesis.txt"), "precious").unwrap();
    "a directory"
}

fn link(path: &Path, sound: &Path) -> &'static str {
    symlink(sound, path).unwrap();
    "a symbolic link"
}

fn dangling(path: &Path, _: &Path) -> &'static str {
    symlink("/nonexistent", path).unwrap();
    "a symbolic link"
}

fn socket(path: &Path, _: &Path) -> &'static str {
    // The path of a socket has at most 108 bytes.
    let near = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(near.path().join("s")).unwrap());
    run(Command::new("mv").arg(near.path().join("s")).arg(path)).exits(0);
    "a socket"
}

const ALL: [Put; 5] = [fifo, directory, link, dangling, socket];

/// The place of the directory among them.
const DIRECTORY: usize = 1;

#[test]
fn what_is_no_file_is_named_at_once_and_hides_nothing() {
    let (dir, root) = scratch_path("run");
    let run_dir = measured_dir(&root);
    run(ktax().arg("analyse").arg(&root));
    for (number, put) in ALL.into_iter().enumerate() {
        let path_of = |name: &str| dir.path().join(format!("{name}-{number}"));
        let (store, count) = filled(path_of("store"), &run_dir);
        command(&["import", root.to_str().unwrap()], store.root()).exits(0);
        let (object, result) = (&store.objects().unwrap()[0], &store.results().unwrap()[0]);
        for path in [object, result] {
            let sound = path.with_extension("sound");
            fs::rename(path, &sound).unwrap();
            let kind = put(path, &sound);
            let because = format!("it is {kind}, not a regular file");
            // The rest of a store is copied; what cannot be is named.
            let ran =
                command(&["import", store.root().to_str().unwrap()], &path_of("copy")).exits(1);
            assert!(ran.stdout.ends_with("; 1 item could not be kept\n"), "{}", ran.stdout);
            ran.says(&because);
            run(ktax().args(["log", "--subjects", "--store"]).arg(store.root())).exits(0);
            let ran = command(&["fsck"], store.root());
            let summary = format!("{count} sound, 1 damaged\n");
            assert!(ran.status == 1 && ran.stdout.starts_with(&summary), "{}", ran.stdout);
            ran.prints(&because);
            assert!(fs::symlink_metadata(path).is_err(), "{kind} was moved aside");
            fs::rename(sound, path).unwrap();
        }
        command(&["gc"], store.root());
        let quarantine = fs::read_dir(store.root().join("quarantine")).unwrap();
        let left: Vec<_> = quarantine.map(|entry| entry.unwrap().path()).collect();
        // ktax does not remove files that it did not write.
        assert_eq!(left.len(), if number == DIRECTORY { 2 } else { 0 }, "{left:?}");
        assert!(left.iter().all(|path| path.join("thesis.txt").exists()));
    }
}

/// A link in the place of a folder leads out of the store.
#[test]
fn a_link_in_the_place_of_a_folder_is_named() {
    let (dir, store, _) = kept_store();
    let folder = store.objects().unwrap()[0].parent().unwrap().to_owned();
    fs::rename(&folder, dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), &folder).unwrap();
    let ran = command(&["fsck"], store.root());
    let named = format!("{} is not a directory", folder.display());
    assert!(ran.status == 1 && ran.stdout.contains(&named), "{}", ran.stdout);
}

#[test]
fn a_fifo_in_a_run_directory_is_refused_at_once() {
    let (dir, root) = scratch_path("run");
    let run_dir = measured_dir(&root);
    run(ktax().arg("analyse").arg(&root));
    let step = run_dir.plan().method.steps[0].name();
    let of_row = format!("boots/{step}/runs/getppid.json");
    let profile = format!("boots/{step}/runs/getppid.profile.tsv");
    for (name, word) in [
        ("plan.json", "run"),
        ("comparison.json", "report"),
        (&of_row, "analyse"),
        (&profile, "import"),
    ] {
        let (path, aside) = (root.join(name), root.join("aside"));
        fs::rename(&path, &aside).unwrap();
        fifo(&path, &aside);
        let mut command = ktax();
        command.arg(word).arg(&root).env("KTAX_STORE", dir.path().join("store"));
        if word == "run" {
            command.args(["--qemu", "/nonexistent/qemu"]);
        }
        let ran = run(&mut command);
        assert!([1, 2].contains(&ran.status), "{name}: {} {}", ran.status, ran.stderr);
        ran.says("it is a FIFO, not a regular file");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    // A fifo as the lock, and as the typed path.
    fs::remove_file(root.join("lock")).unwrap_or_default();
    fifo(&root.join("lock"), &root);
    let ran = run(ktax().arg("run").arg(&root).args(["--qemu", "/nonexistent/qemu"]));
    ran.says("it is a FIFO, not a regular file");
    let typed = dir.path().join("typed");
    fifo(&typed, &typed);
    for words in [["report"], ["import"], ["analyse"], ["run"], ["plan"]] {
        run(ktax().args(words).arg(&typed).env("KTAX_STORE", dir.path().join("store"))).exits(2);
    }
}

/// Few bytes that become many: they are refused before they are.
#[test]
fn what_unpacks_to_too_much_takes_little_memory() {
    let (_dir, store, count) = kept_store();
    let objects = store.objects().unwrap();
    let mut large = store.read(&objects[0]).unwrap();
    large.measurand.workload.title = "x".repeat(65 << 20);
    fs::write(&objects[0], encode_measurement(&large)).unwrap();
    // One line of a megabyte that a thousand layouts have in common.
    let mut wide = store.read(&objects[1]).unwrap();
    let layout = wide.layouts[0].clone();
    let profile = format!("{}\t{}", layout.profile, "x".repeat(1 << 20));
    wide.layouts = vec![ktax::model::MeasuredLayout { profile, ..layout }; 300];
    fs::write(&objects[1], encode_measurement(&wide)).unwrap();
    assert!(objects[..2].iter().all(|path| fs::metadata(path).unwrap().len() < 1 << 20));
    let mut shell = Command::new("bash");
    // In KiB.
    let limited = "ulimit -v 700000; exec \"$0\" store fsck --store \"$1\"";
    let program = env!("CARGO_BIN_EXE_ktax");
    let ran = run(isolate(&mut shell).args(["-c", limited, program]).arg(store.root()));
    let summary = format!("{} sound, 2 damaged\n", count - 2);
    assert!(ran.stdout.starts_with(&summary), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.matches(" bytes\n").count(), 2, "{}", ran.stdout);
    assert!(Store::new(store.root().to_owned()).objects().unwrap().len() == count - 2);
}
