//! Why there is no kernel to measure.

use std::io;

use super::build::BuildError;
use crate::kernel::package::Package;

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
    Build(#[from] BuildError),
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
    /// Whether this host is the reason, and not what was asked for.
    pub fn is_of_the_host(&self) -> bool {
        use KernelError::{BadPackage, Build, Cache, FetchFailed, ToolFailed};
        match self {
            ToolFailed { .. } | FetchFailed { .. } | BadPackage { .. } | Cache { .. } => true,
            Build(error) => error.is_of_the_host(),
            _ => false,
        }
    }
}
