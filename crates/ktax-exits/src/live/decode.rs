//! A tracepoint's record → what happened to which thread.

use super::hook::{ASLEEP, Field, Hook, Only};
use crate::fold::VcpuEvent;
use crate::recording::{Reason, Stage};

/// The events of one record, which thread `tid` caused: a task switch is two. A record that is too
/// short says nothing.
pub fn decode(hook: Hook, record: &[u8], tid: u32) -> Vec<(u32, VcpuEvent)> {
    events(hook, record, tid).unwrap_or_default()
}

fn events(hook: Hook, record: &[u8], tid: u32) -> Option<Vec<(u32, VcpuEvent)>> {
    let number = |field| unsigned(field, record);
    let is = |only: Only| Some(number(only.field)? as u32 == only.value);
    Some(match hook {
        Hook::Enter { only } => match only.map_or(Some(true), is)? {
            true => vec![(tid, VcpuEvent::Enter)],
            false => vec![],
        },
        Hook::Exit { reason, detail } => {
            let detail = detail.map_or(Some(0), number)? as u32;
            let reason = Reason { code: number(reason)?, detail };
            vec![(tid, VcpuEvent::Left(reason, Stage::Kernel))]
        }
        Hook::Return { reason, errno } => {
            let errno = number(errno)? as u32 as i32;
            let code = if errno < 0 { i64::from(errno) as u64 } else { number(reason)? };
            vec![(tid, VcpuEvent::Left(Reason { code, detail: 0 }, Stage::User))]
        }
        Hook::ToUser => vec![(tid, VcpuEvent::Moves(Stage::User))],
        Hook::ToKernel { only } => match is(only)? {
            true => vec![(tid, VcpuEvent::Moves(Stage::Kernel))],
            false => vec![],
        },
        Hook::Switch { from, state, to } => {
            let could_run = number(state)? & ASLEEP as u64 == 0;
            let off = VcpuEvent::Off { could_run };
            vec![(number(from)? as u32, off), (number(to)? as u32, VcpuEvent::On)]
        }
        Hook::Wakeup { thread } => vec![(number(thread)? as u32, VcpuEvent::Wakeup)],
    })
}

fn unsigned(field: Field, record: &[u8]) -> Option<u64> {
    let at = usize::from(field.offset);
    let bytes = record.get(at..at + usize::from(field.size))?;
    Some(match bytes {
        [byte] => u64::from(*byte),
        [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
        _ => u64::from_ne_bytes(bytes.try_into().ok()?),
    })
}
