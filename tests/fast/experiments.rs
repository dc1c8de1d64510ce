//! Every experiment can be planned; an answer below its question says of which versions it is.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::plan::{Experiment, GuestExperiment, GuestFile, Ledger, definitions, select};

/// Those of two kernels, and those whose Subjects are guests of a KVM host.
fn experiments() -> (Vec<PathBuf>, Vec<PathBuf>) {
    let is_guests = |path: &PathBuf| GuestFile::is_one(&fs::read_to_string(path).unwrap());
    let (guests, kernels) = files("experiments").into_iter().partition(is_guests);
    (kernels, guests)
}

fn files(directory: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_experiment_can_be_planned() {
    let definitions = definitions().unwrap();
    let (paths, _) = experiments();
    assert!(paths.len() >= 14, "{paths:?}");
    for path in paths {
        let name = path.display().to_string();
        let experiment = Experiment::parse(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        experiment.check().unwrap();
        let rows = select(&definitions, experiment.workloads.as_deref())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!rows.is_empty() && !experiment.why.is_empty(), "{name}");
        assert_ne!(experiment.base, experiment.change, "{name} compares nothing");
        for subject in [&experiment.base, &experiment.change] {
            assert_patches(&subject.patches, &name);
        }
    }
}

#[test]
fn every_experiment_of_guests_can_be_run() {
    let (_, paths) = experiments();
    assert!(!paths.is_empty());
    for path in paths {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        match GuestFile::parse(&text, &name).unwrap() {
            GuestFile::Kvm(experiment) => {
                assert!(!experiment.works().unwrap().is_empty());
                assert_compares(&experiment, &name);
            }
            GuestFile::E500v2(experiment) => {
                assert!(!experiment.works().unwrap().is_empty());
                assert_compares(&experiment, &name);
            }
        }
    }
}

fn assert_compares<Guest: PartialEq>(experiment: &GuestExperiment<Guest>, name: &str) {
    assert!(!experiment.why.is_empty(), "{name}");
    assert!(Some(&experiment.base) != experiment.change.as_ref(), "{name} compares nothing");
    assert_patches(&experiment.host_subject().patches, name);
}

fn assert_patches(patches: &[String], name: &str) {
    for patch in patches {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(patch);
        assert!(path.is_file(), "{name} names {patch}, which is not there");
    }
}

#[test]
fn every_ledger_can_be_planned() {
    let definitions = definitions().unwrap();
    let paths = files("ledgers");
    assert!(!paths.is_empty());
    for path in paths {
        let name = path.display().to_string();
        let ledger = Ledger::parse(&fs::read_to_string(&path).unwrap(), &name).unwrap();
        select(&definitions, ledger.workloads.as_deref()).unwrap();
        assert!(ledger.experiments().len() > 1 && !ledger.why.is_empty(), "{name}");
    }
}

#[test]
fn every_experiment_has_an_answer_that_names_its_versions() {
    for path in files("experiments").into_iter().chain(files("ledgers")) {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let answer = text.split("written by `make answers`:\n").nth(1);
        let answer = answer.unwrap_or_else(|| panic!("{name} has no answer: type make answers"));
        for word in ["QEMU ", "base", " 6."] {
            assert!(answer.contains(word), "{name}: {word}");
        }
        let failed = ["  failed", "different work", "too few boots"];
        assert!(!failed.iter().any(|verdict| answer.contains(verdict)), "{name}");
    }
}
