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
    /// Execute N RDMSR instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    rdmsr: u32,
    /// Execute N WRMSR instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    wrmsr: u32,
    /// Write to N new pages of memory (EPT or NPT faults); KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(Loops::FAULTS_MAX)))]
    fault: u32,
    /// Execute N OUT instructions to KVM's interrupt controller, which is in the kernel
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "hlt")]
    pic: u32,
    #[command(flatten)]
    pub(super) account: AccountArgs,
}

impl Args {
    pub fn loops(&self) -> Loops {
        let Args { out, mmio, cpuid, hlt, rdmsr, wrmsr, fault, pic, .. } = *self;
        Loops { out, mmio, cpuid, hlt, rdmsr, wrmsr, fault, pic }
    }
}
