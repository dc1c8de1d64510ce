//! Which subject a name means.

use std::fs;

use ktax::disk::sha256;
use ktax::store::Tagged;

use super::Asked;
use super::generated::{self, Made};
use crate::common::run;

const OLD: &str = "6.1.0-55-cloud-amd64";
const NEW: &str = "6.1.0-56-cloud-amd64";

fn filled() -> Asked {
    let asked = Asked::new();
    let quiet = Made { boot_line: "quiet", ..Made::of("getppid", NEW, 120) };
    generated::fill(
        &asked.store,
        [Made::of("getppid", OLD, 100), Made::of("getppid", NEW, 110), quiet],
    );
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
        let said = ran.stderr.lines().next().unwrap_or_default();
        let now = said.split("; it was ").next().unwrap();
        assert_eq!((ran.status, now), (0, &*format!("ktax: it is {means}")), "{name}");
        assert_eq!(asked.said(&["tag", "--json"]).matches(means).count(), 1);
    }
    // A tag is a name, with another boot line, too.
    let ran = asked.ktax(&["tag", "other", "it@quiet"]);
    assert_eq!(ran.stderr, "ktax: other is 6.1.0-56-cloud-amd64@quiet\n");
    // And the image itself is one.
    let path = image.to_str().unwrap();
    assert!(asked.refused(&["tag", "it", path]).contains("the store in "), "an unknown image");
    let mut of_file = generated::measurement(&Made::of("getppid", OLD, 100));
    of_file.of.kernel_sha256 = sha256("not one of them");
    of_file.kernel.sha256 = of_file.of.kernel_sha256.clone();
    of_file.kernel.release = Some("6.6.1".into());
    asked.store.put(&of_file).unwrap();
    assert!(asked.ktax(&["tag", "it", path]).stderr.starts_with("ktax: it is 6.6.1"));
}

#[test]
fn a_name_of_none_or_of_several_is_refused_with_what_there_is() {
    let asked = filled();
    let said = asked.refused(&["diff", "6.1.0-57-cloud-amd64", NEW]);
    assert!(said.contains("did you mean \"6.1.0-56-cloud-amd64\"?"), "{said}");
    assert!(said.contains("`ktax log --subjects` lists"), "{said}");
    // What measures it stands beside it: with what the other one is, and the rows.
    let other = "--change debian:linux-image-6.1.0-56-cloud-amd64=6.1.0";
    let command = format!("`ktax compare --base debian:6.1.0-57-cloud-amd64 {other}` measures it");
    assert!(said.contains(&command), "{said}");
    let said = asked.refused(&["diff", "6.1.0-57@quiet", NEW, "-w", "stat"]);
    let command = "--base debian:6.1.0-57-cloud-amd64 --base-boot-line quiet ";
    assert!(said.contains(command) && said.contains(" -w stat` measures it"), "{said}");
    for (name, command) in [
        ("v6.12", "`ktax compare --same --kernel git:v6.12`"),
        ("./bzImage", "`ktax compare --same --kernel ./bzImage`"),
        (
            "6.1.0-57@audit=0 quiet",
            "debian:6.1.0-57 --base-boot-line 'audit=0 quiet' --change-boot",
        ),
    ] {
        let said = asked.refused(&["tag", "it", name]);
        assert!(said.contains(command), "{said}");
    }
    let said = asked.refused(&["diff", "6.1.0", NEW]);
    assert!(said.contains("give one of these") || said.contains(OLD), "{said}");
    // Two images of one release.
    let mut twin = generated::measurement(&Made::of("getppid", NEW, 100));
    twin.of.kernel_sha256 = sha256("twin");
    twin.kernel.sha256 = twin.of.kernel_sha256.clone();
    asked.store.put(&twin).unwrap();
    let said = asked.refused(&["diff", OLD, NEW]);
    for image in [sha256("twin"), sha256(NEW)] {
        assert!(said.contains(&image[..12]), "{said}");
        asked.said(&["diff", OLD, &image[..12]]);
    }
    // Neither a tag nor a file in the current directory hides a kernel.
    let said = asked.refused(&["tag", OLD, &sha256("twin")[..12]]);
    assert!(said.contains("is a name of 6.1.0-55-cloud-amd64 already"), "{said}");
    fs::write(asked.path().join(OLD), "a file").unwrap();
    let mut here = asked.command(&["tag", "here", OLD]);
    assert_eq!(run(here.current_dir(asked.path())).stderr, format!("ktax: here is {OLD}\n"));
    let said = asked.refused(&["diff", OLD, OLD]);
    assert!(said.contains("are the same subject"), "{said}");
}

/// The first parts of a release are enough where they are one kernel's.
#[test]
fn a_release_need_not_be_typed_whole() {
    let asked = filled();
    let of_whole = asked.said(&["diff", OLD, NEW, "--json"]);
    assert_eq!(asked.said(&["diff", "6.1.0-55", "6.1.0-56", "--json"]), of_whole);
    let text = asked.said(&["diff", "6.1.0-56", "6.1.0-56@quiet"]);
    assert!(text.contains("quiet"), "{text}");
    // Of several each is named; a part of a number is none.
    let other = Made::of("getppid", "6.1.0-55-rt-amd64", 100);
    generated::fill(&asked.store, [other]);
    let said = asked.refused(&["diff", "6.1.0-55", NEW]);
    assert!(said.contains(OLD) && said.contains("6.1.0-55-rt-amd64"), "{said}");
    assert!(asked.refused(&["diff", "6.1.0-5", NEW]).contains("has no \"6.1.0-5\""), "{said}");
    // A tag may be the beginning of a release: printed commands have whole names.
    asked.said(&["tag", "6.1", OLD]);
    assert_eq!(asked.said(&["diff", "6.1", NEW, "--json"]), of_whole);
}

#[test]
fn tags_are_listed_moved_and_taken_away() {
    let asked = filled();
    asked.said(&["tag", "v2", NEW]);
    asked.said(&["tag", "v10", OLD]);
    let listed = asked.said(&["tag"]);
    assert!(listed.find("v2").unwrap() < listed.find("v10").unwrap(), "{listed}");
    asked.said(&["tag", "v2", OLD]);
    assert!(!asked.said(&["tag"]).contains(NEW));
    asked.said(&["tag", "--delete", "v2"]);
    assert!(!asked.said(&["tag"]).contains("v2"));
    assert!(asked.refused(&["tag", "--delete", "v2"]).contains("`ktax tag` lists them"));
    for name in ["", "../x", ".hidden", "a b", "-x", "\u{202e}", &"x".repeat(65)] {
        let tagged = Tagged { kernel_sha256: sha256(OLD), boot_line: String::new() };
        assert!(asked.store.tag(name, &tagged).is_err(), "{name:?}");
    }
    assert!(asked.refused(&["tag", "a b", OLD]).contains("cannot be a tag"), "a blank");
    // The store of others may have anything there.
    fs::write(asked.store.root().join("tags/x\u{1b}[2J"), "{}").unwrap();
    fs::write(asked.store.root().join("tags/broken"), "{").unwrap();
    let crafted =
        "{\"kernel_sha256\":\"a\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\",\"boot_line\":\"\"}";
    fs::write(asked.store.root().join("tags/crafted"), crafted).unwrap();
    asked.said(&["tag"]);
    assert_eq!(asked.store.tags().unwrap().len(), 1);
}

/// The second name of an image, which its measurements do not have, is in results.
#[test]
fn a_kernel_has_also_the_names_under_which_it_was_taken_from_the_store() {
    let asked = Asked::new();
    let run = asked.path().join("run");
    crate::golden::fixtures::run_dir(&run, "t", 5, super::diff::ROWS);
    asked.said(&["analyse", run.to_str().unwrap()]);
    asked.said(&["import", run.to_str().unwrap()]);
    let text = asked.said(&["show", run.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let subjects = &json["result"]["comparison"]["method"]["counts"]["subjects"];
    let asked_for = subjects["base"]["subject"]["kernel"].as_str().unwrap();
    let other = asked.path().join("other.json");
    fs::write(&other, text.replace(asked_for, "./my-bzImage")).unwrap();
    let unknown = ["tag", "it", "./my-bzImage"];
    assert_eq!(asked.ktax(&unknown).status, 2);
    asked.said(&["import", other.to_str().unwrap()]);
    let ran = asked.ktax(&unknown);
    assert!([0, 2].contains(&ran.status) && !ran.stderr.contains("has no"), "{}", ran.stderr);
}

#[test]
fn a_tag_that_moves_says_what_it_was() {
    let asked = filled();
    asked.said(&["tag", "it", OLD]);
    assert_eq!(
        asked.ktax(&["tag", "it", NEW]).stderr,
        format!("ktax: it is {NEW}; it was {OLD}\n")
    );
    // One whose measurements are gone is not offered as itself.
    for object in asked.store.objects().unwrap() {
        fs::remove_file(object).unwrap();
    }
    let said = asked.refused(&["diff", "it", OLD]);
    assert!(said.contains("has no \"it\"") && !said.contains("did you mean \"it\""), "{said}");
}
