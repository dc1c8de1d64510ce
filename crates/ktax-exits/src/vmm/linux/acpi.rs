//! The ACPI tables: a guest with ACPI finds its processors there, and learns how to reset and how
//! to power off. Debian's cloud kernels need them, because they cannot read an MP table.
//!
//! Source: Advanced Configuration and Power Interface Specification, version 6.4, chapters 4
//! (registers) and 5 (tables). All fields are little-endian.

use super::addresses::{CONTROL, KEYBOARD, RESET};
use super::mptable::{IO_APIC, LOCAL_APIC, checksum};
use crate::vmm::error::VmmError;
use crate::vmm::machine::{Memory, write};

/// The address at which a system looks for the root pointer. The tables follow it.
const ADDRESS: u64 = 0xe_0000;

/// The port of the four bytes of events before [`CONTROL`]; no event ever comes.
const EVENTS: u16 = 0x600;

/// The one sleeping state: `Name (_S5, Package () { 5, 5, 0, 0 })`.
const SLEEP_STATES: &[u8] = b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\x00\x00";

const HEADER: usize = 36;
const FIXED: usize = 244;

/// Writes the tables of `cpus` processors into the guest's memory.
pub(super) fn write_tables(memory: &Memory, cpus: u8) -> Result<(), VmmError> {
    write(memory, "the tables of ACPI", &tables(cpus), ADDRESS)
}

/// The root pointer (5.2.5), then all tables. A table has the addresses of those before it.
fn tables(cpus: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut add = |table: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let place = ADDRESS + bytes.len() as u64;
        bytes.extend(table);
        place
    };
    let sleeping = add(table(b"DSDT", 2, SLEEP_STATES));
    let firmware = add(firmware_control());
    let fixed = add(fixed(sleeping, firmware));
    let processors = add(table(b"APIC", 4, &processors(cpus)));
    let root = add(table(b"XSDT", 1, &[fixed, processors].map(u64::to_le_bytes).concat()));
    bytes[..36].copy_from_slice(&pointer(root));
    bytes
}

fn pointer(root: u64) -> [u8; 36] {
    let mut bytes = [0; 36];
    put(&mut bytes, 0, b"RSD PTR ");
    put(&mut bytes, 9, b"KTAX  ");
    // The revision with the long table, and the length of this.
    (bytes[15], bytes[20]) = (2, 36);
    put(&mut bytes, 24, &root.to_le_bytes());
    // The first checksum covers the fields of ACPI 1.0.
    bytes[8] = checksum(&bytes[..20]);
    bytes[32] = checksum(&bytes);
    bytes
}

/// A table with the usual header (5.2.6).
fn table(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let length = u32::try_from(HEADER + body.len()).unwrap_or(0);
    put(&mut bytes, 0, signature);
    put(&mut bytes, 4, &length.to_le_bytes());
    bytes[8] = revision;
    put(&mut bytes, 10, b"KTAX  GUEST   \x01\0\0\0KTAX\x01\0\0\0");
    bytes.extend(body);
    bytes[9] = checksum(&bytes);
    bytes
}

/// Fixed features (5.2.9), by the offsets of the specification.
fn fixed(sleeping: u64, firmware: u64) -> Vec<u8> {
    let low = |place: u64| u32::try_from(place).unwrap_or(0).to_le_bytes();
    let mut bytes = vec![0; FIXED];
    put(&mut bytes, 36, &low(firmware));
    put(&mut bytes, 40, &low(sleeping));
    // The interrupt of events, which is never raised.
    put(&mut bytes, 46, &9u16.to_le_bytes());
    put(&mut bytes, 56, &u32::from(EVENTS).to_le_bytes());
    put(&mut bytes, 64, &u32::from(CONTROL).to_le_bytes());
    put(&mut bytes, 88, &[4, 2]);
    // No processor idle states.
    put(&mut bytes, 96, &[0xff, 0xff, 0xff, 0xff]);
    // ISA devices; no VGA, no CMOS clock, and no keyboard, although its controller resets.
    put(&mut bytes, 109, &(1u16 | 1 << 2 | 1 << 5).to_le_bytes());
    // WBINVD works; no buttons, no alarm; there is a reset register.
    put(&mut bytes, 112, &(1u32 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10).to_le_bytes());
    // A port, eight bits wide.
    put(&mut bytes, 116, &[1, 8, 0, 1]);
    put(&mut bytes, 120, &u64::from(KEYBOARD).to_le_bytes());
    bytes[128] = RESET;
    put(&mut bytes, 140, &sleeping.to_le_bytes());
    table(b"FACP", 3, &bytes[HEADER..])
}

/// Firmware control (5.2.10), which has a header of its own and is empty.
fn firmware_control() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    put(&mut bytes, 0, b"FACS\x40");
    bytes[32] = 2;
    bytes
}

/// Interrupt controllers (5.2.12): each ISA interrupt is at the pin of the same number.
fn processors(cpus: u8) -> Vec<u8> {
    let mut bytes = LOCAL_APIC.to_le_bytes().to_vec();
    // The two 8259 controllers exist too.
    bytes.extend(1u32.to_le_bytes());
    for cpu in 0..cpus {
        bytes.extend([0, 8, cpu, cpu, 1, 0, 0, 0]);
    }
    bytes.extend([1, 12, cpus, 0]);
    bytes.extend(IO_APIC.to_le_bytes());
    bytes.extend([0; 4]);
    // NMI is at the second local pin of all processors.
    bytes.extend([4, 6, 0xff, 0, 0, 1]);
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::config::CPUS_MAX;
    use super::*;

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    fn number(bytes: &[u8], at: usize, length: usize) -> usize {
        bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    /// The table at an address; its checksum must be zero.
    fn at(all: &[u8], address: usize) -> &[u8] {
        let table = &all[address - ADDRESS as usize..];
        let table = &table[..number(table, 4, 4)];
        assert_eq!(sum(table), 0);
        table
    }

    #[test]
    fn every_table_is_found_and_adds_up_to_zero() {
        for cpus in [1, CPUS_MAX] {
            let all = tables(cpus);
            assert_eq!((sum(&all[..20]), sum(&all[..36])), (0, 0));
            let root = at(&all, number(&all, 24, 8));
            assert_eq!((&root[..4], root.len()), (&b"XSDT"[..], HEADER + 16));
            let fixed = at(&all, number(root, HEADER, 8));
            assert_eq!((&fixed[..4], fixed.len()), (&b"FACP"[..], FIXED));
            assert_eq!(at(&all, number(fixed, 140, 8))[..4], *b"DSDT");
            assert_eq!(number(fixed, 140, 8), number(fixed, 40, 4));
            let firmware = number(fixed, 36, 4) - ADDRESS as usize;
            assert_eq!((&all[firmware..firmware + 4], firmware % 64), (&b"FACS"[..], 0));
            let processors = at(&all, number(root, HEADER + 8, 8));
            assert_eq!(&processors[..4], b"APIC");
            assert_eq!(processors.len(), HEADER + 8 + 8 * usize::from(cpus) + 12 + 6);
        }
    }

    #[test]
    fn the_guest_resets_by_the_port_that_ends_it() {
        let fixed = fixed(0, 0);
        assert_eq!((number(&fixed, 120, 8), fixed[128]), (0x64, 0xfe));
        assert_eq!(number(&fixed, 112, 4) & 1 << 10, 1 << 10);
    }

    #[test]
    fn a_package_is_as_long_as_it_says() {
        // After the name: the operator, the length with its own byte, the number of elements.
        assert_eq!(SLEEP_STATES[5..8], [0x12, 8, 4]);
        assert_eq!(SLEEP_STATES.len() - 6, 8);
    }
}
