//! How often each vCPU exited to user space, and for which reason.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// The names of the exit reasons in the kernel's header. The index is the number, so the reasons of
/// other architectures are here too.
const NAMES: [&str; 40] = [
    "UNKNOWN",
    "EXCEPTION",
    "IO",
    "HYPERCALL",
    "DEBUG",
    "HLT",
    "MMIO",
    "IRQ_WINDOW_OPEN",
    "SHUTDOWN",
    "FAIL_ENTRY",
    "INTR",
    "SET_TPR",
    "TPR_ACCESS",
    "S390_SIEIC",
    "S390_RESET",
    "DCR",
    "NMI",
    "INTERNAL_ERROR",
    "OSI",
    "PAPR_HCALL",
    "S390_UCONTROL",
    "WATCHDOG",
    "S390_TSCH",
    "EPR",
    "SYSTEM_EVENT",
    "S390_STSI",
    "IOAPIC_EOI",
    "HYPERV",
    "ARM_NISV",
    "X86_RDMSR",
    "X86_WRMSR",
    "DIRTY_RING_FULL",
    "AP_RESET_HOLD",
    "X86_BUS_LOCK",
    "XEN",
    "RISCV_SBI",
    "RISCV_CSR",
    "NOTIFY",
    "LOONGARCH_IOCSR",
    "MEMORY_FAULT",
];

/// The counts of all vCPUs.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub vcpus: Vec<VcpuAccount>,
}

/// The counts of one vCPU.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuAccount {
    pub vcpu: u8,
    /// The time from the first call of KVM_RUN to the last return, by CLOCK_MONOTONIC, ns.
    pub wall_ns: u64,
    /// The median time from one return to the next, of the first 65536, ns; 0 if there are fewer
    /// than two returns.
    pub turn_ns: u64,
    /// The number of returns from KVM_RUN, by `exit_reason`.
    pub exits: BTreeMap<String, u64>,
}

/// The number of returns whose times are kept.
const TIMES: usize = 65536;

/// Counts while a vCPU runs.
#[derive(Default)]
pub(super) struct Counts {
    exits: BTreeMap<u32, u64>,
    /// The times of the returns from KVM_RUN, since the vCPU started.
    times: Vec<Duration>,
}

impl Counts {
    /// Counts a return from KVM_RUN; `at` is the time since the vCPU started.
    pub fn returned(&mut self, exit_reason: u32, at: Duration) {
        *self.exits.entry(exit_reason).or_default() += 1;
        if self.times.len() < TIMES {
            self.times.push(at);
        }
    }

    pub fn finish(self, vcpu: u8, wall: Duration) -> VcpuAccount {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut turns: Vec<u64> =
            self.times.windows(2).map(|pair| ns(pair[1].saturating_sub(pair[0]))).collect();
        turns.sort_unstable();
        let turn_ns = turns.get(turns.len() / 2).copied().unwrap_or(0);
        let exits = self.exits.into_iter().map(|(reason, count)| (name(reason), count)).collect();
        VcpuAccount { vcpu, wall_ns: ns(wall), turn_ns, exits }
    }
}

fn name(reason: u32) -> String {
    let known = usize::try_from(reason).ok().and_then(|place| NAMES.get(place));
    known.map_or_else(|| format!("KVM_EXIT_{reason}"), |name| format!("KVM_EXIT_{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_header() {
        for (reason, expected) in [
            (kvm_bindings::KVM_EXIT_IO, "KVM_EXIT_IO"),
            (kvm_bindings::KVM_EXIT_SHUTDOWN, "KVM_EXIT_SHUTDOWN"),
            (kvm_bindings::KVM_EXIT_INTERNAL_ERROR, "KVM_EXIT_INTERNAL_ERROR"),
            (kvm_bindings::KVM_EXIT_SYSTEM_EVENT, "KVM_EXIT_SYSTEM_EVENT"),
            (kvm_bindings::KVM_EXIT_X86_WRMSR, "KVM_EXIT_X86_WRMSR"),
            (kvm_bindings::KVM_EXIT_MEMORY_FAULT, "KVM_EXIT_MEMORY_FAULT"),
            (1000, "KVM_EXIT_1000"),
        ] {
            assert_eq!(name(reason), expected);
        }
    }

    #[test]
    fn counts_become_an_account() {
        let mut counts = Counts::default();
        for (reason, at_us) in [(2, 1), (5, 2), (2, 4), (2, 8)] {
            counts.returned(reason, Duration::from_micros(at_us));
        }
        let account = Account { vcpus: vec![counts.finish(1, Duration::from_micros(9))] };
        let expected = r#"{"vcpus":[{"vcpu":1,"wall_ns":9000,"turn_ns":2000,"exits":"#.to_owned()
            + r#"{"KVM_EXIT_HLT":1,"KVM_EXIT_IO":3}}]}"#;
        assert_eq!(serde_json::to_string(&account).unwrap(), expected);
    }
}
