//! Tables in memory by which Linux finds the hardware: ACPI, and the older MP table.

use super::{CONTROL, KEYBOARD, RESET};
use crate::vmm::{Memory, write_memory};
use ktax_model::Result;

/// Address at which a system looks for the root pointer. The tables follow it.
const ACPI_ADDRESS: u64 = 0xe_0000;

/// The port of the four bytes of events before [`CONTROL`]; no event ever comes.
const EVENTS: u16 = 0x600;

/// The one sleeping state: `Name (_S5, Package () { 5, 5, 0, 0 })`.
const SLEEP_STATES: &[u8] = b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\x00\x00";

const HEADER: usize = 36;
const FIXED: usize = 244;

pub(super) fn write_acpi_tables(memory: &Memory, cpus: u8) -> Result<()> {
    write_memory(memory, "the tables of ACPI", &acpi_tables(cpus), ACPI_ADDRESS)
}

/// The root pointer (5.2.5), then all tables. A table has the addresses of those before it.
fn acpi_tables(cpus: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut add = |table: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let address = ACPI_ADDRESS + bytes.len() as u64;
        bytes.extend(table);
        address
    };
    let sleeping = add(acpi_table(b"DSDT", 2, SLEEP_STATES));
    let firmware = add(firmware_control());
    let fixed = add(fixed(sleeping, firmware));
    let processors = add(acpi_table(b"APIC", 4, &processors(cpus)));
    let root = add(acpi_table(b"XSDT", 1, &[fixed, processors].map(u64::to_le_bytes).concat()));
    bytes[..36].copy_from_slice(&acpi_pointer(root));
    bytes
}

fn acpi_pointer(root: u64) -> [u8; 36] {
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
fn acpi_table(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
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
    let low = |address: u64| u32::try_from(address).unwrap_or(0).to_le_bytes();
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
    acpi_table(b"FACP", 3, &bytes[HEADER..])
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

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Address of the table: the last KiB of base memory, one of the three places where a system looks.
pub(super) const MP_TABLE_ADDRESS: u64 = 0x9_fc00;
/// The size of base memory above it.
const MP_TABLE_OFFSET: usize = 0x400;

const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
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

pub(super) fn write_mp_table(memory: &Memory, cpus: u8) -> Result<()> {
    let table = mp_table(cpus);
    debug_assert!(table.len() <= MP_TABLE_OFFSET);
    write_memory(memory, "the table of processors", &table, MP_TABLE_ADDRESS)
}

/// The floating pointer (4.1), the configuration table's header (4.2) and its entries (4.3).
fn mp_table(cpus: u8) -> Vec<u8> {
    let mut bytes = mp_pointer();
    let (entries, count) = mp_entries(cpus);
    let mut table = mp_header(entries.len(), count);
    table.extend(entries);
    let sum = checksum(&table);
    table[7] = sum;
    bytes.extend(table);
    bytes
}

fn mp_pointer() -> Vec<u8> {
    let mut bytes = b"_MP_".to_vec();
    let table = u32::try_from(MP_TABLE_ADDRESS + 16).unwrap_or(0);
    bytes.extend(table.to_le_bytes());
    // Length in paragraphs, revision, checksum. The five feature bytes mean: use the table, and
    // interrupts go through the local APIC until the system turns that off.
    bytes.extend([1, REVISION, 0, 0, 0, 0, 0, 0]);
    bytes[10] = checksum(&bytes);
    bytes
}

fn mp_header(entries: usize, count: u16) -> Vec<u8> {
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
fn mp_entries(cpus: u8) -> (Vec<u8>, u16) {
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
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmm::linux::CPUS_MAX;

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    fn number(bytes: &[u8], offset: usize, length: usize) -> usize {
        bytes[offset..offset + length]
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    /// The table at an address; its checksum must be zero.
    fn table_at(all: &[u8], address: usize) -> &[u8] {
        let table = &all[address - ACPI_ADDRESS as usize..];
        let table = &table[..number(table, 4, 4)];
        assert_eq!(sum(table), 0);
        table
    }

    #[test]
    fn every_table_is_found_and_adds_up_to_zero() {
        for cpus in [1, CPUS_MAX] {
            let all = acpi_tables(cpus);
            assert_eq!((sum(&all[..20]), sum(&all[..36])), (0, 0));
            let root = table_at(&all, number(&all, 24, 8));
            assert_eq!((&root[..4], root.len()), (&b"XSDT"[..], HEADER + 16));
            let fixed = table_at(&all, number(root, HEADER, 8));
            assert_eq!((&fixed[..4], fixed.len()), (&b"FACP"[..], FIXED));
            assert_eq!(table_at(&all, number(fixed, 140, 8))[..4], *b"DSDT");
            assert_eq!(number(fixed, 140, 8), number(fixed, 40, 4));
            let firmware = number(fixed, 36, 4) - ACPI_ADDRESS as usize;
            assert_eq!((&all[firmware..firmware + 4], firmware % 64), (&b"FACS"[..], 0));
            let processors = table_at(&all, number(root, HEADER + 8, 8));
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

    #[test]
    fn both_parts_add_up_to_zero_and_fit() {
        for cpus in 1..=CPUS_MAX {
            let table = mp_table(cpus);
            assert_eq!((sum(&table[..16]), sum(&table[16..])), (0, 0), "{cpus}");
            assert!(table.len() <= MP_TABLE_OFFSET, "{cpus}");
        }
    }

    #[test]
    fn the_pointer_points_to_the_header() {
        let table = mp_table(2);
        assert_eq!(&table[..4], b"_MP_");
        assert_eq!(table[4..8], 0x9_fc10u32.to_le_bytes());
        assert_eq!((&table[16..20], table[8], table[9]), (&b"PCMP"[..], 1, 4));
        let length = u16::from_le_bytes([table[20], table[21]]);
        assert_eq!(usize::from(length), table.len() - 16);
        assert_eq!(table[16 + 36..16 + 40], LOCAL_APIC.to_le_bytes());
    }

    #[test]
    fn entries_are_as_many_as_the_header_says() {
        let (bytes, count) = mp_entries(3);
        let (mut offset, mut kinds) = (0, Vec::new());
        while offset < bytes.len() {
            kinds.push(bytes[offset]);
            offset += if bytes[offset] == 0 { 20 } else { 8 };
        }
        assert_eq!((offset, kinds.len()), (bytes.len(), usize::from(count)));
        assert!(kinds.is_sorted(), "{kinds:?}");
        let count_of = |kind| kinds.iter().filter(|found| **found == kind).count();
        assert_eq!(
            [count_of(0), count_of(1), count_of(2), count_of(3), count_of(4)],
            [3, 1, 1, 15, 2]
        );
        assert_eq!(bytes[..4], [0, 0, 0x14, 3]);
        assert_eq!(bytes[20..24], [0, 1, 0x14, 1]);
    }
}
