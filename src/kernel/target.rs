//! What a kernel is built for.

use crate::model::Arch;

/// A machine that kernels are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// For people, and in the name of the lane of its builds.
    pub name: &'static str,
    pub arch: Arch,
    /// What its kernels must have, whatever they begin with: lines of a .config.
    pub options: &'static str,
}

/// What boots in the exact engine and has what the workloads need, and little else.
const BASE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/base.config"));
const OF_E500V2: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/e500v2.config"));

impl Target {
    /// What the exact engine runs.
    pub const X86_64: Target = Target { name: "x86_64", arch: Arch::X86_64, options: "" };

    /// A KVM host of an e500v2 processor in QEMU's ppce500 machine.
    pub const E500V2: Target = Target { name: "e500v2", arch: Arch::PowerPc, options: OF_E500V2 };

    /// What the configuration `base` begins with; all else is off.
    pub(super) fn base(&self) -> &'static str {
        if self.is_foreign() { "" } else { BASE }
    }

    /// Whether this machine's own compiler makes something else.
    pub(super) fn is_foreign(&self) -> bool {
        self.arch != Arch::X86_64
    }

    /// What the names of the compiler and its like begin with: `powerpc-linux-gnu-`.
    pub(super) fn cross(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "",
            Arch::PowerPc => "powerpc-linux-gnu-",
            Arch::Ppc64le => "powerpc64le-linux-gnu-",
        }
    }

    /// Its directory below `arch`.
    pub(super) fn directory(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "x86",
            Arch::PowerPc | Arch::Ppc64le => "powerpc",
        }
    }

    /// What make has to be told.
    pub(super) fn of_make(&self) -> Vec<String> {
        match self.is_foreign() {
            true => vec![
                format!("ARCH={}", self.directory()),
                format!("CROSS_COMPILE={}", self.cross()),
            ],
            false => Vec::new(),
        }
    }

    /// What make makes, and where it is below the objects.
    pub(super) fn image(&self) -> (&'static str, &'static str) {
        match self.arch {
            Arch::X86_64 => ("bzImage", "arch/x86/boot/bzImage"),
            Arch::PowerPc | Arch::Ppc64le => ("vmlinux", "vmlinux"),
        }
    }
}
