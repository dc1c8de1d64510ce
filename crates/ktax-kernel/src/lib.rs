//! Gets a [`Kernel`]: an image with an [`Identity`](ktax_model::Identity), from a file, from a
//! package of the distribution, or built from source. A [`KernelSpec`] says which. The cache keeps
//! each image under its SHA-256, so that a file that is replaced during a run cannot mix two
//! kernels. [`mod@patch`] reads patches as they come in mails, before anything is fetched.
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
//! No file imports one that imports it: `obtain` uses `source`, `source` uses `debian`, `debian`
//! uses `cache`, `cache` uses `image`, and all of them use the leaves (`spec`, `talk`) and the
//! errors below. Foreign text is escaped where an error is made, so that it cannot move a
//! terminal's cursor.
//!
//! A kernel without a release and without a build-id is refused: nobody could say later what was
//! measured.

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

/// A file of the cache cannot be read or written.
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

/// A tool does not start.
fn start_error(tool: &str, error: io::Error) -> Error {
    Error::host(format!("cannot start `{tool}`: {error}"))
        .next(format!("run `{tool}` yourself to see why"))
}

/// A file that the user named cannot be read.
fn unreadable(path: &Path, error: impl std::fmt::Display, wanted: &str) -> Error {
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
const BUILD_FAILED: &str = "the build failed: ";

/// Returns whether the disk, or the user's share of it, is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Recognises a full disk in a tool's message. apt prints the C library's text, or its own if it
/// checks the space before it downloads.
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
