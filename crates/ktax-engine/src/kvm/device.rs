//! Whether this user may use KVM; asked before anything is fetched or booted.

use std::fs::File;
use std::io::ErrorKind;

use thiserror::Error;

use ktax_model::Accelerator;

/// Why this user cannot use KVM.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The module is not loaded, or the machine has no virtualization.
    #[error(
        "there is no /dev/kvm; {}, or count with the exact engine, which needs no KVM",
        self.next_step()
    )]
    Absent,
    /// The kernel refuses this user.
    #[error("cannot open /dev/kvm: {reason}; {}", self.next_step())]
    Forbidden {
        /// The kernel's words.
        reason: String,
    },
}

impl DeviceError {
    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            DeviceError::Absent => "load the module kvm-amd or kvm-intel",
            DeviceError::Forbidden { .. } => "become a member of the group `kvm`",
        }
    }
}

/// Opens the device and closes it.
///
/// # Errors
/// It is not there, or this user may not open it.
pub fn look() -> Result<(), DeviceError> {
    match File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(DeviceError::Absent),
        Err(error) => Err(DeviceError::Forbidden { reason: error.to_string() }),
    }
}

/// The same, where guests need it.
///
/// # Errors
/// As [`look`].
pub fn check(accelerator: Accelerator) -> Result<(), DeviceError> {
    match accelerator {
        Accelerator::Kvm => look(),
        Accelerator::Tcg => Ok(()),
    }
}
