//! An ELF vmlinux: its machine, build-id, release, and the PVH entry that QEMU starts it at.
//!
//! QEMU's `-kernel` starts an ELF file at the address in the Xen note of type 18
//! (`XEN_ELFNOTE_PHYS32_ENTRY`), and refuses one without it. Source: QEMU `hw/i386/x86.c`
//! (`x86_load_linux`), Linux `arch/x86/platform/pvh/head.S`.

use object::Endianness;
use object::elf::{
    EM_X86_64, ET_REL, FileHeader64, NT_GNU_BUILD_ID, PT_INTERP, PT_LOAD, PT_NOTE, ProgramHeader64,
    SHT_NOBITS, SectionHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::error::KernelError;
use super::image::{Facts, bytes_at, hex, release_word, u16_at};
use crate::model::Format;

const XEN_PHYS32_ENTRY: u32 = 18;
const BANNER: &[u8] = b"Linux version ";
/// In bytes, of a 64-bit file.
const HEADER_SIZE: u64 = 64;
const ELF_CLASS_64: u8 = 2;
const ELF_LITTLE_ENDIAN: u8 = 1;

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;
type Section = SectionHeader64<Endianness>;

/// Reads the ELF file `data`, which begins with the ELF magic; `name` is for the errors.
pub(super) fn inspect(data: &[u8], name: &str) -> Result<Facts, KernelError> {
    let name = name.to_owned();
    let damaged = |problem| KernelError::Damaged { name: name.clone(), problem };
    check_machine(data, &name)?;
    let elf = Header::parse(data).map_err(|_| damaged("its ELF header is not valid"))?;
    let endian = elf.endian().map_err(|_| damaged("its ELF header is not valid"))?;
    check_length(data, elf, endian, &name)?;
    let segments = elf
        .program_headers(endian, data)
        .map_err(|_| damaged("its program headers are not valid"))?;
    if segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP) {
        return Err(KernelError::NotAKernel { name, what: "a program" });
    }
    if !segments.iter().any(|segment| segment.p_type(endian) == PT_LOAD) {
        return Err(damaged("it has nothing to load"));
    }
    let rodata = rodata(data, elf, endian);
    if rodata.is_some_and(|section| section.sh_type(endian) == SHT_NOBITS) {
        return Err(damaged("it has debug symbols only, no code"));
    }
    let notes = Notes::read(data, segments, endian);
    if !notes.pvh {
        return Err(KernelError::NoPvhEntry { name });
    }
    let release = rodata.and_then(|section| release(section.data(endian, data).ok()?));
    Ok(Facts { format: Format::Vmlinux, release, build_id: notes.build_id })
}

fn check_machine(data: &[u8], name: &str) -> Result<(), KernelError> {
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
    if half(2) != EM_X86_64 || class != ELF_CLASS_64 || order != ELF_LITTLE_ENDIAN {
        return Err(KernelError::WrongArch { name: name(), arch: machine_name(half(2)) });
    }
    if found < HEADER_SIZE {
        return Err(KernelError::Truncated { name: name(), found, expected: HEADER_SIZE });
    }
    Ok(())
}

fn machine_name(machine: u16) -> String {
    let known = match machine {
        3 => "i386",
        8 => "mips",
        20 | 21 => "powerpc",
        22 => "s390x",
        40 => "arm",
        62 => "x86_64 with 32-bit addresses",
        183 => "arm64",
        243 => "riscv",
        258 => "loongarch",
        _ => return format!("ELF machine {machine}"),
    };
    known.to_owned()
}

/// Says `truncated` if a header, a loaded segment or the section table lies past the end.
fn check_length(
    data: &[u8],
    elf: &Header,
    endian: Endianness,
    name: &str,
) -> Result<(), KernelError> {
    let table = |offset: u64, count: u16, size: u16| {
        offset.saturating_add(u64::from(count) * u64::from(size))
    };
    let programs = table(elf.e_phoff(endian), elf.e_phnum(endian), elf.e_phentsize(endian));
    let sections = table(elf.e_shoff(endian), elf.e_shnum(endian), elf.e_shentsize(endian));
    let segments = elf.program_headers(endian, data).unwrap_or(&[]);
    let ends = segments.iter().map(|s| s.p_offset(endian).saturating_add(s.p_filesz(endian)));
    let expected = ends.chain([programs, sections]).max().unwrap_or(0);
    let found = data.len() as u64;
    if found < expected {
        return Err(KernelError::Truncated { name: name.to_owned(), found, expected });
    }
    Ok(())
}

/// What the notes of the file say.
#[derive(Default)]
struct Notes {
    build_id: Option<String>,
    pvh: bool,
}

impl Notes {
    /// Reads the PT_NOTE segments, where QEMU looks too; a damaged note ends its segment.
    fn read(data: &[u8], segments: &[Segment], endian: Endianness) -> Self {
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

fn rodata<'a>(data: &'a [u8], elf: &Header, endian: Endianness) -> Option<&'a Section> {
    let sections = elf.sections(endian, data).ok()?;
    sections.section_by_name(endian, b".rodata").map(|(_, section)| section)
}

/// The release in the banner `Linux version …`; format strings that begin so are passed over.
fn release(mut rodata: &[u8]) -> Option<String> {
    loop {
        let start = rodata.windows(BANNER.len()).position(|window| window == BANNER)?;
        rodata = rodata.get(start + BANNER.len()..)?;
        if let Some(release) = release_word(rodata) {
            return Some(release);
        }
    }
}
