//! What has the name of an object, and is no regular file: nobody waits for it, and it hides
//! nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use ktax::store::{Store, encode_measurement};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{command, filled, measured_dir};
use crate::common::{ktax, own, run, scratch};

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
    let made = run(Command::new("mv").arg(near.path().join("s")).arg(path));
    assert_eq!(made.status, 0, "{}", made.stderr);
    "a socket"
}

const ALL: [Put; 5] = [fifo, directory, link, dangling, socket];

/// The place of the directory among them.
const DIRECTORY: usize = 1;

#[test]
fn what_is_no_file_is_named_at_once_and_hides_nothing() {
    let dir = scratch();
    let root = dir.path().join("run");
    let run_dir = measured_dir(&root);
    run(ktax().arg("analyse").arg(&root));
    for (number, put) in ALL.into_iter().enumerate() {
        let at = |name: &str| dir.path().join(format!("{name}-{number}"));
        let (store, kept) = filled(at("store"), &run_dir);
        let imported = command(&["import", root.to_str().unwrap()], store.root());
        assert_eq!(imported.status, 0, "{}", imported.stderr);
        let (object, result) = (&store.objects().unwrap()[0], &store.results().unwrap()[0]);
        for path in [object, result] {
            let sound = path.with_extension("sound");
            fs::rename(path, &sound).unwrap();
            let kind = put(path, &sound);
            let because = format!("it is {kind}, not a regular file");
            // The rest of a store is copied; what cannot be is named.
            let ran = command(&["import", store.root().to_str().unwrap()], &at("copy"));
            assert_eq!(ran.status, 1, "{}", ran.stderr);
            assert!(ran.stdout.ends_with("; 1 thing could not be kept\n"), "{}", ran.stdout);
            assert!(ran.stderr.contains(&because), "{}", ran.stderr);
            let asked = run(ktax().args(["log", "--subjects", "--store"]).arg(store.root()));
            assert_eq!(asked.status, 0, "{}", asked.stderr);
            let ran = command(&["fsck"], store.root());
            let said = format!("{kept} sound, 1 damaged\n");
            assert!(ran.status == 1 && ran.stdout.starts_with(&said), "{}", ran.stdout);
            assert!(ran.stdout.contains(&because), "{}", ran.stdout);
            assert!(fs::symlink_metadata(path).is_err(), "{kind} was moved aside");
            fs::rename(sound, path).unwrap();
        }
        command(&["gc"], store.root());
        let quarantine = fs::read_dir(store.root().join("quarantine")).unwrap();
        let left: Vec<_> = quarantine.map(|entry| entry.unwrap().path()).collect();
        // What somebody has put into a directory is not ktax's to remove.
        assert_eq!(left.len(), if number == DIRECTORY { 2 } else { 0 }, "{left:?}");
        assert!(left.iter().all(|path| path.join("thesis.txt").exists()));
    }
}

/// A link in the place of a folder leads out of the store.
#[test]
fn a_link_in_the_place_of_a_folder_is_named() {
    let dir = scratch();
    let (store, _) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let folder = store.objects().unwrap()[0].parent().unwrap().to_owned();
    fs::rename(&folder, dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), &folder).unwrap();
    let ran = command(&["fsck"], store.root());
    let named = format!("{} is not a directory", folder.display());
    assert!(ran.status == 1 && ran.stdout.contains(&named), "{}", ran.stdout);
}

#[test]
fn a_fifo_in_a_run_directory_is_refused_at_once() {
    let dir = scratch();
    let root = dir.path().join("run");
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
        assert!(ran.stderr.contains("it is a FIFO, not a regular file"), "{name}: {}", ran.stderr);
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    // As the lock, and as the path that was typed.
    fs::remove_file(root.join("lock")).unwrap_or_default();
    fifo(&root.join("lock"), &root);
    let ran = run(ktax().arg("run").arg(&root).args(["--qemu", "/nonexistent/qemu"]));
    assert!(ran.stderr.contains("it is a FIFO, not a regular file"), "{}", ran.stderr);
    let typed = dir.path().join("typed");
    fifo(&typed, &typed);
    for words in [["report"], ["import"], ["analyse"], ["run"], ["plan"]] {
        let ran = run(ktax().args(words).arg(&typed).env("KTAX_STORE", dir.path().join("store")));
        assert_eq!(ran.status, 2, "{words:?}: {}", ran.stderr);
    }
}

/// Few bytes that become many: they are refused before they are.
#[test]
fn what_unpacks_to_too_much_takes_little_memory() {
    let dir = scratch();
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let objects = store.objects().unwrap();
    let mut large = store.read(&objects[0]).unwrap();
    large.of.workload.title = "x".repeat(65 << 20);
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
    let ran = run(own(&mut shell).args(["-c", limited, program]).arg(store.root()));
    let said = format!("{} sound, 2 damaged\n", kept - 2);
    assert!(ran.stdout.starts_with(&said), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.matches(" bytes\n").count(), 2, "{}", ran.stdout);
    assert!(Store::new(store.root().to_owned()).objects().unwrap().len() == kept - 2);
}
