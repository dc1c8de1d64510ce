//! Finds out what a file is, and reads what it says about itself if it is a kernel.

use super::bzimage;
use super::facts::Facts;
use super::other::something_else;
use super::vmlinux;
use crate::kernel::error::KernelError;
use crate::model::Arch;

/// Reads `data`, the whole of an image for `arch`; `name` stands for it in the errors.
///
/// # Errors
/// When it is not a kernel for it that QEMU can start and ktax can identify.
pub(crate) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts, KernelError> {
    if data.is_empty() {
        return Err(KernelError::Empty { name: name.to_owned() });
    }
    let facts = if data.starts_with(b"\x7fELF") {
        vmlinux::inspect(data, name, arch)?
    } else if arch != Arch::X86_64 {
        let (name, found) = (name.to_owned(), "no vmlinux".to_owned());
        return Err(KernelError::NotFor { name, found, wanted: arch.name() });
    } else if bzimage::is_bzimage(data) {
        bzimage::inspect(data, name)?
    } else {
        return Err(something_else(data, name));
    };
    if facts.release.is_none() && facts.build_id.is_none() {
        return Err(KernelError::NoIdentity { name: name.to_owned() });
    }
    Ok(facts)
}
