//! A Linux guest: a bzImage, KVM's interrupt controllers and timer, one serial port. It has no disk
//! and no PCI. The kernel finds its processors by ACPI, or by the MP table if it has no ACPI.

mod cpuid;
mod firmware;
mod ports;

use std::io::{self, Cursor};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, Msrs, kvm_msr_entry, kvm_pit_config, kvm_regs,
};
use kvm_ioctls::VcpuFd;
use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use vm_memory::{ByteValued, GuestAddress};
use vmm_sys_util::eventfd::EventFd;

use super::machine::{Machine, Memory, enter_long_mode, write_memory, write_page_tables};
use super::vcpu::run_vcpus;
use super::{GuestOutcome, VmmError, refused};
use firmware::{MP_TABLE_ADDRESS, write_acpi_tables, write_mp_table};
use ktax_host::disk::read_limited;

pub use cpuid::Feature;

/// The most vCPUs of a guest: as many as fit into the table of `firmware.rs`.
pub const CPUS_MAX: u8 = 16;
/// The least and the most memory of a guest, in MiB: devices begin at 3 GiB.
pub const MEMORY_MIB: RangeInclusive<u64> = 32..=3072;

/// A Linux guest to boot.
#[derive(Debug, Clone)]
pub struct Config {
    /// A bzImage.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// The boot line.
    pub append: String,
    /// The guest's memory, in MiB: one of [`MEMORY_MIB`].
    pub memory_mib: u64,
    /// The number of vCPUs, from 1 to [`CPUS_MAX`].
    pub cpus: u8,
    /// Features of KVM's own that the guest does not see.
    pub without: Vec<Feature>,
    /// Whether to stop this process (SIGSTOP) where the guest marks what is of interest.
    pub stops_at_marks: bool,
}

/// Three pages that Intel processors need, at an address without memory.
const TSS: usize = 0xfffb_d000;
/// The interrupt of the first serial port.
const SERIAL_IRQ: u32 = 4;
/// The default memory type: range registers are on, and memory without one is write-back.
const MTRR_DEFAULT: kvm_msr_entry = kvm_msr_entry { index: 0x2ff, reserved: 0, data: 1 << 11 | 6 };

/// Boots the guest and runs it until it resets.
/// How the guest ends is in the
/// [`GuestOutcome`]; the error says why it does not start.
pub fn run(config: &Config) -> Result<GuestOutcome, VmmError> {
    let kernel = read_files(config)?;
    let bytes = usize::try_from(config.memory_mib << 20)
        .map_err(|error| VmmError::Memory { bytes: usize::MAX, reason: error.to_string() })?;
    let machine = Machine::new(bytes)?;
    let vm = &machine.vm;
    vm.set_tss_address(TSS).map_err(refused("place a task state segment"))?;
    vm.create_irq_chip().map_err(refused("create interrupt controllers"))?;
    let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..kvm_pit_config::default() };
    vm.create_pit2(pit).map_err(refused("create a timer"))?;
    let entry = load_files(config, &kernel, &machine.memory)?;
    write_page_tables(&machine.memory)?;
    write_acpi_tables(&machine.memory, config.cpus)?;
    write_mp_table(&machine.memory, config.cpus)?;
    let interrupt = EventFd::new(0).map_err(refused("create an event"))?;
    vm.register_irqfd(&interrupt, SERIAL_IRQ)
        .map_err(refused("connect the serial port's interrupt"))?;
    let vcpus: Result<Vec<_>, _> =
        (0..config.cpus).map(|id| create_vcpu(&machine, config, id)).collect();
    let vcpus = vcpus?;
    // The other vCPUs wait for a start-up interrupt from the first.
    if let Some(first) = vcpus.first() {
        let (rip, rsi) = (entry.address, entry.zero_page);
        enter_long_mode(first, kvm_regs { rip, rsi, ..kvm_regs::default() })?;
    }
    let ports = Arc::new(ports::Ports::new(interrupt, config.stops_at_marks));
    let mut outcome = run_vcpus(vcpus, &ports)?;
    if let (Err(error), true) = (ports.flush(), outcome.ended.is_ok()) {
        outcome.ended = Err(error);
    }
    Ok(outcome)
}

fn create_vcpu(machine: &Machine, config: &Config, id: u8) -> Result<VcpuFd, VmmError> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    let mut cpuid = cpuid.map_err(refused("report its CPUID"))?;
    let without = [&config.without, cpuid::unusable()].concat();
    cpuid::describe(cpuid.as_mut_slice(), id, &without);
    vcpu.set_cpuid2(&cpuid).map_err(refused("set CPUID"))?;
    let msrs = Msrs::from_entries(&[MTRR_DEFAULT]);
    let msrs = msrs.map_err(|_| VmmError::OutOfMemory { what: "registers" })?;
    vcpu.set_msrs(&msrs).map_err(refused("set memory types"))?;
    Ok(vcpu)
}

const ZERO_PAGE: u64 = 0x7000;
const BOOT_LINE: u64 = 0x2_0000;
const BOOT_LINE_MAX: usize = 0x1_0000;
const HIGH_MEMORY: u64 = 0x10_0000;
const PAGE: u64 = 4096;
/// Offset of the 64-bit entry point in the loaded code.
const ENTRY: u64 = 0x200;
/// `XLF_KERNEL_64`: the kernel has a 64-bit entry point.
const HAS_ENTRY: u16 = 1;
/// The first version of the boot protocol with that flag: Linux 3.8.
const OLDEST: u16 = 0x020c;
/// The number of a loader that has none of its own.
const UNKNOWN_LOADER: u8 = 0xff;
const RAM: u32 = 1;
const RESERVED: u32 = 2;

/// The content of the files, read before the machine is made.
struct GuestFiles {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
}

/// Entry point of the first vCPU.
struct EntryPoint {
    pub address: u64,
    pub zero_page: u64,
}

/// Reads the files and checks the kernel's header.
fn read_files(config: &Config) -> Result<GuestFiles, VmmError> {
    // A file that is larger than the guest's memory does not fit, and some files have no end.
    let most = config.memory_mib << 20;
    let read = |path: &Path, wanted| {
        let shown = || path.display().to_string();
        let unreadable = |error| VmmError::Unreadable { path: shown(), error, wanted };
        read_limited(path, most).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                VmmError::TooLarge { path: shown(), mib: config.memory_mib }
            }
            _ => unreadable(error),
        })
    };
    let initrd = config.initrd.as_deref().map(|path| read(path, "an initial RAM disk"));
    let initrd = initrd.transpose()?.unwrap_or_default();
    let kernel = read(&config.kernel, "a bzImage")?;
    check_kernel(&kernel).map_err(|reason| not_a_kernel(config, reason))?;
    Ok(GuestFiles { kernel, initrd })
}

fn load_files(
    config: &Config,
    files: &GuestFiles,
    memory: &Memory,
) -> Result<EntryPoint, VmmError> {
    let bad = |reason: &str| not_a_kernel(config, reason);
    let mut image = Cursor::new(files.kernel.as_slice());
    let loaded = BzImage::load(memory, None, &mut image, Some(GuestAddress(HIGH_MEMORY)));
    let loaded = loaded.map_err(|error| bad(&error.to_string()))?;
    let header = loaded.setup_header.ok_or_else(|| bad("it has no header"))?;
    let mut page = boot_params { hdr: header, ..boot_params::default() };
    page.hdr.type_of_loader = UNKNOWN_LOADER;
    write_boot_line(config, memory, &mut page.hdr)?;
    write_initrd(config, files, memory, &loaded, &mut page.hdr)?;
    let ram = [
        (0, MP_TABLE_ADDRESS, RAM),
        (MP_TABLE_ADDRESS, HIGH_MEMORY, RESERVED),
        (HIGH_MEMORY, config.memory_mib << 20, RAM),
    ];
    for (entry, (start, end, kind)) in page.e820_table.iter_mut().zip(ram) {
        *entry = boot_e820_entry { addr: start, size: end - start, r#type: kind };
        page.e820_entries += 1;
    }
    write_memory(memory, "the zero page", page.as_slice(), ZERO_PAGE)?;
    Ok(EntryPoint { address: loaded.kernel_load.0 + ENTRY, zero_page: ZERO_PAGE })
}

fn not_a_kernel(config: &Config, reason: &str) -> VmmError {
    VmmError::NotAKernel { path: config.kernel.display().to_string(), reason: reason.into() }
}

/// Checks the header, because the loader does not check for a 64-bit entry point.
fn check_kernel(kernel: &[u8]) -> Result<(), &'static str> {
    let word = |offset: usize| {
        let bytes = kernel.get(offset..offset + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_le_bytes)
    };
    if kernel.get(0x202..0x206) != Some(b"HdrS") || word(0x1fe) != 0xaa55 {
        return Err("it has no setup header");
    }
    if word(0x206) < OLDEST || word(0x236) & HAS_ENTRY == 0 {
        return Err("it has no 64-bit entry point");
    }
    Ok(())
}

fn write_boot_line(
    config: &Config,
    memory: &Memory,
    header: &mut setup_header,
) -> Result<(), VmmError> {
    let limit = BOOT_LINE_MAX.min(header.cmdline_size as usize);
    let found = config.append.len();
    if found > limit {
        return Err(VmmError::LongLine { found, limit });
    }
    let line = [config.append.as_bytes(), &[0]].concat();
    write_memory(memory, "the boot line", &line, BOOT_LINE)?;
    header.cmd_line_ptr = to_u32(BOOT_LINE);
    Ok(())
}

/// Writes the initial RAM disk as high in memory as possible, above the space in which the kernel
/// unpacks itself.
fn write_initrd(
    config: &Config,
    files: &GuestFiles,
    memory: &Memory,
    loaded: &KernelLoaderResult,
    header: &mut setup_header,
) -> Result<(), VmmError> {
    let (memory_bytes, length) = (config.memory_mib << 20, files.initrd.len() as u64);
    let start = loaded.kernel_load.0.max(header.pref_address);
    let taken = start.saturating_add(header.init_size.into()).max(loaded.kernel_end);
    let top = memory_bytes.min(u64::from(header.initrd_addr_max) + 1);
    let place = top.saturating_sub(length) & !(PAGE - 1);
    if place < taken || taken > memory_bytes {
        let path = config.initrd.as_ref().unwrap_or(&config.kernel).display().to_string();
        let mib = (taken.saturating_add(length) >> 20).saturating_add(64);
        return Err(VmmError::TooSmall { path, mib });
    }
    if length > 0 {
        write_memory(memory, "the initial RAM disk", &files.initrd, place)?;
        header.ramdisk_image = to_u32(place);
        header.ramdisk_size = to_u32(length);
    }
    Ok(())
}

/// Returns an address or a size as 32 bits: all of them are below 4 GiB.
fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with the fields that [`check`] reads.
    fn kernel() -> Vec<u8> {
        let mut kernel = vec![0; 0x400];
        kernel[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&OLDEST.to_le_bytes());
        kernel[0x236] = 1;
        kernel
    }

    #[test]
    fn headers() {
        assert_eq!(check_kernel(&kernel()), Ok(()));
        for (offset, byte) in [(0x1fe, 0), (0x202, b'x'), (0x206, 0), (0x236, 0)] {
            let mut damaged = kernel();
            damaged[offset] = byte;
            assert!(check_kernel(&damaged).is_err(), "{offset:#x}");
        }
        for length in [0, 1, 0x1ff, 0x203, 0x236] {
            assert!(check_kernel(&kernel()[..length]).is_err(), "{length:#x}");
        }
    }
}
