//! KVM's statistics of a vCPU. Only the VMM may open them, so it keeps them open, as QEMU does, and
//! a recorder copies the descriptor from it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kvm_ioctls::VcpuFd;

/// `_IO(KVMIO, 0xce)` on x86 (Documentation/virt/kvm/api.rst, 4.131).
const KVM_GET_STATS_FD: u64 = 0xaece;

/// Opens the statistics. `None` before Linux 5.14.
pub(super) fn open(vcpu: &VcpuFd) -> Option<OwnedFd> {
    // SAFETY: the ioctl takes no argument and returns a new descriptor or an error.
    let fd = unsafe { libc::ioctl(vcpu.as_raw_fd(), KVM_GET_STATS_FD) };
    // SAFETY: where it is one, the kernel has just made it, for nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
