//! Images are recognised, and other files are refused. All images are made by hand.

use proptest::prelude::*;

use crate::image::{self, Facts};
use ktax_model::{Arch, Error, ImageFormat, Result};

/// A bzImage with a setup header of protocol 2.15, a version string and `payload` bytes of code.
pub(crate) fn bzimage(version: &str, payload: usize) -> Vec<u8> {
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
    for (name, kind, offset, size) in sections {
        half(&mut out, &[name, 0, kind, 0]);
        long(&mut out, &[0, 0, offset, size, 0, 1, 0]);
    }
    out
}

/// A vmlinux with build-id, PVH entry and banner.
fn whole_vmlinux() -> Vec<u8> {
    let notes = [note("GNU", 3, &[0xab; 20]), note("Xen", 18, &[0; 8])].concat();
    vmlinux(&notes, b"Linux version %s\0Linux version 6.12.1-test (me@here) #1\0")
}

fn inspect(data: &[u8], name: &str) -> Result<Facts> {
    image::inspect(data, name, Arch::X86_64)
}

fn error(data: &[u8]) -> Error {
    inspect(data, "NAME").expect_err("must be an error")
}

fn assert_error(data: &[u8], problem: &str) {
    let error = error(data).to_string();
    assert!(error.contains(problem), "{error}");
}

#[test]
fn the_facts_of_a_bzimage_are_read() {
    let facts = inspect(&bzimage("6.1.0-50-cloud-amd64 (me@here) #1 SMP", 64), "").unwrap();
    let release = Some("6.1.0-50-cloud-amd64".to_owned());
    assert_eq!(
        facts,
        Facts { format: ImageFormat::BzImage, release, package_date: None, build_id: None }
    );
    let signed = [bzimage("6.1 x", 64), vec![0; 100]].concat();
    assert!(inspect(&signed, "").is_ok());
}

#[test]
fn the_facts_of_images_of_other_architectures_are_read() {
    let image = |magic: &[u8]| {
        let banner = b"Linux version %s\nLinux version 6.12.117-cloud (me@here)\n";
        [&[0; 56], magic, &[0; 4], &banner[..]].concat()
    };
    let arm64 = image(b"ARM\x64");
    let facts = image::inspect(&arm64, "", Arch::Arm64).unwrap();
    let release = Some("6.12.117-cloud".to_owned());
    assert_eq!(
        facts,
        Facts { format: ImageFormat::Image, release, package_date: None, build_id: None }
    );
    assert!(image::inspect(&image(b"RSC\x05"), "", Arch::Riscv64).is_ok());
    for (data, arch) in
        [(&arm64[..], Arch::Riscv64), (&arm64[..], Arch::Ppc64le), (b"x", Arch::Arm64)]
    {
        let error = image::inspect(data, "", arch).unwrap_err().to_string();
        assert!(error.contains(&format!("a kernel for {} is needed", arch.name())), "{error}");
    }
    assert_error(&arm64, "but ktax boots x86_64");
}

/// Debian's kernels end their banner with it; a kernel that was built here ends with a time.
#[test]
fn the_day_of_a_package_is_read_from_the_banner() {
    let debian = "6.1.0-56 (debian@here) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)";
    let day = Some("2026-11-16");
    for (banner, expected) in [
        (debian, day),
        ("6.12.117 (gcc (Debian 12) (2022-05-07)) #1 SMP Thu Jan  1 00:00:00 UTC 1970", None),
        ("6.1.0 #1 SMP Debian (2026-11-1x)", None),
        ("6.1.0 #1 SMP Debian (20261116)", None),
        ("6.1.0 #1 SMP ()", None),
        ("6.1.0 2026-11-16)", None),
    ] {
        let facts = inspect(&bzimage(banner, 64), "").unwrap();
        assert_eq!(facts.package_date.as_deref(), expected, "{banner}");
    }
    let rodata = format!("Linux version %s\0Linux version {debian}\n\0");
    let notes = [note("GNU", 3, &[0xab; 20]), note("Xen", 18, &[0; 8])].concat();
    let facts = inspect(&vmlinux(&notes, rodata.as_bytes()), "").unwrap();
    assert_eq!(facts.package_date.as_deref(), day);
    let image = [&[0; 56], &b"ARM\x64"[..], &[0; 4], rodata.as_bytes()].concat();
    let facts = image::inspect(&image, "", Arch::Arm64).unwrap();
    assert_eq!(facts.package_date.as_deref(), day);
}

#[test]
fn the_error_for_a_truncated_bzimage_has_both_sizes() {
    let image = bzimage("6.1 x", 4096);
    for size in [0x206, 0x20f, 0x300, 1024, 5119] {
        assert_error(&image[..size], "of at least 5120 bytes");
    }
    let text = error(&image[..5000]).to_string();
    assert!(text.contains("it has 5000 of at least 5120 bytes"), "{text}");
}

#[test]
fn no_setup_sectors_means_four() {
    let mut data = bzimage("6.1 x", 64);
    data[0x1f1] = 0;
    assert_error(&data, "of at least 2624 bytes");
}

#[test]
fn unusable_bzimages_are_refused() {
    let mut old = bzimage("2.6.20 x", 64);
    old[0x206] = 5;
    assert_error(&old, "has boot protocol 2.05");
    let mut narrow = bzimage("6.1 x", 64);
    narrow[0x236] = 0;
    assert_error(&narrow, "but ktax boots x86_64");
    narrow[0x206] = 0x0b;
    assert!(inspect(&narrow, "").is_ok(), "protocol 2.11 does not say the width");
}

#[test]
fn a_kernel_without_release_and_build_id_is_refused() {
    let long = "6".repeat(70);
    for version in ["", "test", " 6.1", "6\x1b[2J x", long.as_str()] {
        assert_error(&bzimage(version, 64), "cannot identify NAME: ");
    }
    for pointer in [0u16, 0x1ff, 0xffff] {
        let mut data = bzimage("6.1 x", 64);
        data[0x20e..0x210].copy_from_slice(&pointer.to_le_bytes());
        assert_error(&data, "cannot identify NAME: ");
    }
}

#[test]
fn the_facts_of_a_vmlinux_are_read() {
    let facts = inspect(&whole_vmlinux(), "").unwrap();
    let release = Some("6.12.1-test".to_owned());
    assert_eq!(
        facts,
        Facts {
            format: ImageFormat::Vmlinux,
            release,
            package_date: None,
            build_id: Some("ab".repeat(20))
        }
    );
    let nameless = vmlinux(&note("Xen", 18, &[0; 8]), b"no banner");
    assert_error(&nameless, "cannot identify NAME: ");
}

#[test]
fn vmlinux_files_that_qemu_cannot_boot_are_refused() {
    let no_pvh = vmlinux(&note("GNU", 3, &[1; 20]), b"Linux version 6.1 x");
    assert_error(&no_pvh, "no PVH entry point");
    let image = whole_vmlinux();
    for size in [5, 19, 63, 100, image.len() - 1] {
        assert_error(&image[..size], " is truncated: ");
    }
    let mutate = |offset: usize, value: u8| {
        let mut data = whole_vmlinux();
        data[offset] = value;
        data
    };
    assert_error(&mutate(16, 1), "is a kernel module or an object file");
    assert_error(&mutate(18, 183), "but ktax boots x86_64");
    assert_error(&mutate(4, 1), "but ktax boots x86_64");
    assert_error(&mutate(5, 2), "but ktax boots x86_64");
    assert_error(&mutate(64 + 56, 3), "is a program, not a kernel");
    assert_error(&mutate(54, 3), "NAME is damaged: ");
    let rodata_kind = image.len() - 128 + 4;
    assert_error(&mutate(rodata_kind, 8), "NAME is damaged: ");
}

#[test]
fn a_foreign_kernel_is_recognised_and_needs_no_pvh_entry() {
    let mut power9 = vmlinux(&note("GNU", 3, &[1; 20]), b"Linux version 6.1 x");
    power9[18] = 21;
    let facts = image::inspect(&power9, "", Arch::Ppc64le).unwrap();
    assert_eq!(facts.release.as_deref(), Some("6.1"));
    for (data, arch, found) in [
        (&power9[..], Arch::PowerPc, "for powerpc64 or powerpc64le"),
        (&whole_vmlinux(), Arch::Ppc64le, "for x86_64"),
        (&bzimage("6.1 x", 64), Arch::PowerPc, "not a vmlinux"),
    ] {
        let error = image::inspect(data, "NAME", arch).unwrap_err().to_string();
        let expected = format!("NAME is {found}, but a kernel for {} is needed", arch.name());
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_error(&power9, "but ktax boots x86_64");
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let magic_at =
        |offset: usize, magic: &[u8]| [vec![0; offset], magic.to_vec(), vec![0; 9]].concat();
    assert_error(b"", "NAME is empty");
    assert_error(&magic_at(56, b"ARM\x64"), "but ktax boots x86_64");
    assert_error(&magic_at(48, b"RISCV\0\0\0"), "but ktax boots x86_64");
    assert_error(b"MZ\0\0zimg\0\0", "but ktax boots x86_64");
    assert_error(b"\x1f\x8b\x08\0", "compressed with gzip");
    assert_error(b"\x02\x21\x4c\x18", "compressed with lz4");
    assert_error(b"\x28\xb5\x2f\xfd", "compressed with zstd");
    assert_error(b"!<arch>\ndebian-binary   ", "is a Debian package");
    assert_error(b"#!/bin/sh\n", "is a text file, not a kernel");
    assert_error(b"MZ\0\0", ", not a kernel");
    assert_error(&magic_at(600, b"\xff"), ", not a kernel");
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_an_error(
        data in prop::collection::vec(any::<u8>(), 0..4096),
        magic in prop::sample::select(vec![&b"\x7fELF\x02\x01\x01"[..], b"MZ", b"", b"!<arch>\n"]),
    ) {
        let _ = inspect(&data, "");
        let _ = inspect(&[magic, &data].concat(), "");
    }

    #[test]
    fn mutants_of_a_header_are_an_answer_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        elf in any::<bool>(),
        length in any::<prop::sample::Index>(),
        header_only in any::<bool>(),
    ) {
        let mut data = if elf { whole_vmlinux() } else { bzimage("6.1 x", 256) };
        let (from, to) = match (header_only, elf) {
            (false, _) => (0, data.len()),
            (true, true) => (0, 176),
            (true, false) => (0x1f1, 0x268),
        };
        for (position, value) in changes {
            data[from + position.index(to - from)] = value;
        }
        let _ = inspect(&data, "");
        data.truncate(length.index(data.len() + 1));
        let _ = inspect(&data, "");
    }

    #[test]
    fn every_prefix_of_a_kernel_is_an_error(
        elf in any::<bool>(),
        length in any::<prop::sample::Index>(),
    ) {
        let data = if elf { whole_vmlinux() } else { bzimage("6.1 x", 256) };
        prop_assert!(inspect(&data[..length.index(data.len())], "").is_err());
    }
}
