//! Runs vCPUs, one thread each, and counts their exits.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kvm_ioctls::{VcpuExit, VcpuFd};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use vmm_sys_util::signal::{Killable, SIGRTMIN};

use super::{GuestEnd, GuestOutcome};
use ktax_model::{Error, ErrorKind, Result};

/// The devices behind the guest's ports, the same for all vCPUs.
pub(super) trait Bus: Send + Sync {
    /// Fills `data` for an IN.
    fn read(&self, port: u16, data: &mut [u8]);
    /// Takes an OUT.
    fn write(&self, port: u16, data: &[u8]) -> Result<Next>;
    /// Returns true if a triple fault is a normal end. It is the last way in which Linux resets.
    fn may_shut_down(&self) -> bool;
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    End,
}

/// Runs a vCPU until the guest ends, `stop` is set, or KVM cannot go on.
fn run_vcpu(
    id: u8,
    mut vcpu: VcpuFd,
    bus: &dyn Bus,
    stop: &AtomicBool,
) -> (VcpuAccount, Result<()>) {
    let mut counts = ExitCounts::default();
    let started = Instant::now();
    let ended = loop {
        if stop.load(Ordering::SeqCst) {
            break Ok(());
        }
        let next = step(&mut vcpu, bus, id);
        counts.returned(vcpu.get_kvm_run().exit_reason, started.elapsed());
        match next {
            Ok(Next::GoOn) => {}
            Ok(Next::End) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (counts.finish(id, started.elapsed()), ended)
}

/// Calls KVM_RUN once and answers its exit.
fn step(vcpu: &mut VcpuFd, bus: &dyn Bus, id: u8) -> Result<Next> {
    use io::ErrorKind::{Interrupted, WouldBlock};
    let lost = match vcpu.run() {
        Ok(VcpuExit::IoOut(port, data)) => return bus.write(port, data),
        Ok(VcpuExit::IoIn(port, data)) => {
            bus.read(port, data);
            return Ok(Next::GoOn);
        }
        // Without memory the guest reads ones, as from a bus without a device.
        Ok(VcpuExit::MmioRead(_, data)) => {
            data.fill(0xff);
            return Ok(Next::GoOn);
        }
        Ok(VcpuExit::MmioWrite(..) | VcpuExit::Hlt | VcpuExit::IrqWindowOpen | VcpuExit::Intr) => {
            return Ok(Next::GoOn);
        }
        Ok(VcpuExit::Shutdown) if bus.may_shut_down() => return Ok(Next::End),
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
            // A signal, or an application processor's first interrupt.
            error if matches!(error.kind(), Interrupted | WouldBlock) => return Ok(Next::GoOn),
            error => error.to_string(),
        },
    };
    let message = format!("KVM cannot run vCPU {id} at {:#x} ({lost})", rip(vcpu));
    Err(Error::host(message).next("look at the end of `dmesg`").kind(ErrorKind::GuestFault))
}

fn rip(vcpu: &VcpuFd) -> u64 {
    vcpu.get_regs().map_or(0, |registers| registers.rip)
}

/// The time until a vCPU is signalled again, and the time until ktax gives up: a vCPU that waits
/// for a reader of stdout does not return at all.
const PATIENCE: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_secs(3);

type VcpuThread = JoinHandle<(VcpuAccount, Result<()>)>;

/// Runs the vCPUs until the guest ends, one of them fails, or SIGINT or SIGTERM comes.
pub(super) fn run_vcpus(vcpus: Vec<VcpuFd>, bus: &Arc<impl Bus + 'static>) -> Result<GuestOutcome> {
    let (stop, by_signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (mut wait, wake) = UnixStream::pair().map_err(no_thread)?;
    register_signals(&by_signal, &wake).map_err(no_thread)?;
    // Nobody reads its flag: it is enough that the signal interrupts KVM_RUN.
    signal_hook::flag::register(SIGRTMIN(), Arc::default()).map_err(no_thread)?;
    let mut threads = Vec::new();
    for (id, vcpu) in (0u8..).zip(vcpus) {
        match start_vcpu(id, vcpu, bus, &stop, &wake) {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                stop_all(&threads, &stop, GIVE_UP)?;
                return Err(no_thread(error));
            }
        }
    }
    // One byte from the first that ends: a vCPU, or a signal.
    let woken = wait.read_exact(&mut [0]);
    stop_all(&threads, &stop, GIVE_UP)?;
    let mut outcome = join_all(threads);
    woken.map_err(no_thread)?;
    if by_signal.load(Ordering::SeqCst) && outcome.ended.is_ok() {
        outcome.ended = Ok(GuestEnd::BySignal);
    }
    Ok(outcome)
}

/// Makes SIGINT and SIGTERM raise the flag, then wake: handlers run in the order of registration.
fn register_signals(by_signal: &Arc<AtomicBool>, wake: &UnixStream) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(by_signal))?;
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    Ok(())
}

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

/// Writes a byte when its thread ends, also after a panic.
struct WakeOnDrop(UnixStream);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        // The reader is gone only after the end of all vCPUs.
        drop(self.0.write_all(&[0]));
    }
}

/// Makes all vCPUs return. The error names a vCPU that does not return within `limit`.
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
        thread::park_timeout(PATIENCE);
    }
    Ok(())
}

fn join_all(threads: Vec<VcpuThread>) -> GuestOutcome {
    let mut outcome = GuestOutcome { account: Account::default(), ended: Ok(GuestEnd::ByGuest) };
    for (vcpu, handle) in (0u8..).zip(threads) {
        let ended = match handle.join() {
            Ok((account, ended)) => {
                outcome.account.vcpus.push(account);
                ended
            }
            Err(_) => Err(Error::host(format!("the thread of vCPU {vcpu} panicked"))
                .next("report this together with the command line")),
        };
        if let (Err(error), true) = (ended, outcome.ended.is_ok()) {
            outcome.ended = Err(error);
        }
    }
    outcome
}

fn no_thread(error: io::Error) -> Error {
    let message = format!("cannot start a thread or wait for it: {error}");
    Error::host(message).next("end other programs and try again")
}

/// The names of the exit reasons in the kernel's header, in the order of their numbers. The reasons
/// of other architectures are here too.
const REASON_NAMES: &str = "\
    UNKNOWN EXCEPTION IO HYPERCALL DEBUG HLT MMIO IRQ_WINDOW_OPEN SHUTDOWN FAIL_ENTRY INTR \
    SET_TPR TPR_ACCESS S390_SIEIC S390_RESET DCR NMI INTERNAL_ERROR OSI PAPR_HCALL S390_UCONTROL \
    WATCHDOG S390_TSCH EPR SYSTEM_EVENT S390_STSI IOAPIC_EOI HYPERV ARM_NISV X86_RDMSR X86_WRMSR \
    DIRTY_RING_FULL AP_RESET_HOLD X86_BUS_LOCK XEN RISCV_SBI RISCV_CSR NOTIFY LOONGARCH_IOCSR \
    MEMORY_FAULT";

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    pub vcpus: Vec<VcpuAccount>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct VcpuAccount {
    pub vcpu: u8,
    /// The time from the first call of KVM_RUN to the last return, by CLOCK_MONOTONIC, ns.
    pub wall_ns: u64,
    /// The median time from one return to the next, of the first 65536, ns; 0 if there are fewer
    /// than two returns.
    pub turn_ns: u64,
    /// The number of returns from KVM_RUN, by `exit_reason`.
    pub exits: BTreeMap<String, u64>,
}

/// The number of returns whose times are kept.
const TIMES: usize = 65536;

#[derive(Default)]
struct ExitCounts {
    exits: BTreeMap<u32, u64>,
    /// The times of the returns from KVM_RUN, since the vCPU started.
    times: Vec<Duration>,
}

impl ExitCounts {
    /// Counts a return from KVM_RUN, this long after the vCPU started.
    pub fn returned(&mut self, exit_reason: u32, elapsed: Duration) {
        *self.exits.entry(exit_reason).or_default() += 1;
        if self.times.len() < TIMES {
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
    let known = REASON_NAMES.split(' ').nth(reason as usize);
    known.map_or_else(|| format!("KVM_EXIT_{reason}"), |name| format!("KVM_EXIT_{name}"))
}

/// `_IO(KVMIO, 0xce)` on x86 (Documentation/virt/kvm/api.rst, 4.131).
const KVM_GET_STATS_FD: u64 = 0xaece;

/// Opens the statistics. `None` before Linux 5.14.
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
    fn who_does_not_come_back_is_not_waited_for() {
        let stop = AtomicBool::new(false);
        signal_hook::flag::register(SIGRTMIN(), Arc::default()).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let blocked = move || {
            let _ = (&reader).read(&mut [0]);
            (VcpuAccount::default(), Ok(()))
        };
        let start_vcpu = thread::Builder::new().name("vcpu 7".into()).spawn(blocked).unwrap();
        let error =
            stop_all(&[start_vcpu], &stop, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.starts_with("vcpu 7 does not stop; "), "{error}");
        drop(writer);
    }

    #[test]
    fn the_names_are_those_of_the_header() {
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
            counts.returned(reason, Duration::from_micros(at_us));
        }
        let account = Account { vcpus: vec![counts.finish(1, Duration::from_micros(9))] };
        let expected = r#"{"vcpus":[{"vcpu":1,"wall_ns":9000,"turn_ns":2000,"exits":"#.to_owned()
            + r#"{"KVM_EXIT_HLT":1,"KVM_EXIT_IO":3}}]}"#;
        assert_eq!(serde_json::to_string(&account).unwrap(), expected);
    }
}
