//! Errors of getting a kernel, and who can do something about them.
//!
//! Each message says what failed, why, and what to type next. Foreign text in it is escaped where
//! the error is made, so that it cannot move a terminal's cursor.

use std::io;
use std::path::Path;

use crate::package::Package;
use crate::patch::PatchError;
use ktax_host::text::escape_path;
use ktax_model::{Blame, FREE_DISK_GIB};

/// Reasons why there is no [`Kernel`](crate::Kernel) to measure. Each message ends with the next
/// step.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The text is not the name of a kernel.
    #[error(
        "cannot use kernel `{spec}`: {problem}; \
         give `debian:cloud-amd64` or the path of a bzImage"
    )]
    BadSpec { spec: String, problem: &'static str },

    /// The file does not exist.
    #[error("{path} does not exist; give the path of a bzImage, or `debian:cloud-amd64`")]
    NotFound { path: String },
    /// The path leads to a directory.
    #[error("{path} is a directory; give the image in it, such as arch/x86/boot/bzImage")]
    Directory { path: String },
    /// The path leads to a pipe, a device or a socket.
    #[error("{path} is not a regular file; give the path of a bzImage")]
    NotAFile { path: String },
    /// The operating system refuses to read the file.
    #[error("cannot read {path}: {error}; make it readable, or give the path of a readable copy")]
    Unreadable { path: String, error: io::Error },
    /// The file is longer than ktax reads; sizes in bytes.
    #[error(
        "{path} has {found} bytes, and ktax reads at most {limit} bytes; \
         give the bzImage, or strip the vmlinux with `strip --strip-debug`"
    )]
    TooLarge { path: String, found: u64, limit: u64 },

    /// The image has no bytes.
    #[error("{name} is empty; build or copy the kernel again")]
    Empty { name: String },
    /// The image is shorter than its header says; sizes in bytes.
    #[error(
        "{name} is truncated: it has {found} of at least {expected} bytes; copy the kernel again"
    )]
    Truncated { name: String, found: u64, expected: u64 },
    /// The file is of another type.
    #[error("{name} is {what}, not a kernel; give the path of a bzImage")]
    NotAKernel { name: String, what: &'static str },
    /// The kernel is for another architecture than x86_64.
    #[error("{name} is a kernel for {arch}, but ktax boots x86_64; give an x86_64 bzImage")]
    WrongArch { name: String, arch: String },
    /// The kernel is for another architecture than the target.
    #[error(
        "{name} is {found}, but a kernel for {wanted} is needed; \
         give a vmlinux for {wanted}, or a source such as `src:linux`"
    )]
    NotFor { name: String, found: String, wanted: &'static str },
    /// A source, for a machine that ktax has no configuration for.
    #[error(
        "{name} is a source, and ktax builds no kernels for {arch}; give a package such as \
         `debian:cloud-{arch}`, or the path of an Image with KVM"
    )]
    OnlyPackaged { name: String, arch: &'static str },
    /// The file is compressed as a whole.
    #[error(
        "{name} is compressed with {with}; \
         unpack it with `{tool} < FILE > vmlinux`, then give vmlinux"
    )]
    Compressed { name: String, with: &'static str, tool: &'static str },
    /// The file is a .deb.
    #[error(
        "{name} is a Debian package; unpack it with `dpkg-deb -x FILE DIR`, \
         then give DIR/boot/vmlinuz-*"
    )]
    DebianPackage { name: String },
    /// The file is a relocatable ELF file.
    #[error("{name} is a kernel module or an object file; give the path of a bzImage")]
    Module { name: String },
    /// The kernel is too old for ktax to read.
    #[error(
        "{name} has boot protocol {major}.{minor:02}, but ktax needs 2.06 or newer; \
         give Linux 2.6.22 or newer"
    )]
    OldProtocol { name: String, major: u8, minor: u8 },
    /// The image contradicts itself.
    #[error("{name} is damaged: {problem}; build or copy the kernel again")]
    Damaged { name: String, problem: &'static str },
    /// A vmlinux that QEMU cannot start.
    #[error(
        "QEMU cannot boot {name}: this vmlinux has no PVH entry point (CONFIG_PVH); \
         give the bzImage of the same build"
    )]
    NoPvhEntry { name: String },
    /// Nobody could say later which kernel was measured.
    #[error(
        "cannot identify {name}: it has neither a release nor a build-id; \
         give the bzImage that the kernel build made"
    )]
    NoIdentity { name: String },

    /// A tool of the distribution is missing.
    #[error(
        "`{tool}` is not installed, and `debian:` kernels need it; \
         install {package}, or give the path of a bzImage"
    )]
    NoTool { tool: &'static str, package: &'static str },
    /// A tool of the distribution does not start.
    #[error("cannot start `{tool}`: {error}; run `{tool}` yourself to see why")]
    ToolFailed { tool: &'static str, error: io::Error },
    /// The package lists do not have the package.
    #[error(
        "apt knows no package {package} for {arch}: the name is wrong, or there are no package \
         lists; check the name, or run `sudo apt-get update`"
    )]
    UnknownPackage { package: String, arch: &'static str },
    /// The package is for another architecture.
    #[error(
        "package {package} is for {arch}, but one for {wanted} is needed; \
         give a package such as `debian:cloud-{wanted}`"
    )]
    ForeignPackage { package: String, arch: String, wanted: &'static str },
    /// apt cannot read the package lists of another architecture; `reason` is its last line.
    #[error(
        "cannot read Debian's package lists for {arch}: {reason}; check the network, or give the \
         path of a kernel"
    )]
    NoLists { arch: &'static str, reason: String },
    /// apt cannot download the package; `reason` is the last line of what it said.
    #[error(
        "cannot download {package}: {reason}; check the network, then run `sudo apt-get update`"
    )]
    FetchFailed { package: Package, reason: String },
    /// The package is not what the package lists promise.
    #[error("cannot use the downloaded {package}: {problem}; run `sudo apt-get update`")]
    BadPackage { package: Package, problem: String },
    /// The package contains no kernel.
    #[error(
        "{package} contains no /boot/vmlinuz-*; give a package that contains a kernel, \
         such as `debian:cloud-amd64`"
    )]
    NoImageInPackage { package: Package },
    /// ktax does not choose between kernels.
    #[error(
        "{package} contains more than one kernel ({names}); \
         unpack it with `dpkg-deb -x`, then give the path of one"
    )]
    SeveralKernels { package: Package, names: String },
    /// The package of the kernel contains no such module.
    #[error(
        "{package} contains no module {module}.ko; give a cloud kernel of Debian 12 such as \
         `debian:cloud-amd64`, or the path of a kernel with {module} built in"
    )]
    NoModule { package: Package, module: String },
    /// A meta-package depends on a meta-package, and so on.
    #[error("the dependencies of {package} lead to no kernel; give the package that contains it")]
    TooManySteps { package: Package },

    /// Build options for a kernel that ktax does not build.
    #[error(
        "{spec} is a prebuilt kernel: --config, --patch, --start-config and --tree need a kernel \
         that ktax builds; {next}"
    )]
    NotBuilt { spec: String, next: String },
    /// The kernel cannot be built.
    #[error(transparent)]
    Build(BuildError),
    /// The user has asked to stop.
    #[error("cancelled; run the same command again to continue")]
    Cancelled,
    /// The cache cannot be read or written.
    #[error("cannot {action} {path}: {error}; {}", cache_advice(.error))]
    Cache { action: &'static str, path: String, error: io::Error },
}

impl KernelError {
    /// Whether apt cannot answer at all. A kernel in the cache is the best answer then.
    pub(crate) fn is_apt_silent(&self) -> bool {
        let no_apt = matches!(self, Self::NoTool { tool: "apt-cache", .. });
        no_apt || matches!(self, Self::UnknownPackage { .. } | Self::NoLists { .. })
    }

    /// A file of the cache cannot be read or written.
    pub(crate) fn cache(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Cache { action, path: escape_path(path), error }
    }

    /// Party that can do something about the error.
    pub fn blame(&self) -> Blame {
        use KernelError::{BadPackage, Build, Cache, Cancelled, FetchFailed, NoLists, ToolFailed};
        match self {
            Build(error) => error.blame(),
            ToolFailed { .. } | FetchFailed { .. } | BadPackage { .. } => Blame::Host,
            Cache { .. } | NoLists { .. } | Cancelled => Blame::Host,
            _ => Blame::User,
        }
    }

    /// Whether the user has cancelled: nothing has failed then.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Reason why this source cannot be built with these options. `None` for an error that says
    /// nothing about the source or its options.
    pub fn why_unbuilt(&self) -> Option<String> {
        match self {
            Self::Build(BuildError::Failed { first, .. }) => {
                Some(format!("it does not build: {first}"))
            }
            Self::Build(dropped @ BuildError::Dropped { .. }) => Some(dropped.to_string()),
            _ => None,
        }
    }
}

impl From<BuildError> for KernelError {
    /// Maps a cancelled build to `Cancelled`, so that callers look for one variant.
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Cancelled => Self::Cancelled,
            error => Self::Build(error),
        }
    }
}

/// Reasons why a kernel could not be built. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs or headers are missing.
    #[error("cannot build a kernel without {missing}; run `sudo apt-get install {packages}`")]
    NoTools { missing: String, packages: String },
    /// A tool does not start.
    #[error("cannot start `{tool}`: {error}; run `{tool}` yourself to see why")]
    Start { tool: String, error: io::Error },
    /// git fails; `reason` is the last line of what it said.
    #[error(
        "git cannot {action}: {reason}; check the tree with `git fsck`, or copy it without `.git` \
         and give the copy as `src:PATH`"
    )]
    Git { action: String, reason: String },
    /// A directory or a revision holds no kernel source.
    #[error(
        "{path} is not a kernel tree: it has no Kconfig and Makefile; \
         give the top directory of a kernel tree"
    )]
    NotATree { path: String },
    /// The repository does not have the revision.
    #[error("{tree} has no revision {revision}; run `git -C {tree} log` to see its revisions")]
    UnknownRevision { revision: String, tree: String },
    /// A search needs a base that the change descends from.
    #[error(
        "{base} is not a first-parent ancestor of {change}; give a commit that \
         `git -C {tree} log --first-parent {change}` lists"
    )]
    NoLine { base: String, change: String, tree: String },
    /// The file is not a patch.
    #[error("cannot use the patch {patch}: {reason}")]
    NotAPatch { patch: String, reason: PatchError },
    /// The patch does not fit the source.
    #[error(
        "{patch} does not apply to {source_name}: {reason}; rebase the patch, or give another \
         source"
    )]
    Patch { patch: String, source_name: String, reason: String },
    /// A file that the user named cannot be read.
    #[error("cannot read {path}: {error}; give the path of {wanted}")]
    Unreadable { path: String, error: io::Error, wanted: &'static str },
    /// The text is neither an option nor a file.
    #[error("`{text}` is not an option; give CONFIG_NAME=VALUE, or a file of such lines")]
    Option { text: String },
    /// Kconfig sets an option to another value.
    #[error("Kconfig does not accept {name}={wanted} and sets it to {found}: {why}")]
    Dropped { name: String, wanted: String, found: String, why: String },
    /// The source does not compile or link; `first` is the first error in the log.
    #[error(
        "the build failed: {first}\n  command: {command}\n  log: {log}\n\
         fix the source or the options, and run again; make rebuilds only what has changed"
    )]
    Failed { first: String, command: String, log: String },
    /// make or a compiler was killed.
    #[error(
        "the build was killed, perhaps because memory ran out; \
         run the same command again to continue"
    )]
    Killed,
    /// The user has asked to stop.
    #[error("the build was cancelled; run the same command again to continue")]
    Cancelled,
    /// The build needs more disk space; sizes in MiB.
    #[error(
        "cannot build: {path} has {free_mib} MiB of free space, but a build needs {needed_mib} \
         MiB; free some space, or choose another cache with --cache"
    )]
    DiskFull { free_mib: u64, needed_mib: u64, path: String },
    /// The cache cannot be read or written.
    #[error("cannot {action} {path}: {error}; {}", cache_advice(.error))]
    Cache { action: &'static str, path: String, error: io::Error },
}

impl BuildError {
    /// A file of the cache cannot be read or written.
    pub(crate) fn cache(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Cache { action, path: escape_path(path), error }
    }

    /// Party that can do something about the error. Source that does not compile is the guest's
    /// fault.
    pub fn blame(&self) -> Blame {
        use BuildError::{Cache, Cancelled, DiskFull, Failed, Killed, Start};
        match self {
            Failed { .. } => Blame::Guest,
            Start { .. } | Cache { .. } | DiskFull { .. } | Killed | Cancelled => Blame::Host,
            _ => Blame::User,
        }
    }
}

/// The next step after an error of the cache.
fn cache_advice(error: &io::Error) -> String {
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
    fn each_error_blames_the_one_who_can_act() {
        let bad_spec = KernelError::BadSpec { spec: String::new(), problem: "" };
        let tool_failed =
            KernelError::ToolFailed { tool: "apt-cache", error: io::Error::other("x") };
        let blames = [bad_spec.blame(), tool_failed.blame(), KernelError::Cancelled.blame()];
        assert_eq!(blames, [Blame::User, Blame::Host, Blame::Host]);
        let cancelled = KernelError::from(BuildError::Cancelled);
        assert!(cancelled.is_cancelled() && !tool_failed.is_cancelled());
    }

    #[test]
    fn only_the_source_and_its_options_are_a_reason_not_to_build() {
        let text = |text: &str| text.to_owned();
        let (first, command, log) = (text("a.c:1: error"), text("make"), text("log"));
        let failed = KernelError::from(BuildError::Failed { first, command, log });
        assert_eq!(failed.blame(), Blame::Guest);
        assert_eq!(failed.why_unbuilt().as_deref(), Some("it does not build: a.c:1: error"));
        let (name, wanted, found, why) = (text("CONFIG_A"), text("y"), text("n"), text("why"));
        let dropped = BuildError::Dropped { name, wanted, found, why };
        let message = dropped.to_string();
        assert_eq!(KernelError::from(dropped).why_unbuilt(), Some(message));
        assert_eq!(KernelError::from(BuildError::Killed).why_unbuilt(), None);
        assert_eq!(KernelError::Cancelled.why_unbuilt(), None);
    }

    #[test]
    fn each_build_error_blames_the_one_who_can_act() {
        let text = String::new;
        let failed = BuildError::Failed { first: text(), command: text(), log: text() };
        assert_eq!(failed.blame(), Blame::Guest);
        let error = || io::Error::other("x");
        let start = BuildError::Start { tool: text(), error: error() };
        let cache = BuildError::Cache { action: "read", path: text(), error: error() };
        let full = BuildError::DiskFull { free_mib: 1, needed_mib: 2, path: text() };
        for host in [start, cache, full, BuildError::Killed, BuildError::Cancelled] {
            assert_eq!(host.blame(), Blame::Host, "{host}");
        }
        let dropped =
            BuildError::Dropped { name: text(), wanted: text(), found: text(), why: text() };
        for user in [dropped, BuildError::Option { text: text() }] {
            assert_eq!(user.blame(), Blame::User, "{user}");
        }
    }
}
