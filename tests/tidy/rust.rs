//! What uses what in src/: the table of ARCHITECTURE.md, circles of files, clap.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::circles;
use super::imports::{Crate, Uses};
use super::modules::{Module, modules};
use super::table::{Room, differences, rooms};
use super::tokens::{Token, tokens};
use super::{complain, texts};

/// Directories in which circles are known. The list only gets shorter.
const KNOWN: &[&str] = &[];

/// Ways to use something that the rules cannot follow; nowhere in src.
const HIDDEN: [&[&str]; 3] = [&["extern", "crate"], &["macro_use"], &["macro_export"]];

fn library(files: &BTreeMap<String, String>) -> Vec<Module> {
    modules("src/lib.rs", files).unwrap()
}

fn uses(modules: &[Module]) -> (Uses, Vec<String>) {
    Crate { modules, name: "ktax" }.uses()
}

/// Circles that are not within one of these directories, and directories without a circle.
fn complaints(uses: &Uses, known: &[&str]) -> Vec<String> {
    let circles = circles(uses);
    let is_of = |files: &BTreeSet<String>, dir: &str| files.iter().all(|at| at.starts_with(dir));
    let new = circles.iter().filter(|(files, _)| !known.iter().any(|dir| is_of(files, dir)));
    let gone = known.iter().filter(|dir| !circles.iter().any(|(files, _)| is_of(files, dir)));
    new.map(|(_, words)| format!("a circle: {words}"))
        .chain(gone.map(|dir| format!("{dir} has no circle any more: remove it from KNOWN")))
        .collect()
}

fn hidden(path: &str, text: &str) -> Vec<String> {
    let all = tokens(text);
    let says = |way: &[&str]| {
        let is_way = |part: &[Token]| part.iter().zip(way).all(|(token, word)| token.is_word(word));
        all.windows(way.len()).any(is_way)
    };
    let ways = HIDDEN.iter().filter(|way| says(way)).map(|way| way.join(" "));
    // What the build writes is a list, and no code.
    let is_built =
        |rest: &[Token]| rest.iter().take(10).any(|t| *t == Token::Text("OUT_DIR".into()));
    let mut includes = all.iter().enumerate().filter(|(_, token)| token.is_word("include"));
    let include = includes.find(|(at, _)| all[at + 1].is_sign('!') && !is_built(&all[*at..]));
    let ways = ways.chain(include.map(|_| "include!".to_owned()));
    ways.map(|way| format!("{path} has {way}, which the rules cannot follow")).collect()
}

fn clap_below(path: &str, text: &str) -> Option<String> {
    let is_free = path.starts_with("src/cmd/") || path == "src/main.rs";
    let uses_it = || tokens(text).iter().any(|token| token.is_word("clap"));
    (!is_free && uses_it()).then(|| format!("{path} uses clap, which is only for src/cmd/"))
}

#[test]
fn no_files_need_each_other() {
    let files = texts("src", &["rs"]);
    let (uses, mut unread) = uses(&library(&files));
    unread.extend(complaints(&uses, KNOWN));
    unread.extend(files.iter().flat_map(|(path, text)| hidden(path, text)));
    complain(&unread);
}

#[test]
fn the_table_of_the_document_is_what_the_code_does() {
    let files = texts("src", &["rs"]);
    let modules = library(&files);
    let document = std::fs::read_to_string(super::root().join("ARCHITECTURE.md")).unwrap();
    let used = Crate { modules: &modules, name: "ktax" }.rooms();
    complain(&differences(&rooms(&document), &used));
}

#[test]
fn clap_is_for_the_commands_alone() {
    let files = texts("src", &["rs"]);
    let found: Vec<String> =
        files.iter().filter_map(|(path, text)| clap_below(path, text)).collect();
    complain(&found);
    let planted = "use serde::Serialize;\n#[derive(clap::ValueEnum)] enum A {}";
    assert!(clap_below("src/vmm/mod.rs", planted).is_some());
    assert!(clap_below("src/cmd/vmm.rs", planted).is_none());
    assert!(clap_below("src/vmm/mod.rs", "// clap\nconst A: &str = \"clap\";").is_none());
}

/// A crate of these files.
fn planted(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let path = |name: &str| format!("src/{name}.rs");
    files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect()
}

/// The files of the only circle of a planted crate, without their directory.
fn circle(files: &[(&str, &str)]) -> String {
    let files = planted(files);
    let (uses, unread) = uses(&library(&files));
    assert_eq!(unread, Vec::<String>::new());
    let found = circles(&uses);
    assert!(found.len() < 2, "{found:?}");
    let names = found.iter().flat_map(|(files, _)| files);
    let short = |path: &String| path.replace("src/", "").replace(".rs", "");
    names.map(short).collect::<Vec<_>>().join(" ")
}

const LIB: (&str, &str) = ("lib", "pub mod a;\npub mod b;");

#[test]
fn planted_circles_are_seen() {
    let is = |a: &str, b: &str| circle(&[LIB, ("a", a), ("b", b)]);
    let back = "pub struct B;\nfn f(_: crate::a::A) {}";
    assert_eq!(is("pub struct A;\nuse crate::b::B;", back), "a b");
    assert_eq!(is("pub struct A;\nuse crate::{b::{self, B as C}};", back), "a b");
    assert_eq!(is("pub struct A;\nuse super::b;\nfn f() { b::B; }", back), "a b");
    assert_eq!(is("pub struct A;\nuse super::b::*;\nfn f(_: B) {}", back), "a b");
    assert_eq!(is("pub struct A;\nmod t { use super::super::b::B; }", back), "a b");
    // A module is no item, and what is only mentioned is no use.
    assert_eq!(is("pub struct A;\nuse crate::b;\n/// [`crate::b::B`]", back), "");
}

#[test]
fn a_facade_passes_names_on_and_hides_no_circle() {
    let (lib, b) = (("lib", "pub mod a;"), ("a/b", "pub struct B;\nuse super::c::C;"));
    let c = ("a/c", "pub struct C;");
    let facade = "mod b;\nmod c;\npub use b::B;\npub use c::C;";
    assert_eq!(circle(&[lib, ("a/mod", facade), b, c]), "");
    // What comes by the facade is used where it is defined.
    let round = ("a/c", "pub struct C;\nuse crate::a::B;");
    assert_eq!(circle(&[lib, ("a/mod", facade), b, round]), "a/b a/c");
    // Code in it is code; so is a private import.
    let up = ("a/c", "pub struct C;\nuse super::shared;");
    let code = format!("{facade}\npub fn shared() {{ b::B; }}");
    assert_eq!(circle(&[lib, ("a/mod", &code), b, up]), "a/b a/c a/mod");
    let import = format!("{facade}\nuse b::B as Own;\npub fn shared() {{}}");
    assert_eq!(circle(&[lib, ("a/mod", &import), b, up]), "a/b a/c a/mod");
    let macros = ("a/c", "pub struct C;\nfn f() { note!(1); }");
    let with = "macro_rules! note { () => {} }\nmod b;\nmod c;\nfn f(_: c::C) {}";
    assert_eq!(circle(&[lib, ("a/mod", with), ("a/b", ""), macros]), "a/c a/mod");
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let files = planted(&[LIB, ("a", "use crate::b::Nothing;"), ("b", "")]);
    let (_, unread) = uses(&library(&files));
    assert_eq!(unread, ["src/a.rs: crate::b::Nothing cannot be followed"]);
    for text in ["extern crate std;", "#[macro_use] mod a;", "include!(\"a\");"] {
        assert_eq!(hidden("a.rs", text).len(), 1, "{text}");
    }
    let (found, known) = (Uses::new(), ["src/a/"]);
    assert_eq!(complaints(&found, &known), ["src/a/ has no circle any more: remove it from KNOWN"]);
}

#[test]
fn planted_differences_from_the_table_are_seen() {
    let table = "| `src/a/` | first, [it](x) `b/` | nothing of ours |\n\
                 | `src/b/` | second | `a` |\n| `src/cmd/` | all | `a`, `b` |\n\
                 | `guest/` | C | |";
    let room = |name: &str, uses: &[&str]| Room {
        name: name.into(),
        uses: uses.iter().map(|name| (*name).to_owned()).collect(),
    };
    let expected = [room("a", &[]), room("b", &["a"]), room("cmd", &["a", "b"])];
    assert_eq!(rooms(table), expected);
    let lib = ("lib", "pub mod a;\npub mod b;\npub mod cmd;");
    let found = |a: &str, b: &str| {
        let files = planted(&[lib, ("a", a), ("b", b), ("cmd", "use crate::{a::A, b::B};")]);
        let modules = library(&files);
        differences(&rooms(table), &Crate { modules: &modules, name: "ktax" }.rooms())
    };
    let (a, b) = ("pub struct A;", "pub struct B;");
    assert_eq!(found(a, "pub struct B(super::a::A);"), Vec::<String>::new());
    assert_eq!(found(a, b), ["src/b/ does not use `a`, and its row says so"]);
    let up = found("pub struct A(crate::b::B);", "pub struct B(crate::a::A);");
    assert_eq!(
        up,
        [
            "src/a/ uses `b`, which is not above it in the table",
            "src/a/ uses `b`, and its row does not say so"
        ]
    );
    let rows = rooms(&table.replace("src/b", "src/c"));
    let used = BTreeMap::from([("a".to_owned(), BTreeSet::new()), ("b".into(), BTreeSet::new())]);
    assert_eq!(
        differences(&rows[..2], &used),
        [
            "src/b/ has no row in ARCHITECTURE.md",
            "ARCHITECTURE.md has a row for src/c/, which does not exist"
        ]
    );
}
