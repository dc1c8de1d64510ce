//! Guests within a KVM host in QEMU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cpio::newc::{Builder, trailer};
use ktax::kernel::{Talk, modules, obtain};
use ktax::kvmhost::MODULES;
use ktax::model::Subject;

use super::{KERNEL, Ran, cache, ktax, run};

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
    run(ktax().arg("kvm-host").args(options).arg("--").args(command))
}

/// The image that the host boots too: stock, from the distribution, with its modules.
pub fn kernel() -> PathBuf {
    let quiet: &dyn Fn(&str) = &|_| {};
    let talk = Talk { note: quiet, status: quiet, is_cancelled: &|| false };
    static KERNEL_IMAGE: OnceLock<PathBuf> = OnceLock::new();
    let fetch = || {
        let kernel = obtain(&Subject::of(KERNEL, ""), &cache(), &talk).unwrap();
        modules(&kernel, &MODULES, &cache(), &talk).unwrap();
        kernel.image
    };
    KERNEL_IMAGE.get_or_init(fetch).clone()
}

/// An initial RAM disk with only a static init.
pub fn initrd(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("init.c"), dir.join("init"));
    fs::write(&source, INIT).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-static", "-O2", "-o"]).args([&program, &source]);
    assert!(build.status().unwrap().success());
    let mut archive = Vec::new();
    for name in ["dev", "sys"] {
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
