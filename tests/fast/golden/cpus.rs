//! Rows of several CPUs: the change has a lock for which four CPUs wait.

use ktax::analyse::counts;
use ktax::model::{Comparison, Failure, Machine, Model, Side, Signature};

use super::fixtures::{Line, Made, OPS, plan, run_dir_of};

const MACHINE_CPUS: u64 = 4;

/// Of the last the change only shares a line.
const ROWS: [(&str, u64); 4] = [
    ("scale:call=dup,cpus=1,objects=shared", 1),
    ("scale:call=dup,cpus=2,objects=shared", 2),
    ("scale:call=dup,cpus=4,objects=shared", 4),
    (SHARING, 2),
];

const SHARING: &str = "scale:call=page-fault,cpus=2,objects=shared";

pub fn several() -> Comparison {
    let made: Vec<Made> = ROWS.iter().map(|(row, _)| (*row, "one call", nothing as _)).collect();
    let mut plan = plan("A lock around dup", 7, &made);
    let method = &mut plan.method;
    let model = Some(Model::Coherence);
    let machine = Machine { cpus: MACHINE_CPUS as u32, model, ..Machine::default() };
    method.asked.machine = machine.clone();
    method.key.machine = machine;
    for (workload, (_, cpus)) in method.workloads.iter_mut().zip(ROWS) {
        workload.params.insert("cpus".into(), cpus);
    }
    let root = tempfile::tempdir().unwrap();
    let dir = run_dir_of(&root.path().join("run"), plan, |step, at| {
        Ok((profile_text(step.side, step.layout as u64, ROWS[at]), Signature::new()))
    });
    counts(&dir).unwrap()
}

/// The measurement of a row whose profile is written by `several`.
fn nothing(_: Side, _: usize) -> Result<(Vec<Line>, Signature), Failure> {
    unreachable!()
}

/// Each CPU that works does the same, and those that do not are idle meanwhile.
fn profile_text(side: Side, layout: u64, (row, cpus): (&str, u64)) -> String {
    let (locked, waits) = match side {
        _ if row == SHARING => (0, 0),
        Side::Base => (0, 10 * (cpus - 1)),
        Side::Change => (20, 400 * (cpus - 1)),
    };
    let (call, lock) = (OPS * 900 + layout * cpus, OPS * locked);
    let (total, waits) = (call + lock, OPS * waits);
    let makespan = (total + waits) / cpus;
    let idle = (MACHINE_CPUS - cpus) * makespan;
    let mut text = format!("ktax-profile\t1\napi\t4\nregion\t1\ntotal\t{total}\n");
    text += &format!("fn\tprocess\t{call}\t0\tksys_dup\n");
    text += &format!("fn\tprocess\t{lock}\t0\t_raw_spin_lock\n");
    let function = "native_queued_spin_lock_slowpath";
    text += &format!("wait\tprocess\t{waits}\t{function}\nidle\t{idle}\tnative_safe_halt\n");
    for cpu in 0..MACHINE_CPUS {
        let (work, wait) = (total / cpus, waits / cpus);
        text += &match cpu < cpus {
            true => format!("cpu\t{cpu}\t{work}\t{wait}\t0\t{}\n", makespan - work - wait),
            false => format!("cpu\t{cpu}\t0\t0\t{makespan}\t0\n"),
        };
    }
    // The lock, and what a dup touches in any case.
    let is_shared = row == SHARING && side == Side::Change;
    let locks = if is_shared { 2 } else { locked / 20 };
    let (of_lock, of_call) = (locks * OPS * (cpus - 1), OPS / 4 * (cpus - 1) + layout + 2);
    text += &format!("transfer\tprocess\t{of_call}\tksys_dup\n");
    text += &format!("line\tdirect\t{of_call}\t2\t0\tksys_dup\n");
    if of_lock > 0 {
        text += &format!("transfer\tprocess\t{of_lock}\t_raw_spin_lock\n");
        text += &format!("line\tdata\t{of_lock}\t1\t40\tdup_lock\n");
    }
    text += &format!("transfers\t{}\n", of_lock + of_call);
    text += &paths(call, lock, waits, idle);
    text + &format!("makespan\t{makespan}\t100\t90\ntrace\t56f4e621a1079e22\nend\n")
}

/// Two functions take the lock, one of which is known to; half of the idle time is a process's that
/// sleeps.
fn paths(call: u64, lock: u64, waits: u64, idle: u64) -> String {
    let path =
        |depth: u64, own: u64, name: &str| format!("path\tprocess\t{depth}\t{own}\t0\t9\t{name}\n");
    let slowpath = path(2, 0, "native_queued_spin_lock_slowpath");
    let own = waits / 4;
    path(0, call, "ksys_dup")
        + &path(1, lock, "_raw_spin_lock")
        + &path(1, 0, "alloc_fd")
        + &slowpath
        + &format!("path-wait\t{}\n", waits - own)
        + &path(1, 0, "own_driver")
        + &slowpath
        + &format!("path-wait\t{own}\n")
        + &path(1, 0, "pipe_read")
        + &path(2, 0, "schedule")
        + &format!("path-idle\t{}\n", idle / 2)
}
