//! House rules that no compiler checks: sizes, licences, links, and what must not be left lying.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;
const BLOB_BYTES: u64 = 256 << 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file of the project below `dir` with one of these extensions.
fn files(dir: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![root().join(dir)]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                todo.push(path);
            } else if extensions.contains(&extension.as_str()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Their texts, by their paths from the root.
fn texts(dir: &str, extensions: &[&str]) -> BTreeMap<String, String> {
    let name = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let paths = files(dir, extensions);
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// The Rust of ktax itself: without the markers, which are for programs of others.
fn rust() -> BTreeMap<String, String> {
    let sources = ["src", "crates"].into_iter().flat_map(|dir| texts(dir, &["rs"]));
    sources.filter(|(path, _)| !path.starts_with("crates/ktax-mark/")).collect()
}

fn sources() -> Vec<PathBuf> {
    ["src", "crates", "tests", "benches", "fuzz/fuzz_targets", "guest", "plugin"]
        .iter()
        .flat_map(|dir| files(dir, &["rs", "c", "h"]))
        .collect()
}

fn complain(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn files_and_lines_are_short() {
    let mut complaints = Vec::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > FILE_LINES {
            complaints.push(format!("{}: {lines} lines", path.display()));
        }
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > COLUMNS {
                complaints.push(format!("{}:{}: too wide", path.display(), number + 1));
            }
        }
    }
    complain(&complaints);
}

/// The functions of a text that are longer than `most` lines: where each begins, and its lines.
fn long_functions(text: &str, most: usize) -> Vec<(usize, usize)> {
    let mut long = Vec::new();
    // rustfmt closes a function in the column in which it began.
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = || line.trim_start().split([' ', '(', '"']);
        let begins = !line.trim_start().starts_with("//") && words().any(|word| word == "fn");
        if begins && open.is_none() && !line.trim_end().ends_with(['}', ';', ',']) {
            open = Some((number, indent));
        } else if let Some((start, _)) = open.filter(|(_, start_indent)| *start_indent == indent) {
            let lines = number - start + 1;
            // A declaration without a body ends with a semicolon.
            if line.trim() == "}" || line.trim_end().ends_with(';') {
                long.extend((lines > most).then_some((start + 1, lines)));
                open = None;
            }
        }
    }
    long
}

#[test]
fn functions_fit_a_screen() {
    let mut complaints = Vec::new();
    for dir in ["src", "crates", "tests", "benches", "fuzz/fuzz_targets"] {
        for (path, text) in texts(dir, &["rs"]) {
            for (line, lines) in long_functions(&text, FUNCTION_LINES) {
                complaints.push(format!("{path}:{line}: {lines} lines"));
            }
        }
    }
    complain(&complaints);
    for head in ["pub fn long(\n) {", "pub(super) async fn long<T>()\nwhere\n    T: A,\n{"] {
        let of_body =
            |lines| format!("\n{head}\n{}}}\nfn short() {{\n}}", "    a();\n".repeat(lines));
        let most = FUNCTION_LINES - head.lines().count() - 1;
        assert_eq!(long_functions(&of_body(most), FUNCTION_LINES), []);
        assert_eq!(long_functions(&of_body(most + 1), FUNCTION_LINES), [(2, FUNCTION_LINES + 1)]);
    }
}

#[test]
fn nothing_is_left_open_and_nothing_is_large() {
    let mut complaints = Vec::new();
    let marks =
        [["TO", "DO"], ["FIX", "ME"], ["unimpl", "emented!"], ["to", "do!("]].map(|m| m.concat());
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        for mark in &marks {
            if text.contains(mark.as_str()) {
                complaints.push(format!("{}: {mark}", path.display()));
            }
        }
    }
    for dir in
        ["src", "crates", "tests", "guest", "plugin", "workloads", "experiments", "docs", "scripts"]
    {
        let endings = ["rs", "c", "h", "toml", "md", "txt", "json", "csv", "sh", "tsv"];
        for path in files(dir, &endings) {
            if fs::metadata(&path).unwrap().len() > BLOB_BYTES {
                complaints.push(format!("{}: large", path.display()));
            }
        }
    }
    complain(&complaints);
}

/// Ends of messages that leave the reader to find out what to do.
const NO_STEP: [&str; 5] = ["fix that", "fix this", "fix it", "fix the cause", "mend "];

#[test]
fn messages_end_with_a_step_that_can_be_taken() {
    let mut complaints = Vec::new();
    for (path, text) in rust() {
        for (number, line) in text.lines().enumerate() {
            // Look at quoted text: comments and names are no messages.
            let literal = line.split('"').nth(1).filter(|_| !line.trim_start().starts_with("//"));
            let continued = line.trim_end().ends_with('\\').then_some(line);
            let literal = literal.or(continued).unwrap_or_default();
            if let Some(empty) = NO_STEP.iter().find(|empty| literal.contains(**empty)) {
                complaints.push(format!("{path}:{}: {empty:?} is no next step", number + 1));
            }
        }
    }
    complain(&complaints);
}

#[test]
fn every_c_file_says_its_licence() {
    for (dir, licence) in [("guest", "MIT"), ("tests", "MIT"), ("plugin", "GPL-2.0-or-later")] {
        for path in files(dir, &["c", "h"]) {
            let text = fs::read_to_string(&path).unwrap();
            let expected = format!("/* SPDX-License-Identifier: {licence} */\n");
            assert!(text.starts_with(&expected), "{}", path.display());
        }
    }
}

#[test]
fn every_workload_is_a_program_and_every_program_a_workload() {
    let definitions = files("workloads", &["toml"]);
    let programs: Vec<String> = files("guest", &["c"])
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let names = text.split("WORKLOAD(\"").skip(1).filter_map(|tail| tail.split('"').next());
            names.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let named: Vec<String> = definitions
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let program = text.split("program = \"").nth(1).and_then(|tail| tail.split('"').next());
            // A program of the machine is run by one of the guest.
            let program = program.or(text.contains("\n[run]\n").then_some("program"));
            program.unwrap_or_else(|| panic!("{}", path.display())).to_owned()
        })
        .collect();
    for program in &named {
        assert!(programs.contains(program), "no guest program {program}");
    }
    for program in
        programs.iter().filter(|program| !["symbols", "program"].contains(&program.as_str()))
    {
        assert!(named.contains(program), "no workload file for {program}");
    }
}

#[test]
fn unsafe_is_rare_and_explained() {
    let mut blocks = 0;
    for text in rust().values() {
        blocks += text.matches("unsafe {").count();
    }
    // undocumented_unsafe_blocks is a clippy error; this keeps their number in sight.
    // Two of them are bpf(2), two a test's interpreter of it, two KVM's statistics, one
    // is a guest's memory, one CPUID, two time instructions of user mode.
    assert!(blocks <= 12, "{blocks} unsafe blocks");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut documents = files("docs", &["md"]);
    for name in
        ["README.md", "ARCHITECTURE.md", "METHODOLOGY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    {
        documents.push(root().join(name));
    }
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|tail| tail.split(')').next()) {
            if !target.contains("://") {
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let place = match file {
                    "" => path.clone(),
                    file => path.parent().unwrap().join(file),
                };
                assert!(place.exists(), "{}: {target}", path.display());
                assert!(has_heading(&place, anchor), "{}: {target}", path.display());
            }
        }
    }
}

/// Whether a document has a heading of this anchor, as GitHub makes them.
fn has_heading(document: &Path, anchor: &str) -> bool {
    let anchor_of = |line: &str| -> Option<String> {
        let heading =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
        let letters = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(letters.collect::<String>().to_lowercase().replace(' ', "-"))
    };
    anchor.is_empty()
        || fs::read_to_string(document)
            .unwrap()
            .lines()
            .any(|line| anchor_of(line).as_deref() == Some(anchor))
}

/// Calls that only `crates/ktax-host/src/disk/` makes, and the files that make them for something
/// else than a file of ours: a directory that is moved as a whole, and git's index.
const OF_DISK: [(&str, &[&str]); 5] = [
    ("sha2::", &[]),
    ("flock(", &[]),
    ("NamedTempFile", &[]),
    (".persist(", &[]),
    (
        "fs::rename(",
        &[
            "crates/ktax-engine/src/exact.rs",
            "crates/ktax-kernel/src/source/tree.rs",
            "crates/ktax-program/src/pack.rs",
        ],
    ),
];

#[test]
fn files_are_written_locked_and_hashed_in_one_place() {
    let files = rust();
    for (what, allowed) in OF_DISK {
        let does = files.iter().filter(|(_, text)| text.contains(what)).map(|(path, _)| path);
        let others = does.filter(|path| !path.starts_with("crates/ktax-host/src/disk"));
        assert_eq!(others.collect::<Vec<_>>(), allowed, "{what} belongs to ktax-host's disk");
    }
}

/// Calls that only let time pass, and the files that may make them: where, which, and why. A test
/// waits for a condition, with `until`, and not for a time.
const SLEEPS: [&str; 2] = ["sleep", "park_timeout"];
const MAY_SLEEP: [(&str, &str, &str); 6] = [
    ("crates/ktax-kernel/src/source/tests.rs", "sleep 600", "a build that is stopped"),
    ("tests/boots/resume.rs", "park_timeout", "a run is killed at moments spread over it"),
    ("tests/common/mod.rs", "park_timeout", "`until` looks again"),
    ("tests/fast/stat.rs", "sleep 1000", "a command that is killed"),
    ("tests/guests/exits_command.rs", "sleep 0.1", "a command that is stopped"),
    ("tests/guests/kvm_engine.rs", "sleep 0.2", "a script looks again"),
];

/// Code of tests: files of tests, and what follows the unit tests' head in others.
fn test_code<'a>(path: &str, text: &'a str) -> &'a str {
    let is_of_tests =
        path.starts_with("tests/") || path.contains("/tests") || path.contains("_tests");
    match (is_of_tests, text.find("#[cfg(test)]\nmod tests {")) {
        (true, _) => text,
        (false, Some(start)) => &text[start..],
        (false, None) => "",
    }
}

/// The sleeps in code: functions by their names, and `sleep` with a number in a script.
fn sleeps(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for word in SLEEPS {
            for (start, _) in line.match_indices(word) {
                let (before, after) = (&line[..start], &line[start + word.len()..]);
                let is_part = before.ends_with(|c: char| c.is_alphanumeric() || "_-".contains(c));
                let number = after.strip_prefix(' ').unwrap_or_default();
                let is_number = |c: char| c.is_ascii_digit() || c == '.';
                let number = &number[..number.find(|c| !is_number(c)).unwrap_or(number.len())];
                let is_function =
                    ["(", " as ", ";", ",", "}"].iter().any(|end| after.starts_with(end));
                match (is_part, number) {
                    (false, "") if is_function => found.insert(word.to_owned()),
                    (false, number) if !number.is_empty() => {
                        found.insert(format!("{word} {number}"))
                    }
                    _ => false,
                };
            }
        }
    }
    found
}

#[test]
fn no_test_waits_for_a_time() {
    for (code, seen) in [
        ("fn f() { std::thread::sleep(Duration::from_secs(1)); }", &["sleep"][..]),
        ("use std::thread::sleep as wait;", &["sleep"]),
        ("use std::thread::{park_timeout, spawn};", &["park_timeout"]),
        ("const A: &str = \"a & sleep 3; sleep 0.5\";", &["sleep 0.5", "sleep 3"]),
        ("// sleep(1)\nconst A: &str = \"control-sleep\";", &[]),
    ] {
        assert!(sleeps(code).iter().eq(seen), "{code}");
    }
    let mut found = Vec::new();
    for (path, text) in rust().into_iter().chain(texts("tests", &["rs"])) {
        let sleeps = sleeps(test_code(&path, &text)).into_iter();
        found.extend(sleeps.map(|what| (path.clone(), what)));
    }
    found.retain(|(path, _)| path != "tests/tidy.rs");
    let allowed = MAY_SLEEP.map(|(path, what, _)| (path.to_owned(), what.to_owned()));
    assert_eq!(found, allowed, "wait with `until`");
}

/// Paths that a document names in backticks, as they are from the root: `engine/exact.rs` stands
/// for `crates/ktax-engine/src/exact.rs`. Names with a part in capitals stand for several.
fn named_paths(document: &str) -> Vec<String> {
    let is_path = |text: &&str| {
        let is_capital = |part: &str| part.len() > 1 && part.chars().all(char::is_uppercase);
        let file = text.rsplit('/').next().unwrap_or_default();
        text.contains('/')
            && !text.starts_with('/')
            && text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c))
            && (file.is_empty() || file.contains('.'))
            && !text.split(['/', '.', '-']).any(is_capital)
    };
    let from_root = |text: &str| match text.split_once('/') {
        Some((first, rest)) if root().join(format!("crates/ktax-{first}")).exists() => {
            format!("crates/ktax-{first}/src/{rest}")
        }
        _ => text.to_owned(),
    };
    document.split('`').skip(1).step_by(2).filter(is_path).map(from_root).collect()
}

#[test]
fn paths_in_documents_exist() {
    let mut complaints = Vec::new();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md", "METHODOLOGY.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        for path in named_paths(&text) {
            // A folder may be named alone, where the text says what it is in.
            let is_alone = path.matches('/').count() == 1 && path.ends_with('/');
            if !is_alone && !root().join(&path).exists() {
                complaints.push(format!("{name}: there is no {path}"));
            }
        }
    }
    complain(&complaints);
    let paths = named_paths("`engine/exact.rs`, `src/flow/`; `either/or`, `src/METHOD.rs`");
    assert_eq!(paths, ["crates/ktax-engine/src/exact.rs", "src/flow/"]);
}
