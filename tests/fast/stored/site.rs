//! Pages that link to each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::Asked;
use super::generated::{self, Made};
use crate::common::files::files_below;
use crate::golden::fixtures;

#[test]
fn every_page_is_linked_and_every_link_is_a_page() {
    let asked = Asked::new();
    let run = asked.path().join("run");
    fixtures::run_dir(&run, "what it costs", 5, super::diff::ROWS);
    asked.said(&["analyse", run.to_str().unwrap()]);
    asked.said(&["store", "import", run.to_str().unwrap()]);
    let of = |release, cost| Made::of("fork-pages:pages=16", release, cost);
    generated::fill(&asked.store, [of("6.1.1", 10_000), of("6.1.2", 10_005)]);
    let site = asked.path().join("site");
    let ran = asked.ktax(&["site", site.to_str().unwrap()]);
    assert!(ran.status == 0 && ran.stderr.contains("wrote 3 pages; open "), "{}", ran.stderr);
    let index = fs::read_to_string(site.join("index.html")).unwrap();
    let links: BTreeSet<PathBuf> = index
        .split("href=\"")
        .skip(1)
        .map(|rest| site.join(rest.split('"').next().unwrap()))
        .collect();
    let written = files_below(&site);
    let pages: BTreeSet<PathBuf> = written.iter().map(|(path, _)| site.join(path)).collect();
    assert_eq!(pages.len(), 3);
    assert!(pages.iter().all(|page| links.contains(page) || page.ends_with("index.html")));
    assert!(links.iter().all(|link| link.is_file()), "{links:?}");
    assert!(index.contains("what it costs") && index.contains("2 of 2 rows slower"), "the newest");
    assert!(
        !index.contains("<script") && !index.contains("http:") && !index.contains("https:"),
        "nothing runs or is loaded"
    );
    // By the threshold of `ktax history`: 0.05 % is no step.
    assert!(index.contains("fork-pages:pages=16 over 2 kernels: no step"), "{index}");
    // Again: the same bytes. What is no site is left alone.
    asked.said(&["site", site.to_str().unwrap()]);
    assert!(files_below(&site) == written);
    // A result that is gone has no page any more. What ktax did not write stays.
    let mine = site.join("results/mine.html");
    fs::copy(site.join("index.html"), &mine).unwrap();
    fs::remove_file(&asked.store.results().unwrap()[0]).unwrap();
    asked.said(&["site", site.to_str().unwrap()]);
    let left: Vec<PathBuf> = files_below(&site).iter().map(|(path, _)| site.join(path)).collect();
    let history = site.join("history/fork-pages_pages=16.html");
    assert_eq!(left, [history, site.join("index.html"), mine]);
    let said = asked.refused(&["site", run.to_str().unwrap()]);
    assert!(said.contains("is not empty, and not a site of ktax"), "{said}");
}

/// What a killed `ktax site` has half-written is gone after the next, and two do not mix.
#[test]
fn a_site_is_written_by_one_and_keeps_nothing_half() {
    let asked = Asked::new();
    let of = |release, cost| Made::of("getppid", release, cost);
    generated::fill(&asked.store, [of("6.1.1", 10_000), of("6.1.2", 10_100)]);
    let site = asked.path().join("site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join(".new-first"), "half").unwrap();
    asked.said(&["site", site.to_str().unwrap()]);
    let whole = files_below(&site);
    assert!(whole.iter().all(|(path, _)| !path.to_string_lossy().contains(".new-")), "{whole:?}");
    for half in [".new-abc", "history/.new-abc"] {
        fs::write(site.join(half), "half").unwrap();
    }
    let held = ktax::disk::Lock::take(fs::File::open(&site).unwrap()).unwrap();
    let said = asked.refused(&["site", site.to_str().unwrap()]);
    assert!(said.contains("another ktax writes "), "{said}");
    drop(held);
    asked.said(&["site", site.to_str().unwrap()]);
    assert!(files_below(&site) == whole);
}

/// A page of a result is no site, whatever its name is. A site that was not finished is one.
#[test]
fn only_a_site_is_written_over() {
    let asked = Asked::new();
    let of = |release, cost| Made::of("fork-pages:pages=16", release, cost);
    let long = "x".repeat(300);
    generated::fill(&asked.store, [of("6.1.1", 10_000), of("6.1.2", 10_005)]);
    let long = ["6.1.1", "6.1.2"].map(|release| Made::of(&long, release, 100));
    generated::fill(&asked.store, long);
    let page = asked.path().join("mine");
    fs::create_dir(&page).unwrap();
    let index = page.join("index.html");
    asked.said(&["history", "fork-pages:pages=16", "--html", index.to_str().unwrap()]);
    let said = asked.refused(&["site", page.to_str().unwrap()]);
    assert!(said.contains("is not empty, and not a site of ktax"), "{said}");
    let site = asked.path().join("site");
    fs::create_dir(&site).unwrap();
    asked.said(&["site", site.to_str().unwrap()]);
    let history = site.join("history");
    fs::remove_dir_all(&history).unwrap();
    fs::write(&history, "in the way").unwrap();
    assert_ne!(asked.ktax(&["site", site.to_str().unwrap()]).status, 0);
    fs::remove_file(&history).unwrap();
    asked.said(&["site", site.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&history).unwrap().count(), 2);
}
