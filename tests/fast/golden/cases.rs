//! The Comparisons that the golden files show.

use std::sync::OnceLock;

use ktax::analyse::counts;
use ktax::model::{
    Comparison, ComparisonMethod, CountsComparison, CountsEvidence, Effect, Evidence, Failure, Row,
    RowFailure, Side, Signature, Verdict, Warning,
};
use ktax::plan::ModelKey;

use super::cpus::several;
use super::estimates;
use super::fixtures::{Line, Made, run_dir};

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
/// What a model of a machine counts of it.
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
            ("estimated", estimates::of(modelled(), true)),
            ("estimated-costly", estimates::of(made("Isolation", 5, &[ISOLATED, CALL]), false)),
            ("small", made("Half of the threshold", 5, &[SMALL])),
            ("cpus", several()),
        ]
    })
}

fn modelled() -> Comparison {
    let mut modelled = made("What would a machine make of it?", 5, &[MODELLED, CALL]);
    let ComparisonMethod::Counts(counts) = &mut modelled.method else { panic!("counts") };
    counts.key.machine.model = Some(ModelKey::Name("core2-extreme".into()).model().unwrap());
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

/// What was counted, to be changed.
pub fn method(comparison: &mut Comparison) -> &mut CountsComparison {
    match &mut comparison.method {
        ComparisonMethod::Counts(counts) => counts,
        other => panic!("not counted: {other:?}"),
    }
}

/// What was counted of a row, to be changed.
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
