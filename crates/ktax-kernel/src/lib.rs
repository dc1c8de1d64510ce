//! Gets a [`Kernel`]: an image with an [`Identity`](ktax_model::Identity), from a file, from a
//! package of the distribution, or built from source; a [`KernelSpec`] is the name of one of these.
//! The cache keeps each image under its SHA-256, so that a file that is replaced during a run
//! cannot mix two kernels. [`mod@patch`] reads patches, also from mails, before anything is
//! downloaded.
//!
//! ```
//! use ktax_kernel::KernelSpec;
//!
//! let spec: KernelSpec = "debian-src:6.12".parse().expect("a source package of that version");
//! assert!(spec.is_source());
//! ```
//!
//! ```text
//! KernelSpec ─► file ──────────────────────┐
//!            ├► debian: apt, package ──────┼─► image: format, release ─► cache ─► Kernel
//!            └► source: git, Kconfig, make ┘
//! ```
//!
//! There are no circles among the modules: `obtain` uses `source`, `source` uses `debian`, `debian`
//! uses `cache`, `cache` uses `image`, and all of them use the leaves (`spec`, `talk`) and the
//! errors below. Untrusted text is escaped where an error is made, so that it cannot control a
//! terminal.
//!
//! A kernel without a release and without a build-id is refused, because a result would not
//! identify it.

use std::io;
use std::path::Path;

use ktax_host::text::escape_path;
use ktax_model::{Error, ErrorKind, FREE_DISK_GIB};

mod cache;
mod debian;
mod image;
mod obtain;
pub mod patch;
mod source;
mod spec;
mod talk;

pub use cache::{Kernel, cached_image, image_path, newest_image};
pub use debian::{CPU_MODULES, modules, needed_modules};
pub use obtain::{check, check_names, obtain, obtain_for};
pub use source::{
    commits, commits_touching, is_built_in, options_between, read_patch, with_options,
};
pub use spec::{KernelSpec, Package, Target};
pub use talk::{KernelTask, Talk, TaskKind};

/// Returns the error for a file of the cache that cannot be read or written.
fn cache_error(action: &str, path: &Path, error: io::Error) -> Error {
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

/// Returns the error for a tool that does not start.
fn start_error(tool: &str, error: io::Error) -> Error {
    Error::host(format!("cannot start `{tool}`: {error}"))
        .next(format!("run `{tool}` yourself to see why"))
}

/// Returns the error for a file of the user's that cannot be read. `wanted` is the kind of file
/// that is expected.
fn unreadable(path: &Path, error: impl std::fmt::Display, wanted: &str) -> Error {
    Error::user(format!("cannot read {}: {error}", escape_path(path)))
        .next(format!("give the path of {wanted}"))
}

/// Returns the reason why a source cannot be built with its options. `None` for an error that does
/// not depend on the source and the options.
pub fn why_unbuilt(error: &Error) -> Option<String> {
    let message = (error.kind == ErrorKind::Unbuildable).then(|| error.message())?;
    Some(match message.strip_prefix(BUILD_FAILED) {
        Some(failed) => format!("it does not build: {}", failed.lines().next().unwrap_or_default()),
        None => message.to_owned(),
    })
}

/// Start of the message of a failed build. The first error in the log follows, to the end of the
/// line.
const BUILD_FAILED: &str = "the build failed: ";

/// Returns whether the disk, or the user's share of it, is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the error of a full disk if a tool's message is about one. apt prints the text of the C
/// library, or a text of its own if it checks the space before a download.
fn full_disk_in(message: &[u8]) -> Option<io::Error> {
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
    fn only_errors_of_the_source_and_its_options_have_a_reason() {
        let unbuildable = |text: &str| Error::guest(text).kind(ErrorKind::Unbuildable);
        let failed = unbuildable("the build failed: a.c:1: error\n  command: make\n  log: x\nfix");
        assert_eq!(why_unbuilt(&failed).as_deref(), Some("it does not build: a.c:1: error"));
        let dropped = unbuildable("Kconfig does not accept CONFIG_A=y and sets it to n: why");
        assert_eq!(why_unbuilt(&dropped), Some(dropped.to_string()));
        assert_eq!(why_unbuilt(&Error::cancelled()), None);
        assert_eq!(why_unbuilt(&start_error("make", io::Error::other("x"))), None);
    }
}
