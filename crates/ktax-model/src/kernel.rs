use serde::{Deserialize, Serialize};

/// What makes a Kernel this one and no other. It has a release or a build-id, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// `debian:NAME=VERSION`, or the absolute path of the file: either can be given as a kernel
    /// again.
    pub source: String,
    /// SHA-256 of the image, in lower-case hexadecimal.
    pub sha256: String,
    /// As `uname -r` prints it. Of a bzImage from its setup header, of a vmlinux from its banner.
    pub release: Option<String>,
    /// The day of the kernel's package, `2026-01-31`, as the image says it. Absent where the image
    /// does not, as those that were built here, and in plans of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_date: Option<String>,
    /// The GNU build-id of a vmlinux, in lower-case hexadecimal; a bzImage does not show it.
    pub build_id: Option<String>,
    /// SHA-256 of the config that came with the image, in lower-case hexadecimal.
    pub config_sha256: Option<String>,
    /// The instruction set.
    pub arch: Arch,
    /// The form of the image.
    pub format: ImageFormat,
}

/// The form of an image, which decides how QEMU starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// The compressed image with a setup header that `make bzImage` builds.
    BzImage,
    /// The uncompressed ELF file, with a PVH entry.
    Vmlinux,
    /// The kernel as it lies in memory: the `Image` of arm64 and riscv64.
    Image,
}

/// The architecture an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arch {
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 32-bit big-endian PowerPC.
    #[serde(rename = "powerpc")]
    PowerPc,
    /// 64-bit little-endian PowerPC.
    #[serde(rename = "powerpc64le")]
    Ppc64le,
    /// 64-bit ARM.
    #[serde(rename = "arm64")]
    Arm64,
    /// 64-bit RISC-V.
    #[serde(rename = "riscv64")]
    Riscv64,
}

impl Arch {
    /// As messages call it: `x86_64`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::PowerPc => "powerpc",
            Arch::Ppc64le => "powerpc64le",
            Arch::Arm64 => "arm64",
            Arch::Riscv64 => "riscv64",
        }
    }
}

impl Identity {
    /// The shortest text that tells this Kernel from another: the release, else the build-id.
    pub fn name(&self) -> &str {
        self.release.as_deref().or(self.build_id.as_deref()).unwrap_or(&self.sha256)
    }
}
