//! A public type's name stands once in src/, so that a reader never asks which one is meant.

use std::collections::BTreeMap;

use super::{complain, texts};

/// The name that a line at the left edge defines: what is further in is a test's or a function's.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("pub ")?.split([' ', '<', '(', ';', '{', ':', '=']);
    let is_type = matches!(words.next()?, "struct" | "enum" | "trait" | "type");
    let name = is_type.then(|| words.next())??;
    // The same type, with its usual parameter.
    (!line.contains(&format!("::{name}<")) || !line.contains("pub type")).then_some(name)
}

/// Each command has one `Args`: it is named with its file, `compare::Args`.
fn is_of_a_command(path: &str, name: &str) -> bool {
    path.starts_with("src/cmd/") && name == "Args"
}

fn twice<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in files {
        for name in text.lines().filter_map(defined).filter(|name| !is_of_a_command(path, name)) {
            places.entry(name).or_default().push(path);
        }
    }
    places.retain(|_, paths| paths.len() > 1);
    places.into_iter().map(|(name, at)| format!("{name} is in {}", at.join(" and "))).collect()
}

#[test]
fn a_public_type_has_a_name_of_its_own() {
    let files = texts("src", &["rs"]);
    complain(&twice(files.iter().map(|(path, text)| (&**path, &**text))));
    let planted = [
        (
            "src/a.rs",
            "pub struct Row<'a> {\n    pub enum: u8\n}\npub type Plan<M = A> = b::Plan<M>;",
        ),
        (
            "src/b.rs",
            "pub enum Row {\n}\npub struct Plan<M> {\n}\n    pub struct In;\npub struct In;",
        ),
        ("src/cmd/c.rs", "pub struct Args;\npub fn run() {}"),
        ("src/cmd/d.rs", "pub struct Args;"),
    ];
    assert_eq!(twice(planted.into_iter()), ["Row is in src/a.rs and src/b.rs"]);
}
