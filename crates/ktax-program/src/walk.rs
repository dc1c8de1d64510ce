//! A path, name by name, with the links on the way to its end.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as a kernel follows.
const MOST_LINKS: usize = 40;

/// Where one is on the way.
pub(super) struct Walk {
    here: PathBuf,
    /// The names that are left, the last one first.
    left: Vec<OsString>,
    links: usize,
}

impl Walk {
    pub fn along(path: &Path) -> Walk {
        Walk { here: PathBuf::from("/"), left: names(path), links: 0 }
    }

    /// The path of the next name; `None` at the end.
    pub fn next(&mut self) -> Option<PathBuf> {
        loop {
            let name = self.left.pop()?;
            if name != ".." {
                return Some(self.here.join(name));
            }
            self.here.pop();
        }
    }

    /// Goes on from a path that was next and is no link.
    pub fn enter(&mut self, next: PathBuf) {
        self.here = next;
    }

    /// Goes on where a link leads to; false if there were too many.
    pub fn follow(&mut self, target: &Path) -> bool {
        self.links += 1;
        if target.is_absolute() {
            self.here = PathBuf::from("/");
        }
        self.left.extend(names(target));
        self.links <= MOST_LINKS
    }

    /// Whether the path that is next is the last one.
    pub fn is_last(&self) -> bool {
        self.left.is_empty()
    }

    /// Where the path leads to.
    pub fn end(self) -> PathBuf {
        self.here
    }
}

fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}
