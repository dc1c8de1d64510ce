//! The program is one file: it needs no library and no dynamic linker of the machine it runs on.
//! QEMU loads the plugin that is in it, and has a C library.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use ktax::engine::payload;

use crate::common::require::require;
use crate::common::{Need, run, scratch};

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");

/// Whether an ELF file names a dynamic linker, and how many libraries it needs.
fn linkage(file: &Path) -> (bool, usize) {
    let data = fs::read(file).unwrap();
    let data = data.as_slice();
    let elf = FileHeader64::<LittleEndian>::parse(data).unwrap();
    let segments = elf.program_headers(LittleEndian, data).unwrap();
    let names_linker = segments.iter().any(|segment| segment.p_type(LittleEndian) == PT_INTERP);
    let entries =
        segments.iter().filter_map(|segment| segment.dynamic(LittleEndian, data).unwrap());
    let needed = entries.flatten().filter(|entry| entry.tag32(LittleEndian) == Some(DT_NEEDED));
    (names_linker, needed.count())
}

#[test]
fn the_program_is_linked_statically() {
    assert_eq!(linkage(Path::new(KTAX)), (false, 0), "see scripts/rustc.sh");
    // This test is not, and the same reader says so.
    let (names_linker, needed) = linkage(&std::env::current_exe().unwrap());
    assert!(names_linker && needed > 0);
}

#[test]
fn it_runs_where_there_is_no_other_file() {
    let dir = scratch();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::copy(KTAX, dir.path().join("ktax")).unwrap();
    let apart = |words: &[&str]| {
        let mut command = Command::new("unshare");
        run(command.args(["-r", "chroot"]).arg(dir.path()).args(words))
    };
    let can = Command::new("unshare").args(["-r", "true"]).status();
    let can = can.is_ok_and(|status| status.success());
    if !require(Need::Namespaces, can, "this user cannot have a root directory of its own") {
        return;
    }
    let ran = apart(&["/ktax", "experiments", "lsm"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, fs::read_to_string("experiments/lsm.toml").unwrap());
}

#[test]
fn the_plugin_loads_into_a_qemu_with_an_older_c_library() {
    let dir = scratch();
    let plugin = fs::read(payload::install(dir.path()).unwrap().plugin).unwrap();
    let words = plugin.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
    let versions = words.filter_map(|word| word.strip_prefix("GLIBC_2."));
    let minors: Vec<u32> =
        versions.filter_map(|minor| minor.split('.').next()?.parse().ok()).collect();
    assert!(minors.iter().max().is_some_and(|minor| *minor <= 33), "{minors:?}");
}
