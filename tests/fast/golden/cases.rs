//! The Comparisons that the golden files show.

use std::path::Path;
use std::sync::OnceLock;

use ktax::analyse::counts;
use ktax::model::{
    AskedCounts, AskedGuest, Boot, Comparison, ComparisonMethod, CountsComparison, CountsEvidence,
    CountsPlan, Effect, Evidence, FORMAT, Failure, Identity, Key, Layout, Machine, Model, Outcome,
    Plan, Row, RowFailure, Run, Sample, Side, Sides, Signature, Step, Subject, Verdict, Warning,
    Workload,
};
use ktax::plan::ModelKey;
use ktax::rundir::{RunDir, profile};

use super::estimates;
use crate::common::made;

type Measured = Result<(Vec<Line>, Signature), Failure>;

const CALL: Made = ("getppid", "one call", getppid);
const STAT: Made = ("stat", "one call of a path with three components", stat);
const FORK: Made = ("fork-pages:pages=16", "one fork with its exit and wait", fork);
const FAULT: Made = ("page-fault", "one fault", page_fault);
const PIPE: Made = ("context-switch:pages=4,procs=2", "one round trip", pipe);

const CLEAR: Made = ("pipe", "one round trip", clear);
const LOOP: Made = ("create-delete", "one file", no_loop);
const JITTER: Made = ("fork-exit", "one fork with its exit and wait", jitter);
/// What each of its layouts executes more is too little, and what it adds is dear.
const ISOLATED: Made = ("stat", "one call", |side, layout| {
    let (mut lines, signature) = small(side, layout)?;
    let loads = u64::from(side == Side::Change);
    lines.extend([
        ("costly", "entry_SYSCALL_64 cr3-write", loads, 0),
        ("costly", "syscall_return_via_sysret cr3-write", loads, 0),
        ("costly", "entry_SYSCALL_64 swapgs", 2, 0),
        ("costly", "lockref_get locked", 3 - loads, 0),
    ]);
    Ok((lines, signature))
});
/// Row with the counts of a machine's model.
const MODELLED: Made = ("stat", "one call", |side, layout| {
    let (mut lines, signature) = small(side, layout)?;
    let more = u64::from(side == Side::Change);
    lines.extend([
        ("modelled", "lockref_get model-l1d-accesses", 100 + more, 0),
        ("modelled", "lockref_get model-l1d-misses", 4 + more, 0),
        ("modelled", "lockref_get model-cache-references", 2, 0),
        ("modelled", "lockref_get model-branches", 60, 0),
        ("modelled", "entry_SYSCALL_64 model-branch-misses", 2 * more, 0),
    ]);
    Ok((lines, signature))
});
const SMALL: Made = ("stat", "one call", small);

/// One in ten thousand, and one in a hundred, of the instructions beside them.
pub const FEW_REP: Made = ("few", "one", |side, _| rep_beside(side, 10));
pub const MANY_REP: Made = ("many", "one", |side, _| rep_beside(side, 1000));

fn rep_beside(side: Side, iterations: u64) -> Measured {
    let iterations = if side == Side::Change { iterations } else { 0 };
    Ok((vec![("process", "memcpy_erms", 100_000, iterations)], signature("rounds", 400)))
}

/// Every row by the name of its files.
pub fn all() -> &'static [(&'static str, Comparison)] {
    static ALL: OnceLock<Vec<(&str, Comparison)>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            ("changes", changes()),
            ("troubles", troubles()),
            ("four-layouts", made("Four layouts are too few", 4, &[CALL, FORK])),
            ("hostile", hostile()),
            ("rep", made("Clearing memory", 5, &[CLEAR, LOOP, JITTER])),
            ("costly", made("Page-table isolation", 5, &[ISOLATED, CALL])),
            ("machine", modelled()),
            ("estimated", estimates::estimated(modelled(), true)),
            (
                "estimated-costly",
                estimates::estimated(made("Isolation", 5, &[ISOLATED, CALL]), false),
            ),
            ("small", made("Half of the threshold", 5, &[SMALL])),
            ("cpus", several()),
        ]
    })
}

fn modelled() -> Comparison {
    let mut modelled = made("What would a machine make of it?", 5, &[MODELLED, CALL]);
    let ComparisonMethod::Counts(counts) = &mut modelled.method else { panic!("counts") };
    let model = ModelKey::Name("core2-extreme".into()).model().unwrap();
    counts.key.machine.model = Some(model.clone());
    counts.asked.machine.model = Some(model);
    modelled
}

pub fn changes() -> Comparison {
    let mut changes =
        made("What do the security modules cost?", 5, &[CALL, STAT, FORK, FAULT, PIPE]);
    changes.warnings.push(Warning {
        fact:
            "the plan asked for landlock, which this kernel does not have; the boot line names it, \
               the log says `lsm=lockdown,yama,integrity,apparmor,selinux,bpf`"
                .into(),
        next_step: "choose a kernel that has it, or leave it out of the boot line".into(),
    });
    changes
}

fn troubles() -> Comparison {
    let rows: &[Made] = &[
        CALL,
        ("fork-exec", "one fork with exec", |side, layout| match (side, layout) {
            (Side::Change, 1) => Err(Failure::Refused { message: "CONFIG_BINFMT_ELF=n".into() }),
            _ => fork(side, layout),
        }),
        ("mmap-touch", "one page", |side, layout| {
            let (lines, _) = page_fault(side, layout)?;
            Ok((lines, signature("faults", 400 + u64::from(side == Side::Change))))
        }),
        ("af-unix", "one round trip", pipe),
        ("select-tcp", "one call over 100 sockets", pipe),
    ];
    let mut troubles = made("What can go wrong", 3, rows);
    // A Boot that panicked takes every row with it; here two rows and two Boots, said once.
    let panicked = |boot: &str, side| RowFailure {
        boot: boot.to_owned(),
        side,
        boots: 1,
        failure: Failure::Panic { message: "VFS: Unable to mount root fs".into() },
    };
    for row in &mut troubles.rows[3..] {
        row.failures = vec![panicked("004-base", Side::Base), panicked("005-change", Side::Change)];
        row.verdict = Verdict::Failed;
        row.evidence = Evidence::Counts(CountsEvidence::default());
    }
    troubles
}

/// Text that tries to reach the terminal, the table and the page.
fn hostile() -> Comparison {
    let mut hostile = changes();
    let nasty = "\x1b]0;owned\x07\u{202e}|`<img src=x>`\r\n| a *b* [c](javascript:d)";
    hostile.title = nasty.into();
    let counts = method(&mut hostile);
    counts.asked.subjects.change.boot_line = format!("init=/bin/sh {nasty}");
    counts.kernels.change.release = Some("6.1.0-".to_owned() + &"x".repeat(70));
    hostile.rows.truncate(3);
    hostile.rows[0].row = "=cmd|' /C calc'!A0\u{9b}2J".into();
    hostile.rows[1].row = "stat:".to_owned() + &"very-".repeat(20);
    hostile.rows[2].operation = "\u{2066}</summary><script>\n".into();
    effects(&mut hostile.rows[2])[0].functions[0].function = format!("a{nasty}");
    hostile.warnings[0].fact = nasty.repeat(4);
    hostile
}

/// Counts of a comparison, mutable.
pub fn method(comparison: &mut Comparison) -> &mut CountsComparison {
    match &mut comparison.method {
        ComparisonMethod::Counts(counts) => counts,
        other => panic!("not counted: {other:?}"),
    }
}

/// Effects of a row, mutable.
pub fn effects(row: &mut Row) -> &mut Vec<Effect> {
    match &mut row.evidence {
        Evidence::Counts(counts) => &mut counts.effects,
        Evidence::Guests(guests) => &mut guests.effects,
        other => panic!("times have no effects: {other:?}"),
    }
}

pub fn made(title: &str, layouts: usize, rows: &[Made]) -> Comparison {
    let root = tempfile::tempdir().unwrap();
    counts(&run_dir(&root.path().join("run"), title, layouts, rows)).unwrap()
}

fn signature(name: &str, value: u64) -> Signature {
    Signature::from([(name.to_owned(), value)])
}

fn getppid(_: Side, _: usize) -> Measured {
    let lines =
        vec![("process", "entry_SYSCALL_64", 61, 0), ("process", "__x64_sys_getppid", 37, 0)];
    Ok((lines, signature("calls", 400)))
}

/// One hook more, the same under every Layout.
fn stat(side: Side, _: usize) -> Measured {
    let mut lines = vec![("process", "vfs_statx", 1012, 0), ("process", "link_path_walk", 731, 0)];
    lines.push(("process", "security_inode_getattr", 12, 0));
    if side == Side::Change {
        lines.push(("process", "apparmor_inode_getattr", 31, 0));
    }
    Ok((lines, signature("calls", 400)))
}

/// Many functions, clones under other names, and Layouts that move both Sides a little.
fn fork(side: Side, layout: usize) -> Measured {
    let change = u64::from(side == Side::Change);
    let noise = [3, 0, 7, 5, 2][layout] + change * [0, 6, 1, 0, 9][layout];
    let copy = if side == Side::Base { "copy_page_range.isra.0" } else { "copy_page_range" };
    let lines = vec![
        ("process", "copy_process", 9211 + noise, 0),
        ("process", copy, 21_733 - 18 * change, 0),
        ("process", "clear_page_erms", 48, 8176),
        ("process", "security_task_alloc", 25 + 143 * change, 0),
        ("process", "apparmor_task_alloc", 88 * change, 0),
        ("process", "selinux_task_alloc", 61 * change, 0),
        ("process", "apparmor_cred_prepare", 57 * change, 0),
        ("process", "selinux_cred_prepare", 49 * change, 0),
        ("process", "kmem_cache_alloc", 2100 + 24 * change, 0),
        ("process", "memset_erms", 7, 310 + 96 * change),
        ("interrupt", "tick_sched_timer", 880 + 120 * change, 0),
        ("kthread", "rcu_gp_kthread", 310, 0),
    ];
    Ok((lines, signature("forks", 400)))
}

/// The Layouts move more than the change does.
fn page_fault(side: Side, layout: usize) -> Measured {
    let noise = [0, 4, 1, 9, 2][layout] + u64::from(side == Side::Change) * (layout as u64 % 2);
    let lines = vec![
        ("process", "handle_mm_fault", 1840 + noise, 0),
        ("process", "clear_page_erms", 12, 511),
    ];
    Ok((lines, signature("faults", 400)))
}

/// Faster.
fn pipe(side: Side, layout: usize) -> Measured {
    let saved = if side == Side::Change { 512 } else { 0 };
    let lines = vec![
        ("process", "schedule", 3700 - saved + layout as u64, 0),
        ("process", "pipe_write", 2150, 4),
    ];
    Ok((lines, signature("round trips", 400)))
}

/// Slower in REP iterations alone.
fn clear(side: Side, _: usize) -> Measured {
    let cleared = if side == Side::Change { 4096 } else { 0 };
    Ok((vec![("process", "clear_page_erms", 12, 4096 + cleared)], signature("round trips", 400)))
}

/// A loop becomes a string instruction.
fn no_loop(side: Side, _: usize) -> Measured {
    let (instructions, rep) = if side == Side::Change { (2000, 512) } else { (2500, 0) };
    Ok((vec![("process", "memset_orig", instructions, rep)], signature("files", 400)))
}

/// Differences that round to nothing.
fn jitter(side: Side, layout: usize) -> Measured {
    let noise = if side == Side::Change { [1, 3, 0, 2, 13][layout] } else { 2 };
    Ok((vec![("process", "copy_process", 120_000 + noise, 0)], signature("forks", 400)))
}

/// Beyond the Layouts, and half of the threshold.
fn small(side: Side, _: usize) -> Measured {
    let more = if side == Side::Change { 10 } else { 0 };
    Ok((vec![("process", "link_path_walk", 20_000 + more, 0)], signature("calls", 400)))
}

// Small run directories, written as `ktax run` writes them.

/// One function of a profile: context, function, and per operation instructions and REP iterations;
/// or `costly` or `modelled`, function and kind, and how many of the kind.
pub type Line = (&'static str, &'static str, u64, u64);

/// Measurement of a Run, by Side and Layout.
pub type Measure = fn(Side, usize) -> Result<(Vec<Line>, Signature), Failure>;

/// One row: name, operation, measurement. Every Region has [`OPS`] operations.
pub type Made = (&'static str, &'static str, Measure);

/// Operations of every Region, and what a profile may have beyond whole operations.
pub const OPS: u64 = 400;

/// Writes a whole run directory.
pub fn run_dir(root: &Path, title: &str, layouts: usize, rows: &[Made]) -> RunDir<CountsPlan> {
    run_dir_of(root, plan(title, layouts, rows), |step, index| {
        let (row, _, measure) = rows[index];
        let (lines, signature) = measure(step.side, step.layout)?;
        Ok((profile_text(row, &lines), signature))
    })
}

/// Writes the whole run directory of a Plan, with the profile and the signature of each of its
/// rows.
pub fn run_dir_of(
    root: &Path,
    plan: Plan<CountsPlan>,
    measure: impl Fn(&Step, usize) -> Result<(String, Signature), Failure>,
) -> RunDir<CountsPlan> {
    let dir = RunDir::create(root, plan).unwrap();
    let _lock = dir.lock().unwrap();
    let method = &dir.plan().method;
    for step in &method.steps {
        dir.prepare(step).unwrap();
        dir.write_boot(step, &Boot::default()).unwrap();
        for (index, workload) in method.workloads.iter().enumerate() {
            let row = workload.row.clone();
            match measure(step, index) {
                Ok((text, signature)) => {
                    let outcome = Outcome::Measured(sample(&text, signature));
                    dir.write_run(step, &Run { row, outcome }, Some(&text)).unwrap();
                }
                Err(failure) => {
                    let outcome = Outcome::<Sample>::Failed(failure);
                    dir.write_run(step, &Run { row, outcome }, None).unwrap();
                }
            }
        }
    }
    dir
}

fn sample(text: &str, signature: Signature) -> Sample {
    let parsed = profile::parse(text).unwrap();
    let counts = parsed.counts();
    let (total, notes, parallel) = (parsed.total, parsed.notes, parsed.parallel);
    let values = Signature::new();
    Sample {
        ops: OPS,
        counts,
        total,
        tsc: total,
        signature,
        values,
        printed: None,
        notes,
        parallel,
    }
}

/// Profile as the plugin writes it; the region itself costs a few instructions: odd fractions.
pub fn profile_text(row: &str, lines: &[Line]) -> String {
    let user = ("process", "[user]", 5, 0);
    let counted = lines.iter().map(|(context, function, n, rep)| (context, function, n, rep));
    let mut text = format!("ktax-profile\t1\napi\t1\nregion\t{row}\n");
    let (mut total, mut functions) = (user.2, String::new());
    for (context, function, instructions, rep) in counted {
        if let ("costly" | "modelled", Some((function, kind))) =
            (*context, function.split_once(' '))
        {
            let count = instructions * OPS;
            functions += &format!("{context}\tprocess\t{kind}\t{count}\t{function}\n");
            continue;
        }
        let (instructions, rep) = (instructions * OPS, rep * OPS);
        total += instructions + rep;
        functions += &format!("fn\t{context}\t{instructions}\t{rep}\t{function}\n");
    }
    functions += &format!("fn\t{}\t{}\t{}\t{}\n", user.0, user.2, user.3, user.1);
    text += &format!("total\t{total}\n{functions}end\n");
    text
}

pub fn plan(title: &str, layouts: usize, rows: &[Made]) -> Plan<CountsPlan> {
    let side = |index: usize| if index % 2 == 0 { Side::Base } else { Side::Change };
    let step = |index: usize| Step { index: index as u32, side: side(index), layout: index / 2 };
    let layout = |index: usize| Layout { seed: index as u32, padding: 0, phase: 0 };
    let subject = |line: &str| Subject::new("debian:linux-image-6.1.0-56-cloud-amd64", line);
    let method = CountsPlan {
        key: key(),
        asked: AskedCounts {
            machine: Machine::default(),
            subjects: Sides {
                base: subject("lsm=capability"),
                change: subject("lsm=landlock,lockdown,yama,integrity,apparmor,selinux,bpf"),
            },
            guest: AskedGuest::default(),
            calibration: None,
        },
        kernels: Sides { base: kernel(), change: kernel() },
        archives: None,
        workloads: rows.iter().map(|(row, operation, _)| workload(row, operation)).collect(),
        layouts: (0..layouts).map(layout).collect(),
        steps: (0..2 * layouts).map(step).collect(),
    };
    Plan { format: FORMAT, title: title.into(), seed: 1, threshold_percent: 0.1, method }
}

pub fn key() -> Key {
    made::key("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)")
}

pub fn kernel() -> Identity {
    Identity {
        release: Some("6.1.0-56-cloud-amd64".into()),
        package_date: Some("2026-01-31".into()),
        ..made::identity("debian:linux-image-6.1.0-56-cloud-amd64=6.1.187-1", "ab")
    }
}

fn workload(row: &str, operation: &str) -> Workload {
    Workload { operation: operation.into(), ..made::workload(row, OPS) }
}

// Rows of several CPUs: the change has a lock for which four CPUs wait.

const MACHINE_CPUS: u64 = 4;

/// Rows, each with its number of CPUs. In the last one the change shares a line and has no lock.
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
    let dir = run_dir_of(&root.path().join("run"), plan, |step, index| {
        Ok((profile_of_cpus(step.side, step.layout as u64, ROWS[index]), Signature::new()))
    });
    counts(&dir).unwrap()
}

/// The measurement of a row whose profile is written by `several`.
fn nothing(_: Side, _: usize) -> Result<(Vec<Line>, Signature), Failure> {
    unreachable!()
}

/// Each CPU that works does the same, and those that do not are idle meanwhile.
fn profile_of_cpus(side: Side, layout: u64, (row, cpus): (&str, u64)) -> String {
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
