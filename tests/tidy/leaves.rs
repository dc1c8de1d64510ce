//! What stands once, in a leaf, and nowhere else.

use std::collections::BTreeMap;

use super::{complain, rust};

/// What only `crates/ktax-host/src/disk/` does, and the files that do it for something else than a
/// file of ours: a directory that is moved as a whole, and git's index.
const OF_DISK: [(&str, &[&str]); 5] = [
    ("sha2::", &[]),
    ("flock(", &[]),
    ("NamedTempFile", &[]),
    (".persist(", &[]),
    (
        "fs::rename(",
        &[
            "crates/ktax-engine/src/exact/boot.rs",
            "crates/ktax-kernel/src/source/tree.rs",
            "crates/ktax-program/src/pack.rs",
        ],
    ),
];

fn complaints(files: &BTreeMap<String, String>) -> Vec<String> {
    let of_file = |(path, text): (&String, &String)| {
        let does = |(what, allowed): &&(&str, &[&str])| {
            text.contains(what) && !allowed.contains(&path.as_str())
        };
        let found: Vec<String> = OF_DISK
            .iter()
            .filter(does)
            .map(|(what, _)| format!("{path}: {what} belongs to crates/ktax-host/src/disk/"))
            .collect();
        found
    };
    files
        .iter()
        .filter(|(path, _)| !path.starts_with("crates/ktax-host/src/disk"))
        .flat_map(of_file)
        .collect()
}

/// The files that are allowed what they do not do.
fn unneeded(files: &BTreeMap<String, String>) -> Vec<String> {
    let exceptions =
        OF_DISK.iter().flat_map(|(what, allowed)| allowed.iter().map(move |path| (what, *path)));
    let unused = exceptions
        .filter(|(what, path)| !files.get(*path).is_some_and(|text| text.contains(**what)));
    unused.map(|(what, path)| format!("{path} need not be allowed {what}")).collect()
}

#[test]
fn files_are_written_locked_and_hashed_in_one_place() {
    let files = rust();
    complain(&[complaints(&files), unneeded(&files)].concat());
    let planted = |path: &str, text: &str| BTreeMap::from([(path.to_owned(), text.to_owned())]);
    for (path, text, found) in [
        ("crates/ktax-plan/src/a.rs", "use sha2::Digest;", 1),
        ("crates/ktax-host/src/disk/a.rs", "use sha2::Digest;", 0),
        ("crates/ktax-plan/src/a.rs", "fs::rename(a, b)", 1),
        ("crates/ktax-engine/src/exact/boot.rs", "fs::rename(a, b)", 0),
    ] {
        assert_eq!(complaints(&planted(path, text)).len(), found, "{path}: {text}");
    }
    let used = unneeded(&planted("crates/ktax-engine/src/exact/boot.rs", "fs::rename(a, b)"));
    let needless = ["crates/ktax-kernel/src/source/tree.rs", "crates/ktax-program/src/pack.rs"];
    assert_eq!(used, needless.map(|path| format!("{path} need not be allowed fs::rename(")));
}
