//! Finds the tracepoints of this kernel and architecture, and what each means.

use super::error::LiveError;
use super::hook::{Hook, HookPoint, Only};
use super::names::Names;
use super::tracefs::{EventFormat, Tracefs};

/// The two moments between which time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The guest's exits and entries: the processor's reasons.
    Exits,
    /// KVM_RUN's returns and calls: what reaches the VMM, on any KVM.
    Run,
}

/// The tracepoints of a [`Level`], and how its reasons are called.
#[derive(Debug, Clone)]
pub struct Points {
    pub level: Level,
    pub points: Vec<HookPoint>,
    pub names: Names,
}

/// The kernel's words for an entry, an exit, its reason and what else tells reasons apart.
struct Words {
    enter: &'static str,
    exit: &'static str,
    reason: &'static str,
    detail: Option<&'static str>,
}

const fn words(
    enter: &'static str,
    exit: &'static str,
    reason: &'static str,
    detail: Option<&'static str>,
) -> Words {
    Words { enter, exit, reason, detail }
}

/// x86, arm64, riscv, book3s HV, s390.
const KNOWN: [Words; 5] = [
    words("kvm/kvm_entry", "kvm/kvm_exit", "exit_reason", Some("isa")),
    words("kvm/kvm_entry", "kvm/kvm_exit", "ret", Some("esr_ec")),
    words("kvm/kvm_entry", "kvm/kvm_exit", "scause", None),
    words("kvm_hv/kvm_guest_enter", "kvm_hv/kvm_guest_exit", "trap", None),
    words("kvm/kvm_s390_sie_enter", "kvm/kvm_s390_sie_exit", "icptcode", None),
];

const RETURN: &str = "kvm/kvm_userspace_exit";
const IOCTL: &str = "syscalls/sys_enter_ioctl";

/// `_IO(KVMIO, 0x80)`; some architectures write "no data" as a bit.
const KVM_RUN: u32 = match cfg!(any(target_arch = "powerpc64", target_arch = "mips64")) {
    true => 0x2000_ae80,
    false => 0xae80,
};

/// The points of a Level, or what is missing.
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
    for known in KNOWN {
        let (Some(enter), Some(exit)) = (tracefs.format(known.enter), tracefs.format(known.exit))
        else {
            continue;
        };
        let Some(reason) = exit.field(known.reason) else { continue };
        let detail = known.detail.and_then(|detail| exit.field(detail));
        let mut points = vec![
            point(known.enter, &enter, Hook::Enter { only: None }),
            point(known.exit, &exit, Hook::Exit { reason, detail }),
        ];
        if let (Some(returns), Ok((calls, only))) = (tracefs.format(RETURN), kvm_run(tracefs)) {
            points.push(point(RETURN, &returns, Hook::ToUser));
            points.push(point(IOCTL, &calls, Hook::ToKernel { only }));
        }
        return Ok((points, Names::new(&exit.print, known.reason, known.detail)));
    }
    Err(LiveError::NoEvent { event: "kvm/kvm_exit" })
}

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

fn kvm_run(tracefs: &Tracefs) -> Result<(EventFormat, Only), LiveError> {
    let missing = || LiveError::NoEvent { event: IOCTL };
    let format = tracefs.format(IOCTL).ok_or_else(missing)?;
    let field = format.field("cmd").ok_or_else(missing)?;
    Ok((format, Only { field, value: KVM_RUN }))
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
