//! What stands once, in a leaf, and nowhere else.

use std::collections::BTreeMap;

use super::{complain, texts};

/// What only `src/disk/` does, and the files that do it for something else than a file of ours: a
/// directory that is moved as a whole, and git's index.
const OF_DISK: [(&str, &[&str]); 5] = [
    ("sha2::", &[]),
    ("flock(", &[]),
    ("NamedTempFile", &[]),
    (".persist(", &[]),
    ("fs::rename(", &["src/engine/exact/snapshot.rs", "src/kernel/source/directory.rs"]),
];

fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    OF_DISK.iter().flat_map(|(what, allowed)| of_one(files, what, allowed)).collect()
}

/// Who does it outside `src/disk/`, and which of the allowed files does not.
fn of_one(files: &BTreeMap<String, String>, what: &str, allowed: &[&str]) -> Vec<String> {
    let outside = files.iter().filter(|(path, _)| !path.starts_with("src/disk/"));
    let does = outside.filter(|(_, text)| text.contains(what));
    let mut unused = allowed.to_vec();
    let mut found = Vec::new();
    for (path, _) in does {
        let before = unused.len();
        unused.retain(|allowed| allowed != path);
        if unused.len() == before {
            found.push(format!("{path}: {what} belongs to src/disk/"));
        }
    }
    found.extend(unused.iter().map(|path| format!("{path} need not be allowed {what}")));
    found
}

#[test]
fn files_are_written_locked_and_hashed_in_one_place() {
    complain(&complaints(&texts("src", &["rs"])));
    let planted = |path: &str, text: &str, allowed: &[&str]| {
        let files = BTreeMap::from([(path.to_owned(), text.to_owned())]);
        of_one(&files, "fs::rename(", allowed).len()
    };
    for (path, text, allowed, found) in [
        ("src/plan/a.rs", "fs::rename(a, b)", &[][..], 1),
        ("src/disk/a.rs", "fs::rename(a, b)", &[], 0),
        ("src/plan/a.rs", "fs::rename(a, b)", &["src/plan/a.rs"], 0),
        ("src/plan/a.rs", "", &["src/plan/a.rs"], 1),
    ] {
        assert_eq!(planted(path, text, allowed), found, "{path}: {text}");
    }
}
