//! POWER9 as a hypervisor within another one, with KVM's timing of its own phases.

use std::fs;

use crate::boot::Host;
use crate::common::scratch;
use crate::kernel::{Build, program};
use crate::{count, is_missing, section, tables};

const CROSS: &str = "powerpc64le-linux-gnu-";
const QEMU: &str = "qemu-system-ppc64";

/// With nested guests; QEMU's own processor has no measures against speculation, and says so.
const MACHINE: &str = "pseries,cap-nested-hv=on,cap-ccf-assist=off,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken";

#[test]
fn every_call_of_a_nested_guest_is_in_the_timings() {
    if is_missing(&[QEMU, "powerpc64le-linux-gnu-gcc"]) {
        return;
    }
    let (build, dir) =
        (Build { name: "power9", arch: "powerpc", cross: CROSS, patches: &[] }, scratch());
    let host = Host {
        qemu: QEMU,
        arguments: &["-M", MACHINE, "-cpu", "POWER9"],
        console: "hvc0",
        kernel: &build.vmlinux(),
        init: &program("power9", CROSS, &[], dir.path()),
        module: None,
    };
    let serial = host.boot(dir.path());
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
