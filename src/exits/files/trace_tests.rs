use proptest::prelude::*;

use super::*;

#[test]
fn lines_of_each_program_are_read() {
    let perf = "  CPU 0/KVM 6965/6971 [001] 38470.760158562: kvm:kvm_exit: reason npf rip 0x1";
    let read = line(perf).unwrap();
    assert_eq!((read.comm, read.tid, read.ns), ("CPU 0/KVM", 6971, 38_470_760_158_562));
    assert_eq!((read.event, exit_reason(read.text), read.is_fine), ("kvm_exit", "npf", true));
    let ftrace = "       CPU 1/KVM-77      [003] d..1.    12.000345: kvm_entry: vcpu 1, rip 0x2";
    let read = line(ftrace).unwrap();
    assert_eq!((read.comm, read.tid, read.ns), ("CPU 1/KVM", 77, 12_000_345_000));
    assert_eq!((read.event, read.is_fine), ("kvm_entry", false));
    let tgid = "   qemu-x-99   (   88) [000] 1.5: sched_wakeup: comm=a pid=3 prio=120";
    assert_eq!(line(tgid).unwrap().comm, "qemu-x");
    assert_eq!(line("kvm\u{fffd}7 [000] 1.5: kvm_entry: vcpu 0").unwrap().tid, 7);
    assert_eq!(line("# tracer: nop"), None);
    assert_eq!(line("[  1.5] kernel: hello"), None);
}

#[test]
fn reasons_of_each_architecture_are_found() {
    let x86 = "vcpu 0 reason PF excp rip 0xffff info1 0x0";
    assert_eq!(exit_reason(x86), "PF excp");
    assert_eq!(exit_reason("reason EXIT_HLT rip 0xffff info 0 0"), "EXIT_HLT");
    assert_eq!(exit_reason("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1"), "DABT_LOW");
    assert_eq!(exit_reason("IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x1"), "IRQ");
    assert_eq!(exit_reason("SEPC:0x1, SCAUSE:0x17, STVAL:0x2"), "store guest-page fault");
    assert_eq!(exit_reason("SEPC:0x1, SCAUSE:0x1f, STVAL:0x2"), "0x1f");
    assert_eq!(exit_reason("exit=SYSCALL | pc=0xc0001 | msr=0x1"), "exit=SYSCALL");
    assert_eq!(exit_reason("[WAIT]PC: 0x8001"), "[WAIT]");
    assert_eq!(exit_reason("HYPCALL"), "HYPCALL");
    assert_eq!(exit_reason("pc=0x8001"), "unknown");
    assert_eq!(return_reason("reason restart (-4)"), "signal");
}

/// Linux 6.12 prints riscv's program counters with the format of another field before them.
#[test]
fn a_trace_of_riscv_is_read_whatever_its_program_counters_are() {
    let trace = "
        init-1       [000] d....     1.670145: kvm_entry: PC: 0x01680000000
        init-1       [000] .....     1.670146: kvm_exit: SEPC:0x80000000, SCAUSE:0x14, \
        STVAL:0x80000000, HTVAL:0x20000000, HTINST:0x0
        init-1       [000] d....     1.670200: kvm_entry: PC: 0x01680000000
        init-1       [000] .....     1.670201: kvm_exit: SEPC:0x80000008, SCAUSE:0x17, \
        STVAL:0x10000000, HTVAL:0x4000000, HTINST:0x0
        init-1       [000] .....     1.670203: kvm_userspace_exit: reason KVM_EXIT_MMIO (6)
        init-1       [000] d....     1.670206: kvm_entry: PC: 0x01680000008";
    let table = read(trace, Per::Vm).unwrap().remove(0);
    let fault = table.row("store guest-page fault").unwrap();
    let parts = fault.parts.as_ref().unwrap();
    assert_eq!((fault.sum_ns, parts.kernel_ns, parts.user_ns), (5000, 2000, 3000));
    assert_eq!(table.row("instruction guest-page fault").unwrap().sum_ns, 54_000);
    assert_eq!(table.row("TIMEINGUEST").unwrap().count, 2);
}

#[test]
fn a_system_call_as_ftrace_prints_it_is_the_kernels() {
    let trace = "
        a-1 [000] 1.000000: kvm_entry: vcpu 0, rip 0x1
        a-1 [000] 1.000010: kvm_exit: reason IO rip 0x1 info 0 0
        a-1 [000] 1.000012: kvm_userspace_exit: reason KVM_EXIT_IO (2)
        a-1 [000] 1.000013: sys_ioctl -> 0x0
        a-1 [000] 1.000017: sys_ioctl(fd: d, cmd: ae80, arg: 0)
        a-1 [000] 1.000024: kvm_entry: vcpu 0, rip 0x1";
    let table = read(trace, Per::Vm).unwrap().remove(0);
    let parts = table.row("IO").unwrap().parts.as_ref().unwrap();
    assert_eq!((parts.kernel_ns, parts.user_ns), (9000, 5000));
    let end = line("a-1 [000] 1.000013: sys_ioctl -> 0x0").unwrap();
    assert_eq!((end.event, end.text), ("sys_exit_ioctl", "0x0"));
}

#[test]
fn both_ways_to_write_a_switch_are_read() {
    let of = |text| switched(&Line { comm: "", tid: 1, ns: 5, event: "", text, is_fine: true });
    let fields = of("prev_comm=a b prev_pid=7 prev_state=S ==> next_comm=c next_pid=9");
    let short = of("a b:7 [120] S ==> c:9 [120]");
    assert_eq!(fields, short);
    assert_eq!(short.unwrap()[0], (7, "", 5, VcpuEvent::Off { could_run: false }));
    let preempted = of("a:7 [120] R+ ==> c:9 [120]").unwrap();
    assert_eq!(preempted[0].3, VcpuEvent::Off { could_run: true });
}

#[test]
fn a_trace_of_other_events_is_an_error() {
    for others in ["kvm_mmio: mmio read", "kvm_userspace_exit: x", "kvm_entry: vcpu 0, rip 0x1"] {
        let trace = format!("a-1 [000] 1.5: {others}\na-1 [000] 1.6: sched_switch: x\n");
        assert!(is_one(&trace));
        assert_eq!(read(&trace, Per::Vm), Err(ExitsError::NoPairs), "{others}");
    }
}

#[test]
fn texts_that_hold_addresses_are_an_error() {
    let exits =
        |n| (0..n).map(|at| format!("a-1 [000] 1.5: kvm_exit: at {at:#x}\n")).collect::<String>();
    assert!(read(&exits(EXIT_REASONS_MAX), Per::Vm).is_ok());
    assert_eq!(read(&exits(EXIT_REASONS_MAX + 1), Per::Vm), Err(ExitsError::Reasons));
}

/// One vCPU entered twice without an exit; the other ran for longer.
#[test]
fn each_table_has_its_length_and_the_warnings_of_the_whole_recording() {
    let trace = "
        CPU_0-7 [000] 1.000000: kvm_entry: vcpu 0, rip 0x1
        CPU_0-7 [000] 1.000001: kvm_entry: vcpu 0, rip 0x1
        CPU_0-7 [000] 1.000003: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0
        CPU_1-8 [001] 1.000002: kvm_entry: vcpu 1, rip 0x1
        CPU_1-8 [001] 1.000009: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0";
    let tables = read(trace, Per::Both).unwrap();
    let lengths: Vec<_> = tables.iter().map(|table| table.elapsed_ns.unwrap()).collect();
    assert_eq!(lengths, [9_000, 3_000, 7_000]);
    let facts = |table: &ExitTable| table.warnings.iter().map(|it| it.fact.clone()).collect();
    let facts: Vec<Vec<String>> = tables.iter().map(facts).collect();
    assert!(facts[0][0].starts_with("1 events have no partner"), "{facts:?}");
    assert!(facts.iter().all(|those| *those == facts[0]), "{facts:?}");
}

proptest! {
    #[test]
    fn any_text_is_tables_or_an_error(
        text in "(a-1 \\[0\\] |[0-9]\\.[0-9]: |kvm_exit: |kvm_entry: |rip |\n|\\PC){0,60}",
    ) {
        let _ = read(&text, Per::Both);
    }
}
