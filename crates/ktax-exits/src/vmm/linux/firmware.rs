//! Firmware tables that describe the hardware to Linux: the ACPI tables and the older MP table.
//!
//! Numbers in comments are sections of the ACPI specification and, below, of the MultiProcessor
//! Specification 1.4.

use super::{KEYBOARD_CONTROLLER, PM1_CNT, RESET_COMMAND};
use crate::vmm::{Memory, write_memory};
use ktax_model::Result;

/// Address of the RSDP, in the range that an operating system searches. The other tables follow.
const ACPI_ADDRESS: u64 = 0xe_0000;

/// Port of the PM1 event registers, four bytes before [`PM1_CNT`]. No event ever occurs.
const PM1_EVT: u16 = 0x600;

/// AML of the only sleeping state: `Name (_S5, Package () { 5, 5, 0, 0 })`.
const S5_AML: &[u8] = b"\x08_S5_\x12\x08\x04\x0a\x05\x0a\x05\x00\x00";

/// Size of the header of an ACPI table.
const HEADER_BYTES: usize = 36;
/// Size of the FADT of ACPI 2.0.
const FADT_BYTES: usize = 244;

pub(super) fn write_acpi_tables(memory: &Memory, cpus: u8) -> Result<()> {
    write_memory(memory, "the ACPI tables", &acpi_tables(cpus), ACPI_ADDRESS)
}

/// Returns the RSDP and all tables. Each table comes after the tables that it points to.
fn acpi_tables(cpus: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut add = |table: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let address = ACPI_ADDRESS + bytes.len() as u64;
        bytes.extend(table);
        address
    };
    let dsdt = add(acpi_table(b"DSDT", 2, S5_AML));
    let facs = add(facs());
    let fadt = add(fadt(dsdt, facs));
    let madt = add(acpi_table(b"APIC", 4, &madt_body(cpus)));
    let xsdt = add(acpi_table(b"XSDT", 1, &[fadt, madt].map(u64::to_le_bytes).concat()));
    bytes[..36].copy_from_slice(&rsdp(xsdt));
    bytes
}

/// Returns the Root System Description Pointer (5.2.5).
fn rsdp(xsdt: u64) -> [u8; 36] {
    let mut bytes = [0; 36];
    put(&mut bytes, 0, b"RSD PTR ");
    put(&mut bytes, 9, b"KTAX  ");
    // Revision 2 has an XSDT; the length is that of the RSDP.
    (bytes[15], bytes[20]) = (2, 36);
    put(&mut bytes, 24, &xsdt.to_le_bytes());
    // The first checksum covers only the fields of ACPI 1.0.
    bytes[8] = checksum(&bytes[..20]);
    bytes[32] = checksum(&bytes);
    bytes
}

/// Returns a table with the standard header (5.2.6).
fn acpi_table(signature: &[u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(0);
    put(&mut bytes, 0, signature);
    put(&mut bytes, 4, &length.to_le_bytes());
    bytes[8] = revision;
    put(&mut bytes, 10, b"KTAX  GUEST   \x01\0\0\0KTAX\x01\0\0\0");
    bytes.extend(body);
    bytes[9] = checksum(&bytes);
    bytes
}

/// Returns the Fixed ACPI Description Table (5.2.9).
fn fadt(dsdt: u64, facs: u64) -> Vec<u8> {
    let low = |address: u64| u32::try_from(address).unwrap_or(0).to_le_bytes();
    let mut bytes = vec![0; FADT_BYTES];
    // FIRMWARE_CTRL and DSDT.
    put(&mut bytes, 36, &low(facs));
    put(&mut bytes, 40, &low(dsdt));
    // SCI_INT, an interrupt that is never raised.
    put(&mut bytes, 46, &9u16.to_le_bytes());
    // PM1a_EVT_BLK and PM1a_CNT_BLK, and their lengths.
    put(&mut bytes, 56, &u32::from(PM1_EVT).to_le_bytes());
    put(&mut bytes, 64, &u32::from(PM1_CNT).to_le_bytes());
    put(&mut bytes, 88, &[4, 2]);
    // P_LVL2_LAT and P_LVL3_LAT: the C2 and C3 states are not supported.
    put(&mut bytes, 96, &[0xff, 0xff, 0xff, 0xff]);
    // IAPC_BOOT_ARCH: legacy devices, but no VGA, no CMOS clock, and no keyboard, although the
    // keyboard controller can reset the guest.
    put(&mut bytes, 109, &(1u16 | 1 << 2 | 1 << 5).to_le_bytes());
    // Flags: WBINVD, no fixed power and sleep buttons, no alarm in fixed registers, a reset
    // register.
    put(&mut bytes, 112, &(1u32 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10).to_le_bytes());
    // RESET_REG: an I/O port that is eight bits wide, its address, and RESET_VALUE.
    put(&mut bytes, 116, &[1, 8, 0, 1]);
    put(&mut bytes, 120, &u64::from(KEYBOARD_CONTROLLER).to_le_bytes());
    bytes[128] = RESET_COMMAND;
    // X_DSDT.
    put(&mut bytes, 140, &dsdt.to_le_bytes());
    acpi_table(b"FACP", 3, &bytes[HEADER_BYTES..])
}

/// Returns an empty Firmware ACPI Control Structure (5.2.10), which has no standard header.
fn facs() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    put(&mut bytes, 0, b"FACS\x40");
    // The version.
    bytes[32] = 2;
    bytes
}

/// Returns the body of the Multiple APIC Description Table (5.2.12). Without overrides, each ISA
/// interrupt is at the I/O APIC's pin with the same number.
fn madt_body(cpus: u8) -> Vec<u8> {
    let mut bytes = LOCAL_APIC.to_le_bytes().to_vec();
    // PCAT_COMPAT: the two 8259 controllers exist too.
    bytes.extend(1u32.to_le_bytes());
    for cpu in 0..cpus {
        // Processor Local APIC: processor and APIC IDs, enabled.
        bytes.extend([0, 8, cpu, cpu, 1, 0, 0, 0]);
    }
    // I/O APIC, with the first ID that no processor has.
    let io_apic_id = cpus;
    bytes.extend([1, 12, io_apic_id, 0]);
    bytes.extend(IO_APIC.to_le_bytes());
    bytes.extend([0; 4]);
    // Local APIC NMI: LINT1 of all processors.
    bytes.extend([4, 6, 0xff, 0, 0, 1]);
    bytes
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// Address of the MP table: the last KiB of base memory, which an operating system searches for it.
pub(super) const MP_TABLE_ADDRESS: u64 = 0x9_fc00;
/// Maximum size of the MP table: the base memory above [`MP_TABLE_ADDRESS`].
const MP_TABLE_MAX_BYTES: usize = 0x400;

// Addresses of KVM's interrupt controllers, and the versions that they report.

const LOCAL_APIC: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
const LOCAL_APIC_VERSION: u8 = 0x14;
const IO_APIC_VERSION: u8 = 0x11;
/// Version 1.4 of the MultiProcessor Specification.
const SPEC_REVISION: u8 = 4;
/// Flag of a processor or an I/O APIC that is usable.
const ENABLED: u8 = 1;
/// Flag of the bootstrap processor.
const BOOTSTRAP: u8 = 2;
// Types of interrupts in interrupt assignment entries.
const INT: u8 = 0;
const NMI: u8 = 1;
const EXT_INT: u8 = 3;
/// Number of ISA interrupts.
const ISA_IRQS: u8 = 16;
/// ISA interrupt that connects the two 8259 controllers and has no entry.
const CASCADE_IRQ: u8 = 2;

pub(super) fn write_mp_table(memory: &Memory, cpus: u8) -> Result<()> {
    let table = mp_table(cpus);
    debug_assert!(table.len() <= MP_TABLE_MAX_BYTES);
    write_memory(memory, "the MP table", &table, MP_TABLE_ADDRESS)
}

/// Returns the floating pointer structure (4.1), the configuration table's header (4.2) and the
/// entries (4.3).
fn mp_table(cpus: u8) -> Vec<u8> {
    let mut bytes = mp_floating_pointer();
    let (entries, count) = mp_entries(cpus);
    let mut table = mp_header(entries.len(), count);
    table.extend(entries);
    table[7] = checksum(&table);
    bytes.extend(table);
    bytes
}

fn mp_floating_pointer() -> Vec<u8> {
    let mut bytes = b"_MP_".to_vec();
    let table = u32::try_from(MP_TABLE_ADDRESS + 16).unwrap_or(0);
    bytes.extend(table.to_le_bytes());
    // Length in units of 16 bytes, revision, checksum. The five feature bytes: a configuration
    // table exists, and the system starts in virtual wire mode.
    bytes.extend([1, SPEC_REVISION, 0, 0, 0, 0, 0, 0]);
    bytes[10] = checksum(&bytes);
    bytes
}

/// Returns the header of a configuration table with `count` entries of `entries_bytes` together.
fn mp_header(entries_bytes: usize, count: u16) -> Vec<u8> {
    const LENGTH: usize = 44;
    let mut bytes = b"PCMP".to_vec();
    bytes.extend(u16::try_from(LENGTH + entries_bytes).unwrap_or(0).to_le_bytes());
    bytes.extend([SPEC_REVISION, 0]);
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

/// Returns the entries, sorted by type as the specification requires, and their number.
fn mp_entries(cpus: u8) -> (Vec<u8>, u16) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let mut add = |entry: &[u8]| {
        bytes.extend(entry);
        count += 1;
    };
    for cpu in 0..cpus {
        let flags = ENABLED | if cpu == 0 { BOOTSTRAP } else { 0 };
        let mut entry = vec![0, cpu, LOCAL_APIC_VERSION, flags];
        // CPU signature and feature flags stay zero: the system reads CPUID.
        entry.extend([0; 16]);
        add(&entry);
    }
    add(b"\x01\x00ISA   ");
    // The I/O APIC has the first ID that no processor has.
    let io_apic_id = cpus;
    let [a, b, c, d] = IO_APIC.to_le_bytes();
    add(&[2, io_apic_id, IO_APIC_VERSION, ENABLED, a, b, c, d]);
    // Each ISA interrupt is at the pin with the same number, with the bus's polarity and trigger.
    for irq in (0..ISA_IRQS).filter(|irq| *irq != CASCADE_IRQ) {
        add(&[3, INT, 0, 0, 0, irq, io_apic_id, irq]);
    }
    // The 8259 controllers are at LINT0 of the first processor, NMI is at LINT1 of all processors.
    add(&[4, EXT_INT, 0, 0, 0, 0, 0, 0]);
    add(&[4, NMI, 0, 0, 0, 0, 0xff, 1]);
    (bytes, count)
}

/// Returns the byte that makes the sum of all bytes zero.
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

    /// Returns the table at an address, whose checksum must be zero.
    fn table_at(all: &[u8], address: usize) -> &[u8] {
        let table = &all[address - ACPI_ADDRESS as usize..];
        let table = &table[..number(table, 4, 4)];
        assert_eq!(sum(table), 0);
        table
    }

    #[test]
    fn every_acpi_table_is_found_with_a_valid_checksum() {
        for cpus in [1, CPUS_MAX] {
            let all = acpi_tables(cpus);
            assert_eq!((sum(&all[..20]), sum(&all[..36])), (0, 0));
            let xsdt = table_at(&all, number(&all, 24, 8));
            assert_eq!((&xsdt[..4], xsdt.len()), (&b"XSDT"[..], HEADER_BYTES + 16));
            let fadt = table_at(&all, number(xsdt, HEADER_BYTES, 8));
            assert_eq!((&fadt[..4], fadt.len()), (&b"FACP"[..], FADT_BYTES));
            assert_eq!(table_at(&all, number(fadt, 140, 8))[..4], *b"DSDT");
            assert_eq!(number(fadt, 140, 8), number(fadt, 40, 4));
            let facs = number(fadt, 36, 4) - ACPI_ADDRESS as usize;
            assert_eq!((&all[facs..facs + 4], facs % 64), (&b"FACS"[..], 0));
            let madt = table_at(&all, number(xsdt, HEADER_BYTES + 8, 8));
            assert_eq!(&madt[..4], b"APIC");
            assert_eq!(madt.len(), HEADER_BYTES + 8 + 8 * usize::from(cpus) + 12 + 6);
        }
    }

    #[test]
    fn the_fadt_has_the_reset_register_that_ends_the_guest() {
        let fadt = fadt(0, 0);
        assert_eq!((number(&fadt, 120, 8), fadt[128]), (0x64, 0xfe));
        assert_eq!(number(&fadt, 112, 4) & 1 << 10, 1 << 10);
    }

    #[test]
    fn the_aml_package_has_its_own_length() {
        // After the name: PackageOp, the length including its own byte, the number of elements.
        assert_eq!(S5_AML[5..8], [0x12, 8, 4]);
        assert_eq!(S5_AML.len() - 6, 8);
    }

    #[test]
    fn the_mp_table_fits_and_has_valid_checksums() {
        for cpus in 1..=CPUS_MAX {
            let table = mp_table(cpus);
            assert_eq!((sum(&table[..16]), sum(&table[16..])), (0, 0), "{cpus}");
            assert!(table.len() <= MP_TABLE_MAX_BYTES, "{cpus}");
        }
    }

    #[test]
    fn the_mp_floating_pointer_points_to_the_header() {
        let table = mp_table(2);
        assert_eq!(&table[..4], b"_MP_");
        assert_eq!(table[4..8], 0x9_fc10u32.to_le_bytes());
        assert_eq!((&table[16..20], table[8], table[9]), (&b"PCMP"[..], 1, 4));
        let length = u16::from_le_bytes([table[20], table[21]]);
        assert_eq!(usize::from(length), table.len() - 16);
        assert_eq!(table[16 + 36..16 + 40], LOCAL_APIC.to_le_bytes());
    }

    #[test]
    fn mp_entries_have_their_types_and_number() {
        let (bytes, count) = mp_entries(3);
        let (mut offset, mut types) = (0, Vec::new());
        while offset < bytes.len() {
            types.push(bytes[offset]);
            offset += if bytes[offset] == 0 { 20 } else { 8 };
        }
        assert_eq!((offset, types.len()), (bytes.len(), usize::from(count)));
        assert!(types.is_sorted(), "{types:?}");
        let count_type = |number| types.iter().filter(|other| **other == number).count();
        assert_eq!(
            [count_type(0), count_type(1), count_type(2), count_type(3), count_type(4)],
            [3, 1, 1, 15, 2]
        );
        assert_eq!(bytes[..4], [0, 0, 0x14, 3]);
        assert_eq!(bytes[20..24], [0, 1, 0x14, 1]);
    }
}
