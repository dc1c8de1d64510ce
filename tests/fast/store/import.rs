//! What comes from elsewhere, of which anything may be wrong.

use std::fs;

use ktax::model::{FORMAT, Measurement};
use ktax::store::Store;

use super::{command, filled, measured_dir};
use crate::common::{ktax, run, scratch};

const IMPORTED_AGAIN: &str = "kept 0 new measurements; 2 things could not be kept\n";

/// One file that says nothing stops no other.
#[test]
fn what_cannot_be_kept_is_named_and_the_rest_is_kept() {
    let dir = scratch();
    let (store, kept) = filled(dir.path().join("store"), &measured_dir(&dir.path().join("run")));
    let objects = store.objects().unwrap();
    let newer = Measurement { format: FORMAT + 1, ..store.read(&objects[0]).unwrap() };
    fs::remove_file(&objects[0]).unwrap();
    store.put(&newer).unwrap();
    fs::write(&objects[1], "damaged").unwrap();
    let words = ["import", store.root().to_str().unwrap(), "--json"];
    let third = dir.path().join("third");
    let ran = command(&words, &third);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &json["new"]), (1, &(kept - 2).into()), "{}", ran.stderr);
    for object in &objects[..2] {
        let named = object.to_str().unwrap();
        assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
        assert!(json["refused"].to_string().contains(named), "{json}");
    }
    // The same by its other name.
    let ran = run(ktax().args(&words[..2]).arg("--store").arg(&third));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, IMPORTED_AGAIN), "{}", ran.stderr);
}

/// Of files that somebody changed nothing gets into the store, and nothing else is lost.
#[test]
fn what_is_wrong_is_refused_and_the_rest_is_imported() {
    let dir = scratch();
    let (store, at) = (dir.path().join("store"), |name: &str| dir.path().join(name));
    let run_dir = measured_dir(&at("run"));
    let step = run_dir.plan().method.steps[0].name();
    let of = |name: &str| at("run/boots").join(&step).join("runs").join(name);
    let profile = fs::read_to_string(of("getppid.profile.tsv")).unwrap();
    fs::write(of("getppid.profile.tsv"), profile.replacen("fn\tprocess\t", "fn\tprocess\t1", 1))
        .unwrap();
    fs::write(of("stat.json"), "{").unwrap();
    let nothing = at("nothing.json");
    fs::write(&nothing, "{}").unwrap();
    let root = at("run");
    let words = ["import", nothing.to_str().unwrap(), root.to_str().unwrap()];
    let ran = command(&words, &store);
    // Of five measurements two are wrong; of the change one failed when it was measured.
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (1, "kept 3 new measurements; 3 things could not be kept\n"),
        "{}",
        ran.stderr
    );
    for named in ["getppid of the", "stat.json", "nothing.json"] {
        assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
    }
    assert_eq!(command(&["fsck"], &store).stdout, "3 sound, 0 damaged\n");
}

/// What only looks like a store is none.
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
    let dir = scratch();
    let root = dir.path().join("run");
    let run_dir = measured_dir(&root);
    run(ktax().arg("analyse").arg(&root));
    let store = Store::new(dir.path().join("store"));
    let import = || command(&["import", run_dir.root().to_str().unwrap()], store.root()).stdout;
    assert_eq!(import(), "kept 5 new measurements and 1 new result\n");
    let result = store.results().unwrap().remove(0);
    let whole = fs::read(&result).unwrap();
    fs::remove_file(&result).unwrap();
    fs::write(&result, &whole[1..]).unwrap();
    assert_eq!(import(), "kept 0 new measurements and 1 new result\n");
    assert!(fs::read(&result).unwrap() == whole);
}
