//! System calls that are refused, as on a machine or a file system that lacks them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::SeccompAction::{Allow, Errno};
use seccompiler::{
    BpfProgram, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use syscalls::x86_64::Sysno;

/// Number of an argument of a system call, and how it compares with a value.
pub type Condition = (u8, SeccompCmpOp, u64);

/// Filter that refuses these system calls; those with a condition only where one of theirs holds.
pub fn refusing(
    calls: impl IntoIterator<Item = (Sysno, Option<Condition>)>,
    errno: u32,
) -> BpfProgram {
    let rule = |(argument, operator, value): Condition| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
        SeccompRule::new(vec![condition.unwrap()]).unwrap()
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, condition) in calls {
        rules.entry(call.id().into()).or_default().extend(condition.map(rule));
    }
    let arch = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, Allow, Errno(errno), arch).unwrap().try_into().unwrap()
}

/// Applies a filter to the program that a command becomes.
pub fn filtered<'a>(command: &'a mut Command, filter: &BpfProgram) -> &'a mut Command {
    let filter = filter.clone();
    // SAFETY: the closure makes two system calls, prctl and seccomp, between fork and exec.
    unsafe { command.pre_exec(move || apply_filter(&filter).map_err(io::Error::other)) }
}
