//! Reads the format, the release and the build-id from the bytes of an image.
//!
//! Sources:
//! - bzImage: Linux `Documentation/arch/x86/boot.rst`, "The Real-Mode Kernel Header". All fields
//!   are little-endian; offsets are from the start of the file.
//! - vmlinux: QEMU's `-kernel` starts an x86_64 ELF file at the address in the Xen note of type 18
//!   (`XEN_ELFNOTE_PHYS32_ENTRY`), and refuses a file without it: QEMU `hw/i386/x86.c`
//!   (`x86_load_linux`), Linux `arch/x86/platform/pvh/head.S`.
//! - Image of arm64 and riscv64, the kernel as it is in memory after a header of 64 bytes: Linux
//!   `Documentation/arch/arm64/booting.rst`, `Documentation/arch/riscv/boot-image-header.rst`.

use std::fmt::Display;

use object::Endianness;
use object::elf::{
    EM_AARCH64, EM_PPC, EM_PPC64, EM_RISCV, EM_X86_64, ET_REL, FileHeader32, FileHeader64,
    NT_GNU_BUILD_ID, PT_INTERP, PT_LOAD, PT_NOTE, SHT_NOBITS,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use ktax_model::{Arch, Error, ImageFormat, Result};

/// Reads the facts of an image for `arch`. `data` is the whole file; `name` is its name in errors.
pub(crate) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts> {
    if data.is_empty() {
        return Err(Error::user(format!("{name} is empty")).next("build or copy the kernel again"));
    }
    let facts = if data.starts_with(b"\x7fELF") {
        inspect_vmlinux(data, name, arch)?
    } else if arch != Arch::X86_64 {
        inspect_raw(data, name, arch)?
    } else if is_bzimage(data) {
        inspect_bzimage(data, name)?
    } else {
        return Err(unknown_format(data, name));
    };
    if facts.release.is_none() && facts.build_id.is_none() {
        let problem = format!("cannot identify {name}: it has neither a release nor a build-id");
        return Err(Error::user(problem).next("give the bzImage that the kernel build made"));
    }
    Ok(facts)
}

/// Facts about a kernel that its image contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub format: ImageFormat,
    /// Kernel release, as `uname -r` prints it.
    pub release: Option<String>,
    /// The day of the kernel's Debian package: `2026-01-31`.
    pub package_date: Option<String>,
    /// GNU build-id in hexadecimal.
    pub build_id: Option<String>,
}

impl Facts {
    /// Returns the facts of an image without a build-id. `banner` is the text of its banner from
    /// the release on.
    fn new(format: ImageFormat, banner: Option<&[u8]>) -> Facts {
        let (release, package_date) =
            (banner.and_then(release_word), banner.and_then(package_date));
        Facts { format, release, package_date, build_id: None }
    }
}

/// Returns the error for a file that is shorter than its headers tell. Both sizes are in bytes.
fn truncated(name: &str, found: u64, expected: u64) -> Error {
    Error::user(format!("{name} is truncated: it has {found} of at least {expected} bytes"))
        .next("copy the kernel again")
}

/// Returns the error for a kernel of another architecture than x86_64.
fn wrong_arch(name: &str, arch: &str) -> Error {
    Error::user(format!("{name} is a kernel for {arch}, but ktax boots x86_64"))
        .next("give an x86_64 bzImage")
}

/// Returns the error for a kernel that is not for `arch`. `found` is what it is instead.
pub(crate) fn not_for(name: impl Display, found: &str, arch: Arch) -> Error {
    let wanted = arch.name();
    Error::user(format!("{name} is {found}, but a kernel for {wanted} is needed"))
        .next(format!("give a vmlinux for {wanted}, or a source such as `src:linux`"))
}

fn not_a_kernel(name: &str, kind: &str) -> Error {
    Error::user(format!("{name} is {kind}, not a kernel")).next("give the path of a bzImage")
}

/// Start of the banner, which every kernel contains.
const BANNER: &[u8] = b"Linux version ";

/// The longest banner, in bytes.
const BANNER_MAX: usize = 1024;

/// Finds the banner, and returns its text from the release on. Skips format strings with the same
/// start.
fn banner_in(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        let start = data.windows(BANNER.len()).position(|window| window == BANNER)?;
        data = data.get(start + BANNER.len()..)?;
        if release_word(data).is_some() {
            return Some(data);
        }
    }
}

/// Returns the day of a Debian kernel's package, which is at the end of its banner: `#1 SMP
/// PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)`. `None` for other kernels, which have the time of
/// their build there.
fn package_date(banner: &[u8]) -> Option<String> {
    let banner = &banner[..banner.len().min(BANNER_MAX)];
    let end = banner.iter().position(|byte| matches!(byte, b'\0' | b'\n'))?;
    let day = banner[..end].strip_suffix(b")")?;
    let day = day.get(day.iter().rposition(|byte| *byte == b'(')? + 1..)?;
    let is_day = day.len() == 10
        && day.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_day.then(|| String::from_utf8_lossy(day).into_owned())
}

/// Returns the first word of `text` if it can be a kernel release: it begins with a digit, is
/// printable, and has at most 64 bytes (`__NEW_UTS_LEN`).
fn release_word(text: &[u8]) -> Option<String> {
    let end = text.iter().take(65).position(|&byte| byte == b' ' || byte == b'\0')?;
    let word = &text[..end];
    let plausible = word.first()?.is_ascii_digit() && word.iter().all(u8::is_ascii_graphic);
    if !plausible {
        return None;
    }
    String::from_utf8(word.to_vec()).ok()
}

const SECTOR: u64 = 512;

// Offsets of fields of the setup header.
const SETUP_SECTS: usize = 0x1f1;
/// The size of the protected-mode code, in paragraphs of 16 bytes.
const SYSSIZE: usize = 0x1f4;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const XLOADFLAGS: usize = 0x236;
/// The flag of a kernel with a 64-bit entry point, which only 64-bit kernels have.
const XLF_KERNEL_64: u16 = 1;
/// The oldest boot protocol that ktax reads: that of Linux 2.6.22.
const MIN_PROTOCOL: u16 = 0x0206;
/// The first boot protocol with `xloadflags`: that of Linux 3.8.
const XLOADFLAGS_PROTOCOL: u16 = 0x020c;

/// Returns whether `data` has the two magic numbers of the setup header.
fn is_bzimage(data: &[u8]) -> bool {
    u16_at(data, BOOT_FLAG) == Some(0xaa55) && bytes_at(data, HEADER, 4) == Some(b"HdrS")
}

/// Reads the facts of a file that [`is_bzimage`].
fn inspect_bzimage(data: &[u8], name: &str) -> Result<Facts> {
    let found = data.len() as u64;
    let expected = full_size(data);
    if found < expected {
        return Err(truncated(name, found, expected));
    }
    let version = u16_at(data, VERSION).unwrap_or(0);
    if version < MIN_PROTOCOL {
        let [minor, major] = version.to_le_bytes();
        let problem =
            format!("{name} has boot protocol {major}.{minor:02}, but ktax needs 2.06 or newer");
        return Err(Error::user(problem).next("give Linux 2.6.22 or newer"));
    }
    let flags = u16_at(data, XLOADFLAGS).unwrap_or(0);
    if version >= XLOADFLAGS_PROTOCOL && flags & XLF_KERNEL_64 == 0 {
        return Err(wrong_arch(name, "i386"));
    }
    Ok(Facts::new(ImageFormat::BzImage, banner(data)))
}

/// Returns the size in bytes by the header: that of the boot sector, the setup code and the
/// protected-mode code. The file may be longer, because a signature may follow.
fn full_size(data: &[u8]) -> u64 {
    let paragraphs = u32_at(data, SYSSIZE).unwrap_or(0);
    setup_size(data) + u64::from(paragraphs) * 16
}

/// Returns the size in bytes of the boot sector and the setup code.
fn setup_size(data: &[u8]) -> u64 {
    let sectors = match data.get(SETUP_SECTS) {
        // The boot protocol reads 0 as 4.
        None | Some(0) => 4,
        Some(&sectors) => u64::from(sectors),
    };
    (sectors + 1) * SECTOR
}

/// Returns the version string in the setup code, which begins with the release. Its pointer is
/// relative to 0x200.
fn banner(data: &[u8]) -> Option<&[u8]> {
    let pointer = usize::from(u16_at(data, KERNEL_VERSION)?);
    if pointer == 0 {
        return None;
    }
    let setup = data.get(..usize::try_from(setup_size(data)).ok()?)?;
    setup.get(pointer + 0x200..)
}

const XEN_PHYS32_ENTRY: u32 = 18;
/// The size of the ELF header of a 64-bit file, in bytes.
const ELF_HEADER_SIZE: u64 = 64;
const ELF_CLASS_32: u8 = 1;
const ELF_CLASS_64: u8 = 2;
const ELF_LITTLE_ENDIAN: u8 = 1;
const ELF_BIG_ENDIAN: u8 = 2;

/// Reads the facts of a file that begins with the ELF magic number.
fn inspect_vmlinux(data: &[u8], name: &str, arch: Arch) -> Result<Facts> {
    check_machine(data, name, arch)?;
    match arch {
        Arch::PowerPc => read_elf::<FileHeader32<Endianness>>(data, name, arch),
        _ => read_elf::<FileHeader64<Endianness>>(data, name, arch),
    }
}

fn read_elf<Elf: FileHeader<Endian = Endianness>>(
    data: &[u8],
    name: &str,
    arch: Arch,
) -> Result<Facts> {
    let damaged = |problem| {
        Error::user(format!("{name} is damaged: {problem}")).next("build or copy the kernel again")
    };
    let elf = Elf::parse(data).map_err(|_| damaged("the ELF header is invalid"))?;
    let endian = elf.endian().map_err(|_| damaged("the ELF header is invalid"))?;
    check_length(data, elf, endian, name)?;
    let segments = elf
        .program_headers(endian, data)
        .map_err(|_| damaged("the program headers are invalid"))?;
    if segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP) {
        return Err(not_a_kernel(name, "a program"));
    }
    if !segments.iter().any(|segment| segment.p_type(endian) == PT_LOAD) {
        return Err(damaged("it has no segment to load"));
    }
    let rodata = rodata(data, elf, endian);
    if rodata.is_some_and(|section| section.sh_type(endian) == SHT_NOBITS) {
        return Err(damaged("it contains only debug symbols"));
    }
    let notes = Notes::read(data, segments, endian);
    if arch == Arch::X86_64 && !notes.has_pvh_entry {
        let problem =
            format!("QEMU cannot boot {name}: this vmlinux has no PVH entry point (CONFIG_PVH)");
        return Err(Error::user(problem).next("give the bzImage of the same build"));
    }
    let banner = rodata.and_then(|section| banner_in(section.data(endian, data).ok()?));
    Ok(Facts { build_id: notes.build_id, ..Facts::new(ImageFormat::Vmlinux, banner) })
}

/// Returns the ELF class, byte order and machine of an architecture.
fn expected_machine(arch: Arch) -> (u8, u8, u16) {
    match arch {
        Arch::X86_64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_X86_64),
        Arch::PowerPc => (ELF_CLASS_32, ELF_BIG_ENDIAN, EM_PPC),
        Arch::Ppc64le => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_PPC64),
        Arch::Arm64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_AARCH64),
        Arch::Riscv64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_RISCV),
    }
}

/// Refuses an ELF file that is not a kernel for `arch`.
fn check_machine(data: &[u8], name: &str, arch: Arch) -> Result<()> {
    let found = data.len() as u64;
    let (Some(&[class, order]), Some(kind)) = (bytes_at(data, 4, 2), bytes_at(data, 16, 4)) else {
        return Err(truncated(name, found, ELF_HEADER_SIZE));
    };
    let half = |offset: usize| {
        let value = u16_at(kind, offset).unwrap_or(0);
        if order == ELF_LITTLE_ENDIAN { value } else { value.swap_bytes() }
    };
    if half(0) == ET_REL {
        let problem = format!("{name} is a kernel module or an object file");
        return Err(Error::user(problem).next("give the path of a bzImage"));
    }
    if (class, order, half(2)) != expected_machine(arch) {
        let found = machine_name(half(2), class == ELF_CLASS_64);
        return Err(match arch {
            Arch::X86_64 => wrong_arch(name, &found),
            _ => not_for(name, &format!("for {found}"), arch),
        });
    }
    if found < ELF_HEADER_SIZE {
        return Err(truncated(name, found, ELF_HEADER_SIZE));
    }
    Ok(())
}

fn machine_name(machine: u16, is_64: bool) -> String {
    let known = match machine {
        3 => "i386",
        8 => "mips",
        20 => "powerpc",
        21 => "powerpc64 or powerpc64le",
        22 => "s390x",
        40 => "arm",
        62 if is_64 => "x86_64",
        62 => "x86_64 with 32-bit addresses",
        183 => "arm64",
        243 => "riscv",
        258 => "loongarch",
        _ => return format!("ELF machine {machine}"),
    };
    known.to_owned()
}

/// Refuses a file that is too short for its headers, its segments or its section table.
fn check_length<Elf: FileHeader<Endian = Endianness>>(
    data: &[u8],
    elf: &Elf,
    endian: Endianness,
    name: &str,
) -> Result<()> {
    let table = |offset: u64, count: u16, size: u16| {
        offset.saturating_add(u64::from(count) * u64::from(size))
    };
    let programs = table(elf.e_phoff(endian).into(), elf.e_phnum(endian), elf.e_phentsize(endian));
    let sections = table(elf.e_shoff(endian).into(), elf.e_shnum(endian), elf.e_shentsize(endian));
    let segments = elf.program_headers(endian, data).unwrap_or(&[]);
    let segment_end = |segment: &Elf::ProgramHeader| {
        segment.p_offset(endian).into().saturating_add(segment.p_filesz(endian).into())
    };
    let ends = segments.iter().map(segment_end);
    let expected = ends.chain([programs, sections]).max().unwrap_or(0);
    let found = data.len() as u64;
    if found < expected {
        return Err(truncated(name, found, expected));
    }
    Ok(())
}

/// Content of the ELF notes that ktax needs.
#[derive(Default)]
struct Notes {
    build_id: Option<String>,
    has_pvh_entry: bool,
}

impl Notes {
    /// Reads the PT_NOTE segments, as QEMU does. Ignores the rest of a segment after a damaged
    /// note.
    fn read<Segment: ProgramHeader<Endian = Endianness>>(
        data: &[u8],
        segments: &[Segment],
        endian: Endianness,
    ) -> Self {
        let mut found = Self::default();
        for segment in segments.iter().filter(|segment| segment.p_type(endian) == PT_NOTE) {
            let Ok(Some(mut notes)) = segment.notes(endian, data) else { continue };
            while let Ok(Some(note)) = notes.next() {
                match (note.name(), note.n_type(endian)) {
                    (b"GNU", NT_GNU_BUILD_ID) if (1..=64).contains(&note.desc().len()) => {
                        found.build_id.get_or_insert_with(|| hex(note.desc()));
                    }
                    (b"Xen", XEN_PHYS32_ENTRY) => found.has_pvh_entry = true,
                    _ => {}
                }
            }
        }
        found
    }
}

/// Returns the header of the section `.rodata`, which has the banner.
fn rodata<'a, Elf: FileHeader<Endian = Endianness>>(
    data: &'a [u8],
    elf: &Elf,
    endian: Endianness,
) -> Option<&'a Elf::SectionHeader> {
    let sections = elf.sections(endian, data).ok()?;
    sections.section_by_name(endian, b".rodata").map(|(_, section)| section)
}

/// Offset of the magic number in the headers of arm64 and riscv64.
const RAW_MAGIC: usize = 56;

/// Reads the facts of an Image, for an `arch` other than x86_64.
fn inspect_raw(data: &[u8], name: &str, arch: Arch) -> Result<Facts> {
    let magic: Option<&[u8]> = match arch {
        Arch::Arm64 => Some(b"ARM\x64"),
        Arch::Riscv64 => Some(b"RSC\x05"),
        Arch::X86_64 | Arch::PowerPc | Arch::Ppc64le => None,
    };
    if magic.is_none() || bytes_at(data, RAW_MAGIC, 4) != magic {
        let found = match magic {
            Some(_) => "neither a vmlinux nor an Image",
            None => "not a vmlinux",
        };
        return Err(not_for(name, found, arch));
    }
    // The size in the header includes memory that is not in the file, so it cannot be checked.
    Ok(Facts::new(ImageFormat::Image, banner_in(data)))
}

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

/// Returns the error for a file that is neither an ELF file nor a bzImage.
fn unknown_format(data: &[u8], name: &str) -> Error {
    let has = |offset: usize, magic: &[u8]| bytes_at(data, offset, magic.len()) == Some(magic);
    if let Some(&(.., arch)) = FOREIGN.iter().find(|&&(offset, magic, _)| has(offset, magic)) {
        return wrong_arch(name, arch);
    }
    if let Some(&(_, format, tool)) = COMPRESSED.iter().find(|&&(magic, ..)| has(0, magic)) {
        return Error::user(format!("{name} is compressed with {format}"))
            .next(format!("unpack it with `{tool} < FILE > vmlinux`, then give vmlinux"));
    }
    if has(0, b"!<arch>\ndebian-binary") {
        return Error::user(format!("{name} is a Debian package"))
            .next("unpack it with `dpkg-deb -x FILE DIR`, then give DIR/boot/vmlinuz-*");
    }
    let kind = if has(0, b"MZ") {
        "an EFI program without a Linux setup header"
    } else if is_text(data) {
        "a text file"
    } else {
        "a file of unknown type"
    };
    not_a_kernel(name, kind)
}

fn is_text(data: &[u8]) -> bool {
    let start = &data[..data.len().min(512)];
    start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Formats bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_at(data: &[u8], offset: usize, length: usize) -> Option<&[u8]> {
    data.get(offset..offset.checked_add(length)?)
}

/// Reads a little-endian number of 16 bits.
fn u16_at(data: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes_at(data, offset, 2)?.try_into().ok()?))
}

/// Reads a little-endian number of 32 bits.
fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes_at(data, offset, 4)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "image_tests.rs"]
pub(crate) mod tests;
