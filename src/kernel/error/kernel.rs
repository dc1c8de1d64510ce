//! Why there is no kernel to measure.

use std::io;

use super::build::BuildError;
use crate::kernel::package::Package;
use crate::model::Blame;

/// Why there is no [`Kernel`](crate::kernel::Kernel) to measure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    #[error(
        "`{spec}` names no kernel: {problem}: \
         give `debian:cloud-amd64` or the path of a bzImage"
    )]
    BadSpec { spec: String, problem: &'static str },

    #[error("no such file {path}: give the path of a bzImage, or `debian:cloud-amd64`")]
    NotFound { path: String },
    #[error("{path} is a directory: give the file in it, such as arch/x86/boot/bzImage")]
    Directory { path: String },
    #[error("{path} is not a regular file: give the path of a bzImage")]
    NotAFile { path: String },
    #[error("cannot read {path}: {error}: make it readable, or copy it and give the copy")]
    Unreadable { path: String, error: io::Error },
    #[error(
        "{path} has {found} bytes, more than the {limit} bytes that ktax reads: \
         give the bzImage, or strip it with `strip --strip-debug`"
    )]
    TooLarge { path: String, found: u64, limit: u64 },

    #[error("{name} is empty: build or copy the kernel again")]
    Empty { name: String },
    #[error("{name} is truncated: {found} bytes of at least {expected}: copy the kernel again")]
    Truncated { name: String, found: u64, expected: u64 },
    #[error("{name} is {what}, not a kernel: give the path of a bzImage")]
    NotAKernel { name: String, what: &'static str },
    #[error("{name} is for {arch}, and ktax boots x86_64: give an x86_64 bzImage")]
    WrongArch { name: String, arch: String },
    #[error("{name} is {found}, and a kernel for {wanted} is needed: give its vmlinux, or source")]
    NotFor { name: String, found: String, wanted: &'static str },
    #[error("{name} is compressed with {with}: unpack it first: `{tool} < FILE > vmlinux`")]
    Compressed { name: String, with: &'static str, tool: &'static str },
    #[error(
        "{name} is a Debian package: unpack it with `dpkg-deb -x FILE DIR` \
         and give DIR/boot/vmlinuz-*"
    )]
    DebianPackage { name: String },
    #[error("{name} is a kernel module or object file: give the path of a bzImage")]
    Module { name: String },
    #[error(
        "{name} has boot protocol {major}.{minor:02}, older than 2.06: give Linux 2.6.22 or newer"
    )]
    OldProtocol { name: String, major: u8, minor: u8 },
    #[error("{name} is damaged: {problem}: build or copy the kernel again")]
    Damaged { name: String, problem: &'static str },
    #[error(
        "QEMU cannot boot {name}: this vmlinux has no PVH entry (CONFIG_PVH): \
         give the bzImage of the same build"
    )]
    NoPvhEntry { name: String },
    #[error(
        "{name} has neither a release nor a build-id, and what has no identity is not measured: \
         give the bzImage that the kernel's own build made"
    )]
    NoIdentity { name: String },

    #[error(
        "`{tool}` is not here, and `debian:` kernels need it: \
         install {package}, or give the path of a bzImage"
    )]
    NoTool { tool: &'static str, package: &'static str },
    #[error("cannot start `{tool}`: {error}: run it by hand to see why")]
    ToolFailed { tool: &'static str, error: io::Error },
    #[error(
        "apt knows no package {package} for amd64 (misspelt, or no package lists): \
         run `sudo apt-get update`"
    )]
    UnknownPackage { package: String },
    #[error("package {package} is for {arch}, and ktax boots x86_64: give `debian:cloud-amd64`")]
    ForeignPackage { package: String, arch: String },
    #[error("cannot fetch {package}: {said}: check the network, then run `sudo apt-get update`")]
    FetchFailed { package: Package, said: String },
    #[error("the package fetched for {package} is wrong: {problem}: run `sudo apt-get update`")]
    BadPackage { package: Package, problem: String },
    #[error(
        "{package} holds no /boot/vmlinuz-*: give a package with a kernel in it, \
         such as `debian:cloud-amd64`"
    )]
    NoImageInPackage { package: Package },
    #[error(
        "{package} holds more than one kernel ({names}): \
         unpack it with `dpkg-deb -x` and give the path of one"
    )]
    SeveralKernels { package: Package, names: String },
    #[error(
        "{package} holds no module {module}.ko: give a cloud kernel of Debian 12, \
         such as `debian:cloud-amd64`, or a kernel with it built in as a file"
    )]
    NoModule { package: Package, module: String },
    #[error("{package} leads to another package without end: name the kernel's own package")]
    TooManySteps { package: Package },

    #[error(
        "{spec} is not built here, so that it takes no config, patches, start_config or tree: \
         name a source, such as `src:linux` or `debian-src:6.12`"
    )]
    NotBuilt { spec: String },
    #[error(transparent)]
    Build(BuildError),
    #[error("stopped, as asked for: run the same command again, and it goes on")]
    Cancelled,
    #[error(
        "cannot {action} {path}: {error}: make the cache directory writable, \
         with 300 MB free, or choose another"
    )]
    Cache { action: &'static str, path: String, error: io::Error },
}

impl KernelError {
    /// True if apt cannot answer at all, so that a cached kernel is the best there is.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::NoTool { tool: "apt-cache", .. } | Self::UnknownPackage { .. })
    }
}

impl KernelError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        use KernelError::{BadPackage, Build, Cache, Cancelled, FetchFailed, ToolFailed};
        match self {
            Build(error) => error.blame(),
            ToolFailed { .. } | FetchFailed { .. } | BadPackage { .. } => Blame::Host,
            Cache { .. } | Cancelled => Blame::Host,
            _ => Blame::User,
        }
    }

    /// Whether the host is to blame.
    pub fn is_of_the_host(&self) -> bool {
        self.blame() == Blame::Host
    }

    /// Whether the user has cancelled: nothing has failed then.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Why this source cannot be built with these options. `None` for an error that says nothing
    /// about the source or its options.
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
    /// A cancelled build is a cancelled kernel, so that there is one thing to look for.
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Cancelled => Self::Cancelled,
            error => Self::Build(error),
        }
    }
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
        let said = dropped.to_string();
        assert_eq!(KernelError::from(dropped).why_unbuilt(), Some(said));
        assert_eq!(KernelError::from(BuildError::Killed).why_unbuilt(), None);
        assert_eq!(KernelError::Cancelled.why_unbuilt(), None);
    }
}
