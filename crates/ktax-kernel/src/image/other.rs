//! Names files that are neither a bzImage nor an ELF file, by their first bytes.

use super::bytes::bytes_at;
use crate::error::KernelError;

/// Magic numbers of kernels of other architectures: offset, bytes, architecture.
const FOREIGN: [(usize, &[u8], &str); 5] = [
    (56, b"ARM\x64", "arm64"),
    (56, b"RSC\x05", "riscv"),
    (48, b"RISCV\0\0\0", "riscv"),
    (0x24, b"\x18\x28\x6f\x01", "arm"),
    (4, b"zimg", "another architecture (EFI zboot)"),
];

/// Magic numbers of compressed files: bytes, format, the command that unpacks it.
const COMPRESSED: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"\x02\x21\x4c\x18", "lz4", "lz4 -dc"),
];

/// The error for a file that is neither an ELF file nor a bzImage.
pub(super) fn something_else(data: &[u8], name: &str) -> KernelError {
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
        "a file of unknown type"
    };
    KernelError::NotAKernel { name, what }
}

fn is_text(data: &[u8]) -> bool {
    let start = &data[..data.len().min(512)];
    start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}
