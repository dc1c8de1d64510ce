//! Tests of the parts together, with hand-made images. They need no network and no root.

mod cleaned;
mod flow;
mod image;
mod place;
mod source;

/// A bzImage with a setup header of protocol 2.15, a version string and `payload` bytes of code.
fn bzimage(version: &str, payload: usize) -> Vec<u8> {
    assert_eq!(payload % 16, 0);
    let mut data = vec![0u8; 1024 + payload];
    data[0..2].copy_from_slice(b"MZ");
    data[0x1f1] = 1;
    data[0x1f4..0x1f8].copy_from_slice(&u32::try_from(payload / 16).unwrap().to_le_bytes());
    data[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    data[0x202..0x206].copy_from_slice(b"HdrS");
    data[0x206..0x208].copy_from_slice(&0x020fu16.to_le_bytes());
    data[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    data[0x236] = 0x3f;
    data[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
    data
}

/// A note of an ELF file.
fn note(name: &str, kind: u32, desc: &[u8]) -> Vec<u8> {
    let name = [name.as_bytes(), b"\0"].concat();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let mut out = [length(&name), length(desc), kind.to_le_bytes()].concat();
    for part in [name.as_slice(), desc] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// A vmlinux: a PT_LOAD and a PT_NOTE segment over `notes`, and a `.rodata` section of `rodata`.
fn vmlinux(notes: &[u8], rodata: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.rodata\0.shstrtab\0";
    let notes_at = 64 + 2 * 56;
    let rodata_at = notes_at + notes.len();
    let names_at = rodata_at + rodata.len();
    let sections_at = (names_at + NAMES.len()).next_multiple_of(8);
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |out: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    };
    let long = |out: &mut Vec<u8>, values: &[usize]| {
        values.iter().for_each(|value| out.extend((*value as u64).to_le_bytes()));
    };
    half(&mut out, &[2, 62, 1, 0]); // ET_EXEC, EM_X86_64, version 1
    long(&mut out, &[0x100_0000, 64, sections_at]);
    half(&mut out, &[0, 0, 64, 56, 2, 64, 3, 2]);
    for kind in [1u16, 4] {
        half(&mut out, &[kind, 0, 5, 0]);
        let size = if kind == 1 { notes.len() + rodata.len() } else { notes.len() };
        long(&mut out, &[notes_at, 0, 0, size, size, 4]);
    }
    out.extend(notes.iter().chain(rodata).chain(NAMES));
    out.resize(sections_at + 64, 0);
    let sections = [(1u16, 1u16, rodata_at, rodata.len()), (9, 3, names_at, NAMES.len())];
    for (name, kind, at, size) in sections {
        half(&mut out, &[name, 0, kind, 0]);
        long(&mut out, &[0, 0, at, size, 0, 1, 0]);
    }
    out
}

/// A vmlinux with build-id, PVH entry and banner.
fn whole_vmlinux() -> Vec<u8> {
    let notes = [note("GNU", 3, &[0xab; 20]), note("Xen", 18, &[0; 8])].concat();
    vmlinux(&notes, b"Linux version %s\0Linux version 6.12.1-test (me@here) #1\0")
}
