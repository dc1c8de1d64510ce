//! A test waits for what it needs, with `until`, and not for a time.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};
use super::{complain, rust, texts};

/// What only lets time go by.
const SLEEPS: [&str; 2] = ["sleep", "park_timeout"];

/// The files that may: where, what, and why.
const ALLOWED: [(&str, &str, &str); 6] = [
    ("crates/ktax-kernel/src/source/tests.rs", "sleep 600", "a build that is stopped"),
    ("tests/common/mod.rs", "park_timeout", "`until` looks again"),
    ("tests/boots/resume.rs", "park_timeout", "a run is killed at moments spread over it"),
    ("tests/fast/stat.rs", "sleep 1000", "a command that is killed"),
    ("tests/guests/exits_command.rs", "do sleep 0.1; done", "a command that is stopped"),
    ("tests/guests/kvm_engine.rs", "do /files/sleep 0.2; done", "a script looks again"),
];

/// Code of tests: files of tests, and what follows the unit tests' head in others.
fn test_code<'a>(path: &str, text: &'a str) -> &'a str {
    let is_of_tests =
        path.starts_with("tests/") || path.contains("/tests") || path.contains("_tests");
    match (is_of_tests, text.find("#[cfg(test)]\nmod tests {")) {
        (true, _) => text,
        (false, Some(at)) => &text[at..],
        (false, None) => "",
    }
}

/// The sleeps of a file: functions by their names, and `sleep` with a number in a script.
fn sleeps(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens(test_code(path, text)) {
        match &token {
            Token::Word(word) if SLEEPS.contains(&word.as_str()) => found.push(word.clone()),
            Token::Text(script) => {
                let numbers = script.split("sleep ").skip(1);
                if numbers.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
                    found.push(script.clone());
                }
            }
            _ => {}
        }
    }
    found
}

/// What is not allowed, and what is allowed and not there.
fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut used = [false; ALLOWED.len()];
    for (path, text) in files {
        for mut what in sleeps(path, text) {
            for (at, (place, allowed, _)) in ALLOWED.iter().enumerate() {
                if path == place && what.contains(allowed) {
                    used[at] = true;
                    what = what.replace(allowed, "");
                }
            }
            if SLEEPS.iter().any(|sleep| what.contains(sleep)) {
                complaints.push(format!("{path}: wait with `until` instead of {what:?}"));
            }
        }
    }
    let unused = ALLOWED.iter().zip(used).filter(|(_, used)| !used);
    complaints.extend(unused.map(|((path, what, _), _)| format!("{path} need not have {what:?}")));
    complaints
}

#[test]
fn no_test_waits_for_a_time() {
    let files: BTreeMap<String, String> =
        rust().into_iter().chain(texts("tests", &["rs"])).collect();
    let others = |(path, _): &(String, String)| path != "tests/tidy/waits.rs";
    complain(&complaints(&files.into_iter().filter(others).collect()));
}

#[test]
fn planted_sleeps_are_seen() {
    let only = |path: &str, text: &str| {
        let all = complaints(&BTreeMap::from([(path.to_owned(), text.to_owned())]));
        all.into_iter().filter(|said| !said.contains("need not have")).count()
    };
    for (path, text, found) in [
        ("tests/fast/a.rs", "fn f() { std::thread::sleep(Duration::from_secs(1)); }", 1),
        ("tests/fast/a.rs", "use std::thread::sleep as wait;", 1),
        ("tests/fast/a.rs", "fn f() { thread::park_timeout(LONG); }", 1),
        ("tests/fast/a.rs", "const A: &str = \"a & sleep 3; b\";", 1),
        ("tests/fast/a.rs", "// sleep(1)\nconst A: &str = \"control-sleep\";", 0),
        ("tests/common/mod.rs", "fn comes() { park_timeout(SHORT); }", 0),
        ("tests/common/mod.rs", "fn comes() { sleep(SHORT); }", 1),
        ("tests/fast/stat.rs", "const A: &str = \"sleep 1000; sleep 3\";", 1),
        ("src/a.rs", "fn f() { sleep(SHORT); }", 0),
        ("src/a.rs", "#[cfg(test)]\nmod tests {\n    fn f() { sleep(SHORT); }\n}", 1),
        ("src/a_tests.rs", "fn f() { sleep(SHORT); }", 1),
    ] {
        assert_eq!(only(path, text), found, "{path}: {text}");
    }
    let unused = complaints(&BTreeMap::new());
    assert_eq!(unused.len(), ALLOWED.len(), "{unused:?}");
}
