//! Runs the vCPUs, one thread for each, and stops all of them together.
//!
//! KVM_RUN has no time limit: only a signal to its thread makes it return. A signal that comes just
//! before the call is lost, so it is sent again until the thread has ended.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use signal_hook::consts::{SIGINT, SIGTERM};
use vmm_sys_util::signal::{Killable, SIGRTMIN};

use super::account::{Account, VcpuAccount};
use super::error::VmmError;
use super::outcome::{GuestEnd, GuestOutcome};
use super::stats;
use super::vcpu::{self, Bus};

/// The time until a vCPU is signalled again, and the time until ktax gives up: a vCPU that waits
/// for a reader of stdout does not return at all.
const PATIENCE: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_secs(3);

type Seat = JoinHandle<(VcpuAccount, Result<(), VmmError>)>;

/// Runs the vCPUs until the guest ends, one of them fails, or SIGINT or SIGTERM comes.
pub(super) fn run(
    vcpus: Vec<VcpuFd>,
    bus: &Arc<impl Bus + 'static>,
) -> Result<GuestOutcome, VmmError> {
    let (stop, by_signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (mut wait, wake) = UnixStream::pair().map_err(no_thread)?;
    listen(&by_signal, &wake).map_err(no_thread)?;
    // Nobody reads its flag: it is enough that the signal interrupts KVM_RUN.
    signal_hook::flag::register(SIGRTMIN(), Arc::default()).map_err(no_thread)?;
    let mut seats = Vec::new();
    for (id, vcpu) in (0u8..).zip(vcpus) {
        match seat(id, vcpu, bus, &stop, &wake) {
            Ok(handle) => seats.push(handle),
            Err(error) => {
                end(&seats, &stop, GIVE_UP)?;
                return Err(no_thread(error));
            }
        }
    }
    // One byte from the first that ends: a vCPU, or a signal.
    let woken = wait.read_exact(&mut [0]);
    end(&seats, &stop, GIVE_UP)?;
    let mut outcome = join(seats);
    woken.map_err(no_thread)?;
    if by_signal.load(Ordering::SeqCst) && outcome.ended.is_ok() {
        outcome.ended = Ok(GuestEnd::BySignal);
    }
    Ok(outcome)
}

/// SIGINT and SIGTERM raise the flag, then wake: handlers run in the order of registration.
fn listen(by_signal: &Arc<AtomicBool>, wake: &UnixStream) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(by_signal))?;
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    Ok(())
}

fn seat(
    id: u8,
    vcpu: VcpuFd,
    bus: &Arc<impl Bus + 'static>,
    stop: &Arc<AtomicBool>,
    wake: &UnixStream,
) -> io::Result<Seat> {
    let (bus, stop, bell) = (Arc::clone(bus), Arc::clone(stop), Bell(wake.try_clone()?));
    thread::Builder::new().name(format!("vcpu {id}")).spawn(move || {
        let (_bell, _statistics) = (bell, stats::open(&vcpu));
        vcpu::run(id, vcpu, &*bus, &stop)
    })
}

/// Writes a byte when its thread ends, also after a panic.
struct Bell(UnixStream);

impl Drop for Bell {
    fn drop(&mut self) {
        // The reader is gone only after the end of all vCPUs.
        drop(self.0.write_all(&[0]));
    }
}

/// Makes all vCPUs return. The error names one that does not within `limit`.
fn end(seats: &[Seat], stop: &AtomicBool, limit: Duration) -> Result<(), VmmError> {
    stop.store(true, Ordering::SeqCst);
    let started = Instant::now();
    while let Some(seat) = seats.iter().find(|seat| !seat.is_finished()) {
        if started.elapsed() > limit {
            let name = seat.thread().name().unwrap_or_default().to_owned();
            return Err(VmmError::Stuck { name });
        }
        // A thread that has just ended needs no signal.
        let _ = seat.kill(SIGRTMIN());
        thread::park_timeout(PATIENCE);
    }
    Ok(())
}

fn join(seats: Vec<Seat>) -> GuestOutcome {
    let mut outcome = GuestOutcome { account: Account::default(), ended: Ok(GuestEnd::ByGuest) };
    for (vcpu, seat) in (0u8..).zip(seats) {
        let ended = match seat.join() {
            Ok((account, ended)) => {
                outcome.account.vcpus.push(account);
                ended
            }
            Err(_) => Err(VmmError::Panicked { vcpu }),
        };
        if let (Err(error), true) = (ended, outcome.ended.is_ok()) {
            outcome.ended = Err(error);
        }
    }
    outcome
}

fn no_thread(error: io::Error) -> VmmError {
    VmmError::Thread { error }
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
        let seat = thread::Builder::new().name("vcpu 7".into()).spawn(blocked).unwrap();
        let error = end(&[seat], &stop, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.starts_with("vcpu 7 does not stop; "), "{error}");
        drop(writer);
    }
}
