//! A small virtual machine monitor (VMM) on `/dev/kvm`. It counts how often its guests exit to user
//! space. The tests of `exits` compare recordings with this [`Account`].
//!
//! ```text
//! raw ────┐             ┌─► vcpu (KVM_RUN, one thread each) ─► Account
//!         ├─► machine ──┤
//! linux ──┘             └─► a Bus: the devices behind ports
//! ```
//!
//! A guest is untrusted: whatever it does gets an answer, or ends it with a [`VmmError`].

pub mod linux;
mod machine;
pub mod operations;
pub mod raw;
mod vcpu;

use std::io;

use ktax_model::Blame;

pub use raw::Loops;
pub use vcpu::{Account, VcpuAccount};

/// Why a guest did not run, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum VmmError {
    #[error("the monitor cannot stop itself: {error}; remove --stop-at-marks")]
    Stop { error: rustix::io::Errno },
    #[error(
        "--{kind} cannot be {times}: the guest has no more memory; use at most --{kind} {most}"
    )]
    TooMany { kind: &'static str, times: u32, most: u32 },
    #[error(
        "--{kind} and --hlt exclude each other: --{kind} needs interrupt controllers in the \
         kernel, and with them no HLT gets to the monitor; remove --{kind} or --hlt"
    )]
    Mixed { kind: &'static str },
    #[error(
        "there is no /dev/kvm; load the module kvm-amd or kvm-intel, or allow virtual machines in \
         the firmware; `ktax doctor` says what this machine can do"
    )]
    NoKvm,
    #[error("cannot open /dev/kvm: {error}; become a member of the group `kvm`")]
    Forbidden { error: io::Error },
    #[error("KVM cannot {action}: {error}; look for the reason at the end of `dmesg`")]
    Kvm { action: &'static str, error: io::Error },
    #[error("cannot allocate {bytes} bytes of guest memory: {reason}; use a smaller --memory-mib")]
    Memory { bytes: usize, reason: String },
    #[error("the guest's memory is too small for {what}; use a larger --memory-mib")]
    OutOfMemory { what: &'static str },
    #[error("cannot start a thread or wait for it: {error}; end other programs and try again")]
    Thread { error: io::Error },

    #[error("{name} does not stop; check that something reads the guest's output, and try again")]
    Stuck { name: String },

    #[error("cannot read {path}: {error}; give the path of {wanted}")]
    Unreadable { path: String, error: io::Error, wanted: &'static str },
    #[error("{path} is not a bzImage of a 64-bit kernel ({reason}); give arch/x86/boot/bzImage")]
    NotAKernel { path: String, reason: String },
    #[error("the kernel and {path} do not fit into the guest's memory; use --memory-mib {mib}")]
    TooSmall { path: String, mib: u64 },
    #[error(
        "{path} is larger than the guest's {mib} MiB of memory; give a smaller file, or use a \
         larger --memory-mib"
    )]
    TooLarge { path: String, mib: u64 },
    #[error("the boot line has {found} bytes and this kernel accepts {limit}; shorten --append")]
    LongLine { found: usize, limit: usize },

    #[error("cannot write the guest's output: {error}; redirect stdout to another place")]
    Console { error: io::Error },
    #[error("vCPU {vcpu} shut down at {rip:#x} (triple fault); check the guest's code there")]
    Shutdown { vcpu: u8, rip: u64 },
    #[error(
        "the processor refused to enter the guest (reason {reason:#x}); \
         look for the reason at the end of `dmesg`"
    )]
    FailEntry { reason: u64 },
    #[error("KVM cannot run vCPU {vcpu} at {rip:#x} ({reason}); look at the end of `dmesg`")]
    GaveUp { vcpu: u8, rip: u64, reason: String },
    #[error("the thread of vCPU {vcpu} panicked; report this together with the command line")]
    Panicked { vcpu: u8 },
}

impl From<VmmError> for ktax_model::Error {
    fn from(error: VmmError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl VmmError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        use VmmError::*;
        match self {
            NoKvm | Forbidden { .. } => Blame::Guest,
            TooMany { .. } | Mixed { .. } => Blame::User,
            Unreadable { .. } | NotAKernel { .. } | TooSmall { .. } => Blame::User,
            TooLarge { .. } | LongLine { .. } => Blame::User,
            Stop { .. } | Kvm { .. } | Memory { .. } | OutOfMemory { .. } => Blame::Host,
            Thread { .. } | Stuck { .. } | Console { .. } | Shutdown { .. } => Blame::Host,
            FailEntry { .. } | GaveUp { .. } | Panicked { .. } => Blame::Host,
        }
    }
}

/// The error of a refused ioctl; `action` is a verb and its object.
pub(super) fn refused<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> VmmError {
    move |error| VmmError::Kvm { action, error: error.into() }
}

/// How a guest ended, if not by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestEnd {
    /// The guest ended itself.
    ByGuest,
    /// SIGINT or SIGTERM ended it.
    BySignal,
}

/// The counts of a guest, and how it ended.
#[derive(Debug)]
pub struct GuestOutcome {
    pub account: Account,
    pub ended: Result<GuestEnd, VmmError>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_blames_someone() {
        assert_eq!(VmmError::NoKvm.blame(), Blame::Guest);
        assert_eq!(VmmError::LongLine { found: 9, limit: 8 }.blame(), Blame::User);
        assert_eq!(VmmError::Panicked { vcpu: 0 }.blame(), Blame::Host);
    }
}
