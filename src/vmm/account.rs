//! How often each vCPU came back to user space, and for what.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// What the kernel's header calls the reasons, by their numbers; those of other architectures too,
/// so that the numbers are the places.
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

/// What all vCPUs did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub vcpus: Vec<VcpuAccount>,
}

/// What one vCPU did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuAccount {
    pub vcpu: u8,
    /// From the first call of KVM_RUN to the last return, by CLOCK_MONOTONIC.
    pub wall_ns: u64,
    /// From one return to the next, the median of the first 65536; 0 of fewer than two returns.
    pub turn_ns: u64,
    /// How often KVM_RUN returned, by `exit_reason`.
    pub exits: BTreeMap<String, u64>,
}

/// Of how many returns the times are kept.
const TIMES: usize = 65536;

/// Counts while a vCPU runs.
#[derive(Default)]
pub(super) struct Counts {
    exits: BTreeMap<u32, u64>,
    /// When KVM_RUN returned, since the vCPU began.
    times: Vec<Duration>,
}

impl Counts {
    /// KVM_RUN has returned, so long after the vCPU began.
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
