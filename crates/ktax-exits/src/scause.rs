//! Names of riscv's exit reasons: its kvm_exit has a number, and no list of names.

/// The RISC-V Instruction Set Manual, Volume II, scause.
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

/// The name of a number as the kernel prints it; what has no name stays a number.
pub(super) fn name(text: &str) -> &str {
    let code = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let known = SCAUSE.iter().find(|(number, _)| Some(*number) == code);
    known.map_or(text, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_has_a_name() {
        assert_eq!(name("0x17"), "store guest-page fault");
        assert_eq!(name("0x8000000000000005"), "timer interrupt");
        assert_eq!((name("0x1f"), name("x")), ("0x1f", "x"));
    }
}
