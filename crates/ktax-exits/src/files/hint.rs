//! Next steps where a file has no exit table, or a trace lacks events.

use std::collections::BTreeMap;

use super::ExitsError;
use super::trace_line::{TraceLine, parse_line};
use crate::architecture::{ARCHITECTURES, Architecture};
use ktax_host::text::counted;
use ktax_model::{ExitEvents, MissingEvents, Warning};

const SCHEDULING: [&str; 2] = ["sched:sched_switch", "sched:sched_wakeup"];

/// Number of kinds of events that a message names.
const NAMED: usize = 4;

/// The program that recorded a trace, as far as its text shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Perf,
    /// trace-cmd, or the kernel's own `trace` file: they print alike.
    TraceCmd,
}

impl Tool {
    pub fn detect(lines: &[TraceLine]) -> Tool {
        if lines.iter().any(|line| line.is_perf) { Tool::Perf } else { Tool::TraceCmd }
    }

    /// `-e kvm:kvm_entry,kvm:kvm_exit`, or `-e kvm:kvm_entry -e kvm:kvm_exit`.
    fn options(self, events: &[&str]) -> String {
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

    fn add(self, events: &[&str]) -> String {
        format!("add `{}` to `{}`", self.options(events), self.command())
    }
}

/// Reports that a table cannot tell whether a vCPU ran or slept.
pub(super) fn missing_scheduling(tool: Tool) -> MissingEvents {
    MissingEvents { events: ExitEvents::Scheduling, next_step: tool.add(&SCHEDULING) }
}

/// Warns that returns to the VMM were not recorded.
pub(super) fn missing_returns(tool: Tool) -> Warning {
    Warning {
        fact: "the trace has no return to the VMM, so the column kernel includes the VMM's time"
            .to_owned(),
        next_step: tool.add(&["kvm:kvm_userspace_exit", "syscalls:sys_enter_ioctl"]),
    }
}

/// Reports that exits, or returns of KVM_RUN, were counted without times.
pub(super) fn no_entries(
    architecture: Option<&'static Architecture>,
    tool: Tool,
    has_exits: bool,
) -> MissingEvents {
    let next_step = match architecture.map(|one| one.entries) {
        _ if !has_exits => tool.add(&["syscalls:sys_enter_ioctl"]),
        Some([]) => "use `ktax exits record --via timing`, because this KVM has no event for \
                     entries"
            .to_owned(),
        Some(entries) => tool.add(entries),
        None => tool.add(ARCHITECTURES[0].entries),
    };
    MissingEvents { events: ExitEvents::Entries, next_step }
}

/// An error about a trace in which the guest is never left: what it has, and what to record.
pub(super) fn no_pairs(
    lines: &[TraceLine],
    architecture: Option<&'static Architecture>,
    tool: Tool,
) -> ExitsError {
    ExitsError::NoExits { what: describe_events(lines), next: next_step(lines, architecture, tool) }
}

/// An error about a trace without one event of KVM.
fn no_kvm(lines: &[TraceLine]) -> ExitsError {
    no_pairs(lines, None, Tool::detect(lines))
}

/// `a trace with 3 kvm_mmio and 2 sched_switch`: KVM's events first, then the most frequent.
fn describe_events(lines: &[TraceLine]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().for_each(|line| *counts.entry(line.event).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(event, count)| (!event.starts_with("kvm"), std::cmp::Reverse(*count)));
    let more = counts.len().saturating_sub(NAMED);
    let shown = counts.iter().take(NAMED).map(|(event, count)| format!("{count} {event}"));
    let mut shown: Vec<String> = shown.collect();
    if more > 0 {
        shown.push(counted(more, "other kind"));
    }
    format!("a trace with {}", shown.join(", "))
}

/// Says which events to add: those of the architecture of the trace, or of each architecture.
fn next_step(
    lines: &[TraceLine],
    architecture: Option<&'static Architecture>,
    tool: Tool,
) -> String {
    let known = architecture.or_else(|| by_other_events(lines));
    if let Some(one) = known {
        return tool.add(&one.events().collect::<Vec<_>>());
    }
    let mut by_options: Vec<(String, Vec<&str>)> = Vec::new();
    for one in ARCHITECTURES.iter().filter(|one| !one.entries.is_empty()) {
        let options = tool.options(&one.events().collect::<Vec<_>>());
        match by_options.iter_mut().find(|(other, _)| *other == options) {
            Some((_, names)) => names.push(one.name),
            None => by_options.push((options, vec![one.name])),
        }
    }
    let by_options: Vec<String> = by_options
        .iter()
        .map(|(options, names)| format!("`{options}` ({})", names.join(", ")))
        .collect();
    format!("add these events to `{}`: {}", tool.command(), by_options.join("; "))
}

/// Guesses the architecture from KVM's other events: some have names of their own.
fn by_other_events(lines: &[TraceLine]) -> Option<&'static Architecture> {
    const X86: [&str; 6] =
        ["kvm_pio", "kvm_msr", "kvm_cpuid", "kvm_apic", "kvm_cr", "kvm_emulate_insn"];
    let name = |line: &TraceLine| match line.event {
        event if event.starts_with("kvm_s390_") => Some("s390"),
        event if event.starts_with("kvmppc_") || event.starts_with("kvm_hcall_") => {
            Some("PowerPC book3s HV")
        }
        event if event.starts_with("kvm_exit_") || event == "kvm_out" => Some("LoongArch and MIPS"),
        event if X86.contains(&event) => Some("x86"),
        // Those of arm64 and RISC-V have the same names.
        "kvm_entry" => Some("x86"),
        _ => None,
    };
    lines.iter().find_map(name).map(Architecture::named)
}

/// Files without exit tables: how one begins, or a line that only one program writes; what it is;
/// what to type.
const KNOWN: [(&str, &str, &str); 6] = [
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

/// Returns the error about a file without an exit table: what ktax recognised, and what would help.
pub(super) fn unread(text: &str) -> ExitsError {
    let lines: Vec<TraceLine> = text.lines().filter_map(parse_line).collect();
    if !lines.is_empty() {
        return no_kvm(&lines);
    }
    let begins = |sign: &str| text.lines().any(|line| line.trim_start().starts_with(sign));
    let known = KNOWN.iter().find(|(sign, _, _)| begins(sign));
    match known {
        Some((_, what, next)) => {
            ExitsError::Recognised { what: (*what).to_owned(), next: (*next).to_owned() }
        }
        None if text.trim().is_empty() => ExitsError::Empty,
        None => ExitsError::Unknown,
    }
}
