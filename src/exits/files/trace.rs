//! Events as text, recorded anywhere: `perf script`, `trace-cmd report`, and the kernel's own
//! `trace` file.

use super::ExitsError;
use crate::exits::Per;
use crate::exits::fold::{Event, Fold};
use crate::exits::recording::{Reason, Stage};
use crate::exits::scause;
use crate::exits::table::Recorded;
use crate::model::{ExitTable, Warning};

/// One event's line.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    comm: &'a str,
    tid: u32,
    ns: u64,
    event: &'a str,
    text: &'a str,
    /// Whether its time says more than microseconds.
    is_fine: bool,
}

/// A thread, when, and what happened to it.
type Happened<'a> = (u32, &'a str, u64, Event);

pub(super) fn is_one(text: &str) -> bool {
    text.lines().take(1000).filter_map(line).any(|line| line.event.starts_with("kvm_"))
}

pub(super) fn read(text: &str, per: Per) -> Result<Vec<ExitTable>, ExitsError> {
    let lines: Vec<Line> = text.lines().filter_map(line).collect();
    let has_exits = lines.iter().any(|line| line.event == "kvm_exit");
    let mut reasons = Reasons::default();
    let mut events: Vec<Happened> = Vec::new();
    for line in &lines {
        events.extend(happened(line, has_exits, &mut reasons));
    }
    events.sort_by_key(|(_, _, ns, _)| *ns);
    let mut fold = Fold::default();
    for (tid, name, ns, event) in events {
        fold.add(tid, name, ns, event);
    }
    let (guest, source) = match has_exits {
        true => ("TIMEINGUEST", "kvm_entry and kvm_exit, from a trace"),
        false => ("KVM_RUN", "KVM_RUN, from a trace"),
    };
    let name = |reason: Reason| match reason {
        Reason::GUEST => guest.to_owned(),
        other => reasons.0[other.code as usize].clone(),
    };
    let recording = &fold.recording();
    if recording.rows.is_empty() {
        return Err(ExitsError::NoPairs);
    }
    let end = &|_, thread: &crate::exits::recording::Thread| thread.last;
    let mut tables = Recorded { recording, of: "", source, name: &name, end }.tables(per);
    if !lines.iter().any(|line| line.is_fine) {
        tables.iter_mut().for_each(|table| table.warnings.push(coarse()));
    }
    Ok(tables)
}

fn coarse() -> Warning {
    Warning {
        fact: "the trace's times are whole microseconds".to_owned(),
        next_step: "write it with `perf script --ns` or `trace-cmd report -t`".to_owned(),
    }
}

/// Names in the order in which they were met.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn of(&mut self, name: &str) -> Reason {
        let known = self.0.iter().position(|there| there == name);
        let code = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        Reason { code: code as u64, detail: 0 }
    }
}

/// `CPU 0/KVM  1234 [001] 5.000001: kvm:kvm_exit: …`, `CPU 0/KVM-1234 [001] d..1. 5.000001: …`.
fn line(text: &str) -> Option<Line<'_>> {
    let cpu = text.match_indices(" [").find(|(at, _)| {
        let number = text[at + 2..].split(']').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let (before, after) = text.split_at(cpu?.0);
    let (_, after) = after.split_once(']')?;
    let time = after.split_whitespace().take(2).find(|word| word.ends_with(':'))?;
    let (_, rest) = after.split_once(time)?;
    let (seconds, fraction) = time.trim_end_matches(':').split_once('.')?;
    let digits = fraction.len();
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (comm, tid) = task(before)?;
    let (event, text) = rest.trim_start().split_once(": ").or(rest.trim().split_once(':'))?;
    let event = event.rsplit(':').next()?;
    Some(Line { comm, tid, ns, event, text: text.trim(), is_fine: digits > 6 })
}

/// `comm-tid`, `comm-tid (pid)`, `comm tid`, `comm pid/tid`.
fn task(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(inner) => inner.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let tid = text[before.len()..].parse().ok()?;
    // What stands between the name and the number.
    let (name, separator) = before.split_at(before.char_indices().next_back()?.0);
    let comm = match separator {
        "/" => name.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => name,
    };
    Some((comm.trim(), tid))
}

fn happened<'a>(line: &Line<'a>, has_exits: bool, reasons: &mut Reasons) -> Vec<Happened<'a>> {
    let this = |event| vec![(line.tid, line.comm, line.ns, event)];
    match line.event {
        "kvm_entry" => this(Event::Enter),
        "kvm_exit" => this(Event::Left(reasons.of(exit_reason(line.text)), Stage::Kernel)),
        "kvm_userspace_exit" if has_exits => this(Event::Moves(Stage::User)),
        "kvm_userspace_exit" => {
            this(Event::Left(reasons.of(return_reason(line.text)), Stage::User))
        }
        "sys_enter_ioctl" if is_kvm_run(line.text) => match has_exits {
            true => this(Event::Moves(Stage::Kernel)),
            false => this(Event::Enter),
        },
        "sched_switch" => switched(line).unwrap_or_default(),
        "sched_wakeup" => match number_after(line.text, " pid=") {
            Some(tid) => vec![(tid, "", line.ns, Event::Wakeup)],
            None => vec![],
        },
        _ => vec![],
    }
}

/// x86 `… reason NAME rip 0x…`, arm64 `TRAP: HSR_EC: 0x0024 (NAME), PC: …`, riscv `SCAUSE:0x17, …`.
fn exit_reason(text: &str) -> &str {
    let between = |from: &str, to: &str| Some(text.split_once(from)?.1.split_once(to)?.0.trim());
    let trap = || between("HSR_EC:", "PC:").filter(|_| text.starts_with("TRAP"));
    let class = || trap()?.split_once('(')?.1.split_once(')').map(|(name, _)| name);
    between("reason ", " rip ")
        .or_else(class)
        .or_else(|| text.split_once(": HSR_EC").map(|(kind, _)| kind))
        .or_else(|| between("SCAUSE:", ",").map(scause::name))
        .unwrap_or(text)
}

/// `reason KVM_EXIT_IO (2)`, `reason restart (-4)`.
fn return_reason(text: &str) -> &str {
    let name = text.strip_prefix("reason ").unwrap_or(text);
    match name.split(" (").next().unwrap_or(name) {
        "restart" => "signal",
        other => other,
    }
}

fn is_kvm_run(text: &str) -> bool {
    let cmd = text.split_once("cmd: ").map(|(_, rest)| rest.split(',').next().unwrap_or(rest));
    let number =
        cmd.and_then(|cmd| u64::from_str_radix(cmd.trim().trim_start_matches("0x"), 16).ok());
    matches!(number, Some(0xae80 | 0x2000_ae80))
}

/// `prev_pid=7 … prev_state=S ==> … next_pid=9 …`, or shorter `a:7 [120] S ==> b:9 [120]`.
fn switched<'a>(line: &Line<'a>) -> Option<Vec<Happened<'a>>> {
    let (from, to) = line.text.split_once(" ==> ")?;
    let (state, from, to) = match from.rsplit_once("prev_state=") {
        Some((before, state)) => {
            (state, number_after(before, " prev_pid=")?, number_after(to, " next_pid=")?)
        }
        None => {
            let tid = |task: &str| task.rsplit_once(" [")?.0.rsplit_once(':')?.1.parse().ok();
            let (task, state) = from.rsplit_once(' ')?;
            (state, tid(task)?, tid(to)?)
        }
    };
    let off = Event::Off { could_run: state.trim().starts_with('R') };
    Some(vec![(from, "", line.ns, off), (to, "", line.ns, Event::On)])
}

fn number_after(text: &str, key: &str) -> Option<u32> {
    text.split_once(key)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_each_program_are_read() {
        let perf = "  CPU 0/KVM 6965/6971 [001] 38470.760158562: kvm:kvm_exit: reason npf rip 0x1";
        let read = line(perf).unwrap();
        assert_eq!((read.comm, read.tid, read.ns), ("CPU 0/KVM", 6971, 38_470_760_158_562));
        assert_eq!((read.event, exit_reason(read.text), read.is_fine), ("kvm_exit", "npf", true));
        let ftrace =
            "       CPU 1/KVM-77      [003] d..1.    12.000345: kvm_entry: vcpu 1, rip 0x2";
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
    fn both_ways_to_write_a_switch_are_read() {
        let of = |text| switched(&Line { comm: "", tid: 1, ns: 5, event: "", text, is_fine: true });
        let fields = of("prev_comm=a b prev_pid=7 prev_state=S ==> next_comm=c next_pid=9");
        let short = of("a b:7 [120] S ==> c:9 [120]");
        assert_eq!(fields, short);
        assert_eq!(short.unwrap()[0], (7, "", 5, Event::Off { could_run: false }));
        let preempted = of("a:7 [120] R+ ==> c:9 [120]").unwrap();
        assert_eq!(preempted[0].3, Event::Off { could_run: true });
    }

    proptest! {
        #[test]
        fn any_text_is_tables_or_an_error(
            text in "(a-1 \\[0\\] |[0-9]\\.[0-9]: |kvm_exit: |kvm_entry: |rip |\n|\\PC){0,60}",
        ) {
            let _ = read(&text, Per::Both);
        }
    }
}
