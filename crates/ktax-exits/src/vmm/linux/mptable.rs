//! The MP table, in which a guest finds its processors and interrupts.
//!
//! Source: MultiProcessor Specification, version 1.4, chapter 4. All fields are little-endian.

use crate::vmm::error::VmmError;
use crate::vmm::machine::{Memory, write};

/// The last KiB of base memory, one of the three places where a system looks.
pub(super) const ADDRESS: u64 = 0x9_fc00;
/// The size of base memory above it.
const PLACE: usize = 0x400;

pub(super) const LOCAL_APIC: u32 = 0xfee0_0000;
pub(super) const IO_APIC: u32 = 0xfec0_0000;
/// The versions that KVM's controllers report.
const LOCAL_APIC_VERSION: u8 = 0x14;
const IO_APIC_VERSION: u8 = 0x11;
/// Version 1.4 of the specification.
const REVISION: u8 = 4;
/// Flags of a processor: usable, and the one that boots.
const ENABLED: u8 = 1;
const BOOTS: u8 = 2;
/// Types of an interrupt entry.
const INT: u8 = 0;
const NMI: u8 = 1;
const EXT_INT: u8 = 3;
/// The ISA interrupts; [`CASCADE`] joins the two 8259 controllers and is left out.
const ISA_LINES: u8 = 16;
const CASCADE: u8 = 2;

/// Writes the table of `cpus` processors into the guest's memory.
pub(super) fn write_table(memory: &Memory, cpus: u8) -> Result<(), VmmError> {
    let table = table(cpus);
    debug_assert!(table.len() <= PLACE);
    write(memory, "the table of processors", &table, ADDRESS)
}

/// The floating pointer (4.1), the configuration table's header (4.2) and its entries (4.3).
fn table(cpus: u8) -> Vec<u8> {
    let mut bytes = pointer();
    let (entries, count) = entries(cpus);
    let mut table = header(entries.len(), count);
    table.extend(entries);
    let sum = checksum(&table);
    table[7] = sum;
    bytes.extend(table);
    bytes
}

fn pointer() -> Vec<u8> {
    let mut bytes = b"_MP_".to_vec();
    let table = u32::try_from(ADDRESS + 16).unwrap_or(0);
    bytes.extend(table.to_le_bytes());
    // Length in paragraphs, revision, checksum. The five feature bytes mean: use the table, and
    // interrupts go through the local APIC until the system turns that off.
    bytes.extend([1, REVISION, 0, 0, 0, 0, 0, 0]);
    bytes[10] = checksum(&bytes);
    bytes
}

fn header(entries: usize, count: u16) -> Vec<u8> {
    const LENGTH: usize = 44;
    let mut bytes = b"PCMP".to_vec();
    bytes.extend(u16::try_from(LENGTH + entries).unwrap_or(0).to_le_bytes());
    bytes.extend([REVISION, 0]);
    bytes.extend(b"KTAX    ");
    bytes.extend(b"LINUX GUEST ");
    // No OEM table.
    bytes.extend([0; 6]);
    bytes.extend(count.to_le_bytes());
    bytes.extend(LOCAL_APIC.to_le_bytes());
    // No extended entries.
    bytes.extend([0; 4]);
    bytes
}

/// The entries in the order of their types, as the specification requires, and their number.
fn entries(cpus: u8) -> (Vec<u8>, u16) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut add = |entry: &[u8]| {
        bytes.extend(entry);
        count += 1;
    };
    for cpu in 0..cpus {
        let flags = ENABLED | if cpu == 0 { BOOTS } else { 0 };
        let mut entry = vec![0, cpu, LOCAL_APIC_VERSION, flags];
        // Family and features are zero: the system reads CPUID.
        entry.extend([0; 16]);
        add(&entry);
    }
    add(b"\x01\x00ISA   ");
    // The I/O APIC has the first ID that no processor has.
    let lines = cpus;
    let [a, b, c, d] = IO_APIC.to_le_bytes();
    add(&[2, lines, IO_APIC_VERSION, ENABLED, a, b, c, d]);
    // Each ISA interrupt is at the pin of the same number, with the bus's polarity and trigger.
    for line in (0..ISA_LINES).filter(|line| *line != CASCADE) {
        add(&[3, INT, 0, 0, 0, line, lines, line]);
    }
    // The 8259 is at the first local pin of the first processor, NMI at the second of all.
    add(&[4, EXT_INT, 0, 0, 0, 0, 0, 0]);
    add(&[4, NMI, 0, 0, 0, 0, 0xff, 1]);
    (bytes, count)
}

/// The byte that makes the sum of all bytes zero.
pub(super) fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::super::config::CPUS_MAX;
    use super::*;

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    #[test]
    fn both_parts_add_up_to_zero_and_fit() {
        for cpus in 1..=CPUS_MAX {
            let table = table(cpus);
            assert_eq!((sum(&table[..16]), sum(&table[16..])), (0, 0), "{cpus}");
            assert!(table.len() <= PLACE, "{cpus}");
        }
    }

    #[test]
    fn the_pointer_points_to_the_header() {
        let table = table(2);
        assert_eq!(&table[..4], b"_MP_");
        assert_eq!(table[4..8], 0x9_fc10u32.to_le_bytes());
        assert_eq!((&table[16..20], table[8], table[9]), (&b"PCMP"[..], 1, 4));
        let length = u16::from_le_bytes([table[20], table[21]]);
        assert_eq!(usize::from(length), table.len() - 16);
        assert_eq!(table[16 + 36..16 + 40], LOCAL_APIC.to_le_bytes());
    }

    #[test]
    fn entries_are_as_many_as_the_header_says() {
        let (bytes, count) = entries(3);
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            kinds.push(bytes[at]);
            at += if bytes[at] == 0 { 20 } else { 8 };
        }
        assert_eq!((at, kinds.len()), (bytes.len(), usize::from(count)));
        assert!(kinds.is_sorted(), "{kinds:?}");
        let of = |kind| kinds.iter().filter(|is| **is == kind).count();
        assert_eq!([of(0), of(1), of(2), of(3), of(4)], [3, 1, 1, 15, 2]);
        assert_eq!(bytes[..4], [0, 0, 0x14, 3]);
        assert_eq!(bytes[20..24], [0, 1, 0x14, 1]);
    }
}
