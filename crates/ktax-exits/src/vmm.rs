//! A small virtual machine monitor (VMM) on `/dev/kvm`. It counts how often its guests exit to user
//! space. The tests of `exits` compare recordings with this [`Account`].
//!
//! ```text
//! raw ────┐             ┌─► vcpu (KVM_RUN, one thread each) ─► Account
//!         ├─► Machine ──┤
//! linux ──┘             └─► a Bus: the devices behind ports
//! ```
//!
//! A guest is untrusted: whatever it does gets an answer, or ends it with an error.

pub mod linux;
pub mod operations;
pub mod raw;
mod vcpu;

use std::fmt::Display;
use std::io;

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use ktax_model::{Error, Result};

pub use raw::Loops;
pub use vcpu::{Account, VcpuAccount};

/// End of a guest without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    ByGuest,
    BySignal,
}

#[derive(Debug)]
pub struct GuestOutcome {
    pub account: Account,
    pub ended: Result<GuestEnd>,
}

/// The error of a refused ioctl; `action` is a verb and its object.
fn refused<E: Display>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |error| {
        let next = "look for the reason at the end of `dmesg`";
        Error::host(format!("KVM cannot {action}: {error}")).next(next)
    }
}

fn too_little_memory(what: &str) -> Error {
    let message = format!("the guest's memory is too small for {what}");
    Error::host(message).next("use a larger --memory-mib")
}

fn no_memory(bytes: usize, reason: impl Display) -> Error {
    let message = format!("cannot allocate {bytes} bytes of guest memory: {reason}");
    Error::host(message).next("use a smaller --memory-mib")
}

/// The guest's memory: one range from address 0.
type Memory = GuestMemoryMmap<()>;

struct Machine {
    kvm: Kvm,
    vm: VmFd,
    memory: Memory,
}

impl Machine {
    fn new(bytes: usize) -> Result<Machine> {
        let kvm = open_kvm()?;
        let vm = kvm.create_vm().map_err(refused("create a virtual machine"))?;
        let memory = Memory::from_ranges(&[(GuestAddress(0), bytes)])
            .map_err(|error| no_memory(bytes, error))?;
        let address = memory.get_host_address(GuestAddress(0));
        let address = address.map_err(|_| too_little_memory("a single page"))?;
        let region = kvm_userspace_memory_region {
            memory_size: bytes as u64,
            userspace_addr: address as u64,
            ..kvm_userspace_memory_region::default()
        };
        // SAFETY: the mapping is `bytes` long and private to `memory`, which the Machine holds as
        // long as the VM; the vCPUs have ended before the Machine goes.
        unsafe { vm.set_user_memory_region(region) }.map_err(refused("map the guest's memory"))?;
        Ok(Machine { kvm, vm, memory })
    }
}

fn open_kvm() -> Result<Kvm> {
    Kvm::new().map_err(|error| match io::Error::from(error) {
        error if error.kind() == io::ErrorKind::PermissionDenied => {
            let message = format!("cannot open /dev/kvm: {error}");
            Error::guest(message).next("become a member of the group `kvm`")
        }
        _ => Error::guest("there is no /dev/kvm").next(
            "load the module kvm-amd or kvm-intel, or allow virtual machines in the firmware; \
             `ktax doctor` says what this machine can do",
        ),
    })
}

fn write_memory(memory: &Memory, what: &str, bytes: &[u8], address: u64) -> Result<()> {
    let written = memory.write_slice(bytes, GuestAddress(address));
    written.map_err(|_| too_little_memory(what))
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
const CODE_SELECTOR: u16 = 0x10;
const DATA: u16 = 0x18;
const TASK: u16 = 0x20;

const CR0: u64 = 0x8005_0033;
const CR4_PAE: u64 = 0x20;
/// Long mode enabled and active.
const EFER: u64 = 0x500;

/// Writes the tables: the first gigabyte, mapped to itself.
fn write_page_tables(memory: &Memory) -> Result<()> {
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
fn enter_long_mode(vcpu: &VcpuFd, registers: kvm_regs) -> Result<()> {
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
