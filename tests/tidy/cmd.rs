//! src/cmd/ parses and prints: the rooms that measure are for src/flow/ alone, and errors that are
//! free text for src/cmd/.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Crate;
use super::modules::modules;
use super::tokens::tokens;
use super::{complain, texts};

/// What every command may use: the flow, plain data, and what a result is printed with.
const OPEN: [&str; 6] = ["flow", "model", "plan", "report", "rundir", "text"];

/// What else a file or a folder of src/cmd/ uses. The list only gets shorter.
const KNOWN: [(&str, &str); 2] = [
    // `ktax vmm` is the command line of that room: there is nothing to join.
    ("src/cmd/vmm/", "vmm"),
    // The values of --engine and their help are the list of engines.
    ("src/cmd/experiment/timed.rs", "engine"),
];

/// Files of src/flow/ that name `Error::Usage`, and why. The list only gets shorter.
const FREE_TEXT: [(&str, &str); 1] =
    [("src/flow/error.rs", "it is defined there, for mistakes on a command line")];

/// The rooms that files of src/cmd/ use and should not, and exceptions that nobody needs any more.
fn complaints(files: &BTreeMap<String, String>, known: &[(&str, &str)]) -> Vec<String> {
    let modules = modules("src/lib.rs", files).unwrap();
    let used = Crate { modules: &modules, name: "ktax" }.rooms_of_files();
    let of_cmd = used.iter().filter(|(file, _)| file.starts_with("src/cmd/"));
    let each = |(file, rooms): (&String, &BTreeSet<String>)| -> Vec<(String, String)> {
        let closed = rooms.iter().filter(|room| !OPEN.contains(&room.as_str()));
        closed.map(|room| (file.clone(), room.clone())).collect()
    };
    let closed: Vec<(String, String)> = of_cmd.flat_map(each).collect();
    let is = |(file, room): &(String, String), (of, known): &(&str, &str)| {
        file.starts_with(of) && room == known
    };
    let new = closed.iter().filter(|use_| !known.iter().any(|it| is(use_, it)));
    let gone = known.iter().filter(|it| !closed.iter().any(|use_| is(use_, it)));
    new.map(|(file, room)| format!("{file} uses `{room}`: move what it does there to src/flow/"))
        .chain(gone.map(|(of, room)| format!("{of} does not use `{room}`: remove it from KNOWN")))
        .collect()
}

#[test]
fn commands_parse_and_print() {
    complain(&complaints(&texts("src", &["rs"]), &KNOWN));
    let text = |text: &str| text.to_owned();
    let files = BTreeMap::from([
        (text("src/lib.rs"), text("pub mod run;\npub mod flow;\npub mod cmd;")),
        (text("src/run.rs"), text("pub struct Driver;")),
        (text("src/flow.rs"), text("pub use crate::run::Driver;")),
        (text("src/cmd/mod.rs"), text("mod a;\nmod b;")),
        (text("src/cmd/a.rs"), text("use crate::flow::Driver;")),
        (text("src/cmd/b.rs"), text("fn f() { crate::run::Driver; }")),
    ]);
    let planted = "src/cmd/b.rs uses `run`: move what it does there to src/flow/";
    assert_eq!(complaints(&files, &[]), [planted]);
    assert_eq!(complaints(&files, &[("src/cmd/b.rs", "run")]), [""; 0]);
    let gone = "src/cmd/a.rs does not use `run`: remove it from KNOWN";
    assert_eq!(complaints(&files, &[("src/cmd/a.rs", "run")]), [planted, gone]);
}

/// Files of src/flow/ that make an error of free text, and exceptions that nobody needs any more.
fn free_text(files: &BTreeMap<String, String>, known: &[(&str, &str)]) -> Vec<String> {
    let names_it = |text: &str| {
        let all = tokens(text);
        all.iter().any(|token| token.is_word("Usage") || token.is_word("usage"))
    };
    let of_flow = files.iter().filter(|(file, _)| file.starts_with("src/flow/"));
    let found: Vec<&str> =
        of_flow.filter(|(_, text)| names_it(text)).map(|(file, _)| file.as_str()).collect();
    let new = found.iter().filter(|file| !known.iter().any(|(of, _)| of == *file));
    let gone = known.iter().filter(|(of, _)| !found.contains(of));
    new.map(|file| format!("{file} makes an error of free text: give it a type with fields"))
        .chain(gone.map(|(of, _)| format!("{of} has no free text: remove it from FREE_TEXT")))
        .collect()
}

#[test]
fn errors_of_the_library_have_types() {
    complain(&free_text(&texts("src", &["rs"]), &FREE_TEXT));
    let text = |text: &str| text.to_owned();
    let mut files = BTreeMap::from([
        (text("src/flow/error.rs"), text("enum Error { Usage(String) }")),
        (text("src/flow/a.rs"), text("fn f() { Error::usage(\"wrong\"); }")),
        (text("src/flow/b/c.rs"), text("use super::Error::{self, Usage};")),
        (text("src/flow/d.rs"), text("// Error::usage(\"wrong\")\nfn f() { Error::Rows; }")),
        (text("src/cmd/a.rs"), text("fn f() { Error::usage(\"wrong\"); }")),
    ]);
    let [a, c] = ["a.rs", "b/c.rs"].map(|file| {
        format!("src/flow/{file} makes an error of free text: give it a type with fields")
    });
    assert_eq!(free_text(&files, &FREE_TEXT), [a, c.clone()]);
    files.remove("src/flow/error.rs");
    let gone = "src/flow/error.rs has no free text: remove it from FREE_TEXT".to_owned();
    let known = [FREE_TEXT[0], ("src/flow/a.rs", "planted")];
    assert_eq!(free_text(&files, &known), [c, gone]);
}
