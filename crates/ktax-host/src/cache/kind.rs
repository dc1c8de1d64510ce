//! What the cache has, and by which names it is known.

use serde::Serialize;

use crate::disk::is_sha256;
use crate::text::counted_as;

/// What an entry of the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    Kernel,
    PackageList,
    Snapshot,
    SymbolTable,
    GuestPrograms,
    Programs,
    HostArchive,
    SelfTest,
    Lane,
    SourceTrees,
    CompilerCache,
}

impl CacheKind {
    pub const ALL: [CacheKind; 11] = [
        CacheKind::Kernel,
        CacheKind::Snapshot,
        CacheKind::SymbolTable,
        CacheKind::Lane,
        CacheKind::SourceTrees,
        CacheKind::CompilerCache,
        CacheKind::PackageList,
        CacheKind::GuestPrograms,
        CacheKind::Programs,
        CacheKind::HostArchive,
        CacheKind::SelfTest,
    ];

    /// One of them, and several.
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            CacheKind::Kernel => ("kernel", "kernels"),
            CacheKind::PackageList => ("package list", "package lists"),
            CacheKind::Snapshot => ("snapshot", "snapshots"),
            CacheKind::SymbolTable => ("symbol table", "symbol tables"),
            CacheKind::GuestPrograms => ("set of guest programs", "sets of guest programs"),
            CacheKind::Programs => ("archive of your programs", "archives of your programs"),
            CacheKind::HostArchive => ("host initramfs", "host initramfs files"),
            CacheKind::SelfTest => ("passed self-test", "passed self-tests"),
            CacheKind::Lane => ("build lane", "build lanes"),
            CacheKind::SourceTrees => ("source repository", "source repositories"),
            CacheKind::CompilerCache => ("ccache", "ccaches"),
        }
    }

    /// `1 build lane`, `2 build lanes`.
    pub fn counted(self, count: usize) -> String {
        let (one, several) = self.nouns();
        counted_as(count, one, several)
    }

    /// Whether it has so many files that its size takes long to add up.
    pub(super) fn is_large(self) -> bool {
        matches!(self, CacheKind::Lane | CacheKind::SourceTrees | CacheKind::CompilerCache)
    }
}

/// Where the entries of a kind are.
pub(super) struct Place {
    pub kind: CacheKind,
    /// Below the cache.
    pub directory: &'static str,
    /// What an entry is; anything else is not ktax's.
    pub is_directory: bool,
    /// Whether it has the name of one.
    pub is_name: fn(&str) -> bool,
}

pub(super) const PLACES: [Place; 12] = [
    directories(CacheKind::Kernel, "kernels", is_sha256),
    directories(CacheKind::PackageList, "kernels", |name| name.starts_with("apt-")),
    files(CacheKind::PackageList, "kernels/tmp", |name| {
        name.starts_with("apt") && name.ends_with(".bin")
    }),
    directories(CacheKind::Snapshot, "snapshots", is_sha256),
    files(CacheKind::SymbolTable, "symbols", is_sha256),
    directories(CacheKind::GuestPrograms, "payload", is_sha256),
    directories(CacheKind::Programs, "programs", is_sha256),
    files(CacheKind::HostArchive, "hosts", |name| {
        name.strip_suffix(".cpio").is_some_and(is_sha256)
    }),
    files(CacheKind::SelfTest, "self-tests", is_sha256),
    directories(CacheKind::Lane, "builds/lanes", |name| {
        name.starts_with(|c: char| c.is_ascii_digit())
    }),
    directories(CacheKind::SourceTrees, "builds", |name| name == "trees.git"),
    directories(CacheKind::CompilerCache, "builds", |name| name == "ccache"),
];

const fn directories(kind: CacheKind, directory: &'static str, is_name: fn(&str) -> bool) -> Place {
    Place { kind, directory, is_directory: true, is_name }
}

const fn files(kind: CacheKind, directory: &'static str, is_name: fn(&str) -> bool) -> Place {
    Place { kind, directory, is_directory: false, is_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_where_each_kind_is() {
        let document = include_str!("../../../../docs/cache.md");
        for place in &PLACES {
            assert!(document.contains(&format!("\n{}/", place.directory)), "{}", place.directory);
        }
    }
}
