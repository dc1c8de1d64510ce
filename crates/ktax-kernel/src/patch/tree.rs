//! Knows which files a kernel tree has at its top.

/// The directories at the top of a kernel tree, since Linux 2.6.
const DIRECTORIES: [&str; 26] = [
    "Documentation",
    "LICENSES",
    "arch",
    "block",
    "certs",
    "crypto",
    "drivers",
    "firmware",
    "fs",
    "include",
    "init",
    "io_uring",
    "ipc",
    "kernel",
    "lib",
    "mm",
    "net",
    "rust",
    "samples",
    "scripts",
    "security",
    "sound",
    "tools",
    "usr",
    "virt",
    "debian",
];

const FILES: [&str; 14] = [
    "Makefile",
    "Kconfig",
    "Kbuild",
    "MAINTAINERS",
    "CREDITS",
    "COPYING",
    "README",
    "REPORTING-BUGS",
    ".gitignore",
    ".mailmap",
    ".gitattributes",
    ".clang-format",
    ".cocciconfig",
    ".rustfmt.toml",
];

/// Whether a kernel tree may have a file of this path.
pub(super) fn may_contain(path: &str) -> bool {
    match path.split_once('/') {
        Some((directory, _)) => DIRECTORIES.contains(&directory),
        None => FILES.contains(&path),
    }
}

/// How many leading components of its paths a diff has too many: 1 for git's `a/` and `b/` and for
/// `linux.orig/`, 0 for what `git diff --no-prefix` writes.
pub(super) fn strip<'a>(mut paths: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let is_bare = |(old, new): (&str, &str)| {
        let path = if new == "/dev/null" { old } else { new };
        let is_same = old == new || old == "/dev/null" || new == "/dev/null";
        is_same && may_contain(path)
    };
    usize::from(!paths.next().is_some_and(is_bare))
}
