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

mod budget;
mod clean;
mod entry;
mod holder;
mod kind;
mod known;
mod left;
mod records;
mod scratch;
mod size;
mod survey;

pub use budget::{Budget, SizeError};
pub use clean::{Cleaned, clean};
pub use entry::CacheEntry;
pub use holder::{Holder, Holders, touch};
pub use kind::CacheKind;
pub use scratch::{Scratch, remove_stale};
pub use survey::{CacheSurvey, survey};
