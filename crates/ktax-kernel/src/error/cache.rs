//! What to do about a cache that cannot be used.

use std::io;

use ktax_model::FREE_DISK_GIB;

/// The next step after an error of the cache.
pub(super) fn mend_of(error: &io::Error) -> String {
    match is_full(error) {
        true => format!(
            "free {FREE_DISK_GIB} GiB on that disk, such as with `ktax cache clean --all`, or \
             choose another one with --cache"
        ),
        false => format!(
            "make the cache directory writable, with {FREE_DISK_GIB} GiB free, or choose another \
             one with --cache"
        ),
    }
}

/// Whether the disk, or the user's share of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The error of a full disk in the words of a tool. Of apt they are those of the C library, or its
/// own if it looks before it downloads.
pub(crate) fn full_disk_in(said: &[u8]) -> Option<io::Error> {
    let said = String::from_utf8_lossy(said);
    ["No space left on device", "enough free space"]
        .iter()
        .any(|words| said.contains(words))
        .then(|| rustix::io::Errno::NOSPC.into())
}
