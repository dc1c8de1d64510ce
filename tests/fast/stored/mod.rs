//! Commands that read the store without a boot: log, show, diff, tag, history, site.

pub mod generated;
mod history;
mod index;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::disk::sha256;
use ktax::store::{Store, TaggedSubject};
use tempfile::TempDir;

use self::generated::{Made, fill, measurement};
use crate::common::files::files_below;
use crate::common::{Ran, assert_has, ktax, made, run, scratch};
use crate::golden::cases;

/// A store and a cache of its own.
struct Asked {
    dir: TempDir,
    store: Store,
}

impl Asked {
    fn new() -> Asked {
        let dir = scratch();
        let store = Store::new(dir.path().join("store"));
        Asked { dir, store }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `ktax` with these words, on this store.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = ktax();
        command.args(words).env("KTAX_STORE", self.store.root());
        command.env("KTAX_CACHE", self.path().join("cache"));
        command
    }

    /// Runs ktax.
    fn ktax(&self, words: &[&str]) -> Ran {
        run(&mut self.command(words))
    }

    /// Output of a command that must succeed.
    fn stdout(&self, words: &[&str]) -> String {
        let ran = self.ktax(words);
        assert!([0, 3].contains(&ran.status), "{words:?}: {}", ran.stderr);
        ran.stdout
    }

    /// Why it refuses.
    fn refused(&self, words: &[&str]) -> String {
        let ran = self.ktax(words);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{words:?}: {}", ran.stderr);
        ran.stderr
    }
}

// Pages that link to each other.

#[test]
fn every_page_is_linked_and_every_link_is_a_page() {
    let asked = Asked::new();
    let run = asked.path().join("run");
    cases::run_dir(&run, "what it costs", 5, history::ROWS);
    asked.stdout(&["analyse", run.to_str().unwrap()]);
    asked.stdout(&["store", "import", run.to_str().unwrap()]);
    let made = |release, cost| Made::new("fork-pages:pages=16", release, cost);
    fill(&asked.store, [made("6.1.1", 10_000), made("6.1.2", 10_005)]);
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
    // The threshold of `ktax history` decides: 0.05 % is no step.
    assert!(index.contains("fork-pages:pages=16 over 2 kernels: no step"), "{index}");
    // Again: the same bytes. What is no site is left alone.
    asked.stdout(&["site", site.to_str().unwrap()]);
    assert!(files_below(&site) == written);
    // A result that is gone has no page any more. What ktax did not write stays.
    let mine = site.join("results/mine.html");
    fs::copy(site.join("index.html"), &mine).unwrap();
    fs::remove_file(&asked.store.results().unwrap()[0]).unwrap();
    asked.stdout(&["site", site.to_str().unwrap()]);
    let left: Vec<PathBuf> = files_below(&site).iter().map(|(path, _)| site.join(path)).collect();
    let history = site.join("history/fork-pages_pages=16.html");
    assert_eq!(left, [history, site.join("index.html"), mine]);
    let message = asked.refused(&["site", run.to_str().unwrap()]);
    assert!(message.contains("is not empty, and not a site of ktax"), "{message}");
}

/// Unfinished files of a killed `ktax site` are removed by the next one, and two do not mix.
#[test]
fn a_site_is_written_by_one_and_keeps_nothing_half() {
    let asked = Asked::new();
    let made = |release, cost| Made::new("getppid", release, cost);
    fill(&asked.store, [made("6.1.1", 10_000), made("6.1.2", 10_100)]);
    let site = asked.path().join("site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join(".new-first"), "half").unwrap();
    asked.stdout(&["site", site.to_str().unwrap()]);
    let files = files_below(&site);
    assert!(files.iter().all(|(path, _)| !path.to_string_lossy().contains(".new-")), "{files:?}");
    for half in [".new-abc", "history/.new-abc"] {
        fs::write(site.join(half), "half").unwrap();
    }
    let held = ktax::disk::Lock::take(fs::File::open(&site).unwrap()).unwrap();
    assert_has(asked.refused(&["site", site.to_str().unwrap()]), "another ktax writes ");
    drop(held);
    asked.stdout(&["site", site.to_str().unwrap()]);
    assert!(files_below(&site) == files);
}

/// A page of a result is no site, whatever its name is. A site that was not finished is one.
#[test]
fn only_a_site_is_written_over() {
    let asked = Asked::new();
    let made = |release, cost| Made::new("fork-pages:pages=16", release, cost);
    let long = "x".repeat(300);
    fill(&asked.store, [made("6.1.1", 10_000), made("6.1.2", 10_005)]);
    let long = ["6.1.1", "6.1.2"].map(|release| Made::new(&long, release, 100));
    fill(&asked.store, long);
    let page = asked.path().join("mine");
    fs::create_dir(&page).unwrap();
    let index = page.join("index.html");
    asked.stdout(&["history", "fork-pages:pages=16", "--html", index.to_str().unwrap()]);
    let message = asked.refused(&["site", page.to_str().unwrap()]);
    assert!(message.contains("is not empty, and not a site of ktax"), "{message}");
    let site = asked.path().join("site");
    fs::create_dir(&site).unwrap();
    asked.stdout(&["site", site.to_str().unwrap()]);
    let history = site.join("history");
    fs::remove_dir_all(&history).unwrap();
    fs::write(&history, "in the way").unwrap();
    assert_ne!(asked.ktax(&["site", site.to_str().unwrap()]).status, 0);
    fs::remove_file(&history).unwrap();
    asked.stdout(&["site", site.to_str().unwrap()]);
    assert_eq!(fs::read_dir(&history).unwrap().count(), 2);
}

// Which subject a name means.

const OLD: &str = "6.1.0-55-cloud-amd64";
const NEW: &str = "6.1.0-56-cloud-amd64";

fn filled() -> Asked {
    let asked = Asked::new();
    let quiet = Made { boot_line: "quiet", ..Made::new("getppid", NEW, 120) };
    fill(&asked.store, [Made::new("getppid", OLD, 100), Made::new("getppid", NEW, 110), quiet]);
    asked
}

#[test]
fn a_subject_has_many_names() {
    let asked = filled();
    let image = asked.path().join("image");
    fs::write(&image, "not one of them").unwrap();
    for (name, means) in [
        (NEW, NEW),
        ("debian:linux-image-6.1.0-56-cloud-amd64=6.1.0", NEW),
        ("linux-image-6.1.0-56-cloud-amd64", NEW),
        (&sha256(NEW)[..4], NEW),
        (&format!("{NEW}@quiet"), "6.1.0-56-cloud-amd64@quiet"),
        (&format!("{NEW}@"), NEW),
    ] {
        let ran = asked.ktax(&["tag", "it", name]);
        let line = ran.stderr.lines().next().unwrap_or_default();
        let now = line.split("; it was ").next().unwrap();
        assert_eq!((ran.status, now), (0, &*format!("ktax: it is {means}")), "{name}");
        assert_eq!(asked.stdout(&["tag", "--json"]).matches(means).count(), 1);
    }
    // A tag is a name, with another boot line, too.
    let ran = asked.ktax(&["tag", "other", "it@quiet"]);
    assert_eq!(ran.stderr, "ktax: other is 6.1.0-56-cloud-amd64@quiet\n");
    // The path of an image is a name, too.
    let path = image.to_str().unwrap();
    assert!(asked.refused(&["tag", "it", path]).contains("the store in "), "an unknown image");
    let mut of_file = measurement(&Made::new("getppid", OLD, 100));
    of_file.measurand.kernel_sha256 = sha256("not one of them");
    of_file.kernel.sha256 = of_file.measurand.kernel_sha256.clone();
    of_file.kernel.release = Some("6.6.1".into());
    asked.store.put(&of_file).unwrap();
    assert!(asked.ktax(&["tag", "it", path]).stderr.starts_with("ktax: it is 6.6.1"));
}

#[test]
fn a_name_of_none_or_of_several_is_refused_with_what_there_is() {
    let asked = filled();
    let message = asked.refused(&["diff", "6.1.0-57-cloud-amd64", NEW]);
    assert!(message.contains("did you mean \"6.1.0-56-cloud-amd64\"?"), "{message}");
    assert!(message.contains("`ktax log --subjects` lists"), "{message}");
    // The message has the command that measures it, with the rows and the other subject's settings.
    let other = "--change debian:linux-image-6.1.0-56-cloud-amd64=6.1.0";
    let command = format!("`ktax compare --base debian:6.1.0-57-cloud-amd64 {other}` measures it");
    assert!(message.contains(&command), "{message}");
    let message = asked.refused(&["diff", "6.1.0-57@quiet", NEW, "-w", "stat"]);
    let command = "--base debian:6.1.0-57-cloud-amd64 --base-boot-line quiet ";
    assert!(message.contains(command) && message.contains(" -w stat` measures it"), "{message}");
    for (name, command) in [
        ("v6.12", "`ktax compare --same --kernel git:v6.12`"),
        ("./bzImage", "`ktax compare --same --kernel ./bzImage`"),
        (
            "6.1.0-57@audit=0 quiet",
            "debian:6.1.0-57 --base-boot-line 'audit=0 quiet' --change-boot",
        ),
    ] {
        assert_has(asked.refused(&["tag", "it", name]), command);
    }
    let message = asked.refused(&["diff", "6.1.0", NEW]);
    assert!(message.contains("give one of these") || message.contains(OLD), "{message}");
    // Two images of one release.
    let mut twin = measurement(&Made::new("getppid", NEW, 100));
    twin.measurand.kernel_sha256 = sha256("twin");
    twin.kernel.sha256 = twin.measurand.kernel_sha256.clone();
    asked.store.put(&twin).unwrap();
    let message = asked.refused(&["diff", OLD, NEW]);
    for image in [sha256("twin"), sha256(NEW)] {
        assert!(message.contains(&image[..12]), "{message}");
        asked.stdout(&["diff", OLD, &image[..12]]);
    }
    // Neither a tag nor a file in the current directory hides a kernel.
    let message = asked.refused(&["tag", OLD, &sha256("twin")[..12]]);
    assert!(message.contains("is already a name of 6.1.0-55-cloud-amd64"), "{message}");
    fs::write(asked.path().join(OLD), "a file").unwrap();
    let mut here = asked.command(&["tag", "here", OLD]);
    assert_eq!(run(here.current_dir(asked.path())).stderr, format!("ktax: here is {OLD}\n"));
    assert_has(asked.refused(&["diff", OLD, OLD]), "are the same subject");
}

/// The first parts of a release are enough where they are one kernel's.
#[test]
fn a_release_need_not_be_typed_whole() {
    let asked = filled();
    let of_whole = asked.stdout(&["diff", OLD, NEW, "--json"]);
    assert_eq!(asked.stdout(&["diff", "6.1.0-55", "6.1.0-56", "--json"]), of_whole);
    assert_has(asked.stdout(&["diff", "6.1.0-56", "6.1.0-56@quiet"]), "quiet");
    // Several matches are all named; a part of a number is no match.
    let other = Made::new("getppid", "6.1.0-55-rt-amd64", 100);
    fill(&asked.store, [other]);
    let message = asked.refused(&["diff", "6.1.0-55", NEW]);
    assert!(message.contains(OLD) && message.contains("6.1.0-55-rt-amd64"), "{message}");
    assert!(asked.refused(&["diff", "6.1.0-5", NEW]).contains("has no \"6.1.0-5\""), "{message}");
    // A tag may be the beginning of a release: printed commands have whole names.
    asked.stdout(&["tag", "6.1", OLD]);
    assert_eq!(asked.stdout(&["diff", "6.1", NEW, "--json"]), of_whole);
}

#[test]
fn tags_are_listed_moved_and_taken_away() {
    let asked = filled();
    asked.stdout(&["tag", "v2", NEW]);
    asked.stdout(&["tag", "v10", OLD]);
    let listed = asked.stdout(&["tag"]);
    assert!(listed.find("v2").unwrap() < listed.find("v10").unwrap(), "{listed}");
    asked.stdout(&["tag", "v2", OLD]);
    assert!(!asked.stdout(&["tag"]).contains(NEW));
    asked.stdout(&["tag", "--delete", "v2"]);
    assert!(!asked.stdout(&["tag"]).contains("v2"));
    assert!(asked.refused(&["tag", "--delete", "v2"]).contains("`ktax tag` lists them"));
    for name in ["", "../x", ".hidden", "a b", "-x", "\u{202e}", &"x".repeat(65)] {
        let tagged = TaggedSubject { kernel_sha256: sha256(OLD), boot_line: String::new() };
        assert!(asked.store.tag(name, &tagged).is_err(), "{name:?}");
    }
    assert!(asked.refused(&["tag", "a b", OLD]).contains("cannot be a tag"), "a blank");
    // The store of others may have anything there.
    fs::write(asked.store.root().join("tags/x\u{1b}[2J"), "{}").unwrap();
    fs::write(asked.store.root().join("tags/broken"), "{").unwrap();
    let crafted =
        "{\"kernel_sha256\":\"a\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\",\"boot_line\":\"\"}";
    fs::write(asked.store.root().join("tags/crafted"), crafted).unwrap();
    asked.stdout(&["tag"]);
    assert_eq!(asked.store.tags().unwrap().len(), 1);
}

/// The second name of an image, which its measurements do not have, is in results.
#[test]
fn a_kernel_has_also_the_names_under_which_it_was_taken_from_the_store() {
    let asked = Asked::new();
    let run = asked.path().join("run");
    crate::golden::cases::run_dir(&run, "t", 5, history::ROWS);
    asked.stdout(&["analyse", run.to_str().unwrap()]);
    asked.stdout(&["import", run.to_str().unwrap()]);
    let text = asked.stdout(&["show", run.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let subjects = &json["result"]["comparison"]["method"]["counts"]["asked"]["subjects"];
    let asked_for = subjects["base"]["kernel"].as_str().unwrap();
    let other = asked.path().join("other.json");
    fs::write(&other, text.replace(asked_for, "./my-bzImage")).unwrap();
    let unknown = ["tag", "it", "./my-bzImage"];
    assert_eq!(asked.ktax(&unknown).status, 2);
    asked.stdout(&["import", other.to_str().unwrap()]);
    let ran = asked.ktax(&unknown);
    assert!([0, 2].contains(&ran.status) && !ran.stderr.contains("has no"), "{}", ran.stderr);
}

#[test]
fn a_tag_that_moves_says_what_it_was() {
    let asked = filled();
    asked.stdout(&["tag", "it", OLD]);
    assert_eq!(
        asked.ktax(&["tag", "it", NEW]).stderr,
        format!("ktax: it is {NEW}; it was {OLD}\n")
    );
    // One whose measurements are gone is not offered as itself.
    for object in asked.store.objects().unwrap() {
        fs::remove_file(object).unwrap();
    }
    let message = asked.refused(&["diff", "it", OLD]);
    assert!(
        message.contains("has no \"it\"") && !message.contains("did you mean \"it\""),
        "{message}"
    );
}
