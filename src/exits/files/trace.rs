//! Events as text, recorded anywhere: `perf script`, `trace-cmd report`, and the kernel's own
//! `trace` file.

use std::collections::HashMap;

use super::error::ExitsError;
use crate::exits::fold::{Fold, VcpuEvent};
use crate::exits::recording::{Reason, Stage};
use crate::exits::scause;
use crate::exits::table::{Per, Recorded};
use crate::model::{EXIT_REASONS_MAX, ExitTable, Warning};

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
type Happened<'a> = (u32, &'a str, u64, VcpuEvent);

pub(super) fn is_one(text: &str) -> bool {
    text.lines().filter_map(line).any(|line| line.event.starts_with("kvm_"))
}

pub(super) fn read(text: &str, per: Per) -> Result<Vec<ExitTable>, ExitsError> {
    let lines: Vec<Line> = text.lines().filter_map(line).collect();
    let has_exits = lines.iter().any(|line| line.event == "kvm_exit");
    let mut reasons = Reasons::default();
    let mut events: Vec<Happened> = Vec::new();
    for line in &lines {
        events.extend(happened(line, has_exits, &mut reasons));
        if reasons.names.len() > EXIT_REASONS_MAX {
            return Err(ExitsError::Reasons);
        }
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
        other => reasons.names[other.code as usize].clone(),
    };
    let recording = &fold.recording();
    if recording.rows.is_empty() {
        return Err(ExitsError::NoPairs);
    }
    let end = &|_, thread: &crate::exits::recording::Thread| thread.last;
    // When it began nobody knows: events that are no KVM's may have been left out of it.
    let (of, began) = ("", None);
    let mut tables = Recorded { recording, of, source, name: &name, began, end }.tables(per);
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
struct Reasons {
    names: Vec<String>,
    codes: HashMap<String, u64>,
}

impl Reasons {
    fn of(&mut self, name: &str) -> Reason {
        let code = self.codes.get(name).copied().unwrap_or_else(|| {
            let code = self.names.len() as u64;
            self.names.push(name.to_owned());
            self.codes.insert(name.to_owned(), code);
            code
        });
        Reason { code, detail: 0 }
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
    let (event, text) = what(rest.trim())?;
    Some(Line { comm, tid, ns, event, text: text.trim(), is_fine: digits > 6 })
}

/// An event and its text: `kvm:kvm_exit: …`, and as ftrace prints system calls,
/// `sys_ioctl(fd: d, …)` and `sys_ioctl -> 0x0`.
fn what(rest: &str) -> Option<(&str, &str)> {
    if let Some(text) = rest.strip_prefix("sys_ioctl(") {
        return Some(("sys_enter_ioctl", text.trim_end_matches(')')));
    }
    if let Some(text) = rest.strip_prefix("sys_ioctl -> ") {
        return Some(("sys_exit_ioctl", text));
    }
    let (event, text) = rest.split_once(": ").or(rest.split_once(':'))?;
    Some((event.rsplit(':').next()?, text))
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
        "kvm_entry" => this(VcpuEvent::Enter),
        "kvm_exit" => this(VcpuEvent::Left(reasons.of(exit_reason(line.text)), Stage::Kernel)),
        "kvm_userspace_exit" if has_exits => this(VcpuEvent::Moves(Stage::User)),
        "kvm_userspace_exit" => {
            this(VcpuEvent::Left(reasons.of(return_reason(line.text)), Stage::User))
        }
        "sys_enter_ioctl" if is_kvm_run(line.text) => match has_exits {
            true => this(VcpuEvent::Moves(Stage::Kernel)),
            false => this(VcpuEvent::Enter),
        },
        "sched_switch" => switched(line).unwrap_or_default(),
        "sched_wakeup" => match number_after(line.text, " pid=") {
            Some(tid) => vec![(tid, "", line.ns, VcpuEvent::Wakeup)],
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
        .unwrap_or_else(|| before_counter(text))
}

/// Of another architecture, such as `exit=SYSCALL | pc=0x… | …` or `[WAIT]PC: 0x…`: without where
/// the guest was.
fn before_counter(text: &str) -> &str {
    let ends = ["PC:", "PC=", "pc:", "pc=", "|"].iter().filter_map(|end| text.find(end));
    match text[..ends.min().unwrap_or(text.len())].trim() {
        "" => "unknown",
        reason => reason,
    }
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
    let off = VcpuEvent::Off { could_run: state.trim().starts_with('R') };
    Some(vec![(from, "", line.ns, off), (to, "", line.ns, VcpuEvent::On)])
}

fn number_after(text: &str, key: &str) -> Option<u32> {
    text.split_once(key)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
