//! Loads kernel, initial RAM disk, boot line and zero page into the guest's memory.
//!
//! Source: Documentation/arch/x86/boot.rst, "64-bit Boot Protocol".

use std::io::{self, Cursor};
use std::path::Path;

use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use vm_memory::{ByteValued, GuestAddress};

use super::config::Config;
use super::mptable;
use crate::vmm::error::VmmError;
use crate::vmm::machine::{Memory, write};
use ktax_host::disk::read_limited;

const ZERO_PAGE: u64 = 0x7000;
const BOOT_LINE: u64 = 0x2_0000;
const BOOT_LINE_MAX: usize = 0x1_0000;
const HIGH_MEMORY: u64 = 0x10_0000;
const PAGE: u64 = 4096;
/// From the start of the loaded code to its 64-bit entry point.
const ENTRY: u64 = 0x200;
/// `XLF_KERNEL_64`: the kernel has a 64-bit entry point.
const HAS_ENTRY: u16 = 1;
/// The first version of the boot protocol with that flag: Linux 3.8.
const OLDEST: u16 = 0x020c;
/// The number of a loader that has none of its own.
const UNKNOWN_LOADER: u8 = 0xff;
const RAM: u32 = 1;
const RESERVED: u32 = 2;

/// The content of the files, read before the machine is made.
pub(super) struct Files {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
}

/// Where the first vCPU starts.
pub(super) struct Entry {
    pub address: u64,
    pub zero_page: u64,
}

/// Reads the files and checks the kernel's header.
pub(super) fn read(config: &Config) -> Result<Files, VmmError> {
    // A file that is larger than the guest's memory does not fit, and some files have no end.
    let most = config.memory_mib << 20;
    let read = |path: &Path, wanted| {
        let shown = || path.display().to_string();
        let unreadable = |error| VmmError::Unreadable { path: shown(), error, wanted };
        read_limited(path, most).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                VmmError::TooLarge { path: shown(), mib: config.memory_mib }
            }
            _ => unreadable(error),
        })
    };
    let initrd = config.initrd.as_deref().map(|path| read(path, "an initial RAM disk"));
    let initrd = initrd.transpose()?.unwrap_or_default();
    let kernel = read(&config.kernel, "a bzImage")?;
    check(&kernel).map_err(|reason| not_a_kernel(config, reason))?;
    Ok(Files { kernel, initrd })
}

pub(super) fn load(config: &Config, files: &Files, memory: &Memory) -> Result<Entry, VmmError> {
    let bad = |reason: &str| not_a_kernel(config, reason);
    let mut image = Cursor::new(files.kernel.as_slice());
    let loaded = BzImage::load(memory, None, &mut image, Some(GuestAddress(HIGH_MEMORY)));
    let loaded = loaded.map_err(|error| bad(&error.to_string()))?;
    let header = loaded.setup_header.ok_or_else(|| bad("it has no header"))?;
    let mut page = boot_params { hdr: header, ..boot_params::default() };
    page.hdr.type_of_loader = UNKNOWN_LOADER;
    write_line(config, memory, &mut page.hdr)?;
    write_initrd(config, files, memory, &loaded, &mut page.hdr)?;
    let ram = [
        (0, mptable::ADDRESS, RAM),
        (mptable::ADDRESS, HIGH_MEMORY, RESERVED),
        (HIGH_MEMORY, config.memory_mib << 20, RAM),
    ];
    for (entry, (start, end, kind)) in page.e820_table.iter_mut().zip(ram) {
        *entry = boot_e820_entry { addr: start, size: end - start, r#type: kind };
        page.e820_entries += 1;
    }
    write(memory, "the zero page", page.as_slice(), ZERO_PAGE)?;
    Ok(Entry { address: loaded.kernel_load.0 + ENTRY, zero_page: ZERO_PAGE })
}

fn not_a_kernel(config: &Config, reason: &str) -> VmmError {
    VmmError::NotAKernel { path: config.kernel.display().to_string(), reason: reason.into() }
}

/// Checks the header, because the loader does not check for a 64-bit entry point.
fn check(kernel: &[u8]) -> Result<(), &'static str> {
    let word = |at: usize| {
        let bytes = kernel.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_le_bytes)
    };
    if kernel.get(0x202..0x206) != Some(b"HdrS") || word(0x1fe) != 0xaa55 {
        return Err("it has no setup header");
    }
    if word(0x206) < OLDEST || word(0x236) & HAS_ENTRY == 0 {
        return Err("it has no 64-bit entry point");
    }
    Ok(())
}

fn write_line(config: &Config, memory: &Memory, header: &mut setup_header) -> Result<(), VmmError> {
    let limit = BOOT_LINE_MAX.min(header.cmdline_size as usize);
    let found = config.append.len();
    if found > limit {
        return Err(VmmError::LongLine { found, limit });
    }
    let line = [config.append.as_bytes(), &[0]].concat();
    write(memory, "the boot line", &line, BOOT_LINE)?;
    header.cmd_line_ptr = low(BOOT_LINE);
    Ok(())
}

/// As high in memory as possible, above the space in which the kernel unpacks itself.
fn write_initrd(
    config: &Config,
    files: &Files,
    memory: &Memory,
    loaded: &KernelLoaderResult,
    header: &mut setup_header,
) -> Result<(), VmmError> {
    let (memory_bytes, length) = (config.memory_mib << 20, files.initrd.len() as u64);
    let start = loaded.kernel_load.0.max(header.pref_address);
    let taken = start.saturating_add(header.init_size.into()).max(loaded.kernel_end);
    let top = memory_bytes.min(u64::from(header.initrd_addr_max) + 1);
    let place = top.saturating_sub(length) & !(PAGE - 1);
    if place < taken || taken > memory_bytes {
        let path = config.initrd.as_ref().unwrap_or(&config.kernel).display().to_string();
        let mib = (taken.saturating_add(length) >> 20).saturating_add(64);
        return Err(VmmError::TooSmall { path, mib });
    }
    if length > 0 {
        write(memory, "the initial RAM disk", &files.initrd, place)?;
        header.ramdisk_image = low(place);
        header.ramdisk_size = low(length);
    }
    Ok(())
}

/// All of this lies below 4 GiB.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with the fields that [`check`] reads.
    fn kernel() -> Vec<u8> {
        let mut kernel = vec![0; 0x400];
        kernel[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x206..0x208].copy_from_slice(&OLDEST.to_le_bytes());
        kernel[0x236] = 1;
        kernel
    }

    #[test]
    fn headers() {
        assert_eq!(check(&kernel()), Ok(()));
        for (at, byte) in [(0x1fe, 0), (0x202, b'x'), (0x206, 0), (0x236, 0)] {
            let mut damaged = kernel();
            damaged[at] = byte;
            assert!(check(&damaged).is_err(), "{at:#x}");
        }
        for length in [0, 1, 0x1ff, 0x203, 0x236] {
            assert!(check(&kernel()[..length]).is_err(), "{length:#x}");
        }
    }
}
