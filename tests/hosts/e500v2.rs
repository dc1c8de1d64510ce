//! e500v2, with KVM's own exit timing: what the tables of 2008 were made with.

use std::fs;

use crate::boot::Host;
use crate::common::scratch;
use crate::kernel::{Build, program};
use crate::{assert_whole, count, exits, is_missing, tables};

const CROSS: &str = "powerpc-linux-gnu-";
const QEMU: &str = "qemu-system-ppc";

/// The exit number reaches KVM, and the system call its handler.
const PATCHES: [&str; 2] = ["kvm-booke-exit-number.patch", "kvm-e500v2-syscall-vector.patch"];

/// What a host with these patches says; nothing if it cannot be had.
fn boot(patches: &'static [&'static str]) -> Option<String> {
    if is_missing(&[QEMU, "powerpc-linux-gnu-gcc"]) {
        return None;
    }
    let dir = scratch();
    let host = Build { name: "e500v2", arch: "powerpc", cross: CROSS, patches };
    let host = Host {
        qemu: QEMU,
        arguments: &["-M", "ppce500", "-cpu", "e500v2"],
        console: "ttyS0",
        kernel: &host.vmlinux(),
        init: &program("e500v2", CROSS, &["-Wa,-me500"], dir.path()),
        module: None,
    };
    Some(host.boot(dir.path()))
}

/// 2000 times each of eight things that e500v2's guests may not do, and the same with the page that
/// guest and KVM share.
#[test]
fn the_magic_page_takes_away_what_it_is_for_and_nothing_else() {
    let Some(serial) = boot(&PATCHES) else { return };
    let dir = scratch();
    let path = dir.path().join("timing");
    fs::write(&path, &serial).unwrap();
    let tables = tables(&path);
    let of: Vec<&str> = tables.iter().map(|table| table.of.as_str()).collect();
    assert_eq!(of, ["trap and emulate", "magic page"], "{serial}");
    let both = |reason| [count(&tables[0], reason), count(&tables[1], reason)];
    for reason in ["MMIO", "EMUL_RFI"] {
        assert_eq!(both(reason), [2000, 2000], "{reason}");
    }
    for reason in ["EMUL_WRTEE", "EMUL_MFSPR", "EMUL_MFMSR"] {
        assert_eq!(both(reason), [2000, 0], "{reason}");
    }
    assert_eq!(both("EMUL_MTSPR"), [6000, 0]);
    // The one call that asks for the page.
    assert_eq!(both("SYSCALL"), [0, 1]);
    tables.iter().for_each(assert_whole);
    let [before, after] = ["#1", "#2"].map(|number| format!("{}{number}", path.display()));
    let said = exits(&["diff", &before, &after]).stdout;
    println!("{said}");
    let first = said.lines().find(|line| line.starts_with("EMUL_")).unwrap();
    assert!(first.starts_with("EMUL_MTSPR") && first.ends_with("-100.00"), "{said}");
}

/// The same boots fail at what each of the patches mends.
#[test]
fn without_its_patches_the_kernel_runs_no_guest() {
    let Some(stock) = boot(&[]) else { return };
    assert!(stock.contains("\nhost: begin\n") && !stock.contains("TIMEINGUEST"), "{stock}");
    assert!(stock.contains("exit_nr ") && stock.contains("kernel BUG at arch/powerpc"), "{stock}");
    // The guest that makes no system call runs with the first alone.
    let first = boot(&PATCHES[..1]).unwrap();
    assert_eq!(first.matches("TIMEINGUEST").count(), 1, "{first}");
    assert!(first.contains("\n==\nexit_nr 9\nkernel BUG at arch/powerpc"), "{first}");
}
