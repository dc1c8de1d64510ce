//! Tracepoints of KVM's exits and entries on each architecture. Live recordings, readers of text
//! traces, and messages share this table.

/// `_IO(KVMIO, 0x80)`, the ioctl that runs a vCPU.
pub const KVM_RUN: u32 = 0xae80;
/// KVM_RUN on PowerPC and MIPS, which encode "no data" as a bit.
pub const KVM_RUN_POWERPC_MIPS: u32 = 0x2000_ae80;

/// The tracepoints of KVM on one architecture.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    pub name: &'static str,
    /// Tracepoints of entries into the guest; empty if KVM has none.
    pub entries: &'static [&'static str],
    /// Tracepoint of exits from the guest.
    pub exit: &'static str,
    /// Field with the reason in the record of an exit.
    pub reason: &'static str,
    /// Field that distinguishes exits with the same reason number.
    pub detail: Option<&'static str>,
    /// The kernel's print format, for reading records that a trace has as plain numbers.
    pub print: &'static str,
}

// Names of reasons for traces; live recordings read them from the kernel's `format` file.

const ARM64: &str = r#"__print_symbolic(REC->ret, { 0, "IRQ" }, { 1, "SERROR" }, { 2, "TRAP" },
{ 3, "IL" }), REC->esr_ec, __print_symbolic(REC->esr_ec, { 0x01, "WFx" }, { 0x07, "FP_ASIMD" },
{ 0x16, "HVC64" }, { 0x17, "SMC64" }, { 0x18, "SYS64" }, { 0x19, "SVE" }, { 0x20, "IABT_LOW" },
{ 0x24, "DABT_LOW" }, { 0x2f, "SERROR" }, { 0x30, "BREAKPT_LOW" }, { 0x32, "SOFTSTP_LOW" },
{ 0x34, "WATCHPT_LOW" }, { 0x3c, "BRK64" })"#;
const BOOK3S: &str = r#"__print_symbolic(REC->trap, { 0x100, "SYSTEM_RESET" },
{ 0x200, "MACHINE_CHECK" }, { 0x300, "DATA_STORAGE" }, { 0x380, "DATA_SEGMENT" },
{ 0x400, "INST_STORAGE" }, { 0x480, "INST_SEGMENT" }, { 0x500, "EXTERNAL" },
{ 0x502, "EXTERNAL_HV" }, { 0x600, "ALIGNMENT" }, { 0x700, "PROGRAM" }, { 0x800, "FP_UNAVAIL" },
{ 0x900, "DECREMENTER" }, { 0x980, "HV_DECREMENTER" }, { 0xc00, "SYSCALL" }, { 0xd00, "TRACE" },
{ 0xe00, "H_DATA_STORAGE" }, { 0xe20, "H_INST_STORAGE" }, { 0xe40, "H_EMUL_ASSIST" },
{ 0xea0, "H_VIRT" }, { 0xf00, "PERFMON" }, { 0xf20, "ALTIVEC" }, { 0xf40, "VSX" })"#;
const S390: &str = r#"__print_symbolic(REC->icptcode, { 0x00, "Host interruption" },
{ 0x04, "Instruction" }, { 0x08, "Program interruption" },
{ 0x0c, "Instruction and program interruption" }, { 0x10, "External request" },
{ 0x14, "External interruption" }, { 0x18, "I/O request" }, { 0x1c, "Wait state" },
{ 0x20, "Validity" }, { 0x28, "Stop request" }, { 0x2c, "Operation exception" },
{ 0x38, "Partial execution" })"#;

/// The events that most architectures share.
const COMMON: Architecture = Architecture {
    name: "",
    entries: &["kvm:kvm_entry"],
    exit: "kvm:kvm_exit",
    reason: "",
    detail: None,
    print: "",
};

/// All architectures. A kernel's architecture is the first whose tracepoints and fields it has.
pub static ARCHITECTURES: [Architecture; 8] = [
    Architecture {
        name: "x86",
        reason: "exit_reason",
        detail: Some("isa"),
        print: include_str!("kvm_exit-x86.format"),
        ..COMMON
    },
    Architecture { name: "arm64", reason: "ret", detail: Some("esr_ec"), print: ARM64, ..COMMON },
    Architecture { name: "RISC-V", reason: "scause", ..COMMON },
    Architecture {
        name: "PowerPC book3s HV",
        entries: &["kvm_hv:kvm_guest_enter"],
        exit: "kvm_hv:kvm_guest_exit",
        reason: "trap",
        detail: Some(CEDED),
        print: BOOK3S,
    },
    Architecture {
        name: "s390",
        entries: &["kvm:kvm_s390_sie_enter"],
        exit: "kvm:kvm_s390_sie_exit",
        reason: "icptcode",
        print: S390,
        ..COMMON
    },
    Architecture {
        name: "LoongArch and MIPS",
        entries: &["kvm:kvm_enter", "kvm:kvm_reenter"],
        reason: "reason",
        ..COMMON
    },
    Architecture {
        name: "PowerPC book3s PR",
        entries: &["kvm_pr:kvm_book3s_reenter"],
        exit: "kvm_pr:kvm_exit",
        reason: "exit_nr",
        ..COMMON
    },
    Architecture {
        name: "PowerPC Book E",
        entries: &[],
        exit: "kvm_booke:kvm_exit",
        reason: "exit_nr",
        ..COMMON
    },
];

/// Field that is 1 if the guest of book3s HV gave up its CPU (H_CEDE).
pub const CEDED: &str = "ceded";

/// Suffix of the reason of an exit with [`CEDED`] set.
pub const CEDED_SUFFIX: &str = ", ceded";

impl Architecture {
    pub fn named(name: &str) -> &'static Architecture {
        ARCHITECTURES
            .iter()
            .find(|architecture| architecture.name == name)
            .expect("callers pass a name from ARCHITECTURES")
    }

    /// Returns the tracepoints of entries, then that of exits.
    pub fn events(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().copied().chain([self.exit])
    }
}

pub fn is_entry(event: &str) -> bool {
    ARCHITECTURES
        .iter()
        .flat_map(|architecture| architecture.entries)
        .any(|entry| is_event(entry, event))
}

pub fn is_exit(event: &str) -> bool {
    ARCHITECTURES.iter().any(|architecture| is_event(architecture.exit, event))
}

/// Returns true if the tracepoint `subsystem:name` has the name `event`, without the subsystem, as
/// trace-cmd prints it.
fn is_event(tracepoint: &str, event: &str) -> bool {
    tracepoint.split_once(':').is_some_and(|(_, name)| name == event)
}

/// Reasons after which KVM may put the vCPU's thread to sleep, because the guest is idle.
const MAY_SLEEP: [&str; 22] = [
    // x86; a hypercall or an exit of a confidential guest may be a HLT.
    "HLT",
    "EXIT_HLT",
    "EXIT_REASON_HLT",
    "hlt",
    "KVM_EXIT_HLT",
    "HC_IRQ_HALT",
    "vmgexit",
    "TDCALL",
    // arm64; a call of the firmware may be CPU_SUSPEND.
    "WFx",
    "WFI",
    "WFE",
    "HVC64",
    "SMC64",
    // RISC-V; a call of the firmware may suspend the hart.
    "virtual instruction",
    "environment call from VS-mode",
    "VIRTUAL_INST_FAULT",
    "SUPERVISOR_SYSCALL",
    "EXC_VIRTUAL_INST_FAULT",
    // s390.
    "Wait state",
    // LoongArch: 0x16 is any privileged instruction, of which IDLE is one. MIPS: WAIT.
    "IDLE",
    "0x16",
    "WAIT",
];

/// Returns true if KVM may put the vCPU's thread to sleep after an exit for this reason.
pub fn may_sleep(reason: &str) -> bool {
    MAY_SLEEP.contains(&reason) || reason.ends_with(CEDED_SUFFIX)
}

/// Names of scause values in the RISC-V Instruction Set Manual, Volume II.
pub(super) const SCAUSE: [(u64, &str); 11] = [
    (2, "illegal instruction"),
    (8, "environment call from VU-mode"),
    (10, "environment call from VS-mode"),
    (20, "instruction guest-page fault"),
    (21, "load guest-page fault"),
    (22, "virtual instruction"),
    (23, "store guest-page fault"),
    (1 << 63 | 1, "software interrupt"),
    (1 << 63 | 5, "timer interrupt"),
    (1 << 63 | 9, "external interrupt"),
    (1 << 63 | 12, "guest external interrupt"),
];

/// Returns the name of a scause value such as `0x17`; `text` itself if the value has no name.
pub(super) fn scause_name(text: &str) -> &str {
    let code = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let named = SCAUSE.iter().find(|(number, _)| Some(*number) == code);
    named.map_or(text, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_recognized_without_their_subsystem() {
        for event in ["kvm_entry", "kvm_guest_enter", "kvm_s390_sie_enter", "kvm_reenter"] {
            assert!(is_entry(event) && !is_exit(event), "{event}");
        }
        for event in ["kvm_exit", "kvm_guest_exit", "kvm_s390_sie_exit"] {
            assert!(is_exit(event) && !is_entry(event), "{event}");
        }
        assert!(!is_exit("kvm_userspace_exit") && !is_entry("kvm_s390_sie_fault"));
        for architecture in &ARCHITECTURES {
            assert_eq!(Architecture::named(architecture.name), architecture);
        }
    }

    #[test]
    fn idle_exits_may_sleep_and_others_may_not() {
        for reason in ["HLT", "hlt", "WFx", "SYSCALL, ceded", "Wait state", "virtual instruction"] {
            assert!(may_sleep(reason), "{reason}");
        }
        for reason in ["EPT_VIOLATION", "SYSCALL", "Instruction", "npf", "IRQ"] {
            assert!(!may_sleep(reason), "{reason}");
        }
    }

    #[test]
    fn scause_values_have_names_and_other_text_is_kept() {
        assert_eq!(scause_name("0x17"), "store guest-page fault");
        assert_eq!(scause_name("0x8000000000000005"), "timer interrupt");
        assert_eq!((scause_name("0x1f"), scause_name("x")), ("0x1f", "x"));
    }
}
