//! Reads the `Image` of arm64 and riscv64: the kernel as it lies in memory, behind a header of 64
//! bytes. Source: Linux `Documentation/arch/arm64/booting.rst`,
//! `Documentation/arch/riscv/boot-image-header.rst`.

use super::bytes::bytes_at;
use super::facts::{Facts, banner_in, package_date, release_word};
use crate::error::KernelError;
use ktax_model::{Arch, ImageFormat};

/// Where both headers have the magic number.
const MAGIC: usize = 56;

/// The facts of a file that is not an ELF file, for an `arch` other than x86_64.
pub(super) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts, KernelError> {
    let magic: Option<&[u8]> = match arch {
        Arch::Arm64 => Some(b"ARM\x64"),
        Arch::Riscv64 => Some(b"RSC\x05"),
        Arch::X86_64 | Arch::PowerPc | Arch::Ppc64le => None,
    };
    if magic.is_none() || bytes_at(data, MAGIC, 4) != magic {
        let found = match magic {
            Some(_) => "neither a vmlinux nor an Image",
            None => "not a vmlinux",
        };
        let (name, found) = (name.to_owned(), found.to_owned());
        return Err(KernelError::NotFor { name, found, wanted: arch.name() });
    }
    // The header's size has the memory that the file does not: it says nothing about the file.
    let banner = banner_in(data);
    Ok(Facts {
        format: ImageFormat::Image,
        release: banner.and_then(release_word),
        package_date: banner.and_then(package_date),
        build_id: None,
    })
}
