//! A small virtual machine monitor (VMM) on `/dev/kvm`, which counts the exits of its guests to
//! user space. Tests compare recordings with this [`Account`].
//!
//! ```text
//! raw ────┐             ┌─► vCPUs (KVM_RUN, one thread each) ─► Account
//!         ├─► Machine ──┤
//! linux ──┘             └─► Bus: the devices behind I/O ports
//! ```
//!
//! Guests are untrusted: every exit is handled, or ends the guest with an error.

pub mod linux;
pub mod operations;
pub mod raw;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kvm_bindings::{kvm_regs, kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::signal::{Killable, SIGRTMIN};

use ktax_model::{Error, ErrorKind, Result};

pub use raw::RawLoops;

/// Reason why a guest ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    ByGuest,
    BySignal,
}

/// Counts of a guest's exits, and the guest's end.
#[derive(Debug)]
pub struct GuestOutcome {
    pub account: Account,
    pub end: Result<GuestEnd>,
}

/// Makes the error of a failed KVM ioctl; `action` follows "KVM cannot".
fn kvm_error<E: Display>(action: &'static str) -> impl FnOnce(E) -> Error {
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

/// A guest's memory: one range from address 0.
type Memory = GuestMemoryMmap<()>;

/// A virtual machine without vCPUs.
struct Machine {
    kvm: Kvm,
    vm: VmFd,
    memory: Memory,
}

impl Machine {
    fn new(bytes: usize) -> Result<Machine> {
        let kvm = open_kvm()?;
        let vm = kvm.create_vm().map_err(kvm_error("create a virtual machine"))?;
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
        unsafe { vm.set_user_memory_region(region) }
            .map_err(kvm_error("map the guest's memory"))?;
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
            "load the module kvm-amd or kvm-intel, or enable virtualization in the firmware; `ktax \
             doctor` reports what this machine can do",
        ),
    })
}

fn write_memory(memory: &Memory, what: &str, bytes: &[u8], address: u64) -> Result<()> {
    let result = memory.write_slice(bytes, GuestAddress(address));
    result.map_err(|_| too_little_memory(what))
}

// Addresses of the descriptor table and the page tables in guest memory.

const GDT: u64 = 0x500;
const PML4: u64 = 0x9000;
const PDPT: u64 = 0xa000;
const PD: u64 = 0xb000;

/// Flags of an entry that points to a page table: present, writable, accessible in user mode.
const PAGE_TABLE_FLAGS: u64 = 0x7;
/// Flags of an entry for a large page: those of [`PAGE_TABLE_FLAGS`] and the page size bit.
const LARGE_PAGE_FLAGS: u64 = 0x87;
const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// The descriptor table: null, null, 64-bit code, data, and an unused task state segment. Linux's
/// boot protocol requires code at 0x10 and data at 0x18.
const DESCRIPTORS: [u64; 5] =
    [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x008f_8b00_0000_ffff];
const CODE_SELECTOR: u16 = 0x10;
const DATA_SELECTOR: u16 = 0x18;
const TASK_SELECTOR: u16 = 0x20;

/// PG, AM, WP, NE, ET, MP and PE.
const CR0: u64 = 0x8005_0033;
const CR4_PAE: u64 = 0x20;
/// LME and LMA: long mode is enabled and active.
const EFER: u64 = 0x500;

/// Writes the descriptor table, and page tables that map the first gigabyte to itself.
fn write_page_tables(memory: &Memory) -> Result<()> {
    let large: Vec<u64> =
        (0..512).map(|page| (page * LARGE_PAGE_BYTES) | LARGE_PAGE_FLAGS).collect();
    let tables = [
        (GDT, &DESCRIPTORS[..]),
        (PML4, &[PDPT | PAGE_TABLE_FLAGS]),
        (PDPT, &[PD | PAGE_TABLE_FLAGS]),
        (PD, &large),
    ];
    for (address, words) in tables {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        write_memory(memory, "page tables", &bytes, address)?;
    }
    Ok(())
}

/// Sets a vCPU's registers so that it starts in 64-bit mode.
fn enter_long_mode(vcpu: &VcpuFd, registers: kvm_regs) -> Result<()> {
    let mut system = vcpu.get_sregs().map_err(kvm_error("read registers"))?;
    set_long_mode(&mut system);
    vcpu.set_sregs(&system).map_err(kvm_error("enable 64-bit mode"))?;
    // Bit 1 of RFLAGS is reserved and always set.
    let registers = kvm_regs { rflags: 2, ..registers };
    vcpu.set_regs(&registers).map_err(kvm_error("set registers"))
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
    let data = kvm_segment { db: 1, ..segment(DATA_SELECTOR, 3, 1) };
    (system.ds, system.es, system.fs, system.gs, system.ss) = (data, data, data, data, data);
    system.tr = segment(TASK_SELECTOR, 11, 0);
    system.gdt.base = GDT;
    system.gdt.limit = 8 * DESCRIPTORS.len() as u16 - 1;
    system.cr0 = CR0;
    system.cr3 = PML4;
    system.cr4 = CR4_PAE;
    system.efer = EFER;
}

// Each vCPU runs in a thread of its own, which counts the exits.

/// The devices behind the guest's I/O ports, which all vCPUs share.
trait Bus: Send + Sync {
    /// Handles an IN instruction: fills `data`.
    fn read(&self, port: u16, data: &mut [u8]);
    /// Handles an OUT instruction.
    fn write(&self, port: u16, data: &[u8]) -> Result<ExitAction>;
    /// Returns true if a triple fault ends the guest without an error: Linux resets by a triple
    /// fault if all else fails.
    fn may_triple_fault(&self) -> bool;
}

/// Action of a vCPU after an exit.
#[derive(Debug, PartialEq, Eq)]
enum ExitAction {
    Continue,
    EndGuest,
}

/// Runs a vCPU until the guest ends, `stop` is set, or KVM fails.
fn run_vcpu(
    id: u8,
    mut vcpu: VcpuFd,
    bus: &dyn Bus,
    stop: &AtomicBool,
) -> (VcpuAccount, Result<()>) {
    let mut counts = ExitCounts::default();
    let started = Instant::now();
    let end = loop {
        if stop.load(Ordering::SeqCst) {
            break Ok(());
        }
        let action = run_once(&mut vcpu, bus, id);
        counts.add_return(vcpu.get_kvm_run().exit_reason, started.elapsed());
        match action {
            Ok(ExitAction::Continue) => {}
            Ok(ExitAction::EndGuest) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (counts.finish(id, started.elapsed()), end)
}

/// Calls KVM_RUN once and handles the exit.
fn run_once(vcpu: &mut VcpuFd, bus: &dyn Bus, id: u8) -> Result<ExitAction> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    let reason = match vcpu.run() {
        Ok(VcpuExit::IoOut(port, data)) => return bus.write(port, data),
        Ok(VcpuExit::IoIn(port, data)) => {
            bus.read(port, data);
            return Ok(ExitAction::Continue);
        }
        // A read from an address without memory returns ones, as on a bus without a device.
        Ok(VcpuExit::MmioRead(_, data)) => {
            data.fill(0xff);
            return Ok(ExitAction::Continue);
        }
        Ok(VcpuExit::MmioWrite(..) | VcpuExit::Hlt | VcpuExit::IrqWindowOpen | VcpuExit::Intr) => {
            return Ok(ExitAction::Continue);
        }
        Ok(VcpuExit::Shutdown) if bus.may_triple_fault() => return Ok(ExitAction::EndGuest),
        Ok(VcpuExit::Shutdown) => {
            let message = format!("vCPU {id} shut down at {:#x} (triple fault)", rip(vcpu));
            let error = Error::host(message).next("check the guest's code there");
            return Err(error.kind(ErrorKind::GuestFault));
        }
        Ok(VcpuExit::FailEntry(reason, _)) => {
            let message = format!("the processor refused to enter the guest (reason {reason:#x})");
            return Err(Error::host(message).next("look for the reason at the end of `dmesg`"));
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => match io::Error::from(error) {
            // EINTR after a signal; EAGAIN when an application processor gets its first INIT.
            error if matches!(error.kind(), Interrupted | WouldBlock) => {
                return Ok(ExitAction::Continue);
            }
            error => error.to_string(),
        },
    };
    let message = format!("KVM cannot run vCPU {id} at {:#x} ({reason})", rip(vcpu));
    let error = Error::host(message).next("look for the reason at the end of `dmesg`");
    Err(error.kind(ErrorKind::GuestFault))
}

fn rip(vcpu: &VcpuFd) -> u64 {
    vcpu.get_regs().map_or(0, |registers| registers.rip)
}

/// Time between two signals to a vCPU that should stop.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(5);
/// Time after which ktax gives up stopping a vCPU: one that writes to a stdout that nobody reads
/// never stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

type VcpuThread = JoinHandle<(VcpuAccount, Result<()>)>;

/// Runs the vCPUs until the guest ends, one of them fails, or SIGINT or SIGTERM comes.
fn run_vcpus(vcpus: Vec<VcpuFd>, bus: &Arc<impl Bus + 'static>) -> Result<GuestOutcome> {
    let (stop, by_signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (mut wait, wake) = UnixStream::pair().map_err(thread_error)?;
    register_signals(&by_signal, &wake).map_err(thread_error)?;
    // The handler only has to exist, so that the signal interrupts KVM_RUN; its flag is not used.
    signal_hook::flag::register(SIGRTMIN(), Arc::default()).map_err(thread_error)?;
    let mut threads = Vec::new();
    for (id, vcpu) in (0u8..).zip(vcpus) {
        match start_vcpu(id, vcpu, bus, &stop, &wake) {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                stop_all(&threads, &stop, STOP_TIMEOUT)?;
                return Err(thread_error(error));
            }
        }
    }
    // The first vCPU that ends, or a signal, writes a byte.
    let woken = wait.read_exact(&mut [0]);
    stop_all(&threads, &stop, STOP_TIMEOUT)?;
    let mut outcome = join_all(threads);
    woken.map_err(thread_error)?;
    if by_signal.load(Ordering::SeqCst) && outcome.end.is_ok() {
        outcome.end = Ok(GuestEnd::BySignal);
    }
    Ok(outcome)
}

/// Makes SIGINT and SIGTERM set the flag and then write to `wake`: handlers run in the order of
/// their registration.
fn register_signals(by_signal: &Arc<AtomicBool>, wake: &UnixStream) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(by_signal))?;
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    Ok(())
}

/// Starts the thread of a vCPU.
fn start_vcpu(
    id: u8,
    vcpu: VcpuFd,
    bus: &Arc<impl Bus + 'static>,
    stop: &Arc<AtomicBool>,
    wake: &UnixStream,
) -> io::Result<VcpuThread> {
    let (bus, stop, wake_on_drop) =
        (Arc::clone(bus), Arc::clone(stop), WakeOnDrop(wake.try_clone()?));
    thread::Builder::new().name(format!("vcpu {id}")).spawn(move || {
        let (_wake_on_drop, _statistics) = (wake_on_drop, open_stats(&vcpu));
        run_vcpu(id, vcpu, &*bus, &stop)
    })
}

/// Writes a byte when it is dropped: at the end of a vCPU's thread, even by a panic.
struct WakeOnDrop(UnixStream);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        // An error is harmless: the reader is closed only after all vCPUs have ended.
        drop(self.0.write_all(&[0]));
    }
}

/// Stops all vCPUs. An error names a vCPU that does not stop within `limit`.
fn stop_all(threads: &[VcpuThread], stop: &AtomicBool, limit: Duration) -> Result<()> {
    stop.store(true, Ordering::SeqCst);
    let started = Instant::now();
    while let Some(running) = threads.iter().find(|thread| !thread.is_finished()) {
        if started.elapsed() > limit {
            let name = running.thread().name().unwrap_or_default().to_owned();
            let next = "check that something reads the guest's output, and try again";
            return Err(Error::host(format!("{name} does not stop")).next(next));
        }
        // A thread that has just ended needs no signal.
        let _ = running.kill(SIGRTMIN());
        thread::park_timeout(SIGNAL_INTERVAL);
    }
    Ok(())
}

/// Collects the counts of ended vCPUs, and the first error.
fn join_all(threads: Vec<VcpuThread>) -> GuestOutcome {
    let mut outcome = GuestOutcome { account: Account::default(), end: Ok(GuestEnd::ByGuest) };
    for (vcpu, handle) in (0u8..).zip(threads) {
        let end = match handle.join() {
            Ok((account, end)) => {
                outcome.account.vcpus.push(account);
                end
            }
            Err(_) => Err(Error::host(format!("the thread of vCPU {vcpu} panicked"))
                .next("report this together with the command line")),
        };
        if let (Err(error), true) = (end, outcome.end.is_ok()) {
            outcome.end = Err(error);
        }
    }
    outcome
}

fn thread_error(error: io::Error) -> Error {
    let message = format!("cannot start a thread or wait for it: {error}");
    Error::host(message).next("end other programs and try again")
}

/// Names of all exit reasons in include/uapi/linux/kvm.h, in the order of their numbers.
const REASON_NAMES: &str = "\
    UNKNOWN EXCEPTION IO HYPERCALL DEBUG HLT MMIO IRQ_WINDOW_OPEN SHUTDOWN FAIL_ENTRY INTR \
    SET_TPR TPR_ACCESS S390_SIEIC S390_RESET DCR NMI INTERNAL_ERROR OSI PAPR_HCALL S390_UCONTROL \
    WATCHDOG S390_TSCH EPR SYSTEM_EVENT S390_STSI IOAPIC_EOI HYPERV ARM_NISV X86_RDMSR X86_WRMSR \
    DIRTY_RING_FULL AP_RESET_HOLD X86_BUS_LOCK XEN RISCV_SBI RISCV_CSR NOTIFY LOONGARCH_IOCSR \
    MEMORY_FAULT";

/// Counts of the exits of all vCPUs.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub vcpus: Vec<VcpuAccount>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuAccount {
    pub vcpu: u8,
    /// Time from the first call of KVM_RUN to the last return, ns of CLOCK_MONOTONIC.
    pub wall_ns: u64,
    /// Median time between consecutive returns, among the first 65536 returns, ns; 0 for fewer than
    /// two returns.
    pub turn_ns: u64,
    /// Number of returns from KVM_RUN by `exit_reason`.
    pub exits: BTreeMap<String, u64>,
}

/// Maximum number of returns whose times are kept.
const MAX_RETURN_TIMES: usize = 65536;

#[derive(Default)]
struct ExitCounts {
    exits: BTreeMap<u32, u64>,
    /// Times of the returns from KVM_RUN after the vCPU's start.
    times: Vec<Duration>,
}

impl ExitCounts {
    /// Counts a return from KVM_RUN, `elapsed` after the vCPU's start.
    pub fn add_return(&mut self, exit_reason: u32, elapsed: Duration) {
        *self.exits.entry(exit_reason).or_default() += 1;
        if self.times.len() < MAX_RETURN_TIMES {
            self.times.push(elapsed);
        }
    }

    pub fn finish(self, vcpu: u8, wall: Duration) -> VcpuAccount {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut turns: Vec<u64> =
            self.times.windows(2).map(|pair| ns(pair[1].saturating_sub(pair[0]))).collect();
        turns.sort_unstable();
        let turn_ns = turns.get(turns.len() / 2).copied().unwrap_or(0);
        let exits =
            self.exits.into_iter().map(|(reason, count)| (reason_name(reason), count)).collect();
        VcpuAccount { vcpu, wall_ns: ns(wall), turn_ns, exits }
    }
}

fn reason_name(reason: u32) -> String {
    let name = REASON_NAMES.split(' ').nth(reason as usize);
    name.map_or_else(|| format!("KVM_EXIT_{reason}"), |name| format!("KVM_EXIT_{name}"))
}

/// `_IO(KVMIO, 0xce)` on x86 (Documentation/virt/kvm/api.rst, 4.131).
const KVM_GET_STATS_FD: u64 = 0xaece;

/// Opens the vCPU's statistics, so that a recorder can read them; `None` before Linux 5.14.
fn open_stats(vcpu: &VcpuFd) -> Option<OwnedFd> {
    // SAFETY: the ioctl takes no argument and returns a new descriptor or an error.
    let fd = unsafe { libc::ioctl(vcpu.as_raw_fd(), KVM_GET_STATS_FD) };
    // SAFETY: where the call succeeds, the kernel has just made it, for nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_that_does_not_stop_is_an_error() {
        let stop = AtomicBool::new(false);
        signal_hook::flag::register(SIGRTMIN(), Arc::default()).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let blocked = move || {
            let _ = (&reader).read(&mut [0]);
            (VcpuAccount::default(), Ok(()))
        };
        let vcpu_thread = thread::Builder::new().name("vcpu 7".into()).spawn(blocked).unwrap();
        let error =
            stop_all(&[vcpu_thread], &stop, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.starts_with("vcpu 7 does not stop; "), "{error}");
        drop(writer);
    }

    #[test]
    fn reason_names_are_those_of_the_kernels_header() {
        for (reason, expected) in [
            (kvm_bindings::KVM_EXIT_IO, "KVM_EXIT_IO"),
            (kvm_bindings::KVM_EXIT_SHUTDOWN, "KVM_EXIT_SHUTDOWN"),
            (kvm_bindings::KVM_EXIT_INTERNAL_ERROR, "KVM_EXIT_INTERNAL_ERROR"),
            (kvm_bindings::KVM_EXIT_SYSTEM_EVENT, "KVM_EXIT_SYSTEM_EVENT"),
            (kvm_bindings::KVM_EXIT_X86_WRMSR, "KVM_EXIT_X86_WRMSR"),
            (kvm_bindings::KVM_EXIT_MEMORY_FAULT, "KVM_EXIT_MEMORY_FAULT"),
            (1000, "KVM_EXIT_1000"),
        ] {
            assert_eq!(reason_name(reason), expected);
        }
    }

    #[test]
    fn counts_become_an_account() {
        let mut counts = ExitCounts::default();
        for (reason, at_us) in [(2, 1), (5, 2), (2, 4), (2, 8)] {
            counts.add_return(reason, Duration::from_micros(at_us));
        }
        let account = Account { vcpus: vec![counts.finish(1, Duration::from_micros(9))] };
        let expected = r#"{"vcpus":[{"vcpu":1,"wall_ns":9000,"turn_ns":2000,"exits":"#.to_owned()
            + r#"{"KVM_EXIT_HLT":1,"KVM_EXIT_IO":3}}]}"#;
        assert_eq!(serde_json::to_string(&account).unwrap(), expected);
    }
}
