//! What is removed from a store, what stays, and what is said of it.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Asked;
use super::generated::{self, Made};
use crate::golden::fixtures;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Two rows of two kernels by one guest, one of them by another guest too, and a result.
fn filled() -> Asked {
    let asked = Asked::new();
    for release in ["6.1.1", "6.1.2"] {
        generated::fill(&asked.store, ["getppid", "stat"].map(|row| Made::of(row, release, 100)));
    }
    let mut newer = generated::measurement(&Made::of("getppid", "6.1.2", 100));
    newer.of.key.guest = "8".repeat(64);
    asked.store.put(&newer).unwrap();
    let run = asked.path().join("run");
    fixtures::run_dir(&run, "what it costs", 5, super::diff::ROWS);
    asked.said(&["analyse", run.to_str().unwrap()]);
    asked.said(&["import", run.to_str().unwrap()]);
    asked
}

fn files(asked: &Asked) -> [usize; 2] {
    [asked.store.objects().unwrap().len(), asked.store.results().unwrap().len()]
}

fn json(asked: &Asked, words: &[&str]) -> Value {
    let words = [&["store", "prune", "--json"], words].concat();
    serde_json::from_str(&asked.said(&words)).unwrap()
}

#[test]
fn a_dry_run_lists_what_goes_with_its_size_and_removes_nothing() {
    let asked = filled();
    let [objects, results] = files(&asked);
    let said = asked.said(&["store", "prune", "-n", "--subject", "6.1.2"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(lines[..3].iter().all(|line| line.contains(" bytes  measurement ")), "{said}");
    assert!(
        lines[0].contains("getppid of 6.1.2, guest ") && lines[2].contains("stat of "),
        "{said}"
    );
    assert!(lines[3].starts_with("would remove 3 measurements and 0 results, "), "{said}");
    assert_eq!(files(&asked), [objects, results]);
    let all = json(&asked, &["-n", "--subject", "6.1.2"]);
    let bytes = asked.store.objects().unwrap();
    let named: u64 = all["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| {
            let path = object["path"].as_str().unwrap();
            assert!(bytes.iter().any(|object| object.to_str() == Some(path)), "{path}");
            fs::metadata(path).unwrap().len()
        })
        .sum();
    assert_eq!((all["bytes"].as_u64(), all["dry_run"].as_bool()), (Some(named), Some(true)));
    let removed = asked.said(&["store", "prune", "--subject", "6.1.2"]);
    assert!(removed.starts_with("removed 3 measurements and 0 results, "), "{removed}");
    assert_eq!(files(&asked), [objects - 3, results]);
    assert!(asked.refused(&["diff", "6.1.1", "6.1.2"]).contains("has no \"6.1.2\""));
}

#[test]
fn guests_are_listed_and_removed_and_others_stay() {
    let asked = filled();
    let listed = asked.said(&["store", "du", "--guests"]);
    assert!(listed.contains("888888888888") && listed.contains("999999999999"), "{listed}");
    let [objects, results] = files(&asked);
    let said = asked.said(&["store", "prune", "--guest", "8888"]);
    assert!(said.starts_with("removed 1 measurement and 0 results, "), "{said}");
    assert_eq!(files(&asked), [objects - 1, results]);
    // None of these is of the guest programs of this ktax.
    asked.said(&["store", "prune", "--other-guests"]);
    assert_eq!(files(&asked), [0, results]);
    assert_eq!(
        asked.said(&["store", "prune", "--other-guests"]),
        "removed 0 measurements and 0 \
         results, 0 bytes\n"
    );
}

/// Tags are reasons to keep, and what depends on what goes is named.
#[test]
fn what_has_a_tag_stays_unless_it_is_asked_for() {
    let asked = filled();
    asked.said(&["tag", "before", "6.1.1"]);
    let said = asked.refused(&["store", "prune", "--subject", "6.1.1"]);
    assert!(said.contains("`ktax tag --delete before`") && said.contains("--tagged"), "{said}");
    let all = json(&asked, &["--other-guests"]);
    assert_eq!(all["kept_for_tags"]["before"], 2, "{all}");
    assert_eq!(files(&asked)[0], 2, "those of the tag");
    let said = asked.said(&["store", "prune", "--subject", "before", "--tagged"]);
    assert!(said.contains("the tag before has no measurement then"), "{said}");
    assert_eq!(files(&asked)[0], 0);
    // The result of what was imported: its measurements are gone.
    let asked = filled();
    let all = json(&asked, &["--dry-run", "--other-guests"]);
    let results = asked.store.results().unwrap();
    let name = results[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(all["results_of_these"][0], name.split('.').next().unwrap(), "{all}");
    let said = asked.said(&["store", "prune", "--other-guests"]);
    assert!(said.contains("1 result, such as ") && said.contains("`ktax show` still"), "{said}");
    asked.said(&["show", &name[..8]]);
}

#[test]
fn what_is_named_or_old_goes_alone() {
    let asked = filled();
    let [objects, results] = files(&asked);
    let object = asked.store.objects().unwrap().remove(0);
    let old = File::options().append(true).open(&object).unwrap();
    old.set_modified(SystemTime::now() - 40 * DAY).unwrap();
    let result = asked.store.results().unwrap().remove(0);
    let id = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap()[..12].to_owned();
    let said = asked.said(&["store", "prune", "-n", "--older-than", "41"]);
    assert!(said.starts_with("would remove 0 measurements and 0 results"), "{said}");
    let said = asked.said(&["store", "prune", "-n", "--older-than", "39"]);
    assert!(said.contains(&id(&object)) && said.contains("1 measurement and 0 results"), "{said}");
    let named = [id(&object), id(&result)];
    let said = asked.said(&["store", "prune", &named[0], &named[1].to_uppercase()]);
    assert!(said.starts_with("removed 1 measurement and 1 result, "), "{said}");
    assert_eq!(files(&asked), [objects - 1, results - 1]);
    let said = asked.refused(&["store", "prune", &named[0]]);
    assert!(said.contains("no result and no measurement begins with"), "{said}");
    // With age alone results go, too.
    asked.said(&["store", "prune", "--older-than", "0"]);
    assert_eq!(asked.said(&["log"]), "");
}

#[test]
fn what_is_not_named_is_not_guessed() {
    let asked = filled();
    let before = files(&asked);
    assert!(asked.refused(&["store", "prune"]).contains("nothing is named"));
    assert!(asked.refused(&["store", "prune", "--tagged"]).contains("nothing is named"));
    for words in [
        &["--guest", "89"][..],
        &["--guest", "../x"],
        &["--guest", ""],
        &["--guest", "8888", "--other-guests"],
        &["--older-than", "-1"],
        &["--older-than", "18446744073709551615"],
        &["--older-than", "tomorrow"],
        &["--subject", "6.1"],
        &["--subject", ""],
        &["", "x"],
        &["2a", "--subject", "6.1.1"],
    ] {
        let ran = asked.ktax(&[&["store", "prune"], words].concat());
        assert_eq!(ran.status, 2, "{words:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(files(&asked), before, "{words:?}");
    }
}
