//! Each workload without the system calls that its work is: whatever it then says is no number.

use std::collections::BTreeSet;
use std::convert::TryInto;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use ktax::model::Workload;
use ktax::plan::{Definition, definitions};
use ktax::wire::{Answer, arguments, parse_answer};
use rustix::process::{Pid, Signal, kill_process_group};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::computed::only_computes;
use super::guest::guest;
use crate::common::{comes, scratch};

/// A system call of x86_64, and where not all are refused, which: an argument, and what it is.
type Call = (i64, Option<(u8, SeccompCmpOp, u64)>);

const fn all(number: i64) -> Call {
    (number, None)
}

const READ: Call = all(0);
/// Standard output is where the answer goes.
const WRITE: Call = (1, Some((0, SeccompCmpOp::Ne, 1)));
const FSTAT: Call = all(5);
/// That does not wait: the clean-up does.
const POLL: Call = (7, Some((2, SeccompCmpOp::Eq, 0)));
const LSEEK: Call = all(8);
const MMAP: Call = all(9);
const MUNMAP: Call = all(11);
const SHMAT: Call = all(30);
const SOCKET: Call = all(41);
const RENAME: Call = all(82);
const CREAT: Call = all(85);
const LINK: Call = all(86);
const TIMES: Call = all(100);
const SIGACTION: Call = all(13);
const PREAD: Call = all(17);
const PWRITE: Call = all(18);
const SELECT: Call = all(23);
const YIELD: Call = all(24);
const MREMAP: Call = all(25);
const MADVISE: Call = all(28);
const DUP: Call = all(32);
const SEND_TO: Call = all(44);
const CONNECT: Call = all(42);
const SOCKET_PAIR: Call = all(53);
/// With no flag but SIGCHLD: not the C library's fork, which the clean-up needs.
const FORK: Call = (56, Some((0, SeccompCmpOp::Eq, 17)));
const KILL: Call = all(62);
const FCNTL: Call = all(72);
const GETPPID: Call = all(110);
const GETUID: Call = all(102);
const GETPGID: Call = all(121);
const FUTEX: Call = all(202);
const OPEN: Call = all(2);
/// For the value 1, with which no semaphore of the C library waits.
const WAIT_IN_VAIN: Call = (202, Some((2, SeccompCmpOp::Eq, 1)));
const GETDENTS: Call = all(217);
const TGKILL: Call = all(234);
const OPENAT: Call = all(257);
const NEWFSTATAT: Call = all(262);
const UNLINKAT: Call = all(263);
const FALLOCATE: Call = all(285);
const EVENTFD: Call = all(290);

/// The work of each program but those that only compute, which `computed.rs` looks at.
const WORK: &[(&[&str], &[Call])] = &[
    (&["page-fault", "page-fault-cow", "page-fault-file", "page-fault-file-1", "touch"], &[MMAP]),
    (&["page-fault-thp", "micro-flush"], &[MADVISE]),
    (&["af-unix", "pipe", "tcp", "context-switch", "read-1", "file-reread"], &[READ]),
    (&["bw-pipe", "bw-tcp", "bw-unix"], &[READ]),
    (&["write-1", "fs-append"], &[WRITE]),
    (&["fs-rename"], &[RENAME]),
    (&["fs-readdir"], &[GETDENTS]),
    (&["fs-truncate"], &[PWRITE]),
    (&["udp"], &[SEND_TO]),
    (&["tcp-connect"], &[CONNECT]),
    (&["getppid"], &[GETPPID]),
    (&["getuid"], &[GETUID]),
    (&["stat"], &[NEWFSTATAT]),
    (&["fstat"], &[FSTAT]),
    (&["open-close", "create-delete", "file-create"], &[OPENAT]),
    (&["file-delete"], &[UNLINKAT]),
    (&["select-file", "select-tcp"], &[SELECT]),
    (&["signal-install", "protection-fault"], &[SIGACTION]),
    (&["signal-handle"], &[KILL]),
    (&["mmap-latency", "mmap-touch-munmap"], &[MUNMAP]),
    (&["mmap-reread", "micro-faults"], &[MMAP]),
    (&["mmap-stress"], &[MREMAP]),
    (&["fork-exit", "fork-exec", "sh", "fork-pages"], &[FORK]),
    (&["high-systime", "buildlike", "under-load"], &[FORK]),
    (&["locks"], &[MMAP]),
    (&["walk"], &[GETDENTS]),
    (&["micro-events"], &[POLL, EVENTFD]),
    (&["micro-files"], &[DUP, LSEEK, FCNTL, FALLOCATE]),
    (&["micro-futex"], &[FUTEX]),
    (&["micro-io"], &[READ, WRITE, PREAD, PWRITE, SOCKET_PAIR]),
    (&["micro-mappings"], &[MUNMAP]),
    (&["messaging"], &[FORK, READ]),
    (&["high-systime-job"], &[FORK, READ, CREAT, LINK, GETDENTS, SHMAT, KILL, SOCKET, TIMES]),
    (&["micro-names"], &[OPENAT, GETDENTS]),
    (&["micro-tasks"], &[READ, YIELD, TGKILL, GETPGID, FORK]),
    (&["scale"], &[GETPPID, MADVISE, MUNMAP, DUP, OPEN, READ, FORK, TGKILL, WAIT_IN_VAIN]),
];

/// Rows that no refused call can keep from their work, because it is in user mode (a futex without
/// contention, a clock), or because the C library itself cannot start without it (brk, malloc).
const CALLS_NOBODY: &[&str] = &[
    "high-systime-job:job=brk-test",
    "high-systime-job:job=page-test",
    "micro-mappings:call=brk1",
    "micro-mappings:call=brk2",
    "micro-mappings:call=malloc1",
    "micro-mappings:call=malloc2",
    "micro-futex:call=posix-semaphore1",
    "micro-futex:call=pthread-mutex1",
    "micro-tasks:call=clock-gettime",
];

fn refusing(calls: &[Call]) -> BpfProgram {
    const EIO: u32 = 5;
    let rule = |condition: &Option<(u8, SeccompCmpOp, u64)>| -> Vec<SeccompRule> {
        condition
            .iter()
            .map(|(argument, is, value)| {
                let first =
                    SeccompCondition::new(*argument, SeccompCmpArgLen::Qword, is.clone(), *value);
                SeccompRule::new(vec![first.unwrap()]).unwrap()
            })
            .collect()
    };
    let rules = calls.iter().map(|(number, condition)| (*number, rule(condition))).collect();
    let (otherwise, refused) = (SeccompAction::Allow, SeccompAction::Errno(EIO));
    let arch = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, otherwise, refused, arch).unwrap().try_into().unwrap()
}

fn run_without(calls: &[Call], workload: &Workload) -> Output {
    let (dir, program) = (scratch(), refusing(calls));
    let mut command: Command = guest();
    command.args(arguments(workload)).env("TMPDIR", dir.path()).current_dir(dir.path());
    let in_child = move || apply_filter(&program).map_err(std::io::Error::other);
    // SAFETY: the closure makes two system calls, prctl and seccomp, between fork and exec.
    unsafe { command.pre_exec(in_child) };
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    if !comes(|| child.try_wait().unwrap().is_some()) {
        kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
        panic!("{} waits for what cannot come", workload.row);
    }
    child.wait_with_output().unwrap()
}

#[test]
fn work_that_cannot_be_done_is_no_number() {
    let (mut broken, mut failures) = (BTreeSet::new(), Vec::new());
    let calls = |d: &Definition| !d.hidden && d.needs.is_none() && !only_computes(&d.program);
    for definition in definitions().unwrap().into_iter().filter(calls) {
        let work = WORK.iter().find(|(programs, _)| programs.contains(&&*definition.program));
        let (_, calls) = work.unwrap_or_else(|| panic!("{}: what is its work?", definition.name));
        let row = definition.rows().unwrap();
        for workload in row.iter().filter(|row| !CALLS_NOBODY.contains(&&*row.row)) {
            let output = run_without(calls, workload);
            match parse_answer(&output.stdout, &workload.program) {
                Ok(Answer::Done(done)) => {
                    if workload.deviations(&done.signature).is_empty() {
                        failures.push(format!("{}: a number", workload.row));
                    }
                }
                Ok(Answer::Refused(why)) => assert!(!why.is_empty()),
                Err(error) => failures.push(format!("{}: {error}", workload.row)),
            }
            broken.insert(workload.program.clone());
        }
    }
    assert_eq!(failures, [""; 0]);
    assert!(broken.len() > 50, "{broken:?}");
}
