//! A virtual machine: its memory, and vCPUs in 64-bit mode.

use std::io;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::{VmmError, refused};

/// The guest's memory: one range from address 0.
pub(super) type Memory = GuestMemoryMmap<()>;

/// A virtual machine without vCPUs.
pub(super) struct Machine {
    pub kvm: Kvm,
    pub vm: VmFd,
    pub memory: Memory,
}

impl Machine {
    pub fn new(bytes: usize) -> Result<Machine, VmmError> {
        let kvm = open()?;
        let vm = kvm.create_vm().map_err(refused("create a virtual machine"))?;
        let memory = Memory::from_ranges(&[(GuestAddress(0), bytes)])
            .map_err(|error| VmmError::Memory { bytes, reason: error.to_string() })?;
        let address = memory.get_host_address(GuestAddress(0));
        let address = address.map_err(|_| VmmError::OutOfMemory { what: "a single page" })?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: bytes as u64,
            userspace_addr: address as u64,
        };
        // SAFETY: the mapping is `bytes` long and private to `memory`, which the Machine holds as
        // long as the VM; the vCPUs have ended before the Machine goes.
        unsafe { vm.set_user_memory_region(region) }.map_err(refused("map the guest's memory"))?;
        Ok(Machine { kvm, vm, memory })
    }
}

fn open() -> Result<Kvm, VmmError> {
    Kvm::new().map_err(|error| {
        let error = io::Error::from(error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => VmmError::Forbidden { error },
            _ => VmmError::NoKvm,
        }
    })
}

/// Writes bytes to an address in the guest's memory.
pub(super) fn write_memory(
    memory: &Memory,
    what: &'static str,
    bytes: &[u8],
    address: u64,
) -> Result<(), VmmError> {
    let written = memory.write_slice(bytes, GuestAddress(address));
    written.map_err(|_| VmmError::OutOfMemory { what })
}

const GDT: u64 = 0x500;
const PML4: u64 = 0x9000;
const PDPT: u64 = 0xa000;
const PD: u64 = 0xb000;

/// Flags of a page table: present and writable, in user mode too.
const TABLE: u64 = 0x7;
/// Flags of a large page: also present and writable.
const LARGE: u64 = 0x87;
const LARGE_BYTES: u64 = 2 << 20;

/// Null, null, 64-bit code, data, and an unused task state. Linux's boot protocol requires code at
/// 0x10 and data at 0x18.
const DESCRIPTORS: [u64; 5] =
    [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x008f_8b00_0000_ffff];
pub(super) const CODE_SELECTOR: u16 = 0x10;
const DATA: u16 = 0x18;
const TASK: u16 = 0x20;

const CR0: u64 = 0x8005_0033;
const CR4_PAE: u64 = 0x20;
/// Long mode enabled and active.
const EFER: u64 = 0x500;

/// Writes the tables: the first gigabyte, mapped to itself.
pub(super) fn write_page_tables(memory: &Memory) -> Result<(), VmmError> {
    let large: Vec<u64> = (0..512).map(|page| (page * LARGE_BYTES) | LARGE).collect();
    let tables =
        [(GDT, &DESCRIPTORS[..]), (PML4, &[PDPT | TABLE]), (PDPT, &[PD | TABLE]), (PD, &large)];
    for (address, words) in tables {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        write_memory(memory, "page tables", &bytes, address)?;
    }
    Ok(())
}

/// Sets the registers with which the vCPU starts.
pub(super) fn enter_long_mode(vcpu: &VcpuFd, registers: kvm_regs) -> Result<(), VmmError> {
    let mut system = vcpu.get_sregs().map_err(refused("read registers"))?;
    set_long_mode(&mut system);
    vcpu.set_sregs(&system).map_err(refused("enable 64-bit mode"))?;
    // Bit 1 of the flags is always set.
    let registers = kvm_regs { rflags: 2, ..registers };
    vcpu.set_regs(&registers).map_err(refused("set registers"))
}

fn set_long_mode(system: &mut kvm_sregs) {
    let segment = |selector, type_, s| kvm_segment {
        limit: 0xffff_ffff,
        selector,
        type_,
        present: 1,
        s,
        g: 1,
        ..kvm_segment::default()
    };
    system.cs = kvm_segment { l: 1, ..segment(CODE_SELECTOR, 11, 1) };
    let data = kvm_segment { db: 1, ..segment(DATA, 3, 1) };
    (system.ds, system.es, system.fs, system.gs, system.ss) = (data, data, data, data, data);
    system.tr = segment(TASK, 11, 0);
    system.gdt.base = GDT;
    system.gdt.limit = 8 * DESCRIPTORS.len() as u16 - 1;
    system.cr0 = CR0;
    system.cr3 = PML4;
    system.cr4 = CR4_PAE;
    system.efer = EFER;
}
