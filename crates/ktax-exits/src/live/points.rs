//! Finds the tracepoints of this kernel and architecture, and what each means.

use super::LiveError;
use super::tracefs::{EventFormat, Names, Tracefs};
use crate::architecture::ARCHITECTURES;

/// The two moments between which time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The guest's exits and entries: the processor's reasons.
    Exits,
    /// KVM_RUN's returns and calls: what reaches the VMM, on any KVM.
    Run,
}

/// The tracepoints of a [`Level`], and the names of its reasons.
#[derive(Debug, Clone)]
pub struct Points {
    pub level: Level,
    pub points: Vec<HookPoint>,
    pub names: Names,
}

const RETURN: &str = "kvm/kvm_userspace_exit";
const IOCTL: &str = "syscalls/sys_enter_ioctl";

/// `_IO(KVMIO, 0x80)`; some architectures write "no data" as a bit.
const KVM_RUN: u32 = match cfg!(any(target_arch = "powerpc64", target_arch = "mips64")) {
    true => 0x2000_ae80,
    false => 0xae80,
};

/// Finds the tracepoints of a Level; the error says what is missing.
pub fn points(level: Level, tracefs: &Tracefs) -> Result<Points, LiveError> {
    let (kvm, names) = match level {
        Level::Exits => exits(tracefs)?,
        Level::Run => run(tracefs)?,
    };
    // The scheduler's first, so that no thread is known before its switches are seen.
    let points = scheduler(tracefs)?.into_iter().chain(kvm).collect();
    Ok(Points { level, points, names })
}

fn exits(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, Names), LiveError> {
    let mut without_entries = None;
    for one in &ARCHITECTURES {
        let Some(exit) = event_format(tracefs, one.exit) else { continue };
        let Some(reason) = exit.field(one.reason) else { continue };
        let entries = one.entries.iter().map(|entry| Some((*entry, event_format(tracefs, entry)?)));
        let Some(entries) = entries.collect::<Option<Vec<_>>>() else { continue };
        if entries.is_empty() {
            without_entries = Some(one.name);
            continue;
        }
        let detail = one.detail.and_then(|detail| exit.field(detail));
        let enter = Hook::Enter { only: None };
        let mut points: Vec<HookPoint> =
            entries.iter().map(|(entry, format)| point(&path(entry), format, enter)).collect();
        points.push(point(&path(one.exit), &exit, Hook::Exit { reason, detail }));
        if let (Some(returns), Ok((calls, only))) = (tracefs.format(RETURN), kvm_run(tracefs)) {
            points.push(point(RETURN, &returns, Hook::ToUser));
            points.push(point(IOCTL, &calls, Hook::ToKernel { only }));
        }
        return Ok((points, Names::new(&exit.print, one.reason, one.detail)));
    }
    Err(match without_entries {
        Some(kvm) => LiveError::NoEntries { kvm },
        None => LiveError::NoEvent { event: EXIT },
    })
}

/// Path in tracefs of the event `subsystem:name`.
fn path(event: &str) -> String {
    event.replace(':', "/")
}

fn event_format(tracefs: &Tracefs, event: &str) -> Option<EventFormat> {
    tracefs.format(&path(event))
}

/// The exit of the KVM that this machine's architecture has.
const EXIT: &str = if cfg!(target_arch = "powerpc64") {
    "kvm_hv/kvm_guest_exit"
} else if cfg!(target_arch = "s390x") {
    "kvm/kvm_s390_sie_exit"
} else {
    "kvm/kvm_exit"
};

fn run(tracefs: &Tracefs) -> Result<(Vec<HookPoint>, Names), LiveError> {
    let missing = || LiveError::NoEvent { event: RETURN };
    let returns = tracefs.format(RETURN).ok_or_else(missing)?;
    let field = |name| returns.field(name).ok_or_else(missing);
    let hook = Hook::Return { reason: field("reason")?, errno: field("errno")? };
    let (calls, only) = kvm_run(tracefs)?;
    let enter = point(IOCTL, &calls, Hook::Enter { only: Some(only) });
    let points = vec![enter, point(RETURN, &returns, hook)];
    Ok((points, Names::new(&returns.print, "reason", None)))
}

fn kvm_run(tracefs: &Tracefs) -> Result<(EventFormat, FieldFilter), LiveError> {
    let missing = || LiveError::NoEvent { event: IOCTL };
    let format = tracefs.format(IOCTL).ok_or_else(missing)?;
    let field = format.field("cmd").ok_or_else(missing)?;
    Ok((format, FieldFilter { field, value: KVM_RUN }))
}

fn scheduler(tracefs: &Tracefs) -> Result<[HookPoint; 2], LiveError> {
    let (switch, wakeup) = ("sched/sched_switch", "sched/sched_wakeup");
    let format = |event| tracefs.format(event).ok_or(LiveError::NoEvent { event });
    let (switched, woken) = (format(switch)?, format(wakeup)?);
    let field =
        |format: &EventFormat, name, event| format.field(name).ok_or(LiveError::NoEvent { event });
    let hook = Hook::Switch {
        from: field(&switched, "prev_pid", switch)?,
        state: field(&switched, "prev_state", switch)?,
        to: field(&switched, "next_pid", switch)?,
    };
    let thread = field(&woken, "pid", wakeup)?;
    Ok([point(switch, &switched, hook), point(wakeup, &woken, Hook::Wakeup { thread })])
}

fn point(event: &str, format: &EventFormat, hook: Hook) -> HookPoint {
    HookPoint { event: event.to_owned(), id: format.id, hook }
}

/// A field of a tracepoint's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub offset: u16,
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
}

/// Selects records whose field has this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFilter {
    pub field: Field,
    pub value: u32,
}

/// The meaning of an event for a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The thread enters the guest.
    Enter { only: Option<FieldFilter> },
    /// The thread has left the guest.
    Exit { reason: Field, detail: Option<Field> },
    /// KVM_RUN returns to the VMM: the other end of the time *in* it.
    Return { reason: Field, errno: Field },
    /// The thread goes on in the VMM.
    ToUser,
    /// The thread comes back from the VMM.
    ToKernel { only: FieldFilter },
    /// A CPU goes from one thread to another.
    Switch { from: Field, state: Field, to: Field },
    /// A thread that slept could run.
    Wakeup { thread: Field },
}

impl Hook {
    /// Returns whether the record is needed, and not only the time and the thread.
    pub fn reads_record(self) -> bool {
        !matches!(self, Hook::Enter { only: None } | Hook::ToUser)
    }

    /// Returns whether the guest is left here: once for each exit.
    pub fn leaves(self) -> bool {
        matches!(self, Hook::Exit { .. } | Hook::Return { .. })
    }

    /// Returns whether this runs for every task of the machine.
    pub fn is_scheduling(self) -> bool {
        matches!(self, Hook::Switch { .. } | Hook::Wakeup { .. })
    }
}

/// The bits of a thread's state in sched_switch; without any it could go on running.
/// (`TASK_REPORT` and `TASK_REPORT_IDLE` in include/linux/sched.h; a preempted one has the next.)
pub const ASLEEP: i32 = 0xff;

/// A hook and the tracepoint that it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookPoint {
    /// `kvm/kvm_exit`.
    pub event: String,
    /// The kernel's number for it.
    pub id: u64,
    pub hook: Hook,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(events: &Path, event: &str, fields: &[&str]) {
        let directory = events.join(event);
        fs::create_dir_all(&directory).unwrap();
        let field = |name: &&str| format!("\tfield:u32 {name};\toffset:8;\tsize:4;\tsigned:0;\n");
        let fields: String = fields.iter().map(field).collect();
        fs::write(directory.join("format"), format!("ID: 7\n{fields}\nprint fmt: \"\"\n")).unwrap();
    }

    /// The tracepoints of a kernel whose KVM is of this architecture.
    fn kernel(one: &crate::architecture::Architecture) -> tempfile::TempDir {
        let events = tempfile::tempdir().unwrap();
        one.entries.iter().for_each(|entry| write(events.path(), &path(entry), &[]));
        let fields: Vec<&str> = [one.reason].into_iter().chain(one.detail).collect();
        write(events.path(), &path(one.exit), &fields);
        write(events.path(), "sched/sched_switch", &["prev_pid", "prev_state", "next_pid"]);
        write(events.path(), "sched/sched_wakeup", &["pid"]);
        events
    }

    #[test]
    fn exits_and_entries_of_every_architecture_are_recorded() {
        for one in &ARCHITECTURES {
            let events = kernel(one);
            let found = points(Level::Exits, &Tracefs::below(events.path()));
            if one.entries.is_empty() {
                let message = found.unwrap_err().to_string();
                assert!(
                    message.contains("--via timing") && !message.contains("kvm_entry"),
                    "{message}"
                );
                continue;
            }
            let found = found.unwrap();
            let names: Vec<&str> = found.points.iter().map(|point| point.event.as_str()).collect();
            let expected: Vec<String> = one.events().map(path).collect();
            assert_eq!(names[2..], expected, "{}", one.name);
        }
    }

    #[test]
    fn a_kernel_without_kvm_is_told_what_to_load() {
        let events = kernel(&ARCHITECTURES[0]);
        fs::remove_dir_all(events.path().join("kvm")).unwrap();
        let message = points(Level::Exits, &Tracefs::below(events.path())).unwrap_err().to_string();
        assert!(message.starts_with("this kernel has no tracepoint kvm"), "{message}");
        assert!(message.contains("sudo modprobe kvm"), "{message}");
    }
}
