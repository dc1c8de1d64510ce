//! A Linux guest: a bzImage, KVM's interrupt controllers and timer, one serial port. It has no disk
//! and no PCI. The kernel finds its processors by ACPI, or by the MP table if it has no ACPI.

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
    Bus, GuestOutcome, Machine, Memory, Next, enter_long_mode, no_memory, refused, run_vcpus,
    too_little_memory, write_memory, write_page_tables,
};
use firmware::{MP_TABLE_ADDRESS, write_acpi_tables, write_mp_table};
use ktax_host::disk::read_limited;
use ktax_model::{Error, ErrorContext, GuestSubject, Result};

/// The most vCPUs of a guest: as many as fit into the table of `firmware.rs`.
pub const CPUS_MAX: u8 = 16;
/// The least and the most memory of a guest, in MiB: devices begin at 3 GiB.
pub const MEMORY_MIB: RangeInclusive<u64> = 32..=3072;

#[derive(Debug, Clone)]
pub struct Config {
    pub kernel: PathBuf,
    pub initrd: Option<PathBuf>,
    pub append: String,
    /// Guest memory in MiB, within [`MEMORY_MIB`].
    pub memory_mib: u64,
    /// Number of vCPUs, from 1 to [`CPUS_MAX`].
    pub cpus: u8,
    /// Features of KVM that are hidden from the guest.
    pub without: Vec<Feature>,
    /// True to stop this process (SIGSTOP) at the guest's marks.
    pub stops_at_marks: bool,
}

/// Three pages that Intel processors need, at an address without memory.
const TSS: usize = 0xfffb_d000;
const SERIAL_IRQ: u32 = 4;
/// The default memory type: range registers are on, and memory without one is write-back.
const MTRR_DEFAULT: kvm_msr_entry = kvm_msr_entry { index: 0x2ff, reserved: 0, data: 1 << 11 | 6 };

/// Boots the guest and runs it until it resets. The [`GuestOutcome`] has its end; the error says
/// why it does not start.
pub fn run(config: &Config) -> Result<GuestOutcome> {
    let kernel = read_files(config)?;
    let bytes =
        usize::try_from(config.memory_mib << 20).map_err(|error| no_memory(usize::MAX, error))?;
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
    let vcpus: Result<Vec<_>> =
        (0..config.cpus).map(|id| create_vcpu(&machine, config, id)).collect();
    let vcpus = vcpus?;
    // The other vCPUs wait for a start-up interrupt from the first.
    if let Some(first) = vcpus.first() {
        let (rip, rsi) = (entry.address, entry.zero_page);
        enter_long_mode(first, kvm_regs { rip, rsi, ..kvm_regs::default() })?;
    }
    let ports = Arc::new(Ports::new(interrupt, config.stops_at_marks));
    let mut outcome = run_vcpus(vcpus, &ports)?;
    outcome.ended = outcome.ended.and_then(|ended| ports.flush().map(|()| ended));
    Ok(outcome)
}

fn create_vcpu(machine: &Machine, config: &Config, id: u8) -> Result<VcpuFd> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    let mut cpuid = cpuid.map_err(refused("report its CPUID"))?;
    let without = [&config.without, unusable()].concat();
    describe(cpuid.as_mut_slice(), id, &without);
    vcpu.set_cpuid2(&cpuid).map_err(refused("set CPUID"))?;
    let msrs = Msrs::from_entries(&[MTRR_DEFAULT]);
    let msrs = msrs.map_err(|_| too_little_memory("registers"))?;
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

struct GuestFiles {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
}

struct EntryPoint {
    address: u64,
    zero_page: u64,
}

/// Reads the files and checks the kernel's header.
fn read_files(config: &Config) -> Result<GuestFiles> {
    // A file that is larger than the guest's memory does not fit, and some files have no end.
    let mib = config.memory_mib;
    let read = |path: &Path, wanted| match read_limited(path, mib << 20) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let message = format!("{} is larger than the guest's {mib} MiB", path.display());
            let next = "give a smaller file, or use a larger --memory-mib";
            Err(Error::user(message + " of memory").next(next))
        }
        read => read.or_user(
            format!("cannot read {}", path.display()),
            &format!("give the path of {wanted}"),
        ),
    };
    let initrd = config.initrd.as_deref().map(|path| read(path, "an initial RAM disk"));
    let initrd = initrd.transpose()?.unwrap_or_default();
    let kernel = read(&config.kernel, "a bzImage")?;
    check_kernel(&kernel).map_err(|reason| not_a_kernel(config, reason))?;
    Ok(GuestFiles { kernel, initrd })
}

fn load_files(config: &Config, files: &GuestFiles, memory: &Memory) -> Result<EntryPoint> {
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

fn not_a_kernel(config: &Config, reason: &str) -> Error {
    let path = config.kernel.display();
    Error::user(format!("{path} is not a bzImage of a 64-bit kernel ({reason})"))
        .next("give arch/x86/boot/bzImage")
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

fn write_boot_line(config: &Config, memory: &Memory, header: &mut setup_header) -> Result<()> {
    let limit = BOOT_LINE_MAX.min(header.cmdline_size as usize);
    let found = config.append.len();
    if found > limit {
        let message = format!("the boot line has {found} bytes and this kernel accepts {limit}");
        return Err(Error::user(message).next("shorten --append"));
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
) -> Result<()> {
    let (memory_bytes, length) = (config.memory_mib << 20, files.initrd.len() as u64);
    let start = loaded.kernel_load.0.max(header.pref_address);
    let taken = start.saturating_add(header.init_size.into()).max(loaded.kernel_end);
    let top = memory_bytes.min(u64::from(header.initrd_addr_max) + 1);
    let address = top.saturating_sub(length) & !(PAGE - 1);
    if address < taken || taken > memory_bytes {
        let path = config.initrd.as_ref().unwrap_or(&config.kernel).display();
        let mib = (taken.saturating_add(length) >> 20).saturating_add(64);
        let message = format!("the kernel and {path} do not fit into the guest's memory");
        return Err(Error::user(message).next(format!("use --memory-mib {mib}")));
    }
    if length > 0 {
        write_memory(memory, "the initial RAM disk", &files.initrd, address)?;
        header.ramdisk_image = to_u32(address);
        header.ramdisk_size = to_u32(length);
    }
    Ok(())
}

/// Returns an address or a size as 32 bits: all of them are below 4 GiB.
fn to_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

const KVM_FEATURES: u32 = 0x4000_0001;
/// Leaf 1, ECX: KVM supports both, and user space must set the bits.
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;

/// A paravirtual feature of KVM that can be hidden from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Name on QEMU's command line.
    pub name: &'static str,
    /// The bits in EAX of [`KVM_FEATURES`].
    bits: u32,
}

const PV_EOI: Feature = feature(GuestSubject::PV_EOI, 1 << 6);

const fn feature(name: &'static str, bits: u32) -> Feature {
    Feature { name, bits }
}

impl Feature {
    /// All features, in the order of their bits. The clock's registers have had two numbers.
    pub const ALL: [Feature; 11] = [
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

    pub fn named(name: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.name == name)
    }
}

/// The leaf with the hypervisor's name. QEMU's translator has TCG there, four times.
const HYPERVISOR_NAME: u32 = 0x4000_0000;
const TRANSLATOR: [u32; 3] =
    [u32::from_le_bytes(*b"TCGT"), u32::from_le_bytes(*b"CGTC"), u32::from_le_bytes(*b"GTCG")];

/// The features that are always hidden on this processor.
///
/// pv-eoi is one under QEMU's translator (7.2 and later). The translator keeps the vector that a
/// VMRUN has injected (`exception_index` in `helper_vmrun`) until the next exit. If it stops before
/// that, as at each deadline under icount, it delivers the interrupt again, even to a guest with
/// interrupts off. That is a deadlock if the guest holds a lock that the handler takes. Without
/// pv-eoi, the write that ends an interrupt is an exit. It comes before any lock, except for the
/// IO-APIC's interrupts: `handle_edge_irq` locks their descriptor first.
fn unusable() -> &'static [Feature] {
    // SAFETY: every 64-bit processor has CPUID and answers any leaf. In newer compilers the
    // function is safe.
    #[allow(unused_unsafe)]
    let name = unsafe { __cpuid(HYPERVISOR_NAME) };
    unusable_on([name.ebx, name.ecx, name.edx])
}

fn unusable_on(hypervisor: [u32; 3]) -> &'static [Feature] {
    if hypervisor == TRANSLATOR { &[PV_EOI] } else { &[] }
}

/// Turns the CPUID that KVM supports into that of the vCPU `id`, `without` some features.
fn describe(entries: &mut [kvm_cpuid_entry2], id: u8, without: &[Feature]) {
    let hidden = without.iter().fold(0, |bits, feature| bits | feature.bits);
    for entry in entries {
        match entry.function {
            1 => {
                entry.ecx |= TSC_DEADLINE | HYPERVISOR;
                entry.ebx = entry.ebx & 0x00ff_ffff | u32::from(id) << 24;
            }
            // The ID of the local APIC, three times more.
            0xb | 0x1f => entry.edx = id.into(),
            0x8000_001e => entry.eax = id.into(),
            KVM_FEATURES => entry.eax &= !hidden,
            _ => {}
        }
    }
}

const SERIAL: u16 = 0x3f8;
const SERIAL_END: u16 = 0x3ff;
/// The CMOS clock's data. It reads as zero: not a valid time, and no update in progress.
const CMOS_DATA: u16 = 0x71;
/// The keyboard controller's status: ready for a command, and always with a byte to fetch. Linux
/// then takes the keyboard for absent at once, and still resets by its controller.
const KEYBOARD_STATUS: u8 = 1;

pub(super) const CONTROL: u16 = 0x604;
/// A value of [`CONTROL`]: the system is in ACPI mode.
const IS_ACPI: u8 = 1;
/// Bit in the upper byte of a write to [`CONTROL`]: go to sleep. The only sleeping state is off.
const SLEEP: u8 = 0x20;

/// The keyboard controller's command and status.
pub(super) const KEYBOARD: u16 = 0x64;
/// A command to [`KEYBOARD`] that resets the computer.
pub(super) const RESET: u8 = 0xfe;

/// A guest writes here at the start and the end of its measured part: guest/vm/init.c.
const MARK: u16 = 0x5ea;

struct Ports {
    stops_at_marks: bool,
    serial: Mutex<Serial<SerialInterrupt, NoEvents, Console>>,
}

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

    /// Prints the rest of the last line.
    fn flush(&self) -> Result<()> {
        self.serial().writer_mut().print().map_err(no_output)
    }

    fn serial(&self) -> MutexGuard<'_, Serial<SerialInterrupt, NoEvents, Console>> {
        // A vCPU that panicked has ended the guest.
        self.serial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Bus for Ports {
    fn read(&self, port: u16, data: &mut [u8]) {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                data.fill_with(|| serial.read(offset(port)));
            }
            KEYBOARD => data.fill(KEYBOARD_STATUS),
            CMOS_DATA => data.fill(0),
            CONTROL => {
                data.fill(0);
                data[0] = IS_ACPI;
            }
            _ => data.fill(0xff),
        }
    }

    fn write(&self, port: u16, data: &[u8]) -> Result<Next> {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                for byte in data {
                    serial
                        .write(offset(port), *byte)
                        .map_err(|error| no_output(io_error(error)))?;
                }
                Ok(Next::GoOn)
            }
            MARK if self.stops_at_marks => {
                kill_process(getpid(), Signal::STOP)
                    .or_host("the monitor cannot stop itself", "remove --stop-at-marks")?;
                Ok(Next::GoOn)
            }
            KEYBOARD if data.contains(&RESET) => Ok(Next::End),
            CONTROL if data.get(1).is_some_and(|upper| upper & SLEEP != 0) => Ok(Next::End),
            _ => Ok(Next::GoOn),
        }
    }

    fn may_shut_down(&self) -> bool {
        true
    }
}

fn no_output(error: io::Error) -> Error {
    let message = format!("cannot write the guest's output: {error}");
    Error::host(message).next("redirect stdout to another place")
}

/// The number of the serial port's register, of eight.
fn offset(port: u16) -> u8 {
    (port - SERIAL).to_le_bytes()[0]
}

fn io_error(error: vm_superio::serial::Error<io::Error>) -> io::Error {
    match error {
        vm_superio::serial::Error::Trigger(error) | vm_superio::serial::Error::IOError(error) => {
            error
        }
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Stdout, a line at a time. A system call for each byte would dominate the cost of a guest.
#[derive(Default)]
struct Console(Vec<u8>);

impl Console {
    const LINE: usize = 1024;

    fn print(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let printed = stdout.write_all(&self.0).and_then(|()| stdout.flush());
        self.0.clear();
        match printed {
            // A reader that closes its end is no error, and the guest goes on.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes);
        if bytes.contains(&b'\n') || self.0.len() >= Console::LINE {
            self.print()?;
        }
        Ok(bytes.len())
    }

    /// Called after each byte.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

    fn entry(function: u32) -> kvm_cpuid_entry2 {
        kvm_cpuid_entry2 { function, eax: !0, ebx: !0, ..kvm_cpuid_entry2::default() }
    }

    #[test]
    fn features_are_hidden_by_their_bits() {
        let hidden = |without: &[Feature]| {
            let mut entries = [entry(KVM_FEATURES)];
            describe(&mut entries, 0, without);
            !entries[0].eax
        };
        assert_eq!(hidden(&[]), 0);
        assert_eq!(hidden(&[Feature::ALL[0], PV_EOI]), 0b100_1001);
        // Bits without a name are gaps.
        assert_eq!(hidden(&Feature::ALL), 0x0100_3aff & !(1 << 2));
    }

    #[test]
    fn a_translator_repeats_interrupts_that_end_without_an_exit() {
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        assert_eq!(unusable_on([b"TCGT", b"CGTC", b"GTCG"].map(word)), [PV_EOI]);
        assert_eq!(unusable_on([b"KVMK", b"VMKV", b"M\0\0\0"].map(word)), []);
    }

    #[test]
    fn names_are_those_of_qemu() {
        assert_eq!(Feature::ALL[0].name, "kvmclock");
        assert_eq!(Feature::named("kvmclock-stable-bit"), Some(Feature::ALL[10]));
        assert_eq!(Feature::named("kvm"), None);
        let same = |feature: &Feature| Feature::named(feature.name) == Some(*feature);
        assert!(Feature::ALL.iter().all(same));
    }

    #[test]
    fn a_vcpu_knows_its_number() {
        let mut entries = [entry(1), entry(0xb), entry(0x8000_001e), entry(7)];
        describe(&mut entries, 3, &[]);
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
    fn an_empty_bus_is_ones() {
        let ports = ports();
        for port in [0, 0x80, 0x3f7, 0x400, 0xcfc, 0xffff] {
            assert_eq!(read(&ports, port), 0xff, "{port:#x}");
            assert_eq!(ports.write(port, &[RESET]).unwrap(), Next::GoOn, "{port:#x}");
        }
        let mut wide = [0; 4];
        ports.read(0xcfc, &mut wide);
        assert_eq!(wide, [0xff; 4]);
    }

    #[test]
    fn the_keyboard_resets() {
        let ports = ports();
        assert_eq!(ports.write(KEYBOARD, &[0x20]).unwrap(), Next::GoOn);
        assert_eq!(ports.write(KEYBOARD, &[RESET]).unwrap(), Next::End);
        // Ready for a command: bit 1 is clear.
        assert_eq!(read(&ports, KEYBOARD) & 2, 0);
    }

    #[test]
    fn going_to_sleep_is_the_end() {
        let ports = ports();
        assert_eq!(ports.write(CONTROL, &[0, 0x14]).unwrap(), Next::GoOn);
        assert_eq!(ports.write(CONTROL, &[0, 0x34]).unwrap(), Next::End);
        assert_eq!(read(&ports, CONTROL), IS_ACPI);
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
