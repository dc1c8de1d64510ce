//! The cache: what can be made again, kept so that it need not be. One budget is for all of it.
//!
//! ```text
//! CACHE/kernels/<sha256>/                an image, its config and modules
//! CACHE/kernels/by-package/, CACHE/builds/by-recipe/    records: which kernel a name or a key is
//! CACHE/kernels/apt-ARCH/, CACHE/kernels/tmp/apt*.bin    apt's package lists, and their indexes
//! CACHE/snapshots/<sha256>/, <sha256>.lock    a frozen boot; who makes it has the lock
//! CACHE/symbols/<sha256>, <sha256>.lock       a kernel's functions
//! CACHE/payload/<sha256>/                the guest programs and the plugin of one ktax
//! CACHE/programs/<sha256>/               programs of the user's, with all that they need
//! CACHE/hosts/<sha256>.cpio              what a KVM host boots
//! CACHE/self-tests/<sha256>              that a QEMU has passed its self-test
//! CACHE/builds/lanes/VERSION/            a check-out and its objects; `lock` is of its build
//! CACHE/builds/trees.git, indexes/, packages/    all source trees; they belong together
//! CACHE/builds/ccache/                   the compiler's cache
//! CACHE/runs/.vm-*, tmp/                 files of running VMs, and unfinished ones
//! CACHE/sizes.json                       sizes of what takes long to add up
//! ```
//!
//! **In use.** Whoever uses an entry is its [`Holder`]: it has the lock (`flock`) of the entry's
//! own directory or file, together with others; the build in a lane has the lane's `lock` file. The
//! cleaner takes the same lock for itself alone, without waiting, and leaves what it cannot lock.
//! The kernel releases the locks of a killed process, so a kill leaves nothing locked.
//!
//! **Last use.** A [`Holder`] sets the entry's own modification time. Access times are not used:
//! many filesystems do not keep them.
//!
//! **Removal.** The cleaner moves an entry away under a name that nobody reads, and then removes
//! it. A reader sees all of an entry or nothing, also if the cleaner is killed. What a name of the
//! above does not match belongs to somebody else: it is neither counted nor removed. Symbolic links
//! are never followed.

mod clean;
mod holder;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::disk::is_sha256;
use crate::text::{binary_size, counted_as, escape};

pub use clean::{CacheEntry, CacheSurvey, Cleaned, clean, survey};
pub use holder::{Holder, Holders, Scratch, remove_stale, touch};

/// Kind of an entry of the cache.
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

    /// Singular and plural of the noun.
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
        let (singular, plural) = self.nouns();
        counted_as(count, singular, plural)
    }

    /// Returns whether an entry has so many files that its size takes long to add up.
    pub(super) fn is_large(self) -> bool {
        matches!(self, CacheKind::Lane | CacheKind::SourceTrees | CacheKind::CompilerCache)
    }
}

/// Directory of the entries of a kind, and their names.
pub(super) struct CachePlace {
    pub kind: CacheKind,
    /// Path below the cache.
    pub directory: &'static str,
    /// True for directories, false for files; anything else is not ktax's.
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

/// Most bytes that the cache may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Bytes on the disk.
    Bytes(u64),
    Unlimited,
}

/// Less than a tenth of a laptop's disk of 256 GB. A kernel version that is built from source takes
/// up to 3 GiB for its lane, all versions together 1.6 GiB and more for their trees, and ccache up
/// to 2 GiB. A boot of the exact engine takes 40 to 120 MiB, so a comparison under five layouts
/// about 1 GiB. So there is room for three versions and for the last ten comparisons.
const DEFAULT_GIB: u64 = 20;

impl Default for Budget {
    fn default() -> Budget {
        Budget::Bytes(DEFAULT_GIB << 30)
    }
}

impl Budget {
    /// Most bytes; `None` where there is no limit.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Budget::Bytes(bytes) => Some(bytes),
            Budget::Unlimited => None,
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// Parses `20G`, `20GiB`, `500m`, `0`, `unlimited`. The units are binary ones: K is 1024. An
    /// empty text is the default: an empty environment variable is as good as none.
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
        let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
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
    fn the_document_lists_where_each_kind_is() {
        let document = include_str!("../../../docs/cache.md");
        for place in &PLACES {
            assert!(document.contains(&format!("\n{}/", place.directory)), "{}", place.directory);
        }
    }

    #[test]
    fn sizes_have_units_and_what_is_none_is_refused() {
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
        for text in ["G", "iB", "-1G", "1.5G", "20 G", "20X", "20GG", "99999999999T"] {
            let error = text.parse::<Budget>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is not a size; write ")), "{error}");
        }
        assert_eq!(Budget::default().to_string(), "20.0 GiB");
    }
}
