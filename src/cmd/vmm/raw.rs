use super::account::AccountArgs;
use crate::vmm::Loops;

/// Run machine code without an operating system, that leaves exactly as often as it is told
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many OUT instructions, which leave to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    out: u32,
    /// How many writes to an address without memory, which leave to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    mmio: u32,
    /// How many CPUID instructions, which KVM answers
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpuid: u32,
    /// How many HLT instructions, which leave to user space
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
