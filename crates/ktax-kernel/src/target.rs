//! The machines that ktax builds kernels for.

use ktax_model::Arch;

/// A machine that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Names the target in messages and in the directory of its builds.
    pub name: &'static str,
    pub arch: Arch,
    /// The options that its kernels must have: lines of a .config.
    pub options: &'static str,
    /// Whether Debian's own kernels boot there and have what is needed.
    pub is_packaged: bool,
}

/// A small configuration that boots in the exact engine and has what the workloads need.
const BASE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/base.config"));
const E500V2_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/e500v2.config"));
const POWER9_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/power9.config"));
const RISCV64_OPTIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/riscv64.config"));

impl Target {
    /// The machine of the exact engine.
    pub const X86_64: Target =
        Target { name: "x86_64", arch: Arch::X86_64, options: "", is_packaged: true };

    /// A KVM host with an e500v2 processor: QEMU's ppce500 machine.
    pub const E500V2: Target =
        Target { name: "e500v2", arch: Arch::PowerPc, options: E500V2_OPTIONS, is_packaged: false };

    /// A KVM host with a POWER9 processor: QEMU's pseries machine.
    pub const POWER9: Target =
        Target { name: "power9", arch: Arch::Ppc64le, options: POWER9_OPTIONS, is_packaged: false };

    /// A KVM host with a riscv64 processor: QEMU's virt machine.
    pub const RISCV64: Target = Target {
        name: "riscv64",
        arch: Arch::Riscv64,
        options: RISCV64_OPTIONS,
        is_packaged: false,
    };

    /// A KVM host with an arm64 processor: QEMU's virt machine. Its kernel comes from a package.
    pub const ARM64: Target =
        Target { name: "arm64", arch: Arch::Arm64, options: "", is_packaged: true };

    /// The configuration `base`: every option that it does not name is off.
    pub(super) fn base(&self) -> &'static str {
        if self.is_foreign() { "" } else { BASE }
    }

    /// Whether it needs a cross compiler.
    pub(super) fn is_foreign(&self) -> bool {
        self.arch != Arch::X86_64
    }

    /// The prefix of the compiler and the linker, for example `powerpc-linux-gnu-`.
    pub(super) fn cross(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "",
            Arch::PowerPc => "powerpc-linux-gnu-",
            Arch::Ppc64le => "powerpc64le-linux-gnu-",
            Arch::Arm64 => "aarch64-linux-gnu-",
            Arch::Riscv64 => "riscv64-linux-gnu-",
        }
    }

    /// Directory of the architecture below `arch/` in a kernel tree.
    pub(super) fn directory(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "x86",
            Arch::PowerPc | Arch::Ppc64le => "powerpc",
            Arch::Arm64 => "arm64",
            Arch::Riscv64 => "riscv",
        }
    }

    /// The variables that make needs to build for it.
    pub(super) fn make_variables(&self) -> Vec<String> {
        match self.is_foreign() {
            true => vec![
                format!("ARCH={}", self.directory()),
                format!("CROSS_COMPILE={}", self.cross()),
            ],
            false => Vec::new(),
        }
    }

    /// The make target of the image, and the image's path below the object directory.
    pub(super) fn image(&self) -> (&'static str, &'static str) {
        match self.arch {
            Arch::X86_64 => ("bzImage", "arch/x86/boot/bzImage"),
            Arch::PowerPc | Arch::Ppc64le => ("vmlinux", "vmlinux"),
            Arch::Arm64 => ("Image", "arch/arm64/boot/Image"),
            Arch::Riscv64 => ("Image", "arch/riscv/boot/Image"),
        }
    }
}
