//! One vCPU: calls KVM_RUN in a loop and answers its exits.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kvm_ioctls::{VcpuExit, VcpuFd};

use super::account::{Counts, VcpuAccount};
use super::error::VmmError;

/// The devices behind the guest's ports, the same for all vCPUs.
pub(super) trait Bus: Send + Sync {
    /// Fills `data` for an IN.
    fn read(&self, port: u16, data: &mut [u8]);
    /// Takes an OUT.
    fn write(&self, port: u16, data: &[u8]) -> Result<Next, VmmError>;
    /// Whether a triple fault is a normal end. It is the last way in which Linux resets.
    fn may_shut_down(&self) -> bool;
}

/// What the vCPU does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    End,
}

/// Why KVM_RUN returned, as far as it matters here.
enum Came {
    Next(Result<Next, VmmError>),
    /// A signal, or an application processor's first interrupt.
    Early,
    Shutdown,
    Lost(String),
}

/// Runs a vCPU until the guest ends, `stop` is set, or KVM cannot go on.
pub(super) fn run(
    id: u8,
    mut vcpu: VcpuFd,
    bus: &dyn Bus,
    stop: &AtomicBool,
) -> (VcpuAccount, Result<(), VmmError>) {
    let mut counts = Counts::default();
    let started = Instant::now();
    let ended = loop {
        if stop.load(Ordering::SeqCst) {
            break Ok(());
        }
        let came = step(&mut vcpu, bus);
        counts.returned(vcpu.get_kvm_run().exit_reason, started.elapsed());
        match came {
            Came::Early | Came::Next(Ok(Next::GoOn)) => {}
            Came::Next(Ok(Next::End)) => break Ok(()),
            Came::Next(Err(error)) => break Err(error),
            Came::Shutdown if bus.may_shut_down() => break Ok(()),
            Came::Shutdown => break Err(VmmError::Shutdown { vcpu: id, rip: rip(&vcpu) }),
            Came::Lost(reason) => {
                break Err(VmmError::GaveUp { vcpu: id, rip: rip(&vcpu), reason });
            }
        }
    };
    (counts.finish(id, started.elapsed()), ended)
}

/// Calls KVM_RUN once and answers its exit.
fn step(vcpu: &mut VcpuFd, bus: &dyn Bus) -> Came {
    let on = Came::Next(Ok(Next::GoOn));
    match vcpu.run() {
        Ok(VcpuExit::IoOut(port, data)) => Came::Next(bus.write(port, data)),
        Ok(VcpuExit::IoIn(port, data)) => {
            bus.read(port, data);
            on
        }
        // Without memory the guest reads ones, as from a bus without a device.
        Ok(VcpuExit::MmioRead(_, data)) => {
            data.fill(0xff);
            on
        }
        Ok(VcpuExit::MmioWrite(..) | VcpuExit::Hlt | VcpuExit::IrqWindowOpen) => on,
        Ok(VcpuExit::Intr) => Came::Early,
        Ok(VcpuExit::Shutdown) => Came::Shutdown,
        Ok(VcpuExit::FailEntry(reason, _)) => Came::Next(Err(VmmError::FailEntry { reason })),
        Ok(other) => Came::Lost(format!("{other:?}")),
        Err(error) => match io::Error::from(error) {
            error
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                Came::Early
            }
            error => Came::Lost(error.to_string()),
        },
    }
}

fn rip(vcpu: &VcpuFd) -> u64 {
    vcpu.get_regs().map_or(0, |registers| registers.rip)
}
