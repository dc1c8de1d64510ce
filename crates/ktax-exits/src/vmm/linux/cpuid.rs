//! The guest's CPUID.

use std::arch::x86_64::__cpuid;

use kvm_bindings::kvm_cpuid_entry2;

use ktax_model::GuestSubject;

/// The leaf of KVM's paravirtual features.
const KVM_FEATURES: u32 = 0x4000_0001;
/// Leaf 1, ECX: KVM supports both, and user space must set the bits.
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;

/// A paravirtual feature of KVM that can be hidden from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    Clock,
    NoPioDelay,
    AsyncPf,
    StealTime,
    PvEoi,
    PvUnhalt,
    PvTlbFlush,
    PvIpi,
    PollControl,
    PvSchedYield,
    ClockStable,
}

impl Feature {
    /// Every one, in the order of their bits.
    pub const ALL: [Feature; 11] = [
        Feature::Clock,
        Feature::NoPioDelay,
        Feature::AsyncPf,
        Feature::StealTime,
        Feature::PvEoi,
        Feature::PvUnhalt,
        Feature::PvTlbFlush,
        Feature::PvIpi,
        Feature::PollControl,
        Feature::PvSchedYield,
        Feature::ClockStable,
    ];

    /// The name, as on QEMU's command line.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Clock => "kvmclock",
            Feature::NoPioDelay => "kvm-nopiodelay",
            Feature::AsyncPf => "kvm-asyncpf",
            Feature::StealTime => "kvm-steal-time",
            Feature::PvEoi => GuestSubject::PV_EOI,
            Feature::PvUnhalt => "kvm-pv-unhalt",
            Feature::PvTlbFlush => "kvm-pv-tlb-flush",
            Feature::PvIpi => "kvm-pv-ipi",
            Feature::PollControl => "kvm-poll-control",
            Feature::PvSchedYield => "kvm-pv-sched-yield",
            Feature::ClockStable => "kvmclock-stable-bit",
        }
    }

    /// The feature of that name.
    pub fn named(name: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.name() == name)
    }

    /// The bits in EAX of [`KVM_FEATURES`].
    fn bits(self) -> u32 {
        match self {
            // The clock's registers have had two numbers.
            Feature::Clock => 1 | 1 << 3,
            Feature::NoPioDelay => 1 << 1,
            Feature::AsyncPf => 1 << 4,
            Feature::StealTime => 1 << 5,
            Feature::PvEoi => 1 << 6,
            Feature::PvUnhalt => 1 << 7,
            Feature::PvTlbFlush => 1 << 9,
            Feature::PvIpi => 1 << 11,
            Feature::PollControl => 1 << 12,
            Feature::PvSchedYield => 1 << 13,
            Feature::ClockStable => 1 << 24,
        }
    }
}

/// The leaf with the hypervisor's name. QEMU's translator has TCG there, four times.
const HYPERVISOR_NAME: u32 = 0x4000_0000;
const TRANSLATOR: [u32; 3] =
    [u32::from_le_bytes(*b"TCGT"), u32::from_le_bytes(*b"CGTC"), u32::from_le_bytes(*b"GTCG")];

/// The features that are always hidden on this processor.
///
/// pv-eoi is one under QEMU's translator (7.2 and later). The translator keeps the vector that a
/// VMRUN has injected (`exception_index` in `helper_vmrun`) until the next exit. If it stops before
/// that, as at each deadline under icount, it delivers the interrupt again, even to a guest with
/// interrupts off. That is a deadlock if the guest holds a lock that the handler takes. Without
/// pv-eoi, the write that ends an interrupt is an exit. It comes before any lock, except for the
/// IO-APIC's interrupts: `handle_edge_irq` locks their descriptor first.
pub(super) fn unusable() -> &'static [Feature] {
    // SAFETY: every 64-bit processor has CPUID and answers any leaf. In newer compilers the
    // function is safe.
    #[allow(unused_unsafe)]
    let name = unsafe { __cpuid(HYPERVISOR_NAME) };
    unusable_on([name.ebx, name.ecx, name.edx])
}

fn unusable_on(hypervisor: [u32; 3]) -> &'static [Feature] {
    if hypervisor == TRANSLATOR { &[Feature::PvEoi] } else { &[] }
}

/// Turns the CPUID that KVM supports into that of the vCPU `id`, `without` some features.
pub(super) fn describe(entries: &mut [kvm_cpuid_entry2], id: u8, without: &[Feature]) {
    let hidden = without.iter().fold(0, |bits, feature| bits | feature.bits());
    for entry in entries {
        match entry.function {
            1 => {
                entry.ecx |= TSC_DEADLINE | HYPERVISOR;
                entry.ebx = entry.ebx & 0x00ff_ffff | u32::from(id) << 24;
            }
            // The ID of the local APIC, three times more.
            0xb | 0x1f => entry.edx = id.into(),
            0x8000_001e => entry.eax = id.into(),
            KVM_FEATURES => entry.eax &= !hidden,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(function: u32) -> kvm_cpuid_entry2 {
        kvm_cpuid_entry2 { function, eax: !0, ebx: !0, ..kvm_cpuid_entry2::default() }
    }

    #[test]
    fn features_are_hidden_by_their_bits() {
        let hidden = |without: &[Feature]| {
            let mut entries = [entry(KVM_FEATURES)];
            describe(&mut entries, 0, without);
            !entries[0].eax
        };
        assert_eq!(hidden(&[]), 0);
        assert_eq!(hidden(&[Feature::Clock, Feature::PvEoi]), 0b100_1001);
        // Bits without a name are gaps.
        assert_eq!(hidden(&Feature::ALL), 0x0100_3aff & !(1 << 2));
    }

    #[test]
    fn a_translator_repeats_interrupts_that_end_without_an_exit() {
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        assert_eq!(unusable_on([b"TCGT", b"CGTC", b"GTCG"].map(word)), [Feature::PvEoi]);
        assert_eq!(unusable_on([b"KVMK", b"VMKV", b"M\0\0\0"].map(word)), []);
    }

    #[test]
    fn names_are_those_of_qemu() {
        assert_eq!(Feature::ALL[0].name(), "kvmclock");
        assert_eq!(Feature::named("kvmclock-stable-bit"), Some(Feature::ClockStable));
        assert_eq!(Feature::named("kvm"), None);
        let same = |feature: &Feature| Feature::named(feature.name()) == Some(*feature);
        assert!(Feature::ALL.iter().all(same));
    }

    #[test]
    fn a_vcpu_knows_its_number() {
        let mut entries = [entry(1), entry(0xb), entry(0x8000_001e), entry(7)];
        describe(&mut entries, 3, &[]);
        assert_eq!(entries[0].ebx, 0x03ff_ffff);
        assert_eq!(entries[0].ecx, TSC_DEADLINE | HYPERVISOR);
        assert_eq!((entries[1].edx, entries[2].eax), (3, 3));
        assert_eq!(entries[3], entry(7));
    }
}
