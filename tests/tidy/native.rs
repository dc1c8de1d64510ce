//! What uses what in the C of guest/ and plugin/.

use std::collections::BTreeMap;

use super::c::{includes, names};
use super::circles::circles;
use super::imports::Uses;
use super::{complain, texts};

fn complaints(uses: &Uses) -> Vec<String> {
    circles(uses).into_iter().map(|(_, words)| format!("a circle: {words}")).collect()
}

#[test]
fn no_headers_need_each_other() {
    let mut found = Vec::new();
    for dir in ["guest", "plugin"] {
        found.extend(complaints(&includes(&texts(dir, &["c", "h"]))));
    }
    complain(&found);
}

/// The workloads below guest/ are not looked at: their groups are small.
#[test]
fn no_files_of_the_guest_or_the_plugin_call_each_other() {
    let mut found = Vec::new();
    for dir in ["guest", "plugin"] {
        let mut files = texts(dir, &["c", "h"]);
        files.retain(|path, _| path.matches('/').count() == 1);
        found.extend(complaints(&names(&files)));
    }
    complain(&found);
}

fn planted(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| (format!("guest/{path}"), (*text).to_owned())).collect()
}

#[test]
fn planted_circles_of_headers_are_seen() {
    let files = planted(&[("a.h", "#include \"b.h\"\n"), ("x/b.h", "#include \"a.h\"\n")]);
    let circle = "guest/a.h → guest/x/b.h (b.h) → guest/a.h (a.h)";
    assert_eq!(complaints(&includes(&files)), [format!("a circle: {circle}")]);
    let files = planted(&[("a.h", "#include <b.h>\n"), ("b.h", "#include \"a.h\"\n")]);
    assert_eq!(complaints(&includes(&files)), Vec::<String>::new());
}

#[test]
fn planted_circles_of_calls_are_seen() {
    let header = ("g.h", "#define GO(X) go(X)\nstatic inline void in(void)\n{\n\tback();\n}\n");
    let is = |a: &str, b: &str| complaints(&names(&planted(&[header, ("a.c", a), ("b.c", b)])));
    let go = "static int own;\nvoid go(int n)\n{\n\town = n;\n}\n";
    let to_go = "void back(void)\n{\n\tGO(1);\n}\n";
    assert_eq!(is(go, to_go), Vec::<String>::new());
    let circle = ["a circle: guest/a.c → guest/b.c (back) → guest/a.c (go)"];
    assert_eq!(is(&format!("{go}void f(void)\n{{\n\tin();\n}}\n"), to_go), circle);
    assert_eq!(is(&format!("{go}void (*f)(void) = back;\n"), to_go), circle);
    // A variable of its own is not the other file's function, nor is a declaration a use.
    assert_eq!(is(&format!("{go}void f(int back)\n{{\n\tback++;\n}}\n"), to_go), [""; 0]);
    assert_eq!(is(&format!("{go}void back(void);\n"), to_go), [""; 0]);
    // A variable that another file defines is a use.
    let variable = format!("{go}int f(void)\n{{\n\treturn count;\n}}\n");
    let counted = format!("int one, count;\n{to_go}");
    assert_eq!(
        is(&variable, &counted),
        ["a circle: guest/a.c → guest/b.c (count) → guest/a.c (go)"]
    );
    // What a file asks for by a hook it does not know.
    let header = ("g.h", "HOOK void back(void);\n");
    let files = [header, ("a.c", &format!("{go}int f(void)\n{{\n\tback();\n}}\n")), ("b.c", to_go)];
    let with_go = planted(&files).into_iter().chain(planted(&[("m.h", "#define GO(X) go(X)\n")]));
    assert_eq!(complaints(&names(&with_go.collect())), [""; 0]);
}
