//! What is said where something is missing.

use super::guest::{BTF, Endless, GUEST, KTAX, record, tables};
use crate::common::kvm::{TRACEFS, assert_whole, can_record, exits, exits_after};
use crate::common::run;

#[test]
fn without_a_choice_the_best_that_there_is_is_used_and_named() {
    if !can_record() {
        return;
    }
    let (table, _) = record(&[], &GUEST);
    assert_whole(&table);
    assert!(table.source.ends_with(", eBPF"), "{}", table.source);
    // A kernel without type information of itself is enough.
    let hidden = format!("{TRACEFS} && {{ ! test -d {BTF} || mount -t tmpfs none {BTF}; }}");
    let vmm = ["record", "--level", "run", "--json", "--", KTAX, "vmm", "raw"];
    let ran = run(exits_after(&hidden, "").args(vmm));
    assert!(tables(&ran)[0].source.ends_with(", eBPF"), "{ran:?}");
    // Without the privilege for eBPF the same counts come another way, and this is said.
    let mut command = exits_after(TRACEFS, "setpriv --bounding-set -bpf,-sys_admin");
    let ran = run(command.args(vmm));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let table = tables(&ran).remove(0);
    assert!(table.source.ends_with(", perf ring buffer"), "{}", table.source);
    assert!(table.warnings[0].fact.starts_with("eBPF is refused here"), "{:?}", table.warnings);
}

#[test]
fn what_is_missing_is_named_with_the_next_step() {
    if !can_record() {
        return;
    }
    let hide = "mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug";
    let empty = "mount -t tmpfs none /sys/kernel/tracing && mkdir /sys/kernel/tracing/events";
    let powerless = "setpriv --bounding-set -all";
    for (before, privileges, said) in [
        (hide, "", "type: sudo mount -t tracefs"),
        (hide, "", "--via stats needs no tracefs"),
        (empty, "", "load KVM with `sudo modprobe kvm`"),
        (TRACEFS, powerless, "run ktax as root, or with CAP_PERFMON"),
    ] {
        let vmm = ["record", "--", KTAX, "vmm", "raw"];
        let ran = run(exits_after(before, privileges).args(vmm));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    let own = std::process::id().to_string();
    for (target, said) in [
        (["--pid", own.as_str()], "runs no KVM guest"),
        (["--pid", "4194304"], "there is no process 4194304"),
        (["--vm", "no such machine"], "no VM is named no such machine"),
        (["--", "/no/such/vmm"], "cannot start /no/such/vmm"),
    ] {
        let ran = run(exits(&["record"]).args(target));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
    let ran = run(&mut exits(&["record", "--", "true"]));
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.contains("no vCPU left its guest or entered it"), "{ran:?}");
    // A machine without KVM: the VMM says so.
    let without = format!("{TRACEFS} && mount -t tmpfs none /dev");
    let ran = run(exits_after(&without, "").args(["record", "--", KTAX, "vmm", "raw"]));
    assert!(ran.status != 0 && ran.stderr.contains("/dev/kvm"), "{ran:?}");
    // What the message without tracefs names does work without it.
    let guest = Endless::start();
    let stats = ["record", "--json", "--via", "stats", "--seconds", "0.2", "--pid", &guest.pid()];
    assert!(tables(&run(exits_after(hide, "").args(stats)))[0].exits() > 0);
    // KVM's own tables are PowerPC's, and of a VM that is there.
    let ran = run(exits(&["record", "--via", "timing", "--pid", &guest.pid()]).env("LANG", "C"));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("CONFIG_KVM_EXIT_TIMING"), "{ran:?}");
}
