use std::ops::RangeInclusive;

/// What a guest without a kernel does on x86, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawKind {
    /// CPUID, which KVM answers.
    Cpuid,
    /// RDMSR, which KVM answers.
    Rdmsr,
    /// WRMSR of a value that KVM ignores.
    Wrmsr,
    /// The first write to a page of memory, for which KVM finds a page.
    Fault,
    /// OUT to the interrupt controller in the kernel.
    Pic,
    /// The timer of the local APIC interrupts the guest while it runs.
    Interrupt,
    /// The same timer wakes the guest, which halts in the kernel.
    Wake,
    /// An interrupt that the guest sends to itself.
    SelfIpi,
    /// An interrupt to a second vCPU that halts in the kernel, and one in answer.
    Ipi,
    /// OUT, which the monitor answers.
    Out,
    /// A write to an address without memory, which the monitor answers.
    Mmio,
    /// HLT, which the monitor gets because no interrupt controller is in the kernel.
    Hlt,
}

impl RawKind {
    /// In the order in which a guest does them.
    pub const ALL: [RawKind; 12] = [
        RawKind::Cpuid,
        RawKind::Rdmsr,
        RawKind::Wrmsr,
        RawKind::Fault,
        RawKind::Pic,
        RawKind::Interrupt,
        RawKind::Wake,
        RawKind::SelfIpi,
        RawKind::Ipi,
        RawKind::Out,
        RawKind::Mmio,
        RawKind::Hlt,
    ];

    /// How many pages of 4 KiB a guest can touch: there is no memory at 768 MiB.
    pub const FAULTS_MAX: u32 = 196_096;

    /// Its name in an experiment, and as an option of the raw guest.
    pub fn name(self) -> &'static str {
        match self {
            RawKind::Cpuid => "cpuid",
            RawKind::Rdmsr => "rdmsr",
            RawKind::Wrmsr => "wrmsr",
            RawKind::Fault => "fault",
            RawKind::Pic => "pic",
            RawKind::Interrupt => "interrupt",
            RawKind::Wake => "wake",
            RawKind::SelfIpi => "self-ipi",
            RawKind::Ipi => "ipi",
            RawKind::Out => "out",
            RawKind::Mmio => "mmio",
            RawKind::Hlt => "hlt",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<RawKind> {
        RawKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How often a guest can do it.
    pub fn times(self) -> RangeInclusive<u32> {
        match self {
            RawKind::Fault => 1..=RawKind::FAULTS_MAX,
            _ => 1..=u32::MAX,
        }
    }

    /// Whether KVM must have the interrupt controllers in the kernel.
    pub fn needs_controllers(self) -> bool {
        self == RawKind::Pic || self.is_interrupt()
    }

    /// Whether the guest gets interrupts, from its local APIC.
    pub fn is_interrupt(self) -> bool {
        use RawKind::{Interrupt, Ipi, SelfIpi, Wake};
        matches!(self, Interrupt | Wake | SelfIpi | Ipi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_name() {
        for kind in RawKind::ALL {
            assert_eq!(RawKind::named(kind.name()), Some(kind));
        }
        assert_eq!(RawKind::named("rdtsc"), None);
    }

    #[test]
    fn nothing_is_done_zero_times() {
        assert!(RawKind::ALL.iter().all(|kind| !kind.times().contains(&0)));
        assert_eq!(*RawKind::Fault.times().end(), RawKind::FAULTS_MAX);
    }
}
