//! The cache: files that ktax could make again, kept to save time. One budget limits all of them.
//!
//! ```text
//! CACHE/kernels/<sha256>/                an image, its config and modules
//! CACHE/kernels/by-package/, CACHE/builds/by-recipe/    records from a name or a key to a kernel
//! CACHE/kernels/apt-ARCH/, CACHE/kernels/tmp/apt*.bin    apt's package lists, and their indexes
//! CACHE/snapshots/<sha256>/, <sha256>.lock    a frozen boot; the lock is held while it is made
//! CACHE/symbols/<sha256>, <sha256>.lock       a kernel's functions
//! CACHE/payload/<sha256>/                the guest programs and the plugin of one ktax
//! CACHE/programs/<sha256>/               a user's programs, with all files that they need
//! CACHE/hosts/<sha256>.cpio              the initramfs of a KVM host
//! CACHE/self-tests/<sha256>              record of a QEMU that has passed the self-test
//! CACHE/builds/lanes/VERSION/            a check-out and its objects; the build holds `lock`
//! CACHE/builds/trees.git, indexes/, packages/    all source trees, which are one entry
//! CACHE/builds/ccache/                   the compiler's cache
//! CACHE/runs/.vm-*, tmp/                 files of running VMs, and unfinished ones
//! CACHE/sizes.json                       sizes of entries with very many files
//! ```
//!
//! **In use.** A [`Holder`] marks an entry as used: it has a shared lock (`flock`) on the entry's
//! directory or file. A build in a lane has an exclusive lock on the lane's file `lock`. The
//! cleaner tries to take an exclusive lock on the same file, and keeps an entry that it cannot
//! lock. The kernel releases the locks of a killed process.
//!
//! **Last use.** A [`Holder`] sets the entry's own modification time. Access times are not used:
//! many filesystems do not keep them.
//!
//! **Removal.** The cleaner renames an entry to a name that nobody reads, and then removes it. So a
//! reader sees a complete entry or none, even if the cleaner is killed. Files with other names than
//! those above belong to somebody else: the cleaner neither counts nor removes them. It never
//! follows symbolic links.

mod clean;
mod holder;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::disk::is_sha256;
use crate::text::{binary_size, counted_as, escape};

pub use clean::{CacheEntry, CacheSurvey, Cleaned, clean, survey};
pub use holder::{Holder, Holders, Scratch, remove_stale, touch};

/// Kind of a cache entry.
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

    /// Singular and plural of the noun for entries of this kind.
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

    /// Formats a count with its noun: `1 build lane`, `2 build lanes`.
    pub fn counted(self, count: usize) -> String {
        let (singular, plural) = self.nouns();
        counted_as(count, singular, plural)
    }

    /// Returns whether an entry has so many files that it takes long to add up their sizes.
    pub(super) fn is_large(self) -> bool {
        matches!(self, CacheKind::Lane | CacheKind::SourceTrees | CacheKind::CompilerCache)
    }
}

/// The directory of entries of a kind, and the names of the entries.
pub(super) struct CachePlace {
    pub kind: CacheKind,
    /// Path below the cache.
    pub directory: &'static str,
    /// True if the entries are directories, false if they are files.
    pub is_directory: bool,
    pub is_name: fn(&str) -> bool,
}

pub(super) const PLACES: [CachePlace; 12] = [
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

const fn directories(
    kind: CacheKind,
    directory: &'static str,
    is_name: fn(&str) -> bool,
) -> CachePlace {
    CachePlace { kind, directory, is_directory: true, is_name }
}

const fn files(kind: CacheKind, directory: &'static str, is_name: fn(&str) -> bool) -> CachePlace {
    CachePlace { kind, directory, is_directory: false, is_name }
}

/// The largest size of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// A number of bytes on the disk.
    Bytes(u64),
    Unlimited,
}

/// The default budget, which is less than a tenth of a laptop's disk of 256 GB. It has room for
/// kernels of three versions that are built from source, and for seven comparisons: a lane takes up
/// to 3 GiB for each version, the source trees of all versions 1.6 GiB, and ccache up to 2 GiB,
/// which are 12.6 GiB. A snapshot of the exact engine takes 40 to 120 MiB, so a comparison under
/// five layouts takes about 1 GiB.
const DEFAULT_GIB: u64 = 20;

impl Default for Budget {
    fn default() -> Budget {
        Budget::Bytes(DEFAULT_GIB << 30)
    }
}

impl Budget {
    /// Returns the number of bytes; `None` for an unlimited budget.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Budget::Bytes(bytes) => Some(bytes),
            Budget::Unlimited => None,
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// Parses a size such as `20G`, `20GiB`, `500m` or `0`, or `unlimited`. Units are binary: K is
    /// 1024. An empty text is the default, because an empty environment variable counts as unset.
    fn from_str(text: &str) -> Result<Budget, String> {
        let wrong = || {
            format!(
                "`{}` is not a size; write a number with K, M, G or T, such as 20G, or `unlimited`",
                escape(text)
            )
        };
        if text.is_empty() {
            return Ok(Budget::default());
        }
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(Budget::Unlimited);
        }
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let lower = unit.to_ascii_lowercase();
        let shift = match lower.strip_suffix("ib").unwrap_or(&lower) {
            "" if unit.is_empty() => 0,
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).map(Budget::Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Bytes(bytes) => f.write_str(&binary_size(*bytes)),
            Budget::Unlimited => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_the_directory_of_each_kind() {
        let document = include_str!("../../../docs/cache.md");
        for place in &PLACES {
            assert!(document.contains(&format!("\n{}/", place.directory)), "{}", place.directory);
        }
    }

    #[test]
    fn sizes_are_parsed_and_other_texts_are_refused() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("20G", 20 << 30),
            ("500m", 500 << 20),
            ("3KiB", 3 << 10),
            ("2T", 2 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Budget::Bytes(bytes)), "{text}");
        }
        assert_eq!("Unlimited".parse(), Ok(Budget::Unlimited));
        assert_eq!("".parse(), Ok(Budget::default()));
        for text in
            ["G", "iB", "-1G", "1.5G", "20 G", "20X", "20GG", "20KiBiB", "20iB", "99999999999T"]
        {
            let error = text.parse::<Budget>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is not a size; write ")), "{error}");
        }
        assert_eq!(Budget::default().to_string(), "20.0 GiB");
    }
}
