//! Why a guest could not run, or did not end well. Each message ends with the next step.

use std::io;

/// Why there is no guest, or no good end of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VmmError {
    #[error("the monitor cannot stop itself: {error}: leave --stop-at-marks out")]
    Stop { error: rustix::io::Errno },
    #[error(
        "there is no /dev/kvm: load the module kvm-amd or kvm-intel, \
         or run this within `ktax kvm-host --`"
    )]
    NoKvm,
    #[error("cannot open /dev/kvm: {error}: become a member of the group `kvm`")]
    Forbidden { error: io::Error },
    #[error("KVM refuses {action}: {error}: the end of `dmesg` may say why")]
    Kvm { action: &'static str, error: io::Error },
    #[error("no {bytes} bytes of memory for the guest: {reason}: give it less")]
    Memory { bytes: usize, reason: String },
    #[error("cannot write {what} into the guest's memory: give it more with --memory-mib")]
    OutOfMemory { what: &'static str },
    #[error("cannot start a thread or wait for it: {error}: end other programs and try again")]
    Thread { error: io::Error },

    #[error("{name} does not end: let something read what the guest prints, and try again")]
    Stuck { name: String },

    #[error("cannot read {path}: {error}: give the path of {wanted}")]
    Unreadable { path: String, error: io::Error, wanted: &'static str },
    #[error("{path} is no bzImage of a 64-bit kernel ({reason}): give arch/x86/boot/bzImage")]
    NotAKernel { path: String, reason: String },
    #[error("the kernel and {path} need more than the guest's memory: give --memory-mib {mib}")]
    TooSmall { path: String, mib: u64 },
    #[error(
        "{path} is larger than the guest's {mib} MiB of memory: give a smaller file, or more \
         memory with --memory-mib"
    )]
    TooLarge { path: String, mib: u64 },
    #[error("the kernel takes a line of {limit} bytes, not of {found}: shorten --append")]
    LongLine { found: usize, limit: usize },

    #[error("cannot write what the guest prints: {error}: send stdout elsewhere")]
    Console { error: io::Error },
    #[error("vCPU {vcpu} shut down at {rip:#x} (a triple fault): look at what its code does there")]
    Shutdown { vcpu: u8, rip: u64 },
    #[error(
        "the processor refused to enter the guest (reason {reason:#x}): \
         the end of `dmesg` may say why"
    )]
    FailEntry { reason: u64 },
    #[error("KVM gave up on vCPU {vcpu} at {rip:#x} ({reason}): the end of `dmesg` may say why")]
    GaveUp { vcpu: u8, rip: u64, reason: String },
    #[error("vCPU {vcpu} panicked: report this with the command line")]
    Panicked { vcpu: u8 },
}

impl VmmError {
    /// Whether this machine has no usable KVM.
    pub fn is_without_kvm(&self) -> bool {
        matches!(self, Self::NoKvm | Self::Forbidden { .. })
    }

    /// Whether the command line is the reason.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unreadable { .. }
                | Self::NotAKernel { .. }
                | Self::TooSmall { .. }
                | Self::TooLarge { .. }
                | Self::LongLine { .. }
        )
    }
}

/// What a refused ioctl is called.
pub(super) fn refused<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> VmmError {
    move |error| VmmError::Kvm { action, error: error.into() }
}
