//! Guests within a KVM host in QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cpio::newc::{Builder, trailer};
use ktax::kernel::{Talk, modules, obtain};
use ktax::kvmhost::KVM_MODULES;
use ktax::model::{ExitTable, Subject};

use super::{KERNEL, Need, QUICK_BOOT, Ran, cache, isolate, ktax, require, run};

/// The first process of a guest: says what it sees, and resets, or goes off if it is told to.
const INIT: &str = r#"
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char clock[64] = "";
    FILE *file;
    (void)argv;
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (!file || !fgets(clock, sizeof clock, file))
        return 1;
    printf("init sees %ld processors and clock %s", sysconf(_SC_NPROCESSORS_CONF), clock);
    fflush(stdout);
    return reboot(argc > 1 ? RB_POWER_OFF : RB_AUTOBOOT);
}
"#;
pub const LINE: &str = "console=ttyS0 quiet panic=-1 reboot=k";

/// A command within a host.
pub fn kvm_host(options: &[&str], command: &[&str]) -> Ran {
    // What it is told about a download is not what it is asked for.
    kernel();
    let line: &[&str] = match options.contains(&"--exact") {
        true => &["--boot-line", QUICK_BOOT],
        false => &[],
    };
    run(ktax().arg("kvm-host").args(line).args(options).arg("--").args(command))
}

/// The image that the host boots too: stock, from the distribution, with its modules.
pub fn kernel() -> PathBuf {
    let quiet: &dyn Fn(&str) = &|_| {};
    let talk = Talk { note: quiet, status: quiet, task: &|_| {}, is_cancelled: &|| false };
    static KERNEL_IMAGE: OnceLock<PathBuf> = OnceLock::new();
    let fetch = || {
        let kernel = obtain(&Subject::new(KERNEL, ""), &cache(), &talk).unwrap();
        modules(&kernel, &KVM_MODULES, &cache(), &talk).unwrap();
        kernel.image
    };
    KERNEL_IMAGE.get_or_init(fetch).clone()
}

/// An initial RAM disk with only a static init.
pub fn initrd(dir: &Path) -> PathBuf {
    initrd_of(dir, INIT)
}

/// One with another init, in C.
pub fn initrd_of(dir: &Path, init: &str) -> PathBuf {
    let program = compiled(dir, init);
    let mut archive = Vec::new();
    for name in ["dev", "proc", "sys"] {
        let directory = Builder::new(name).mode(0o040_755).nlink(2);
        directory.write(&mut archive, 0).finish().unwrap();
    }
    let console = Builder::new("dev/console").mode(0o020_600).rdev_major(5).rdev_minor(1);
    console.write(&mut archive, 0).finish().unwrap();
    let program = fs::read(program).unwrap();
    let init = Builder::new("init").mode(0o100_755).nlink(1);
    let mut init = init.write(&mut archive, program.len().try_into().unwrap());
    std::io::Write::write_all(&mut init, &program).unwrap();
    init.finish().unwrap();
    trailer(&mut archive).unwrap();
    let path = dir.join("initrd");
    fs::write(&path, archive).unwrap();
    path
}

/// A static program, from C.
pub fn compiled(dir: &Path, source: &str) -> PathBuf {
    let (file, program) = (dir.join("program.c"), dir.join("program"));
    fs::write(&file, source).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-static", "-O2", "-pthread", "-o"]).args([&program, &file]);
    assert!(build.status().unwrap().success());
    program
}

/// Whether this machine has a KVM that this user may use; the test is listed as skipped where not.
#[track_caller]
pub fn has_kvm() -> bool {
    let opened = fs::File::options().read(true).write(true).open("/dev/kvm");
    require(Need::Kvm, opened.is_ok(), "/dev/kvm cannot be opened")
}

/// Whether this user can record on this machine's KVM; the test is listed as skipped where not.
#[track_caller]
pub fn can_record() -> bool {
    is_root() && has_kvm()
}

/// Whether the user is root; the test is listed as skipped where not.
#[track_caller]
pub fn is_root() -> bool {
    require(Need::Root, rustix::process::geteuid().is_root(), "the user is not root")
}

/// Command that mounts the file system of the kernel's tracepoints.
pub const TRACEFS: &str = "mount -t tracefs nodev /sys/kernel/tracing";

/// `ktax exits` in a mount namespace of its own, in which `before` was done.
pub fn exits_after(before: &str, privileges: &str) -> Command {
    let script = format!("{before} && exec {privileges} \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_ktax"), "exits"]);
    isolate(&mut command);
    command
}

/// `ktax exits` with these words, where there are tracepoints.
pub fn exits(args: &[&str]) -> Command {
    let mut command = exits_after(TRACEFS, "");
    command.args(args);
    command
}

/// How often a guest was left for a reason.
pub fn count(table: &ExitTable, reason: &str) -> u64 {
    table.row(reason).map_or(0, |row| row.count)
}

/// Every exit has its entry, and all of the vCPU's time is in a row, of a guest that was recorded
/// to its last exit.
pub fn assert_whole(table: &ExitTable) {
    let account = table.account.as_ref().unwrap();
    assert_eq!((account.lost, account.unpaired), (0, 0), "{table:?}");
    let (guest, others): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| row.is_guest);
    let exits: u64 = others.iter().map(|row| row.count).sum();
    assert_eq!(guest[0].count, exits + account.open.len() as u64, "{table:?}");
    let open_ns: u64 = account.open.iter().map(|open| open.ns).sum();
    assert_eq!(table.sum_ns() + open_ns, account.wall_ns);
}
