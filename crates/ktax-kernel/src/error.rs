//! Errors that several files of this crate make. Foreign text is escaped where an error is made, so
//! that it cannot move a terminal's cursor.

use std::io;
use std::path::Path;

use ktax_host::text::escape_path;
use ktax_model::{Error, ErrorKind, FREE_DISK_GIB};

/// A file of the cache cannot be read or written.
pub(crate) fn cache_error(action: &str, path: &Path, error: io::Error) -> Error {
    let next = match is_full(&error) {
        true => format!(
            "free {FREE_DISK_GIB} GiB on that disk, such as with `ktax cache clean --all`, or \
             choose another one with --cache"
        ),
        false => format!(
            "make the cache directory writable, with {FREE_DISK_GIB} GiB free, or choose another \
             one with --cache"
        ),
    };
    Error::host(format!("cannot {action} {}: {error}", escape_path(path))).next(next)
}

/// A tool does not start.
pub(crate) fn start_error(tool: &str, error: io::Error) -> Error {
    Error::host(format!("cannot start `{tool}`: {error}"))
        .next(format!("run `{tool}` yourself to see why"))
}

/// A file that the user named cannot be read.
pub(crate) fn unreadable(path: &Path, error: impl std::fmt::Display, wanted: &str) -> Error {
    Error::user(format!("cannot read {}: {error}", escape_path(path)))
        .next(format!("give the path of {wanted}"))
}

/// Reason why this source cannot be built with these options. `None` for an error that says
/// nothing about the source or its options.
pub fn why_unbuilt(error: &Error) -> Option<String> {
    let message = (error.kind == ErrorKind::Unbuildable).then(|| error.message())?;
    Some(match message.strip_prefix(BUILD_FAILED) {
        Some(failed) => format!("it does not build: {}", failed.lines().next().unwrap_or_default()),
        None => message.to_owned(),
    })
}

/// Begins the message of a build that failed; the first error in the log follows, up to the end of
/// the line.
pub(crate) const BUILD_FAILED: &str = "the build failed: ";

/// Whether the disk, or the user's share of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Recognises a full disk in a tool's message. apt prints the C library's text, or its own if it
/// checks the space before it downloads.
pub(crate) fn full_disk_in(message: &[u8]) -> Option<io::Error> {
    let message = String::from_utf8_lossy(message);
    ["No space left on device", "enough free space"]
        .iter()
        .any(|words| message.contains(words))
        .then(|| rustix::io::Errno::NOSPC.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_source_and_its_options_are_a_reason_not_to_build() {
        let unbuildable = |text: &str| Error::guest(text).kind(ErrorKind::Unbuildable);
        let failed = unbuildable("the build failed: a.c:1: error\n  command: make\n  log: x\nfix");
        assert_eq!(why_unbuilt(&failed).as_deref(), Some("it does not build: a.c:1: error"));
        let dropped = unbuildable("Kconfig does not accept CONFIG_A=y and sets it to n: why");
        assert_eq!(why_unbuilt(&dropped), Some(dropped.to_string()));
        assert_eq!(why_unbuilt(&Error::cancelled()), None);
        assert_eq!(why_unbuilt(&start_error("make", io::Error::other("x"))), None);
    }
}
