//! Reader of traces as text, from any machine: `perf script`, `trace-cmd report`, and the kernel's
//! own `trace` file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::architecture::{
    ARCHITECTURES, Architecture, CEDED, CEDED_SUFFIX, KVM_RUN, KVM_RUN_POWERPC_MIPS, is_entry,
    is_exit, may_sleep, scause_name,
};
use crate::live::{ReasonNames, SLEEPING_STATES};
use crate::recording::{Fold, Reason, Stage, Thread, VcpuEvent};
use crate::table::{CountedExits, RECORD_LESS, TableInput, TableScope};
use ktax_host::text::counted;
use ktax_model::{Error, ExitEvents, ExitTable, MAX_EXIT_REASONS, MissingEvents, Result, Warning};

/// Thread id and name, time in ns, and the event of the thread.
type ThreadEvent<'a> = (u32, &'a str, u64, VcpuEvent);

pub(super) fn recognizes(text: &str) -> bool {
    text.lines().filter_map(parse_line).any(|line| line.event.starts_with("kvm"))
}

/// Kinds of events in a trace, and the tool that recorded the trace.
struct TraceKind {
    /// True if exits of the guest were recorded; false if only returns of KVM_RUN were.
    has_exits: bool,
    has_switches: bool,
    /// True if returns to the VMM were recorded. Without them the VMM's time counts as the
    /// kernel's.
    has_returns: bool,
    architecture: Option<&'static Architecture>,
    tool: Tool,
}

impl TraceKind {
    fn detect(lines: &[TraceLine]) -> TraceKind {
        let is_switch = |line: &TraceLine| switch_events(line).is_some();
        TraceKind {
            has_exits: lines.iter().any(|line| is_exit(line.event)),
            has_switches: lines.iter().any(is_switch),
            has_returns: lines.iter().any(|line| line.event == "kvm_userspace_exit"),
            architecture: lines.iter().find_map(|line| architecture(line.event, line.text)),
            tool: Tool::detect(lines),
        }
    }

    /// Returns the name of the row with the guest's time, and the source of the tables.
    fn guest_row_and_source(&self) -> (&'static str, String) {
        let Some(architecture) = self.architecture.filter(|_| self.has_exits) else {
            return match self.has_exits {
                true => ("TIMEINGUEST", "kvm_entry and kvm_exit, from a trace".to_owned()),
                false => ("KVM_RUN", "KVM_RUN, from a trace".to_owned()),
            };
        };
        let without_subsystem =
            |event: &'static str| event.split_once(':').map_or(event, |(_, name)| name);
        let mut events: Vec<&str> = architecture.events().map(without_subsystem).collect();
        let exit = events.pop().unwrap_or_default();
        let source = match events.is_empty() {
            true => format!("{exit}, from a trace"),
            false => format!("{} and {exit}, from a trace", events.join(", ")),
        };
        ("TIMEINGUEST", source)
    }
}

pub(super) fn read(text: &str, scope: TableScope) -> Result<Vec<ExitTable>> {
    let lines: Vec<TraceLine> = text.lines().filter_map(parse_line).collect();
    let kind = TraceKind::detect(&lines);
    let mut reasons = ReasonInterner::default();
    let mut events: Vec<ThreadEvent> = Vec::new();
    for line in &lines {
        events.extend(thread_events(line, kind.has_exits, &mut reasons));
        if reasons.names.len() > MAX_EXIT_REASONS {
            return Err(too_many_reasons());
        }
    }
    let counted_exits = count_exits(&events);
    if counted_exits.exits.is_empty() {
        return Err(no_exits_error(&lines, kind.architecture, kind.tool));
    }
    events.sort_by_key(|(_, _, ns, _)| *ns);
    let (lost, is_more_lost) = lost_events(text);
    let mut fold = Fold::default();
    fold.lost_events = lost;
    for (tid, name, ns, event) in events {
        fold.add(tid, name, ns, event);
    }
    let (guest_row, source) = kind.guest_row_and_source();
    let reason_name = |reason: Reason| match reason {
        Reason::GUEST => guest_row.to_owned(),
        other => reasons.names[other.code as usize].clone(),
    };
    let input = TableInput {
        recording: &fold.recording(),
        vm_name: "",
        source: &source,
        reason_name: &reason_name,
        // A trace may have no other events than KVM's, so its first line is not its start.
        start_ns: None,
        end_ns: &|_, thread: &Thread| thread.last_ns,
        counted: &counted_exits,
        has_switches: kind.has_switches,
        may_sleep: &|reason| may_sleep(&reason_name(reason)),
    };
    let mut tables = input.tables(scope);
    for table in &mut tables {
        add_missing_events(table, &kind);
        if !lines.iter().any(|line| line.has_nanoseconds) && table.is_timed() {
            table.warnings.push(Warning::new(
                "the trace's times are whole microseconds",
                "write it with `perf script --ns` or `trace-cmd report -t`",
            ));
        }
        if !kind.has_returns && table.is_timed() {
            table.warnings.push(no_returns_warning(kind.tool));
        }
        table.warnings.extend(unreadable_warning(table));
        table.warnings.extend(is_more_lost.then(|| {
            Warning::new("events were lost, and the trace does not say how many", RECORD_LESS)
        }));
    }
    Ok(tables)
}

fn too_many_reasons() -> Error {
    Error::user(format!(
        "its exits have more than {MAX_EXIT_REASONS} reasons, so ktax does not know this kernel's \
         text"
    ))
    .next("record on its host with `ktax exits record`")
}

/// Returns the number of events that the trace reports as lost, and true if the trace also reports
/// losses without a number. The kernel and trace-cmd print `CPU:1 [LOST 1234 EVENTS]` and
/// `CPU:1 [EVENTS DROPPED]`, `perf script --show-lost-events` prints `PERF_RECORD_LOST lost 1234`.
fn lost_events(text: &str) -> (u64, bool) {
    let (mut lost, mut is_more_lost) = (0_u64, false);
    for line in text.lines() {
        let cpu_line =
            line.trim_start().strip_prefix("CPU:").and_then(|rest| rest.split_once(" ["));
        let number = match cpu_line {
            Some((_, report)) if report.starts_with("EVENTS DROPPED]") => {
                is_more_lost = true;
                None
            }
            Some((_, report)) => report.strip_prefix("LOST "),
            None => line.split_once(" PERF_RECORD_LOST lost ").map(|(_, number)| number),
        };
        let number = number.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        lost = lost.saturating_add(number.unwrap_or(0));
    }
    (lost, is_more_lost)
}

fn add_missing_events(table: &mut ExitTable, kind: &TraceKind) {
    if !table.is_timed() {
        table.missing.push(missing_entries(kind.architecture, kind.tool, kind.has_exits));
    } else if !kind.has_switches {
        let (events, next_step) = (ExitEvents::Scheduling, kind.tool.add_events_step(&SCHEDULING));
        table.missing.push(MissingEvents { events, next_step });
    }
}

/// Counts the exits of each thread by reason, and collects the threads with fewer entries than half
/// of their exits: without entries the end of an exit is unknown.
fn count_exits(events: &[ThreadEvent]) -> CountedExits {
    let mut exits: BTreeMap<(u32, Reason), u64> = BTreeMap::new();
    let mut by_thread: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    for (tid, _, _, event) in events {
        match event {
            VcpuEvent::Enter => by_thread.entry(*tid).or_default()[0] += 1,
            VcpuEvent::Exit(reason, _) => {
                by_thread.entry(*tid).or_default()[1] += 1;
                *exits.entry((*tid, *reason)).or_default() += 1;
            }
            _ => {}
        }
    }
    let is_untimed = |(_, [entries, exits]): &(&u32, &[u64; 2])| *entries * 2 < *exits;
    let untimed: BTreeSet<u32> = by_thread.iter().filter(is_untimed).map(|(tid, _)| *tid).collect();
    CountedExits { exits, untimed }
}

fn unreadable_warning(table: &ExitTable) -> Option<Warning> {
    let count = table.row(UNREADABLE)?.count;
    Some(Warning::new(
        format!(
            "{count} exits have a text without a reason that ktax can read; they are in the row \
             {UNREADABLE}"
        ),
        "record on the host with `ktax exits record`, which reads the kernel's own records",
    ))
}

/// Numbers the names of reasons in a trace.
#[derive(Default)]
struct ReasonInterner {
    /// Names by code.
    names: Vec<String>,
    codes: HashMap<String, u64>,
}

impl ReasonInterner {
    /// Returns the reason with this name.
    fn intern(&mut self, name: String) -> Reason {
        let code = self.codes.get(&name).copied().unwrap_or_else(|| {
            let code = self.names.len() as u64;
            self.names.push(name.clone());
            self.codes.insert(name, code);
            code
        });
        Reason { code, detail: 0 }
    }
}

/// Returns the events of threads in a line, which may be none.
fn thread_events<'a>(
    line: &TraceLine<'a>,
    has_exits: bool,
    reasons: &mut ReasonInterner,
) -> Vec<ThreadEvent<'a>> {
    let thread_event = |event| vec![(line.tid, line.comm, line.ns, event)];
    match line.event {
        event if is_entry(event) => thread_event(VcpuEvent::Enter),
        event if is_exit(event) => {
            thread_event(VcpuEvent::Exit(reasons.intern(exit_reason(line.text)), Stage::Kernel))
        }
        // On LoongArch only this event tells that the last exit was an IDLE.
        "kvm_exit_idle" => {
            thread_event(VcpuEvent::ReplaceReason(reasons.intern("IDLE".to_owned())))
        }
        "kvm_userspace_exit" if has_exits => thread_event(VcpuEvent::SetStage(Stage::User)),
        "kvm_userspace_exit" => {
            thread_event(VcpuEvent::Exit(reasons.intern(return_reason(line.text)), Stage::User))
        }
        "sys_enter_ioctl" if is_kvm_run(line.text) => match has_exits {
            true => thread_event(VcpuEvent::SetStage(Stage::Kernel)),
            false => thread_event(VcpuEvent::Enter),
        },
        "sched_switch" => switch_events(line).unwrap_or_default(),
        "sched_wakeup" => match number_after(line.text, " pid=") {
            Some(tid) => vec![(tid, "", line.ns, VcpuEvent::Wakeup)],
            None => vec![],
        },
        _ => vec![],
    }
}

/// Returns true if the text of an ioctl call has the command KVM_RUN.
fn is_kvm_run(text: &str) -> bool {
    let cmd = text.split_once("cmd: ").map(|(_, rest)| rest.split(',').next().unwrap_or(rest));
    let number =
        cmd.and_then(|cmd| u64::from_str_radix(cmd.trim().trim_start_matches("0x"), 16).ok());
    let number = number.or_else(|| field(text, "cmd"));
    [KVM_RUN, KVM_RUN_POWERPC_MIPS].into_iter().any(|cmd| number == Some(cmd.into()))
}

/// Parses a task switch: `prev_pid=7 … prev_state=S ==> … next_pid=9 …`, the shorter
/// `a:7 [120] S ==> b:9 [120]`, or plain numbers, `prev_pid=7 … prev_state=1 … next_pid=9`.
fn switch_events<'a>(line: &TraceLine<'a>) -> Option<Vec<ThreadEvent<'a>>> {
    if line.event != "sched_switch" {
        return None;
    }
    let Some((prev, next)) = line.text.split_once(" ==> ") else { return raw_switch(line) };
    let (state, prev_tid, next_tid) = match prev.rsplit_once("prev_state=") {
        Some((before, state)) => {
            (state, number_after(before, " prev_pid=")?, number_after(next, " next_pid=")?)
        }
        None => {
            let tid = |task: &str| task.rsplit_once(" [")?.0.rsplit_once(':')?.1.parse().ok();
            let (task, state) = prev.rsplit_once(' ')?;
            (state, tid(task)?, tid(next)?)
        }
    };
    let is_runnable = state.trim().starts_with('R');
    Some(switch_pair(line.ns, prev_tid, next_tid, is_runnable))
}

/// Parses a switch that trace-cmd printed as plain numbers.
fn raw_switch<'a>(line: &TraceLine<'a>) -> Option<Vec<ThreadEvent<'a>>> {
    let number = |name| field(line.text, name);
    let is_runnable = number("prev_state")? & SLEEPING_STATES as u64 == 0;
    let [prev_tid, next_tid] = [number("prev_pid")?, number("next_pid")?].map(|tid| tid as u32);
    Some(switch_pair(line.ns, prev_tid, next_tid, is_runnable))
}

/// Returns the two events of a task switch.
fn switch_pair<'a>(
    ns: u64,
    prev_tid: u32,
    next_tid: u32,
    is_runnable: bool,
) -> Vec<ThreadEvent<'a>> {
    let switch_out = VcpuEvent::SwitchOut { is_runnable };
    vec![(prev_tid, "", ns, switch_out), (next_tid, "", ns, VcpuEvent::SwitchIn)]
}

/// Parses the number right after `key`.
fn number_after(text: &str, key: &str) -> Option<u32> {
    text.split_once(key)?.1.split_whitespace().next()?.parse().ok()
}

// Next steps for a file without an exit table, and for a trace that lacks events.

/// Events of the scheduler that a trace should have.
const SCHEDULING: [&str; 2] = ["sched:sched_switch", "sched:sched_wakeup"];

/// Maximum number of event names in an error.
const MAX_NAMED_EVENTS: usize = 4;

/// The program that recorded a trace, by the form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Perf,
    /// trace-cmd, or a user of the kernel's own `trace` file, which has the same form.
    TraceCmd,
}

impl Tool {
    fn detect(lines: &[TraceLine]) -> Tool {
        if lines.iter().any(|line| line.is_perf) { Tool::Perf } else { Tool::TraceCmd }
    }

    /// Returns the options that record events: `-e kvm:kvm_entry,kvm:kvm_exit` of perf, or
    /// `-e kvm:kvm_entry -e kvm:kvm_exit` of trace-cmd.
    fn event_options(self, events: &[&str]) -> String {
        match self {
            Tool::Perf => format!("-e {}", events.join(",")),
            Tool::TraceCmd => {
                events.iter().map(|event| format!("-e {event}")).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn command(self) -> &'static str {
        match self {
            Tool::Perf => "perf record -a",
            Tool::TraceCmd => "trace-cmd record",
        }
    }

    /// Returns the next step "add these events to the command".
    fn add_events_step(self, events: &[&str]) -> String {
        format!("add `{}` to `{}`", self.event_options(events), self.command())
    }
}

fn no_returns_warning(tool: Tool) -> Warning {
    Warning::new(
        "the trace has no return to the VMM, so the column kernel includes the VMM's time",
        tool.add_events_step(&["kvm:kvm_userspace_exit", "syscalls:sys_enter_ioctl"]),
    )
}

/// Returns the note that exits, or returns of KVM_RUN, have counts but no times.
fn missing_entries(
    architecture: Option<&'static Architecture>,
    tool: Tool,
    has_exits: bool,
) -> MissingEvents {
    let next_step = match architecture.map(|architecture| architecture.entries) {
        _ if !has_exits => tool.add_events_step(&["syscalls:sys_enter_ioctl"]),
        Some([]) => "use `ktax exits record --via timing`, because this KVM has no event for \
                     entries"
            .to_owned(),
        Some(entries) => tool.add_events_step(entries),
        None => tool.add_events_step(ARCHITECTURES[0].entries),
    };
    MissingEvents { events: ExitEvents::Entries, next_step }
}

/// Makes the error for a trace without exits: it names the trace's events, and the events to
/// record.
fn no_exits_error(
    lines: &[TraceLine],
    architecture: Option<&'static Architecture>,
    tool: Tool,
) -> Error {
    Error::user(format!("it is {}, and has no exit of a guest", describe_events(lines)))
        .next(add_exits_step(lines, architecture, tool))
}

/// Describes a trace, such as `a trace with 3 kvm_mmio, 2 sched_switch`: KVM's events first, then
/// the most frequent events.
fn describe_events(lines: &[TraceLine]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().for_each(|line| *counts.entry(line.event).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(event, count)| (!event.starts_with("kvm"), std::cmp::Reverse(*count)));
    let more = counts.len().saturating_sub(MAX_NAMED_EVENTS);
    let shown =
        counts.iter().take(MAX_NAMED_EVENTS).map(|(event, count)| format!("{count} {event}"));
    let mut shown: Vec<String> = shown.collect();
    if more > 0 {
        shown.push(counted(more, "other kind"));
    }
    format!("a trace with {}", shown.join(", "))
}

/// Returns the step that adds the events of the trace's architecture, or those of each architecture
/// if it is unknown.
fn add_exits_step(
    lines: &[TraceLine],
    architecture: Option<&'static Architecture>,
    tool: Tool,
) -> String {
    let architecture = architecture.or_else(|| guess_architecture(lines));
    if let Some(architecture) = architecture {
        return tool.add_events_step(&architecture.events().collect::<Vec<_>>());
    }
    let mut by_options: Vec<(String, Vec<&str>)> = Vec::new();
    for architecture in ARCHITECTURES.iter().filter(|architecture| !architecture.entries.is_empty())
    {
        let options = tool.event_options(&architecture.events().collect::<Vec<_>>());
        match by_options.iter_mut().find(|(other, _)| *other == options) {
            Some((_, names)) => names.push(architecture.name),
            None => by_options.push((options, vec![architecture.name])),
        }
    }
    let by_options: Vec<String> = by_options
        .iter()
        .map(|(options, names)| format!("`{options}` ({})", names.join(", ")))
        .collect();
    format!("add these events to `{}`: {}", tool.command(), by_options.join("; "))
}

/// Guesses the architecture from other events of KVM, some of which only one architecture has.
fn guess_architecture(lines: &[TraceLine]) -> Option<&'static Architecture> {
    const X86: [&str; 6] =
        ["kvm_pio", "kvm_msr", "kvm_cpuid", "kvm_apic", "kvm_cr", "kvm_emulate_insn"];
    let name = |line: &TraceLine| match line.event {
        event if event.starts_with("kvm_s390_") => Some("s390"),
        event if event.starts_with("kvmppc_") || event.starts_with("kvm_hcall_") => {
            Some("PowerPC book3s HV")
        }
        event if event.starts_with("kvm_exit_") || event == "kvm_out" => Some("LoongArch and MIPS"),
        event if X86.contains(&event) => Some("x86"),
        // arm64 and RISC-V have a kvm_entry too, and the same names for their exits.
        "kvm_entry" => Some("x86"),
        _ => None,
    };
    lines.iter().find_map(name).map(Architecture::named)
}

/// Files without exit tables: the beginning of a line that only such a file has, a description, and
/// the command to use instead.
const OTHER_FILES: [(&str, &str, &str); 6] = [
    (
        "PERFILE2",
        "perf's binary recording",
        "type `perf script --ns -i FILE > trace.txt`, or, of `perf kvm stat record`, `perf kvm -i \
         FILE stat report > table.txt`, and give that text",
    ),
    (
        "\u{17}\u{8}Dtracing",
        "trace-cmd's binary recording",
        "type `trace-cmd report -t FILE > trace.txt`, and give that text",
    ),
    (
        "kvm statistics - summary",
        "the counters of `kvm_stat`, which have no times",
        "record the VM with `ktax exits record`",
    ),
    (
        "Performance counter stats for",
        "the counters of `perf stat`, which have no times",
        "record the VM with `ktax exits record`, or with `perf kvm stat record`",
    ),
    (
        "# Overhead",
        "a profile of `perf report`, which has no exits",
        "record the VM with `ktax exits record`, or with `perf kvm stat record`",
    ),
    (
        "Event                                         Total",
        "the counters of `kvm_stat`, which have no times",
        "record the VM with `ktax exits record`",
    ),
];

/// Makes the error for a file without an exit table: it names the recognized format.
pub(super) fn no_table_error(text: &str) -> Error {
    let lines: Vec<TraceLine> = text.lines().filter_map(parse_line).collect();
    if !lines.is_empty() {
        return no_exits_error(&lines, None, Tool::detect(&lines));
    }
    let has_line = |start: &str| text.lines().any(|line| line.trim_start().starts_with(start));
    match OTHER_FILES.iter().find(|(start, _, _)| has_line(start)) {
        Some((_, description, next)) => Error::user(format!("it is {description}")).next(*next),
        None if text.trim().is_empty() => {
            Error::user("it is empty").next("record again, or copy the whole file again")
        }
        None => Error::user("it has no exit timing that ktax knows").next(
            "ktax reads recordings of `ktax exits record`, the text of `perf kvm stat report`, of \
             `perf script` and `trace-cmd report` with KVM's events, and KVM's debugfs files \
             `timing` (e500) and `timings` (book3s HV)",
        ),
    }
}

// Parsers of lines: the prefix that each tool writes, and the reason of an exit.

/// A line of a trace.
#[derive(Debug, PartialEq, Eq)]
struct TraceLine<'a> {
    pub comm: &'a str,
    pub tid: u32,
    pub ns: u64,
    pub event: &'a str,
    pub text: &'a str,
    /// True if the time has more digits than a number of microseconds.
    pub has_nanoseconds: bool,
    /// True if perf wrote the line: perf prints the event's subsystem.
    pub is_perf: bool,
}

/// Parses a line such as `CPU 0/KVM  1234 [001] 5.000001: kvm:kvm_exit: …`, or
/// `CPU 0/KVM-1234 [001] d..1. 5.000001: …`; `None` for other lines.
fn parse_line(text: &str) -> Option<TraceLine<'_>> {
    let (before, time, rest) = split_at_time(text)?;
    let (seconds, fraction) = time.split_once('.')?;
    let digits = fraction.len();
    let fraction: u64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    let (comm, tid) = parse_task(before)?;
    let (is_perf, event, text) = parse_event(rest.trim())?;
    Some(TraceLine {
        comm,
        tid,
        ns,
        event,
        text: text.trim(),
        has_nanoseconds: digits > 6,
        is_perf,
    })
}

/// Splits a line into the task, the time and the event. Between task and time are the CPU's number,
/// `[001]`, which some programs leave out, and flags.
fn split_at_time(text: &str) -> Option<(&str, &str, &str)> {
    let cpu = text.match_indices(" [").find(|(start, _)| {
        let number = text[start + 2..].split(']').next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let Some((start, _)) = cpu {
        let (before, after) = text.split_at(start);
        let (_, after) = after.split_once(']')?;
        let time = after.split_whitespace().take(2).find(|word| word.ends_with(':'))?;
        let (_, rest) = after.split_once(time)?;
        return Some((before, time.trim_end_matches(':'), rest));
    }
    let is_time = |word: &&str| {
        let number = word.strip_suffix(':').and_then(|word| word.split_once('.'));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        number.is_some_and(|(seconds, fraction)| is_number(seconds) && is_number(fraction))
    };
    let time = text.split_whitespace().find(is_time)?;
    let (before, rest) = text.split_once(time)?;
    Some((before, time.trim_end_matches(':'), rest))
}

/// Parses `kvm:kvm_exit: …` or `kvm_exit: …` into true if perf wrote the line, the event's name,
/// and its text. ftrace prints system calls as `sys_ioctl(fd: d, …)` and `sys_ioctl -> 0x0`.
fn parse_event(rest: &str) -> Option<(bool, &str, &str)> {
    if let Some(text) = rest.strip_prefix("sys_ioctl(") {
        return Some((false, "sys_enter_ioctl", text.trim_end_matches(')')));
    }
    if let Some(text) = rest.strip_prefix("sys_ioctl -> ") {
        return Some((false, "sys_exit_ioctl", text));
    }
    let (event, text) = rest.split_once(": ").or(rest.split_once(':'))?;
    match event.rsplit_once(':') {
        Some((_, event)) => Some((true, event, text)),
        None => Some((false, event, text)),
    }
}

/// Parses a task: `comm-tid`, `comm-tid (pid)`, `comm tid` or `comm pid/tid`.
fn parse_task(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let text = match text.strip_suffix(')') {
        Some(inner) => inner.rsplit_once('(')?.0.trim_end(),
        None => text,
    };
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let tid = text[before.len()..].parse().ok()?;
    let (name, separator) = before.split_at(before.char_indices().next_back()?.0);
    let comm = match separator {
        "/" => name.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => name,
    };
    Some((comm.trim(), tid))
}

/// Name of the row of exits whose text has no reason that ktax can read.
const UNREADABLE: &str = "unreadable";

/// Text before the plain numbers of a record that trace-cmd could not print.
const FAILED_TO_PARSE: &str = "[FAILED TO PARSE]";

/// Print format of a return of KVM_RUN.
const USERSPACE_EXIT: &str = include_str!("../kvm_userspace_exit.format");

/// Words that can follow the reason in the text of an x86 kernel.
const AFTER_REASON: [&str; 10] = [
    "rip",
    "info",
    "info1",
    "info2",
    "intr_info",
    "error_code",
    "requests",
    "vcpu",
    "isa",
    "guest_rip",
];

/// Returns the reason of an exit; [`UNREADABLE`] if the text has none.
fn exit_reason(text: &str) -> String {
    let reason = match text.strip_prefix(FAILED_TO_PARSE) {
        Some(fields) => raw_reason(fields),
        None if text.split_whitespace().any(|word| word == "reason") => x86_reason(text),
        None => arm64_reason(text)
            .map(str::to_owned)
            .or_else(|| between(text, "SCAUSE:", ",").map(|code| scause_name(code).to_owned()))
            .or_else(|| book3s_hv_reason(text))
            .or_else(|| s390_reason(text))
            .or_else(|| other_reason(text)),
    };
    reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| UNREADABLE.to_owned())
}

/// Returns the architecture whose KVM prints such an event; `None` if several do.
fn architecture(event: &str, text: &str) -> Option<&'static Architecture> {
    let named = |name| Some(Architecture::named(name));
    match event {
        "kvm_guest_enter" | "kvm_guest_exit" => return named("PowerPC book3s HV"),
        "kvm_s390_sie_enter" | "kvm_s390_sie_exit" => return named("s390"),
        "kvm_enter" | "kvm_reenter" => return named("LoongArch and MIPS"),
        "kvm_book3s_reenter" => return named("PowerPC book3s PR"),
        "kvm_exit" => {}
        _ => return None,
    }
    match text {
        text if text.contains("HSR_EC") || text.contains("esr_ec=") => named("arm64"),
        text if text.contains("SCAUSE") || text.contains("scause=") => named("RISC-V"),
        text if text.contains("exit_nr=") || text.starts_with("exit=") => {
            // Only book3s PR prints SRR1.
            let is_book3s = text.contains("srr1=");
            named(if is_book3s { "PowerPC book3s PR" } else { "PowerPC Book E" })
        }
        text if text.starts_with('[') && !text.starts_with(FAILED_TO_PARSE) => {
            named("LoongArch and MIPS")
        }
        text if text.contains("reason ") || text.contains("exit_reason=") => named("x86"),
        _ => None,
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0.trim())
}

/// Parses `… reason NAME rip 0x…`. AMD's names may have two words, and a failed entry adds a flag.
fn x86_reason(text: &str) -> Option<String> {
    let after = text.strip_prefix("reason ").or_else(|| Some(text.split_once(" reason ")?.1))?;
    let ends_name = |word: &&str| AFTER_REASON.contains(word) || word.contains('=');
    let words: Vec<&str> = after.split_whitespace().collect();
    let end = match words.iter().position(ends_name) {
        Some(end) => end,
        None if words.get(1) == Some(&"excp") => 2,
        None => words.len().min(1),
    };
    (end > 0).then(|| words[..end].join(" "))
}

/// Parses `TRAP: HSR_EC: 0x0024 (NAME), PC: …` or `IRQ: HSR_EC: …`.
fn arm64_reason(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once(": HSR_EC")?;
    let class =
        || rest.split_once("PC:")?.0.split_once('(')?.1.split_once(')').map(|(name, _)| name);
    if kind == "TRAP" { class().or(Some(kind)) } else { Some(kind) }
}

/// Parses `VCPU 0: trap=NAME pc=0x… msr=0x…, ceded=1`.
fn book3s_hv_reason(text: &str) -> Option<String> {
    let name = text.split_once("trap=")?.1.split_whitespace().next()?;
    let ceded = field(text, CEDED).is_some_and(|ceded| ceded != 0);
    Some(format!("{name}{}", if ceded { CEDED_SUFFIX } else { "" }))
}

/// Parses `00[mask-address]: exit sie icptcode 28 (Wait state)`. For a code without a name, the
/// parentheses have the number.
fn s390_reason(text: &str) -> Option<String> {
    let (code, name) = text.split_once("icptcode ")?.1.split_once(" (")?;
    let name = name.split_once(')').map_or(name, |(name, _)| name);
    let code = code.parse().ok()?;
    Some(if name.starts_with("0x") { reason_name("s390", code, 0) } else { name.to_owned() })
}

/// Parses a record that was printed as plain numbers: `exit_reason=44 guest_rip=0x… isa=1`.
fn raw_reason(text: &str) -> Option<String> {
    let code = |architecture: &Architecture| {
        Some((architecture.name, field(text, architecture.reason)?, architecture.detail))
    };
    let (name, code, detail) = ARCHITECTURES.iter().find_map(code)?;
    let detail = detail.and_then(|detail| field(text, detail));
    // Without `isa` the reason is ambiguous: Intel and AMD use the same numbers.
    if name == "x86" && detail.is_none() {
        return Some(format!("{code:#x}"));
    }
    Some(reason_name(name, code, detail.unwrap_or(0) as u32))
}

fn reason_name(architecture: &str, code: u64, detail: u32) -> String {
    let architecture = Architecture::named(architecture);
    ReasonNames::new(architecture.print, architecture.reason, architecture.detail)
        .name(Reason { code, detail })
}

/// Finds and parses `name=NUMBER`, decimal or hexadecimal.
fn field(text: &str, name: &str) -> Option<u64> {
    let parse_word = |word: &str| {
        let (key, value) = word.trim_end_matches(',').split_once('=')?;
        if key != name {
            return None;
        }
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok().or_else(|| value.parse::<i64>().ok().map(|n| n as u64)),
        }
    };
    text.split_whitespace().find_map(parse_word)
}

/// Parses the text of other architectures, such as `exit=SYSCALL | pc=0x… | …` or `[WAIT]PC: 0x…`:
/// the reason comes before the program counter.
fn other_reason(text: &str) -> Option<String> {
    let ends = ["PC:", "PC=", "pc:", "pc=", "|"].iter().filter_map(|end| text.find(end));
    let name = text[..ends.min().unwrap_or(text.len())].trim();
    let name = name.strip_prefix("exit=").unwrap_or(name);
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // A number after a word is an address or a count, not a part of the name.
    let is_name = !name.is_empty() && !name.contains('=') && !name.contains(" 0x");
    is_name.then(|| name.to_owned())
}

/// Parses the reason of a return of KVM_RUN: `reason KVM_EXIT_IO (2)`, `reason restart (4)` or
/// `reason error (14)` with the number of the error, and plain numbers, `reason=2 errno=0`.
fn return_reason(text: &str) -> String {
    if let Some(code) = text.strip_prefix(FAILED_TO_PARSE).and_then(|text| field(text, "reason")) {
        let error =
            field(text, "errno").map(|errno| errno as u32 as i32).filter(|errno| *errno < 0);
        let code = error.map_or(code, |errno| i64::from(errno) as u64);
        return ReasonNames::new(USERSPACE_EXIT, "reason", None).name(Reason { code, detail: 0 });
    }
    let reason = text.strip_prefix("reason ").unwrap_or(text);
    match reason.split_once(" (") {
        Some(("restart", _)) => "signal".to_owned(),
        Some(("error", number)) => format!("error {}", number.trim_end_matches(')')),
        Some((name, _)) => name.to_owned(),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
