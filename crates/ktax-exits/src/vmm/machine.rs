//! `/dev/kvm`, a VM and its memory.

use std::io;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::error::{VmmError, refused};

/// The guest's memory: one range from address 0.
pub(super) type Memory = GuestMemoryMmap<()>;

/// A virtual machine without vCPUs.
pub(super) struct Machine {
    pub kvm: Kvm,
    pub vm: VmFd,
    pub memory: Memory,
}

impl Machine {
    pub fn new(bytes: usize) -> Result<Machine, VmmError> {
        let kvm = open()?;
        let vm = kvm.create_vm().map_err(refused("create a virtual machine"))?;
        let memory = Memory::from_ranges(&[(GuestAddress(0), bytes)])
            .map_err(|error| VmmError::Memory { bytes, reason: error.to_string() })?;
        let address = memory.get_host_address(GuestAddress(0));
        let address = address.map_err(|_| VmmError::OutOfMemory { what: "a single page" })?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: bytes as u64,
            userspace_addr: address as u64,
        };
        // SAFETY: the mapping is `bytes` long and private to `memory`, which the Machine holds as
        // long as the VM; the vCPUs have ended before the Machine goes.
        unsafe { vm.set_user_memory_region(region) }.map_err(refused("map the guest's memory"))?;
        Ok(Machine { kvm, vm, memory })
    }
}

fn open() -> Result<Kvm, VmmError> {
    Kvm::new().map_err(|error| {
        let error = io::Error::from(error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => VmmError::Forbidden { error },
            _ => VmmError::NoKvm,
        }
    })
}

/// Writes bytes to an address in the guest's memory.
pub(super) fn write(
    memory: &Memory,
    what: &'static str,
    bytes: &[u8],
    address: u64,
) -> Result<(), VmmError> {
    let written = memory.write_slice(bytes, GuestAddress(address));
    written.map_err(|_| VmmError::OutOfMemory { what })
}
