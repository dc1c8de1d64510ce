//! Finds out which kind of file an image is, and reads its facts.

use super::bzimage;
use super::facts::Facts;
use super::other::something_else;
use super::raw;
use super::vmlinux;
use crate::error::KernelError;
use ktax_model::Arch;

/// The facts of an image for `arch`. `data` is the whole file; `name` names it in the errors.
///
/// # Errors
/// If `data` is not a kernel for `arch`, QEMU cannot boot it, or it has neither a release nor a
/// build-id.
pub(crate) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts, KernelError> {
    if data.is_empty() {
        return Err(KernelError::Empty { name: name.to_owned() });
    }
    let facts = if data.starts_with(b"\x7fELF") {
        vmlinux::inspect(data, name, arch)?
    } else if arch != Arch::X86_64 {
        raw::inspect(data, name, arch)?
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
