//! POWER9 as a hypervisor within another one, with KVM's timing of its own phases.

use std::fs;

use ktax::kernel::Target;
use ktax::kvmhost::Board;
use ktax::model::Arch;

use super::boards::{boot, is_missing, vmlinux};
use super::{count, section, tables};
use crate::common::scratch;

/// With nested guests; QEMU's own processor has no measures against speculation, and says so.
const MACHINE: &str = "pseries,cap-nested-hv=on,cap-ccf-assist=off,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken";

const POWER9: Board = Board {
    name: "POWER9",
    qemu: ("qemu-system-ppc64", "qemu-system-ppc"),
    machine: &["-M", MACHINE, "-cpu", "POWER9"],
    console: "hvc0",
    compiler: "powerpc64le-linux-gnu",
    library: "libc6-dev-ppc64el-cross",
    flags: &[],
    sources: &[("power9.c", include_str!("power9.c"))],
    module: None,
};

const TARGET: Target = Target {
    name: "power9",
    arch: Arch::Ppc64le,
    options: include_str!("../../../kernels/power9.config"),
    is_packaged: false,
};

#[test]
fn every_call_of_a_nested_guest_is_in_the_timings() {
    if is_missing(&POWER9) {
        return;
    }
    let (serial, dir) = (boot(&POWER9, &vmlinux(&TARGET), None), scratch());
    let path = dir.path().join("timings");
    fs::write(&path, section(&serial, "timings")).unwrap();
    let table = tables(&path).remove(0);
    assert_eq!(table.source, "book3s HV timings");
    // 1000 and that of the end; each goes to user space.
    for reason in ["hypercall", "vcpu_entry", "vcpu_exit"] {
        assert_eq!(count(&table, reason), 1001, "{reason}: {table:?}");
    }
    // The guest's code is one page. Interrupts of the host's end its stays in the guest too.
    assert_eq!(count(&table, "page_fault"), 1, "{table:?}");
    let stays = count(&table, "in_guest");
    assert!((1002..1100).contains(&stays), "{table:?}");
    assert_eq!(count(&table, "guest_exit"), stays, "{table:?}");
    assert!(table.warnings.is_empty(), "{table:?}");
}
