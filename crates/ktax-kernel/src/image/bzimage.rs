//! The x86 setup header of a bzImage.
//!
//! Source: Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header". All fields are
//! little-endian; offsets are from the start of the file.

use super::bytes::{bytes_at, u16_at, u32_at};
use super::facts::{Facts, package_date, release_word};
use crate::error::KernelError;
use ktax_model::ImageFormat;

const SECTOR: u64 = 512;
const SETUP_SECTS: usize = 0x1f1;
/// In paragraphs of 16 bytes.
const SYSSIZE: usize = 0x1f4;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const XLOADFLAGS: usize = 0x236;
/// The flag of a kernel with a 64-bit entry point, which only 64-bit kernels have.
const XLF_KERNEL_64: u16 = 1;
/// The oldest protocol that ktax reads: Linux 2.6.22.
const OLDEST: u16 = 0x0206;
/// The first protocol with `xloadflags`: Linux 3.8.
const WITH_XLOADFLAGS: u16 = 0x020c;

/// Whether `data` has the two magic numbers of the setup header.
pub(super) fn is_bzimage(data: &[u8]) -> bool {
    u16_at(data, BOOT_FLAG) == Some(0xaa55) && bytes_at(data, HEADER, 4) == Some(b"HdrS")
}

/// The facts of a file that [`is_bzimage`]; `name` names it in the errors.
pub(super) fn inspect(data: &[u8], name: &str) -> Result<Facts, KernelError> {
    let found = data.len() as u64;
    let expected = full_size(data);
    if found < expected {
        return Err(KernelError::Truncated { name: name.to_owned(), found, expected });
    }
    let version = u16_at(data, VERSION).unwrap_or(0);
    if version < OLDEST {
        let [minor, major] = version.to_le_bytes();
        return Err(KernelError::OldProtocol { name: name.to_owned(), major, minor });
    }
    let flags = u16_at(data, XLOADFLAGS).unwrap_or(0);
    if version >= WITH_XLOADFLAGS && flags & XLF_KERNEL_64 == 0 {
        return Err(KernelError::WrongArch { name: name.to_owned(), arch: "i386".to_owned() });
    }
    let banner = banner(data);
    Ok(Facts {
        format: ImageFormat::BzImage,
        release: banner.and_then(release_word),
        package_date: banner.and_then(package_date),
        build_id: None,
    })
}

/// The size in bytes that the header promises: the boot sector, the setup code and the
/// protected-mode code. A signature may follow, so the file may be longer.
fn full_size(data: &[u8]) -> u64 {
    let paragraphs = u32_at(data, SYSSIZE).unwrap_or(0);
    setup_size(data) + u64::from(paragraphs) * 16
}

fn setup_size(data: &[u8]) -> u64 {
    let sectors = match data.get(SETUP_SECTS) {
        None | Some(0) => 4,
        Some(&sectors) => u64::from(sectors),
    };
    (sectors + 1) * SECTOR
}

/// The version string, which begins with the release. It is in the setup code, and its pointer
/// counts from 0x200.
fn banner(data: &[u8]) -> Option<&[u8]> {
    let pointer = usize::from(u16_at(data, KERNEL_VERSION)?);
    if pointer == 0 {
        return None;
    }
    let setup = data.get(..usize::try_from(setup_size(data)).ok()?)?;
    setup.get(pointer + 0x200..)
}
