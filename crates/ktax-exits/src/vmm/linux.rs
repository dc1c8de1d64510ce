//! Linux guests: a bzImage with KVM's interrupt controllers and timer, one serial port, no disk and
//! no PCI. The kernel finds its processors in the ACPI tables, or in the MP table if it has no
//! ACPI.

mod firmware;

use std::arch::x86_64::__cpuid;
use std::io::{self, Cursor, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, Msrs, kvm_cpuid_entry2, kvm_msr_entry,
    kvm_pit_config, kvm_regs,
};
use kvm_ioctls::VcpuFd;
use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use rustix::process::{Signal, getpid, kill_process};
use vm_memory::{ByteValued, GuestAddress};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};
use vmm_sys_util::eventfd::EventFd;

use super::{
    Bus, ExitAction, GuestOutcome, Machine, Memory, enter_long_mode, kvm_error, no_memory,
    run_vcpus, too_little_memory, write_memory, write_page_tables,
};
use firmware::{MP_TABLE_ADDRESS, write_acpi_tables, write_mp_table};
use ktax_host::disk::read_limited;
use ktax_model::{Error, ErrorContext, GuestSubject, Result};

/// Maximum number of vCPUs: the MP table has no room for more.
pub const CPUS_MAX: u8 = 16;
/// Valid sizes of a guest's memory, in MiB. Devices begin at 3 GiB.
pub const MEMORY_MIB: RangeInclusive<u64> = 32..=3072;

#[derive(Debug, Clone)]
pub struct LinuxConfig {
    pub kernel: PathBuf,
    pub initrd: Option<PathBuf>,
    pub append: String,
    /// Guest memory in MiB, within [`MEMORY_MIB`].
    pub memory_mib: u64,
    /// Number of vCPUs, from 1 to [`CPUS_MAX`].
    pub cpus: u8,
    /// Paravirtual features of KVM that are hidden from the guest.
    pub without: Vec<KvmFeature>,
    /// True if this process stops itself (SIGSTOP) at the guest's marks.
    pub stops_at_marks: bool,
}

/// Address of three pages that KVM needs on Intel processors, where the guest has no memory.
const TSS_ADDRESS: usize = 0xfffb_d000;
const SERIAL_IRQ: u32 = 4;
/// IA32_MTRR_DEF_TYPE: MTRRs are enabled, and the default memory type is write-back.
const MTRR_DEF_TYPE: kvm_msr_entry = kvm_msr_entry { index: 0x2ff, reserved: 0, data: 1 << 11 | 6 };

/// Boots a guest and runs it until it resets. An error of `run` itself is about starting the guest;
/// the [`GuestOutcome`] has the error of a guest that ran.
pub fn run(config: &LinuxConfig) -> Result<GuestOutcome> {
    let files = read_files(config)?;
    let bytes =
        usize::try_from(config.memory_mib << 20).map_err(|error| no_memory(usize::MAX, error))?;
    let machine = Machine::new(bytes)?;
    let vm = &machine.vm;
    vm.set_tss_address(TSS_ADDRESS).map_err(kvm_error("place a task state segment"))?;
    vm.create_irq_chip().map_err(kvm_error("create interrupt controllers"))?;
    let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..kvm_pit_config::default() };
    vm.create_pit2(pit).map_err(kvm_error("create a timer"))?;
    let entry = load_files(config, &files, &machine.memory)?;
    write_page_tables(&machine.memory)?;
    write_acpi_tables(&machine.memory, config.cpus)?;
    write_mp_table(&machine.memory, config.cpus)?;
    let interrupt = EventFd::new(0).map_err(kvm_error("create an event"))?;
    vm.register_irqfd(&interrupt, SERIAL_IRQ)
        .map_err(kvm_error("connect the serial port's interrupt"))?;
    let vcpus: Result<Vec<_>> =
        (0..config.cpus).map(|id| create_vcpu(&machine, config, id)).collect();
    let vcpus = vcpus?;
    // The other vCPUs wait until the first sends them a start-up IPI.
    if let Some(first) = vcpus.first() {
        let (rip, rsi) = (entry.address, entry.zero_page);
        enter_long_mode(first, kvm_regs { rip, rsi, ..kvm_regs::default() })?;
    }
    let ports = Arc::new(Ports::new(interrupt, config.stops_at_marks));
    let mut outcome = run_vcpus(vcpus, &ports)?;
    outcome.end = outcome.end.and_then(|ended| ports.flush().map(|()| ended));
    Ok(outcome)
}

fn create_vcpu(machine: &Machine, config: &LinuxConfig, id: u8) -> Result<VcpuFd> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(kvm_error("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    let mut cpuid = cpuid.map_err(kvm_error("report its CPUID"))?;
    let without = [&config.without, hidden_features()].concat();
    set_vcpu_cpuid(cpuid.as_mut_slice(), id, &without);
    vcpu.set_cpuid2(&cpuid).map_err(kvm_error("set CPUID"))?;
    let msrs = Msrs::from_entries(&[MTRR_DEF_TYPE]);
    let msrs = msrs.map_err(|_| too_little_memory("registers"))?;
    vcpu.set_msrs(&msrs).map_err(kvm_error("set memory types"))?;
    Ok(vcpu)
}

// Addresses in guest memory.

const ZERO_PAGE: u64 = 0x7000;
const BOOT_LINE: u64 = 0x2_0000;
const BOOT_LINE_MAX: usize = 0x1_0000;
const HIGH_MEMORY: u64 = 0x10_0000;
const PAGE: u64 = 4096;
/// Offset of the 64-bit entry point in the loaded kernel.
const ENTRY_64_OFFSET: u64 = 0x200;
/// Flag of `xloadflags`: the kernel has a 64-bit entry point.
const XLF_KERNEL_64: u16 = 1;
/// First version of the boot protocol with [`XLF_KERNEL_64`]: Linux 3.8.
const MIN_BOOT_PROTOCOL: u16 = 0x020c;
/// `type_of_loader` of a boot loader without an assigned number.
const UNKNOWN_LOADER: u8 = 0xff;
// Types of memory in the e820 table.

const E820_RAM: u32 = 1;
const E820_RESERVED: u32 = 2;

struct GuestFiles {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
}

/// Start of the first vCPU.
struct EntryPoint {
    address: u64,
    zero_page: u64,
}

/// Reads the files and checks the kernel's header.
fn read_files(config: &LinuxConfig) -> Result<GuestFiles> {
    // A larger file cannot fit, and a file without an end, such as a device, must not be read
    // whole.
    let mib = config.memory_mib;
    let read = |path: &Path, expected| match read_limited(path, mib << 20) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let message = format!("{} is larger than the guest's {mib} MiB", path.display());
            let next = "give a smaller file, or use a larger --memory-mib";
            Err(Error::user(message + " of memory").next(next))
        }
        read => read.or_user(
            format!("cannot read {}", path.display()),
            &format!("give the path of {expected}"),
        ),
    };
    let initrd = config.initrd.as_deref().map(|path| read(path, "an initial RAM disk"));
    let initrd = initrd.transpose()?.unwrap_or_default();
    let kernel = read(&config.kernel, "a bzImage")?;
    check_kernel(&kernel).map_err(|reason| kernel_format_error(config, reason))?;
    Ok(GuestFiles { kernel, initrd })
}

fn load_files(config: &LinuxConfig, files: &GuestFiles, memory: &Memory) -> Result<EntryPoint> {
    let format_error = |reason: &str| kernel_format_error(config, reason);
    let mut image = Cursor::new(files.kernel.as_slice());
    let loaded = BzImage::load(memory, None, &mut image, Some(GuestAddress(HIGH_MEMORY)));
    let loaded = loaded.map_err(|error| format_error(&error.to_string()))?;
    let header = loaded.setup_header.ok_or_else(|| format_error("it has no header"))?;
    let mut page = boot_params { hdr: header, ..boot_params::default() };
    page.hdr.type_of_loader = UNKNOWN_LOADER;
    write_boot_line(config, memory, &mut page.hdr)?;
    write_initrd(config, files, memory, &loaded, &mut page.hdr)?;
    let ram = [
        (0, MP_TABLE_ADDRESS, E820_RAM),
        (MP_TABLE_ADDRESS, HIGH_MEMORY, E820_RESERVED),
        (HIGH_MEMORY, config.memory_mib << 20, E820_RAM),
    ];
    for (entry, (start, end, kind)) in page.e820_table.iter_mut().zip(ram) {
        *entry = boot_e820_entry { addr: start, size: end - start, r#type: kind };
        page.e820_entries += 1;
    }
    write_memory(memory, "the zero page", page.as_slice(), ZERO_PAGE)?;
    Ok(EntryPoint { address: loaded.kernel_load.0 + ENTRY_64_OFFSET, zero_page: ZERO_PAGE })
}

fn kernel_format_error(config: &LinuxConfig, reason: &str) -> Error {
    let path = config.kernel.display();
    Error::user(format!("{path} is not a bzImage of a 64-bit kernel ({reason})"))
        .next("give arch/x86/boot/bzImage")
}

/// Checks the setup header. The loader itself does not check for a 64-bit entry point.
fn check_kernel(kernel: &[u8]) -> Result<(), &'static str> {
    let word = |offset: usize| {
        let bytes = kernel.get(offset..offset + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_le_bytes)
    };
    if kernel.get(0x202..0x206) != Some(b"HdrS") || word(0x1fe) != 0xaa55 {
        return Err("it has no setup header");
    }
    if word(0x206) < MIN_BOOT_PROTOCOL || word(0x236) & XLF_KERNEL_64 == 0 {
        return Err("it has no 64-bit entry point");
    }
    Ok(())
}

fn write_boot_line(config: &LinuxConfig, memory: &Memory, header: &mut setup_header) -> Result<()> {
    let limit = BOOT_LINE_MAX.min(header.cmdline_size as usize);
    let length = config.append.len();
    if length > limit {
        let message = format!("the boot line has {length} bytes and this kernel accepts {limit}");
        return Err(Error::user(message).next("shorten --append"));
    }
    let line = [config.append.as_bytes(), &[0]].concat();
    write_memory(memory, "the boot line", &line, BOOT_LINE)?;
    header.cmd_line_ptr = to_u32(BOOT_LINE);
    Ok(())
}

/// Writes the initial RAM disk, if there is one, and sets its address and size in the header.
fn write_initrd(
    config: &LinuxConfig,
    files: &GuestFiles,
    memory: &Memory,
    loaded: &KernelLoaderResult,
    header: &mut setup_header,
) -> Result<()> {
    let length = files.initrd.len() as u64;
    let start = loaded.kernel_load.0.max(header.pref_address);
    let kernel_end = start.saturating_add(header.init_size.into()).max(loaded.kernel_end);
    let address = initrd_address(config, kernel_end, header.initrd_addr_max, length)?;
    if length > 0 {
        write_memory(memory, "the initial RAM disk", &files.initrd, address)?;
        header.ramdisk_image = to_u32(address);
        header.ramdisk_size = to_u32(length);
    }
    Ok(())
}

/// Returns the highest possible address of an initial RAM disk of `length` bytes. It lies above
/// `kernel_end`, the end of the memory in which the kernel unpacks itself, and below the kernel's
/// limit `initrd_addr_max`.
fn initrd_address(
    config: &LinuxConfig,
    kernel_end: u64,
    initrd_addr_max: u32,
    length: u64,
) -> Result<u64> {
    let (memory_bytes, initrd_limit) = (config.memory_mib << 20, u64::from(initrd_addr_max) + 1);
    let address = memory_bytes.min(initrd_limit).saturating_sub(length) & !(PAGE - 1);
    if kernel_end > memory_bytes {
        let message =
            format!("the kernel {} does not fit into the guest's memory", config.kernel.display());
        return Err(Error::user(message).next(memory_step(kernel_end, "a smaller kernel")));
    }
    if length == 0 || address >= kernel_end {
        return Ok(address);
    }
    let initrd = config.initrd.as_deref().unwrap_or(Path::new("the initial RAM disk")).display();
    let end = kernel_end.next_multiple_of(PAGE).saturating_add(length);
    if end > initrd_limit {
        let message = format!(
            "{initrd} does not fit between the kernel and the kernel's limit for it, {} MiB",
            initrd_limit >> 20
        );
        return Err(Error::user(message).next("give a smaller initial RAM disk"));
    }
    let message = format!("the kernel and {initrd} do not fit into the guest's memory");
    Err(Error::user(message).next(memory_step(end, "a smaller initial RAM disk")))
}

/// Returns the next step for files that need `bytes` of guest memory: more memory, or a smaller
/// file if no guest can have so much.
fn memory_step(bytes: u64, smaller_file: &str) -> String {
    /// Memory that the running kernel needs in addition to its files.
    const SPARE_MIB: u64 = 64;
    let max_mib = *MEMORY_MIB.end();
    match bytes <= max_mib << 20 {
        true => format!("use --memory-mib {}", ((bytes >> 20) + SPARE_MIB).min(max_mib)),
        false => format!("give {smaller_file}"),
    }
}

/// Converts a guest address or a size, which are all below 4 GiB.
fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// CPUID leaf with KVM's paravirtual features.
const KVM_FEATURES: u32 = 0x4000_0001;
// Bits in ECX of CPUID leaf 1 that KVM supports and the VMM must set.
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;

/// A paravirtual feature of KVM that can be hidden from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvmFeature {
    /// Name in options of QEMU's `-cpu`.
    pub name: &'static str,
    /// The bits in EAX of [`KVM_FEATURES`].
    bits: u32,
}

const PV_EOI: KvmFeature = feature(GuestSubject::PV_EOI, 1 << 6);

const fn feature(name: &'static str, bits: u32) -> KvmFeature {
    KvmFeature { name, bits }
}

impl KvmFeature {
    /// All features, in the order of their bits. kvmclock has two bits, for its old and new MSRs.
    pub const ALL: [KvmFeature; 11] = [
        feature("kvmclock", 1 | 1 << 3),
        feature("kvm-nopiodelay", 1 << 1),
        feature("kvm-asyncpf", 1 << 4),
        feature("kvm-steal-time", 1 << 5),
        PV_EOI,
        feature("kvm-pv-unhalt", 1 << 7),
        feature("kvm-pv-tlb-flush", 1 << 9),
        feature("kvm-pv-ipi", 1 << 11),
        feature("kvm-poll-control", 1 << 12),
        feature("kvm-pv-sched-yield", 1 << 13),
        feature("kvmclock-stable-bit", 1 << 24),
    ];

    pub fn named(name: &str) -> Option<KvmFeature> {
        KvmFeature::ALL.into_iter().find(|feature| feature.name == name)
    }
}

/// CPUID leaf with the hypervisor's name.
const HYPERVISOR_NAME: u32 = 0x4000_0000;
/// Name of QEMU's translator: `TCGTCGTCGTCG`.
const TRANSLATOR: [u32; 3] =
    [u32::from_le_bytes(*b"TCGT"), u32::from_le_bytes(*b"CGTC"), u32::from_le_bytes(*b"GTCG")];

/// Returns the features that are hidden from all guests on this processor: pv-eoi on QEMU's
/// translator (7.2 and later).
///
/// The translator keeps the vector that a VMRUN has injected (`exception_index` in `helper_vmrun`)
/// until the next exit. If it stops before that exit, as at each deadline under icount, it delivers
/// the interrupt again, even to a guest with interrupts off. A guest that holds a lock of the
/// interrupt's handler then deadlocks. Without pv-eoi the write that ends an interrupt is an exit,
/// which comes before any lock, except for interrupts of the I/O APIC: `handle_edge_irq` locks
/// their descriptor first.
fn hidden_features() -> &'static [KvmFeature] {
    // SAFETY: every 64-bit processor has CPUID and answers any leaf. Newer compilers declare the
    // function as safe.
    #[allow(unused_unsafe)]
    let name = unsafe { __cpuid(HYPERVISOR_NAME) };
    hidden_features_on([name.ebx, name.ecx, name.edx])
}

fn hidden_features_on(hypervisor: [u32; 3]) -> &'static [KvmFeature] {
    if hypervisor == TRANSLATOR { &[PV_EOI] } else { &[] }
}

/// Turns the CPUID entries that KVM supports into those of the vCPU `id`, `without` some features.
fn set_vcpu_cpuid(entries: &mut [kvm_cpuid_entry2], id: u8, without: &[KvmFeature]) {
    let hidden = without.iter().fold(0, |bits, feature| bits | feature.bits);
    for entry in entries {
        match entry.function {
            1 => {
                entry.ecx |= TSC_DEADLINE | HYPERVISOR;
                entry.ebx = entry.ebx & 0x00ff_ffff | u32::from(id) << 24;
            }
            // These leaves have the ID of the local APIC too.
            0xb | 0x1f => entry.edx = id.into(),
            0x8000_001e => entry.eax = id.into(),
            KVM_FEATURES => entry.eax &= !hidden,
            _ => {}
        }
    }
}

/// First port of the serial port's eight registers.
const SERIAL: u16 = 0x3f8;
/// Last port of the serial port's registers.
const SERIAL_END: u16 = 0x3ff;
/// Data port of the CMOS clock. It reads as zero, which is no valid time and no update in progress.
const CMOS_DATA: u16 = 0x71;
/// Status of the keyboard controller: ready for a command, with a byte to read. Linux then detects
/// at once that there is no keyboard, and can still reset by the controller.
const KEYBOARD_STATUS: u8 = 1;

/// ACPI's PM1 control register.
pub(super) const PM1_CNT: u16 = 0x604;
/// Bit SCI_EN of [`PM1_CNT`]: the system is in ACPI mode.
const SCI_EN: u8 = 1;
/// Bit SLP_EN in the upper byte of [`PM1_CNT`]: enter the sleeping state. The only one is S5, off.
const SLP_EN: u8 = 0x20;

/// Command and status port of the keyboard controller.
pub(super) const KEYBOARD_CONTROLLER: u16 = 0x64;
/// Command to [`KEYBOARD_CONTROLLER`] that resets the computer.
pub(super) const RESET_COMMAND: u8 = 0xfe;

/// Port to which a guest writes at the start and the end of its measured part (guest/vm/init.c).
const MARK_PORT: u16 = 0x5ea;

/// The devices of a Linux guest.
struct Ports {
    stops_at_marks: bool,
    serial: Mutex<Serial<SerialInterrupt, NoEvents, Console>>,
}

/// Interrupt line of the serial port.
struct SerialInterrupt(EventFd);

impl Trigger for SerialInterrupt {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

impl Ports {
    fn new(interrupt: EventFd, stops_at_marks: bool) -> Ports {
        Ports {
            stops_at_marks,
            serial: Mutex::new(Serial::new(SerialInterrupt(interrupt), Console::default())),
        }
    }

    /// Prints an incomplete last line.
    fn flush(&self) -> Result<()> {
        self.serial().writer_mut().print().map_err(output_error)
    }

    fn serial(&self) -> MutexGuard<'_, Serial<SerialInterrupt, NoEvents, Console>> {
        // A vCPU that panicked while it held the lock has ended the guest, so the state is
        // harmless.
        self.serial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Bus for Ports {
    fn read(&self, port: u16, data: &mut [u8]) {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                data.fill_with(|| serial.read(serial_register(port)));
            }
            KEYBOARD_CONTROLLER => data.fill(KEYBOARD_STATUS),
            CMOS_DATA => data.fill(0),
            PM1_CNT => {
                data.fill(0);
                data[0] = SCI_EN;
            }
            _ => data.fill(0xff),
        }
    }

    fn write(&self, port: u16, data: &[u8]) -> Result<ExitAction> {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                for byte in data {
                    serial
                        .write(serial_register(port), *byte)
                        .map_err(|error| output_error(serial_io_error(error)))?;
                }
                Ok(ExitAction::Continue)
            }
            MARK_PORT if self.stops_at_marks => {
                kill_process(getpid(), Signal::STOP)
                    .or_host("the monitor cannot stop itself", "remove --stop-at-marks")?;
                Ok(ExitAction::Continue)
            }
            KEYBOARD_CONTROLLER if data.contains(&RESET_COMMAND) => Ok(ExitAction::EndGuest),
            PM1_CNT if data.get(1).is_some_and(|upper| upper & SLP_EN != 0) => {
                Ok(ExitAction::EndGuest)
            }
            _ => Ok(ExitAction::Continue),
        }
    }

    fn may_triple_fault(&self) -> bool {
        true
    }
}

fn output_error(error: io::Error) -> Error {
    let message = format!("cannot write the guest's output: {error}");
    Error::host(message).next("redirect stdout to another place")
}

/// Returns the number of the serial port's register behind a port.
fn serial_register(port: u16) -> u8 {
    (port - SERIAL).to_le_bytes()[0]
}

fn serial_io_error(error: vm_superio::serial::Error<io::Error>) -> io::Error {
    match error {
        vm_superio::serial::Error::Trigger(error) | vm_superio::serial::Error::IOError(error) => {
            error
        }
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Stdout with a buffer of one line: a system call for each byte would dominate the guest's cost.
#[derive(Default)]
struct Console(Vec<u8>);

impl Console {
    const LINE_MAX: usize = 1024;

    fn print(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let printed = stdout.write_all(&self.0).and_then(|()| stdout.flush());
        self.0.clear();
        match printed {
            // The guest continues after the reader of stdout has closed it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes);
        if bytes.contains(&b'\n') || self.0.len() >= Console::LINE_MAX {
            self.print()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing, because the serial port flushes after each byte.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a setup header with the fields that [`check_kernel`] reads.
    fn kernel() -> Vec<u8> {
        let mut kernel = vec![0; 0x400];
        kernel[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&MIN_BOOT_PROTOCOL.to_le_bytes());
        kernel[0x236] = 1;
        kernel
    }

    #[test]
    fn kernels_without_a_64_bit_entry_point_are_refused() {
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

    fn entry(function: u32) -> kvm_cpuid_entry2 {
        kvm_cpuid_entry2 { function, eax: !0, ebx: !0, ..kvm_cpuid_entry2::default() }
    }

    #[test]
    fn features_are_hidden_by_their_bits() {
        let hidden = |without: &[KvmFeature]| {
            let mut entries = [entry(KVM_FEATURES)];
            set_vcpu_cpuid(&mut entries, 0, without);
            !entries[0].eax
        };
        assert_eq!(hidden(&[]), 0);
        assert_eq!(hidden(&[KvmFeature::ALL[0], PV_EOI]), 0b100_1001);
        // Bits without a named feature stay as they are.
        assert_eq!(hidden(&KvmFeature::ALL), 0x0100_3aff & !(1 << 2));
    }

    #[test]
    fn pv_eoi_is_hidden_on_qemus_translator() {
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        assert_eq!(hidden_features_on([b"TCGT", b"CGTC", b"GTCG"].map(word)), [PV_EOI]);
        assert_eq!(hidden_features_on([b"KVMK", b"VMKV", b"M\0\0\0"].map(word)), []);
    }

    #[test]
    fn features_are_found_by_their_qemu_names() {
        assert_eq!(KvmFeature::ALL[0].name, "kvmclock");
        assert_eq!(KvmFeature::named("kvmclock-stable-bit"), Some(KvmFeature::ALL[10]));
        assert_eq!(KvmFeature::named("kvm"), None);
        let same = |feature: &KvmFeature| KvmFeature::named(feature.name) == Some(*feature);
        assert!(KvmFeature::ALL.iter().all(same));
    }

    #[test]
    fn cpuid_has_the_vcpus_apic_id() {
        let mut entries = [entry(1), entry(0xb), entry(0x8000_001e), entry(7)];
        set_vcpu_cpuid(&mut entries, 3, &[]);
        assert_eq!(entries[0].ebx, 0x03ff_ffff);
        assert_eq!(entries[0].ecx, TSC_DEADLINE | HYPERVISOR);
        assert_eq!((entries[1].edx, entries[2].eax), (3, 3));
        assert_eq!(entries[3], entry(7));
    }

    fn ports() -> Ports {
        Ports::new(EventFd::new(0).unwrap(), false)
    }

    fn read(ports: &Ports, port: u16) -> u8 {
        let mut byte = [0x55];
        ports.read(port, &mut byte);
        byte[0]
    }

    #[test]
    fn files_that_do_not_fit_have_a_step_that_helps() {
        let config = |memory_mib, initrd: Option<&str>| LinuxConfig {
            kernel: "/k".into(),
            initrd: initrd.map(PathBuf::from),
            append: String::new(),
            memory_mib,
            cpus: 1,
            without: vec![],
            stops_at_marks: false,
        };
        let mib = |mib: u64| mib << 20;
        let address =
            |config: &LinuxConfig, kernel_end, limit_mib: u64, length| -> Result<u64, String> {
                let initrd_addr_max = to_u32(mib(limit_mib) - 1);
                initrd_address(config, kernel_end, initrd_addr_max, length)
                    .map_err(|error| error.to_string())
            };
        let with_initrd = config(128, Some("/i"));
        assert_eq!(address(&with_initrd, mib(60), 2048, mib(10) - 1), Ok(mib(118)));
        assert_eq!(address(&with_initrd, mib(60), 100, mib(10)), Ok(mib(90)));
        // Without an initial RAM disk its limit does not matter.
        assert!(address(&config(128, None), mib(60), 32, 0).is_ok());
        let fault = "the kernel /k does not fit into the guest's memory; use --memory-mib 264";
        assert_eq!(address(&config(128, None), mib(200), 2048, 0), Err(fault.into()));
        let fault = "the kernel /k does not fit into the guest's memory; give a smaller kernel";
        assert_eq!(address(&config(3072, None), mib(4000), 4096, 0), Err(fault.into()));
        let fault = "the kernel and /i do not fit into the guest's memory; use --memory-mib 224";
        assert_eq!(address(&with_initrd, mib(60), 2048, mib(100)), Err(fault.into()));
        let fault = "the kernel and /i do not fit into the guest's memory; use --memory-mib 3072";
        assert_eq!(address(&with_initrd, mib(60), 4096, mib(3000)), Err(fault.into()));
        let fault = "/i does not fit between the kernel and the kernel's limit for it, 100 MiB; \
                     give a smaller initial RAM disk";
        assert_eq!(address(&with_initrd, mib(60), 100, mib(50)), Err(fault.into()));
    }

    #[test]
    fn ports_without_a_device_read_as_ones() {
        let ports = ports();
        for port in [0, 0x80, 0x3f7, 0x400, 0xcfc, 0xffff] {
            assert_eq!(read(&ports, port), 0xff, "{port:#x}");
            assert_eq!(
                ports.write(port, &[RESET_COMMAND]).unwrap(),
                ExitAction::Continue,
                "{port:#x}"
            );
        }
        let mut wide = [0; 4];
        ports.read(0xcfc, &mut wide);
        assert_eq!(wide, [0xff; 4]);
    }

    #[test]
    fn the_keyboard_controller_resets_the_guest() {
        let ports = ports();
        assert_eq!(ports.write(KEYBOARD_CONTROLLER, &[0x20]).unwrap(), ExitAction::Continue);
        assert_eq!(
            ports.write(KEYBOARD_CONTROLLER, &[RESET_COMMAND]).unwrap(),
            ExitAction::EndGuest
        );
        // Ready for a command: bit 1 is clear.
        assert_eq!(read(&ports, KEYBOARD_CONTROLLER) & 2, 0);
    }

    #[test]
    fn entering_the_sleeping_state_ends_the_guest() {
        let ports = ports();
        assert_eq!(ports.write(PM1_CNT, &[0, 0x14]).unwrap(), ExitAction::Continue);
        assert_eq!(ports.write(PM1_CNT, &[0, 0x34]).unwrap(), ExitAction::EndGuest);
        assert_eq!(read(&ports, PM1_CNT), SCI_EN);
    }

    #[test]
    fn the_serial_port_is_ready_to_print() {
        let ports = ports();
        // The line status: the transmitter is empty.
        assert_eq!(read(&ports, SERIAL + 5) & 0x60, 0x60);
        ports.write(SERIAL + 7, &[0x42]).unwrap();
        assert_eq!(read(&ports, SERIAL + 7), 0x42);
    }
}
