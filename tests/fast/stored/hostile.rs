//! Whatever stands in a store: it does nothing to a terminal, to a page, or to the database.

use std::fs;

use super::Asked;
use super::generated::{self, Made};
use crate::common::Ran;
use crate::common::hostile::hostile;
use crate::golden::fixtures;

/// Texts that mean something to a shell, SQL or a spreadsheet, beside those for pages.
const TEXTS: [&str; 12] = [
    "'; DROP TABLE measurement; --",
    "\" OR 1=1 --",
    "%_\\",
    "</td><script>alert(1)</script>",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{202e}drow",
    "a\nb\tc",
    "$(touch x)",
    "`id`",
    "\u{0}",
    "=cmd|' /C calc'!A0",
    "x@y@z",
];

fn all() -> Vec<String> {
    TEXTS.iter().map(|text| (*text).to_owned()).chain(hostile()).collect()
}

/// A store that has them in every place.
fn filled() -> Asked {
    let asked = Asked::new();
    let usual = Made::of("getppid", "6.1.1", 10_000);
    generated::fill(&asked.store, [usual.clone(), Made { boot_line: "quiet", ..usual }]);
    for (at, text) in all().iter().enumerate() {
        let mut of = generated::measurement(&Made::of("getppid", "6.1.2", 10_000));
        of.of.kernel_sha256 = ktax::disk::sha256(text);
        of.kernel.sha256 = of.of.kernel_sha256.clone();
        of.kernel.release = Some(format!("6.2.{at}{text}"));
        of.kernel.source.clone_from(text);
        of.subject.kernel.clone_from(text);
        of.of.boot_line.clone_from(text);
        of.of.workload.operation.clone_from(text);
        of.of.key.qemu.clone_from(text);
        asked.store.put(&of).unwrap();
        let mut row = generated::measurement(&Made::of("getppid", "6.1.1", 10_000));
        row.of.workload.row = format!("row{text}");
        asked.store.put(&row).unwrap();
    }
    let run = asked.path().join("run");
    fixtures::run_dir(&run, TEXTS[3], 5, super::diff::ROWS);
    asked.said(&["analyse", run.to_str().unwrap()]);
    asked.said(&["store", "import", run.to_str().unwrap()]);
    asked
}

/// Runs it, and looks at every character that it prints.
fn harmless(asked: &Asked, words: &[&str]) -> Ran {
    let ran = asked.ktax(words);
    for said in [&ran.stdout, &ran.stderr] {
        let bad = said.chars().find(|c| ktax::text::is_dangerous(*c) && *c != '\n');
        assert!(bad.is_none(), "{words:?}: {bad:?} in {said}");
    }
    ran
}

#[test]
fn texts_of_others_are_inert_everywhere() {
    let asked = filled();
    for words in [
        &["log"][..],
        &["log", "--json"],
        &["log", "--subjects"],
        &["log", "--subjects", "--json"],
        &["history"],
        &["history", "--format", "markdown"],
        &["history", "--format", "csv"],
        &["history", "--json"],
        &["tag"],
    ] {
        let ran = harmless(&asked, words);
        assert_eq!(ran.status, 0, "{words:?}: {}", ran.stderr);
    }
    // An argument has no NUL.
    let all = all().into_iter().filter(|text| !text.contains('\0'));
    for (at, text) in all.enumerate() {
        let text = text.as_str();
        let most = if at < TEXTS.len() { usize::MAX } else { 3 };
        for words in [
            ["diff", "6.1.1", text],
            ["tag", text, "6.1.1"],
            ["history", "--along", text],
            ["diff", text, "6.1.1"],
            ["tag", "name", text],
            ["history", "--", text],
            ["history", "--function", text],
            ["show", "--", text],
            ["log", "-w", text],
            ["log", "--kernel", text],
        ]
        .into_iter()
        .take(most)
        {
            let ran = harmless(&asked, &words);
            assert!([0, 2, 3].contains(&ran.status), "{words:?}: {} {}", ran.status, ran.stderr);
        }
    }
    // Nothing was dropped, and a page has no more elements than ktax writes.
    assert!(asked.said(&["log", "--subjects"]).contains("6.1.1@quiet"));
    let site = asked.path().join("site");
    asked.said(&["site", site.to_str().unwrap()]);
    let index = fs::read_to_string(site.join("index.html")).unwrap();
    assert!(!index.contains("<script") && index.contains("&lt;script&gt;"), "{index}");
    assert!(!fs::exists("x").unwrap());
}

/// The control: the same look at what is not escaped finds something.
#[test]
fn what_is_looked_for_is_there_before_it_is_escaped() {
    let all = all();
    let found = all.iter().filter(|text| text.chars().any(ktax::text::is_dangerous)).count();
    assert!(all.len() >= 62 && found >= 20, "{found} of {}", all.len());
}
