//! Reads an ELF vmlinux: machine, release, build-id, and on x86_64 the PVH entry point.
//!
//! QEMU's `-kernel` starts an x86_64 ELF file at the address in the Xen note of type 18
//! (`XEN_ELFNOTE_PHYS32_ENTRY`), and refuses a file without it. Source: QEMU `hw/i386/x86.c`
//! (`x86_load_linux`), Linux `arch/x86/platform/pvh/head.S`.

use object::Endianness;
use object::elf::{
    EM_AARCH64, EM_PPC, EM_PPC64, EM_RISCV, EM_X86_64, ET_REL, FileHeader32, FileHeader64,
    NT_GNU_BUILD_ID, PT_INTERP, PT_LOAD, PT_NOTE, SHT_NOBITS,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::bytes::{bytes_at, hex, u16_at};
use super::facts::{Facts, banner_in, package_date, release_word};
use crate::error::KernelError;
use ktax_model::{Arch, ImageFormat};

const XEN_PHYS32_ENTRY: u32 = 18;
/// The ELF header of a 64-bit file, in bytes.
const HEADER_SIZE: u64 = 64;
const ELF_CLASS_32: u8 = 1;
const ELF_CLASS_64: u8 = 2;
const ELF_LITTLE_ENDIAN: u8 = 1;
const ELF_BIG_ENDIAN: u8 = 2;

/// The facts of a file that begins with the ELF magic; `name` names it in the errors.
pub(super) fn inspect(data: &[u8], name: &str, arch: Arch) -> Result<Facts, KernelError> {
    check_machine(data, name, arch)?;
    match arch {
        Arch::PowerPc => read::<FileHeader32<Endianness>>(data, name, arch),
        _ => read::<FileHeader64<Endianness>>(data, name, arch),
    }
}

fn read<Elf: FileHeader<Endian = Endianness>>(
    data: &[u8],
    name: &str,
    arch: Arch,
) -> Result<Facts, KernelError> {
    let name = name.to_owned();
    let damaged = |problem| KernelError::Damaged { name: name.clone(), problem };
    let elf = Elf::parse(data).map_err(|_| damaged("the ELF header is invalid"))?;
    let endian = elf.endian().map_err(|_| damaged("the ELF header is invalid"))?;
    check_length(data, elf, endian, &name)?;
    let segments = elf
        .program_headers(endian, data)
        .map_err(|_| damaged("the program headers are invalid"))?;
    if segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP) {
        return Err(KernelError::NotAKernel { name, what: "a program" });
    }
    if !segments.iter().any(|segment| segment.p_type(endian) == PT_LOAD) {
        return Err(damaged("it has no segment to load"));
    }
    let rodata = rodata(data, elf, endian);
    if rodata.is_some_and(|section| section.sh_type(endian) == SHT_NOBITS) {
        return Err(damaged("it contains only debug symbols"));
    }
    let notes = Notes::read(data, segments, endian);
    if arch == Arch::X86_64 && !notes.pvh {
        return Err(KernelError::NoPvhEntry { name });
    }
    let banner = rodata.and_then(|section| banner_in(section.data(endian, data).ok()?));
    Ok(Facts {
        format: ImageFormat::Vmlinux,
        release: banner.and_then(release_word),
        package_date: banner.and_then(package_date),
        build_id: notes.build_id,
    })
}

/// Class, byte order and machine in the ELF files of an architecture.
fn expected(arch: Arch) -> (u8, u8, u16) {
    match arch {
        Arch::X86_64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_X86_64),
        Arch::PowerPc => (ELF_CLASS_32, ELF_BIG_ENDIAN, EM_PPC),
        Arch::Ppc64le => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_PPC64),
        Arch::Arm64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_AARCH64),
        Arch::Riscv64 => (ELF_CLASS_64, ELF_LITTLE_ENDIAN, EM_RISCV),
    }
}

fn check_machine(data: &[u8], name: &str, arch: Arch) -> Result<(), KernelError> {
    let name = || name.to_owned();
    let found = data.len() as u64;
    let (Some(&[class, order]), Some(kind)) = (bytes_at(data, 4, 2), bytes_at(data, 16, 4)) else {
        return Err(KernelError::Truncated { name: name(), found, expected: HEADER_SIZE });
    };
    let half = |at: usize| {
        let value = u16_at(kind, at).unwrap_or(0);
        if order == ELF_LITTLE_ENDIAN { value } else { value.swap_bytes() }
    };
    if half(0) == ET_REL {
        return Err(KernelError::Module { name: name() });
    }
    if (class, order, half(2)) != expected(arch) {
        let found = machine_name(half(2), class == ELF_CLASS_64);
        return Err(match arch {
            Arch::X86_64 => KernelError::WrongArch { name: name(), arch: found },
            _ => {
                let found = format!("for {found}");
                KernelError::NotFor { name: name(), found, wanted: arch.name() }
            }
        });
    }
    if found < HEADER_SIZE {
        return Err(KernelError::Truncated { name: name(), found, expected: HEADER_SIZE });
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

/// Refuses a file that ends before its headers, its segments or its section table do.
fn check_length<Elf: FileHeader<Endian = Endianness>>(
    data: &[u8],
    elf: &Elf,
    endian: Endianness,
    name: &str,
) -> Result<(), KernelError> {
    let table = |offset: u64, count: u16, size: u16| {
        offset.saturating_add(u64::from(count) * u64::from(size))
    };
    let programs = table(elf.e_phoff(endian).into(), elf.e_phnum(endian), elf.e_phentsize(endian));
    let sections = table(elf.e_shoff(endian).into(), elf.e_shnum(endian), elf.e_shentsize(endian));
    let segments = elf.program_headers(endian, data).unwrap_or(&[]);
    let end = |segment: &Elf::ProgramHeader| {
        segment.p_offset(endian).into().saturating_add(segment.p_filesz(endian).into())
    };
    let ends = segments.iter().map(end);
    let expected = ends.chain([programs, sections]).max().unwrap_or(0);
    let found = data.len() as u64;
    if found < expected {
        return Err(KernelError::Truncated { name: name.to_owned(), found, expected });
    }
    Ok(())
}

/// The notes that ktax needs.
#[derive(Default)]
struct Notes {
    build_id: Option<String>,
    pvh: bool,
}

impl Notes {
    /// Reads the PT_NOTE segments, as QEMU does. A damaged note ends its segment.
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
                    (b"Xen", XEN_PHYS32_ENTRY) => found.pvh = true,
                    _ => {}
                }
            }
        }
        found
    }
}

fn rodata<'a, Elf: FileHeader<Endian = Endianness>>(
    data: &'a [u8],
    elf: &Elf,
    endian: Endianness,
) -> Option<&'a Elf::SectionHeader> {
    let sections = elf.sections(endian, data).ok()?;
    sections.section_by_name(endian, b".rodata").map(|(_, section)| section)
}
