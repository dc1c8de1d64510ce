//! What the bytes of an image say about it: format, release, build-id, or what else it is.

use crate::model::{Arch, Format};

use super::error::KernelError;
use super::{bzimage, vmlinux};

/// What an image says about itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub format: Format,
    pub release: Option<String>,
    pub build_id: Option<String>,
}

/// Reads `data`, the whole of an image for `arch`; `name` stands for it in the errors.
///
/// # Errors
/// When it is not a kernel for it that QEMU can start and ktax can identify.
pub(super) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts, KernelError> {
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

/// Magic numbers of kernels of other architectures: offset, bytes, architecture.
const FOREIGN: [(usize, &[u8], &str); 5] = [
    (56, b"ARM\x64", "arm64"),
    (56, b"RSC\x05", "riscv"),
    (48, b"RISCV\0\0\0", "riscv"),
    (0x24, b"\x18\x28\x6f\x01", "arm"),
    (4, b"zimg", "another architecture (EFI zboot)"),
];

/// Magic numbers of compressed files: bytes, format, the tool that unpacks it.
const COMPRESSED: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"\x02\x21\x4c\x18", "lz4", "lz4 -dc"),
];

/// The error for what is neither an ELF file nor a bzImage.
fn something_else(data: &[u8], name: &str) -> KernelError {
    let name = name.to_owned();
    let has = |at: usize, magic: &[u8]| bytes_at(data, at, magic.len()) == Some(magic);
    if let Some(&(.., arch)) = FOREIGN.iter().find(|&&(at, magic, _)| has(at, magic)) {
        return KernelError::WrongArch { name, arch: arch.to_owned() };
    }
    if let Some(&(_, with, tool)) = COMPRESSED.iter().find(|&&(magic, ..)| has(0, magic)) {
        return KernelError::Compressed { name, with, tool };
    }
    if has(0, b"!<arch>\ndebian-binary") {
        return KernelError::DebianPackage { name };
    }
    let what = if has(0, b"MZ") {
        "an EFI program without a Linux setup header"
    } else if is_text(data) {
        "a text file"
    } else {
        "a file of an unknown kind"
    };
    KernelError::NotAKernel { name, what }
}

fn is_text(data: &[u8]) -> bool {
    let start = &data[..data.len().min(512)];
    start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// The first word of `text`, if it can be a kernel release: it begins with a digit, is printable
/// and is at most 64 bytes long (`__NEW_UTS_LEN`).
pub(super) fn release_word(text: &[u8]) -> Option<String> {
    let end = text.iter().take(65).position(|&byte| byte == b' ' || byte == b'\0')?;
    let word = &text[..end];
    let plausible = word.first()?.is_ascii_digit() && word.iter().all(u8::is_ascii_graphic);
    if !plausible {
        return None;
    }
    String::from_utf8(word.to_vec()).ok()
}

/// `bytes` as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn bytes_at(data: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    data.get(at..at.checked_add(length)?)
}

pub(super) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes_at(data, at, 2)?.try_into().ok()?))
}

pub(super) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes_at(data, at, 4)?.try_into().ok()?))
}
