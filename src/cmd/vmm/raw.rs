use super::account::AccountArgs;
use crate::model::RawKind;
use crate::vmm::Loops;

/// Run machine code without an operating system, with a known number of exits
///
/// The guest ends with one OUT of its own, so KVM_EXIT_IO is one more than its loops need. The
/// account is JSON. For each vCPU it has `wall_ns`, the time from the first call of KVM_RUN to the
/// last return; `turn_ns`, the median time from one return to the next, or 0 if there are fewer
/// than two returns (both in ns); and `exits`, the number of returns by KVM's `exit_reason`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Execute N CPUID instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpuid: u32,
    /// Execute N RDMSR instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    rdmsr: u32,
    /// Execute N WRMSR instructions; KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    wrmsr: u32,
    /// Write to N new pages of memory (EPT or NPT faults); KVM handles them in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    fault: u32,
    /// Execute N OUT instructions to KVM's interrupt controller, which is in the kernel
    #[arg(long, value_name = "N", default_value_t = 0)]
    pic: u32,
    /// Get N interrupts from the local APIC's timer while the guest runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    interrupt: u32,
    /// Halt N times in the kernel until the local APIC's timer wakes the guest
    #[arg(long, value_name = "N", default_value_t = 0)]
    wake: u32,
    /// Send N interrupts (IPIs) from the vCPU to itself
    #[arg(long, value_name = "N", default_value_t = 0)]
    self_ipi: u32,
    /// Send N interrupts (IPIs) to a second vCPU that halts, and get one back for each
    #[arg(long, value_name = "N", default_value_t = 0)]
    ipi: u32,
    /// Execute N OUT instructions; each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    out: u32,
    /// Write N times to an address without memory (MMIO); each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    mmio: u32,
    /// Execute N HLT instructions; each exits to user space
    #[arg(long, value_name = "N", default_value_t = 0)]
    hlt: u32,
    #[command(flatten)]
    pub(super) account: AccountArgs,
}

impl Args {
    pub fn loops(&self) -> Loops {
        let times = |kind| match kind {
            RawKind::Cpuid => self.cpuid,
            RawKind::Rdmsr => self.rdmsr,
            RawKind::Wrmsr => self.wrmsr,
            RawKind::Fault => self.fault,
            RawKind::Pic => self.pic,
            RawKind::Interrupt => self.interrupt,
            RawKind::Wake => self.wake,
            RawKind::SelfIpi => self.self_ipi,
            RawKind::Ipi => self.ipi,
            RawKind::Out => self.out,
            RawKind::Mmio => self.mmio,
            RawKind::Hlt => self.hlt,
        };
        let kinds = RawKind::ALL.into_iter();
        kinds.fold(Loops::default(), |loops, kind| loops.with(kind, times(kind)))
    }
}
