//! Commands of an ordinary user, and the messages where they need more.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::engine::payload;
use ktax::plan::definitions;
use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use rustix::process::getuid;

use crate::common::{Need, require, run, scratch, until};

/// A ktax that an ordinary user can run, and directories of theirs.
struct Ordinary {
    dir: tempfile::TempDir,
}

impl Ordinary {
    /// `None` where nobody can become such a user, which is said.
    fn new() -> Option<Ordinary> {
        if !require(Need::Root, getuid().is_root(), "only root can become another user") {
            return None;
        }
        // The user must be able to reach the programs; a private home would hide a test directory.
        let dir = tempfile::Builder::new().prefix("ktax-user-").tempdir().unwrap();
        let user = Ordinary { dir };
        fs::create_dir(user.cache()).unwrap();
        fs::create_dir(user.temporary()).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_ktax"), user.dir.path().join("ktax")).unwrap();
        for path in [user.dir.path(), &user.cache(), &user.temporary()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        Some(user)
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    fn ktax(&self) -> Command {
        let mut command = Command::new(self.dir.path().join("ktax"));
        command.env("TMPDIR", self.temporary()).env("KTAX_CACHE", self.cache());
        command.uid(65534).gid(65534).current_dir("/");
        command
    }
}

#[test]
fn an_ordinary_user_without_kvm_hears_so_before_anything_is_fetched() {
    let Some(user) = Ordinary::new() else { return };
    let open = || fs::File::options().read(true).write(true).open("/dev/kvm");
    if open().is_ok_and(|file| file.metadata().unwrap().mode() & 0o006 == 0o006) {
        eprintln!("everybody may use /dev/kvm here");
        return;
    }
    let mut compare = user.ktax();
    compare.args(["compare", "--engine", "kvm", "-w", "getppid", "--out", "/dev/null/run"]);
    compare.args(["--kernel", "debian:cloud-amd64", "--change-boot-line", "nosmp"]);
    let ran = run(&mut compare);
    let message = match Path::new("/dev/kvm").exists() {
        true => "cannot open /dev/kvm: Permission denied (os error 13); become a member of",
        false => "there is no /dev/kvm; load the module kvm-amd or kvm-intel",
    };
    assert!(ran.status == 69 && ran.stderr.contains(message), "{} {}", ran.status, ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert_eq!(fs::read_dir(user.cache()).unwrap().count(), 0);
}

#[test]
fn a_cache_that_an_ordinary_user_cannot_write_is_not_ok() {
    let Some(user) = Ordinary::new() else { return };
    let doctor = || {
        let ran = run(user.ktax().arg("doctor"));
        ran.stdout.lines().find(|line| line.contains(" cache ")).unwrap().to_owned()
    };
    assert!(doctor().starts_with("ok   cache "), "{}", doctor());
    // `sudo ktax` leaves the directories below to another user.
    let below = user.cache().join("snapshots");
    fs::create_dir_all(&below).unwrap();
    let closed = fs::Permissions::from_mode(0o755);
    for directory in [below, user.cache()] {
        std::os::unix::fs::chown(&directory, Some(0), Some(0)).unwrap();
        fs::set_permissions(&directory, closed.clone()).unwrap();
        let line = doctor();
        assert!(line.starts_with("BAD  cache    cannot write into "), "{line}");
        assert!(line.contains(&format!("{}: Permission denied", directory.display())), "{line}");
    }
}

#[test]
fn an_ordinary_user_hears_at_once_all_that_recording_needs() {
    let Some(user) = Ordinary::new() else { return };
    let ran = run(user.ktax().args(["exits", "record", "--", "true"]));
    assert!(ran.status == 1 && ran.stderr.lines().count() == 1, "{ran:?}");
    let rights = "run ktax as root, or with CAP_BPF and CAP_PERFMON";
    ran.says(rights);
    let is_mounted = Path::new("/sys/kernel/tracing/events").exists();
    let mount = "type: sudo mount -t tracefs nodev /sys/kernel/tracing";
    assert_eq!(ran.stderr.contains(mount), !is_mounted, "{}", ran.stderr);
}

#[test]
fn an_ordinary_user_hears_who_may_change_settings_before_anything_is_measured() {
    let Some(user) = Ordinary::new() else { return };
    let out = user.temporary().join("out");
    let mut compare = user.ktax();
    compare.args(["compare", "--engine", "host", "-w", "getppid", "--change-set"]);
    let ran = run(compare.args(["vm.swappiness=1", "--out"]).arg(&out));
    assert!(ran.status == 1 && ran.stderr.lines().count() == 1, "{ran:?}");
    let message = match fs::File::options().write(true).open("/proc/sys/vm/swappiness") {
        Ok(_) => "cannot change vm.swappiness: Permission denied (os error 13); run ktax with",
        // In a container nobody may.
        Err(_) => "vm.swappiness is read-only here",
    };
    assert!(ran.stderr.contains(message) && !out.exists(), "{ran:?}");
}

#[test]
fn an_ordinary_user_can_run_the_workloads() {
    let Some(user) = Ordinary::new() else { return };
    let mut ran_properly = 0;
    for definition in definitions().unwrap().iter().filter(|d| !d.hidden) {
        let row = &definition.rows().unwrap()[0];
        let mut command = user.ktax();
        command.args(["workloads", "run", &definition.name, "--samples", "1"]);
        command.args(["-p", &format!("ops={}", (row.ops / 8).max(1))]);
        let ran = run(&mut command);
        // Tests that need more rights are named; the others run.
        match ran.status {
            0 => ran_properly += 1,
            _ => assert!(definition.needs.is_some(), "{}: {}", row.row, ran.stdout),
        }
        until("nothing is left", || fs::read_dir(user.temporary()).unwrap().next().is_none());
    }
    assert!(ran_properly > 60, "{ran_properly}");
}

// The program is one file: it needs no library and no dynamic linker of the machine it runs on.
// QEMU loads the plugin that is in it, and has a C library.

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
    let ran = apart(&["/ktax", "experiments", "lsm"]).exits(0);
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
