use super::*;
use proptest::prelude::*;

use ktax_model::ExitEvents;

/// Linux 6.12 prints RISC-V's program counters in a wrong format.
#[test]
fn a_riscv_trace_is_read_with_any_program_counters() {
    let trace = "
        init-1       [000] d....     1.670145: kvm_entry: PC: 0x01680000000
        init-1       [000] .....     1.670146: kvm_exit: SEPC:0x80000000, SCAUSE:0x14, \
        STVAL:0x80000000, HTVAL:0x20000000, HTINST:0x0
        init-1       [000] d....     1.670200: kvm_entry: PC: 0x01680000000
        init-1       [000] .....     1.670201: kvm_exit: SEPC:0x80000008, SCAUSE:0x17, \
        STVAL:0x10000000, HTVAL:0x4000000, HTINST:0x0
        init-1       [000] .....     1.670203: kvm_userspace_exit: reason KVM_EXIT_MMIO (6)
        init-1       [000] d....     1.670206: kvm_entry: PC: 0x01680000008";
    let table = read(trace, TableScope::Vm).unwrap().remove(0);
    let fault = table.row("store guest-page fault").unwrap();
    let parts = fault.parts.as_ref().unwrap();
    assert_eq!((fault.time_ns(), parts.kernel_ns, parts.user_ns), (5000, 2000, 3000));
    assert_eq!(table.row("instruction guest-page fault").unwrap().sum_ns, Some(54_000));
    assert_eq!(table.row("TIMEINGUEST").unwrap().count, 2);
}

#[test]
fn ftrace_system_calls_move_time_to_the_vmm() {
    let trace = "
        a-1 [000] 1.000000: kvm_entry: vcpu 0, rip 0x1
        a-1 [000] 1.000010: kvm_exit: reason IO rip 0x1 info 0 0
        a-1 [000] 1.000012: kvm_userspace_exit: reason KVM_EXIT_IO (2)
        a-1 [000] 1.000013: sys_ioctl -> 0x0
        a-1 [000] 1.000017: sys_ioctl(fd: d, cmd: ae80, arg: 0)
        a-1 [000] 1.000024: kvm_entry: vcpu 0, rip 0x1";
    let table = read(trace, TableScope::Vm).unwrap().remove(0);
    let parts = table.row("IO").unwrap().parts.as_ref().unwrap();
    assert_eq!((parts.kernel_ns, parts.user_ns), (9000, 5000));
    let end = parse_line("a-1 [000] 1.000013: sys_ioctl -> 0x0").unwrap();
    assert_eq!((end.event, end.text), ("sys_exit_ioctl", "0x0"));
}

#[test]
fn switches_are_read_in_every_form() {
    let event = "sched_switch";
    let (comm, tid, ns, has_nanoseconds, is_perf) = ("", 1, 5, true, false);
    let switch =
        |text| switch_events(&TraceLine { comm, tid, ns, event, text, has_nanoseconds, is_perf });
    let fields = switch("prev_comm=a b prev_pid=7 prev_state=S ==> next_comm=c next_pid=9");
    let short = switch("a b:7 [120] S ==> c:9 [120]");
    assert_eq!(fields, short);
    // A record that trace-cmd could not print.
    let raw = switch("[FAILED TO PARSE] prev_comm=a prev_pid=7 prev_state=1 next_pid=9");
    assert_eq!(raw, short);
    assert_eq!(short.unwrap()[0], (7, "", 5, VcpuEvent::SwitchOut { is_runnable: false }));
    let preempted = switch("a:7 [120] R+ ==> c:9 [120]").unwrap();
    assert_eq!(preempted[0].3, VcpuEvent::SwitchOut { is_runnable: true });
}

#[test]
fn an_error_names_the_events_of_a_trace_without_exits_and_those_to_add() {
    for (tool, events, expected) in [
        (
            "",
            &["kvm_mmio: mmio read", "sched_switch: x"][..],
            "it is a trace with 1 kvm_mmio, 1 sched_switch, and has no exit of a guest; add these \
             events to `trace-cmd record`: `-e kvm:kvm_entry -e kvm:kvm_exit` (x86, arm64, \
             RISC-V); \
             `-e kvm_hv:kvm_guest_enter -e kvm_hv:kvm_guest_exit` (PowerPC book3s HV); `-e \
             kvm:kvm_s390_sie_enter -e kvm:kvm_s390_sie_exit` (s390); `-e kvm:kvm_enter -e \
             kvm:kvm_reenter -e kvm:kvm_exit` (LoongArch and MIPS); `-e kvm_pr:kvm_book3s_reenter \
             -e kvm_pr:kvm_exit` (PowerPC book3s PR)",
        ),
        (
            "kvm:",
            &["kvm_entry: vcpu 0, rip 0x1"],
            "it is a trace with 1 kvm_entry, and has no exit of a guest; add `-e \
             kvm:kvm_entry,kvm:kvm_exit` to `perf record -a`",
        ),
        (
            "kvm:",
            &["kvm_s390_handle_sigp: 00[1-2]: handle sigp order 01 (sense)"],
            "it is a trace with 1 kvm_s390_handle_sigp, and has no exit of a guest; add `-e \
             kvm:kvm_s390_sie_enter,kvm:kvm_s390_sie_exit` to `perf record -a`",
        ),
        (
            "",
            &["kvm_guest_enter: VCPU 0: pc=0xc000", "kvm_hcall_enter: VCPU 0: hcall=H_CEDE"],
            "it is a trace with 1 kvm_guest_enter, 1 kvm_hcall_enter, and has no exit of a guest; \
             add `-e kvm_hv:kvm_guest_enter -e kvm_hv:kvm_guest_exit` to `trace-cmd record`",
        ),
        (
            "kvm:",
            &["kvm_reenter: PC: 0x1", "kvm_out: PC: 0x1"],
            "it is a trace with 1 kvm_out, 1 kvm_reenter, and has no exit of a guest; add `-e \
             kvm:kvm_enter,kvm:kvm_reenter,kvm:kvm_exit` to `perf record -a`",
        ),
    ] {
        let line = |event: &&str| format!("a-1 [000] 1.5: {tool}{event}\n");
        let trace: String = events.iter().map(line).collect();
        assert!(recognizes(&trace));
        assert_eq!(read(&trace, TableScope::Vm).unwrap_err().to_string(), expected);
    }
}

#[test]
fn more_reasons_than_an_architecture_has_are_an_error() {
    let exits =
        |n| (0..n).map(|n| format!("a-1 [000] 1.5: kvm_exit: EXIT{n}\n")).collect::<String>();
    assert!(read(&exits(MAX_EXIT_REASONS), TableScope::Vm).is_ok());
    assert_eq!(read(&exits(MAX_EXIT_REASONS + 1), TableScope::Vm), Err(too_many_reasons()));
}

/// One vCPU enters twice without an exit; the other runs for longer.
#[test]
fn each_table_has_its_length_and_the_warnings_of_the_whole_recording() {
    let trace = "
        CPU_0-7 [000] 1.000000: kvm_entry: vcpu 0, rip 0x1
        CPU_0-7 [000] 1.000001: kvm_entry: vcpu 0, rip 0x1
        CPU_0-7 [000] 1.000003: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0
        CPU_1-8 [001] 1.000002: kvm_entry: vcpu 1, rip 0x1
        CPU_1-8 [001] 1.000009: kvm_exit: reason EXIT_HLT rip 0x1 info 0 0";
    let tables = read(trace, TableScope::Both).unwrap();
    let lengths: Vec<_> = tables.iter().map(|table| table.elapsed_ns.unwrap()).collect();
    assert_eq!(lengths, [9_000, 3_000, 7_000]);
    let facts =
        |table: &ExitTable| table.warnings.iter().map(|warning| warning.fact.clone()).collect();
    let facts: Vec<Vec<String>> = tables.iter().map(facts).collect();
    assert!(facts[0][0].starts_with("1 events have no partner"), "{facts:?}");
    assert!(facts.iter().all(|table_facts| *table_facts == facts[0]), "{facts:?}");
}

/// The kernel and its tools print such lines after a buffer was full. A program's name may have the
/// same text.
#[test]
fn lost_events_of_a_trace_are_counted() {
    let read_with = |middle: &str| {
        let trace = format!(
            "q-1 [001] 10.000000: kvm_exit: vcpu 0 reason HLT rip 0x1\n{middle}\n\
             q-1 [001] 10.000200: kvm_entry: vcpu 0, rip 0x1\n"
        );
        read(&trace, TableScope::Vm).unwrap().remove(0)
    };
    let is_uncounted = |table: &ExitTable| {
        table.warnings.iter().any(|warning| warning.fact.contains("does not say how many"))
    };
    for (middle, lost, uncounted) in [
        ("", 0, false),
        ("CPU:1 [LOST 1234 EVENTS]", 1234, false),
        ("CPU:1 [LOST 1 EVENTS]\nCPU:0 [LOST 2 EVENTS]", 3, false),
        ("CPU:1 [EVENTS DROPPED]", 0, true),
        ("q-1 [001] 10.000100: PERF_RECORD_LOST lost 7", 7, false),
        (
            "[LOST 5 EVENTS]-9 [001] 10.000100: sched_waking: comm=a pid=1 prio=1 target_cpu=000",
            0,
            false,
        ),
    ] {
        let table = read_with(middle);
        assert_eq!(table.account.as_ref().unwrap().lost, lost, "{middle}");
        assert_eq!(is_uncounted(&table), uncounted, "{middle}");
        let says = table.warnings.iter().any(|warning| warning.fact.contains("events were lost"));
        assert_eq!(says, lost > 0 || uncounted, "{middle}");
    }
}

/// One HLT of 100 ms.
#[test]
fn the_time_of_a_halt_is_unknown_without_task_switches() {
    let without =
        read(include_str!("../../../../tests/data/exits/halt-no-sched.txt"), TableScope::Vm);
    let without = without.unwrap().remove(0);
    let parts = without.row("HLT").unwrap().parts.clone().unwrap();
    assert_eq!((parts.kernel_ns, parts.unknown_ns), (0, 100_000_000));
    assert_eq!((parts.halted_ns, parts.preempted_ns), (None, None));
    let missing = &without.missing[0];
    assert_eq!(missing.events, ExitEvents::Scheduling);
    let next = "add `-e sched:sched_switch -e sched:sched_wakeup` to `trace-cmd record`";
    assert_eq!(missing.next_step, next);
    let with =
        read(include_str!("../../../../tests/data/exits/halt-with-sched.txt"), TableScope::Vm);
    let with = with.unwrap().remove(0);
    let parts = with.row("HLT").unwrap().parts.clone().unwrap();
    assert_eq!((parts.kernel_ns, parts.unknown_ns), (200_000, 0));
    assert_eq!((parts.halted_ns, parts.preempted_ns), (Some(99_800_000), Some(0)));
    assert!(with.missing.is_empty());
}

/// On every architecture, the time of idle exits is unknown and that of other exits the kernel's.
#[test]
fn idle_time_is_unknown_without_task_switches_on_every_architecture() {
    let s390 = "00[0404c00180000000-000000000010b2a6]:";
    for (enter, busy, idle) in [
        ("kvm_entry: vcpu 0", "kvm_exit: reason npf rip 0x1", "kvm_exit: reason hlt rip 0x1"),
        (
            "kvm_entry: PC: 0x1",
            "kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1",
            "kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0x1",
        ),
        (
            "kvm_entry: PC: 0x1",
            "kvm_exit: SEPC:0x1, SCAUSE:0x17, STVAL:0x2",
            "kvm_exit: SEPC:0x1, SCAUSE:0x16, STVAL:0x2",
        ),
        (
            "kvm_guest_enter: VCPU 0: pc=0xc000",
            "kvm_guest_exit: VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=0",
            "kvm_guest_exit: VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=1",
        ),
        (
            &format!("kvm_s390_sie_enter: {s390} entering sie flags 0"),
            &format!("kvm_s390_sie_exit: {s390} exit sie icptcode 4 (Instruction)"),
            &format!("kvm_s390_sie_exit: {s390} exit sie icptcode 28 (Wait state)"),
        ),
        ("kvm_reenter: PC: 0x1", "kvm_exit: [0x1]PC: 0x1", "kvm_exit: [IDLE]PC: 0x1"),
    ] {
        let trace = format!(
            "a-1 [000] 1.000000: {enter}\na-1 [000] 1.000010: {busy}\na-1 [000] 1.000013: {enter}\n\
             a-1 [000] 1.000020: {idle}\na-1 [000] 1.000070: {enter}\n"
        );
        let table = read(&trace, TableScope::Vm).unwrap().remove(0);
        let sum = |part: fn(&ktax_model::ExitParts) -> u64| -> u64 {
            let exits = table.rows.iter().filter(|row| !row.is_guest);
            exits.map(|row| part(row.parts.as_ref().unwrap())).sum()
        };
        let parts = [sum(|parts| parts.kernel_ns), sum(|parts| parts.unknown_ns)];
        assert_eq!(parts, [3_000, 50_000], "{trace}");
        assert_eq!((table.exits(), table.sum_ns()), (2, 70_000), "{trace}");
    }
}

#[test]
fn a_trace_of_powerpc_is_read() {
    let text = include_str!("../../../../tests/data/exits/powerpc-hv.txt");
    let table = read(text, TableScope::Vm).unwrap().remove(0);
    assert_eq!(table.source, "kvm_guest_enter and kvm_guest_exit, from a trace");
    let times = |reason| table.row(reason).unwrap().sum_ns;
    assert_eq!((times("HCALL"), times("TIMEINGUEST")), (Some(20_000), Some(100_000)));
}

/// On LoongArch a separate event tells that an exit for a privileged instruction was IDLE.
#[test]
fn a_later_event_replaces_the_reason_of_an_exit() {
    let trace = "
        a-1 [000] 1.000000: kvm_enter: PC: 0x1
        a-1 [000] 1.000010: kvm_exit: [0x16]PC: 0x1
        a-1 [000] 1.000011: kvm_exit_gspr: Inst word: 0x06488000
        a-1 [000] 1.000012: kvm_exit_idle: [IDLE]PC: 0x1
        a-1 [000] 1.000050: kvm_reenter: PC: 0x2";
    let table = read(trace, TableScope::Vm).unwrap().remove(0);
    assert_eq!(table.row("IDLE").unwrap().sum_ns, Some(40_000));
    assert_eq!(table.row("0x16"), None);
}

#[test]
fn exits_without_entries_are_counted_and_have_no_times() {
    let text = include_str!("../../../../tests/data/exits/without-entries.txt");
    let table = read(text, TableScope::Vm).unwrap().remove(0);
    let rows: Vec<_> =
        table.rows.iter().map(|row| (&*row.reason, row.count, row.sum_ns, row.most_ns)).collect();
    assert_eq!(rows, [("HLT", 1, None, None), ("MSR_WRITE", 1, None, None)]);
    assert!(!table.is_timed() && table.account.is_none());
    let next = "add `-e kvm:kvm_entry` to `trace-cmd record`";
    assert_eq!(table.missing.len(), 1);
    assert_eq!(
        (table.missing[0].events, &*table.missing[0].next_step),
        (ExitEvents::Entries, next)
    );
}

/// One vCPU has all entries; the other has too few of them for times.
#[test]
fn only_threads_with_entries_have_times() {
    let line =
        |tid: u32, us: u32, event: &str| format!("a-{tid} [000] 1.{us:06}: kvm:kvm_{event}\n");
    let mut trace = String::new();
    for turn in 0..4 {
        trace += &line(1, turn * 10, "entry: vcpu 0, rip 0x1");
        trace += &line(1, turn * 10 + 4, "exit: reason npf rip 0x1");
        trace += &line(2, turn * 10 + 5, "exit: reason HLT rip 0x1");
    }
    trace += &line(2, 50, "entry: vcpu 1, rip 0x1");
    let tables = read(&trace, TableScope::Both).unwrap();
    let timed: Vec<bool> = tables.iter().map(ExitTable::is_timed).collect();
    assert_eq!(timed, [false, true, false]);
    let counts = |table: &ExitTable, reason: &str| table.row(reason).map(|row| row.count);
    assert_eq!((counts(&tables[0], "npf"), counts(&tables[0], "HLT")), (Some(4), Some(4)));
    assert_eq!(tables[1].row("npf").unwrap().sum_ns, Some(18_000));
    let next = "add `-e kvm:kvm_entry` to `perf record -a`";
    assert_eq!(tables[2].missing[0].next_step, next);
    // Returns of KVM_RUN without calls have no times either.
    let returns = line(1, 1, "userspace_exit: reason KVM_EXIT_IO (2)").repeat(3);
    let table = read(&returns, TableScope::Vm).unwrap().remove(0);
    assert_eq!((table.is_timed(), table.exits()), (false, 3));
    let next = "add `-e syscalls:sys_enter_ioctl` to `perf record -a`";
    assert_eq!(table.missing[0].next_step, next);
    // Book E has no event for entries.
    let booke = "a-1 [000] 1.5: kvm_exit: exit=DEC | pc=0x1 | msr=0x1\n".repeat(2);
    let table = read(&booke, TableScope::Vm).unwrap().remove(0);
    assert_eq!(table.row("DEC").unwrap().count, 2);
    assert!(table.missing[0].next_step.contains("--via timing"), "{:?}", table.missing);
}

#[test]
fn a_reason_is_a_name_without_the_numbers_after_it() {
    let text = include_str!("../../../../tests/data/exits/reason-without-rip.txt");
    let table = read(text, TableScope::Vm).unwrap().remove(0);
    let count = |reason| table.row(reason).unwrap().count;
    assert_eq!((count("DR_ACCESS"), count("VMREAD"), table.exits()), (2, 1, 3));
    let text = include_str!("../../../../tests/data/exits/failed-to-parse.txt");
    let table = read(text, TableScope::Vm).unwrap().remove(0);
    let row = table.row("APIC_ACCESS").unwrap();
    assert_eq!((row.count, row.sum_ns, table.exits()), (2, Some(20_000), 2));
    let trace = "
        a-1 [000] 1.000000: kvm_entry: vcpu 0
        a-1 [000] 1.000010: kvm_exit: [FAILED TO PARSE] guest_rip=0x1
        a-1 [000] 1.000013: kvm_entry: vcpu 0
        a-1 [000] 1.000020: kvm_exit: [FAILED TO PARSE] guest_rip=0x2";
    let table = read(trace, TableScope::Vm).unwrap().remove(0);
    assert_eq!(table.row(UNREADABLE).unwrap().count, 1);
    let is_about_reasons =
        |warning: &Warning| warning.fact.starts_with("1 exits have a text without a reason");
    assert!(table.warnings.iter().any(is_about_reasons), "{:?}", table.warnings);
}

proptest! {
    #[test]
    fn any_text_is_tables_or_an_error(
        text in "(a-1 \\[0\\] |[0-9]\\.[0-9]: |kvm_exit: |kvm_entry: |rip |\n|\\PC){0,60}",
    ) {
        let _ = read(&text, TableScope::Both);
    }

    #[test]
    fn any_exit_has_a_reason_and_its_time_once(
        exits in prop::collection::vec(
            ("kvm_exit|kvm_guest_exit|kvm_s390_sie_exit|kvm_entry|kvm_reenter|kvm_exit_idle",
             "(reason |\\[FAILED TO PARSE\\] |exit_reason=|isa=|trap=|ceded=|icptcode |SCAUSE:|\\(|\
              \\)|\
              [A-Z]{1,4}|[0-9]{1,4}|0x[0-9a-f]{1,9}|rip|,| |\\PC){0,9}"),
            0..30,
        ),
    ) {
        let line = |(index, (event, text)): (usize, &(String, String))| {
            format!("a-1 [0] 1.{index:06}: {event}: {text}\n")
        };
        let trace: String = exits.iter().enumerate().map(line).collect();
        for table in read(&trace, TableScope::Vm).unwrap_or_default() {
            prop_assert!(table.rows.iter().all(|row| !row.reason.is_empty()));
            let Some(account) = &table.account else { continue };
            prop_assert_eq!(table.sum_ns() + account.open_ns(), account.wall_ns);
        }
    }
}

#[test]
fn lines_of_each_program_are_read() {
    let perf = "  CPU 0/KVM 6965/6971 [001] 38470.760158562: kvm:kvm_exit: reason npf rip 0x1";
    let read = parse_line(perf).unwrap();
    assert_eq!((read.comm, read.tid, read.ns), ("CPU 0/KVM", 6971, 38_470_760_158_562));
    assert_eq!((read.event, read.has_nanoseconds, read.is_perf), ("kvm_exit", true, true));
    let ftrace = "       CPU 1/KVM-77      [003] d..1.    12.000345: kvm_entry: vcpu 1, rip 0x2";
    let read = parse_line(ftrace).unwrap();
    assert_eq!((read.comm, read.tid, read.ns), ("CPU 1/KVM", 77, 12_000_345_000));
    assert_eq!((read.event, read.has_nanoseconds, read.is_perf), ("kvm_entry", false, false));
    let tgid = "   qemu-x-99   (   88) [000] 1.5: sched_wakeup: comm=a pid=3 prio=120";
    assert_eq!(parse_line(tgid).unwrap().comm, "qemu-x");
    assert_eq!(parse_line("kvm\u{fffd}7 [000] 1.5: kvm_entry: vcpu 0").unwrap().tid, 7);
    let without_cpu = parse_line("CPU 0/KVM 6971 760.158562: kvm:kvm_entry: vcpu 0").unwrap();
    assert_eq!((without_cpu.comm, without_cpu.tid), ("CPU 0/KVM", 6971));
    assert_eq!(parse_line("# tracer: nop"), None);
    assert_eq!(parse_line("[  1.5] kernel: hello"), None);
}

#[test]
fn the_reason_is_the_name_after_the_word_reason() {
    for (text, reason) in [
        ("vcpu 0 reason PF excp rip 0xffff info1 0x0", "PF excp"),
        ("reason EXIT_HLT rip 0xffff info 0 0", "EXIT_HLT"),
        ("vcpu 3 reason DR_ACCESS info1 0x0000000000000216", "DR_ACCESS"),
        ("vcpu 3 reason VMREAD", "VMREAD"),
        ("vcpu 3 reason DB excp", "DB excp"),
        ("vcpu 3 reason MSR_WRITE 0x1b written", "MSR_WRITE"),
        ("reason INVALID_STATE FAILED_VMENTRY rip 0x1", "INVALID_STATE FAILED_VMENTRY"),
        ("reason UNKNOWN (131072) rip 0x1", "UNKNOWN (131072)"),
        ("reason 0x20000 rip 0x1", "0x20000"),
        ("vcpu 0 reason ", "unreadable"),
        ("reason rip 0x1", "unreadable"),
    ] {
        assert_eq!(exit_reason(text), reason, "{text}");
    }
}

#[test]
fn reasons_of_each_architecture_are_found() {
    for (text, reason) in [
        ("TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1", "DABT_LOW"),
        ("IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0x1", "IRQ"),
        ("SEPC:0x1, SCAUSE:0x17, STVAL:0x2", "store guest-page fault"),
        ("SEPC:0x1, SCAUSE:0x1f, STVAL:0x2", "0x1f"),
        ("VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=0", "SYSCALL"),
        ("VCPU 0: trap=SYSCALL pc=0xc0 msr=0x80, ceded=1", "SYSCALL, ceded"),
        ("VCPU 0: trap=0xea0 pc=0xc0 msr=0x80, ceded=0", "0xea0"),
        ("00[0404c00180000000-000000000010b2a6]: exit sie icptcode 28 (Wait state)", "Wait state"),
        ("00[0404c00180000000-000000000010b2a6]: exit sie icptcode 0 (0x0)", "Host interruption"),
        ("00[0404c00180000000-000000000010b2a6]: exit sie icptcode 64 (0x40)", "0x40"),
        ("exit=SYSCALL | pc=0xc0001 | msr=0x1", "SYSCALL"),
        ("[WAIT]PC: 0x8001", "WAIT"),
        ("[0x16]PC: 0x9000000000223344", "0x16"),
        ("HYPCALL", "HYPCALL"),
        ("pc=0x8001", "unreadable"),
        ("at 0x8001", "unreadable"),
        ("SCAUSE:,", "unreadable"),
        ("", "unreadable"),
    ] {
        assert_eq!(exit_reason(text), reason, "{text}");
    }
    assert_eq!(return_reason("reason restart (4)"), "signal");
    assert_eq!(return_reason("reason error (14)"), "error 14");
    assert_eq!(return_reason("reason KVM_EXIT_IO (2)"), "KVM_EXIT_IO");
}

#[test]
fn a_record_of_plain_numbers_is_decoded() {
    for (fields, reason) in [
        ("exit_reason=44 guest_rip=0xc01185ed isa=1 info1=4272 info2=0", "APIC_ACCESS"),
        ("exit_reason=0x30 guest_rip=0x1 isa=1", "EPT_VIOLATION"),
        ("exit_reason=1024 guest_rip=0x1 isa=2", "npf"),
        ("exit_reason=120 guest_rip=0x1 isa=2", "hlt"),
        ("exit_reason=2147483681 isa=1", "INVALID_STATE +0x80000000"),
        ("exit_reason=48 guest_rip=0x1", "0x30"),
        ("ret=2 esr_ec=36 vcpu_pc=0x1", "DABT_LOW"),
        ("ret=0 esr_ec=0 vcpu_pc=0x1", "IRQ"),
        ("sepc=0x1 scause=23 stval=0x1", "store guest-page fault"),
        ("vcpu_id=0 trap=3072 pc=0x1 msr=0x1 ceded=1", "SYSCALL, ceded"),
        ("id=0 pswmask=0x1 pswaddr=0x2 icptcode=28", "Wait state"),
        ("guest_rip=0x1 isa=1", "unreadable"),
        ("exit_reason=many", "unreadable"),
    ] {
        assert_eq!(exit_reason(&format!("[FAILED TO PARSE] {fields}")), reason, "{fields}");
    }
    assert_eq!(return_reason("[FAILED TO PARSE] reason=6 errno=0"), "KVM_EXIT_MMIO");
    assert_eq!(return_reason("[FAILED TO PARSE] reason=10 errno=-4"), "signal");
    assert_eq!(return_reason("[FAILED TO PARSE] reason=0 errno=-14"), "error 14");
}

#[test]
fn an_exit_tells_the_architecture() {
    for (event, text, name) in [
        ("kvm_exit", "vcpu 0 reason HLT rip 0x1", "x86"),
        ("kvm_exit", "[FAILED TO PARSE] exit_reason=44 isa=1", "x86"),
        ("kvm_exit", "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x1", "arm64"),
        ("kvm_exit", "SEPC:0x1, SCAUSE:0x17, STVAL:0x2", "RISC-V"),
        ("kvm_exit", "[IDLE]PC: 0x8001", "LoongArch and MIPS"),
        ("kvm_exit", "exit=SYSCALL | pc=0x1 | msr=0x1 | srr1=0x2", "PowerPC book3s PR"),
        ("kvm_exit", "exit=DEC | pc=0x1 | msr=0x1", "PowerPC Book E"),
        ("kvm_guest_exit", "", "PowerPC book3s HV"),
        ("kvm_s390_sie_exit", "", "s390"),
    ] {
        assert_eq!(
            architecture(event, text).map(|architecture| architecture.name),
            Some(name),
            "{text}"
        );
    }
    assert_eq!(architecture("kvm_exit", "HYPCALL"), None);
}
