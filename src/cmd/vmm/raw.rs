use super::account::AccountArgs;
use crate::vmm::Loops;

/// Run machine code without an operating system, with a known number of exits
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Execute N OUT instructions; each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    out: u32,
    /// Write N times to an address without memory (MMIO); each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    mmio: u32,
    /// Execute N CPUID instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpuid: u32,
    /// Execute N HLT instructions; each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    hlt: u32,
    #[command(flatten)]
    pub(super) account: AccountArgs,
}

impl Args {
    pub fn loops(&self) -> Loops {
        Loops { out: self.out, mmio: self.mmio, cpuid: self.cpuid, hlt: self.hlt }
    }
}
