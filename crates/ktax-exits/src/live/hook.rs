//! What a tracepoint means to the recorder.

/// A field of a tracepoint's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub offset: u16,
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
}

/// Only records whose field has this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Only {
    pub field: Field,
    pub value: u32,
}

/// What an event says about a vCPU's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// It enters the guest.
    Enter { only: Option<Only> },
    /// It has left the guest.
    Exit { reason: Field, detail: Option<Field> },
    /// KVM_RUN returns to the VMM: the other end of the time *in* it.
    Return { reason: Field, errno: Field },
    /// It goes on in the VMM.
    ToUser,
    /// It comes back from the VMM.
    ToKernel { only: Only },
    /// A CPU goes from one thread to another.
    Switch { from: Field, state: Field, to: Field },
    /// A thread that slept could run.
    Wakeup { thread: Field },
}

impl Hook {
    /// Whether it looks at what the tracepoint records, and not only at when and in which thread.
    pub fn reads_record(self) -> bool {
        !matches!(self, Hook::Enter { only: None } | Hook::ToUser)
    }

    /// Whether the guest is left here: once for each exit.
    pub fn leaves(self) -> bool {
        matches!(self, Hook::Exit { .. } | Hook::Return { .. })
    }

    /// Whether it runs for every task of the machine.
    pub fn is_of_the_scheduler(self) -> bool {
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
