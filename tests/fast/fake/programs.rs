//! Programs of the user's: each has a guest of its own, and one that fails says what it lacked.

use std::fs;
use std::path::Path;

use ktax::analyse::counts;
use ktax::engine::RawAnswer;
use ktax::model::{
    Comparison, Failure, Outcome, RUNNER, Row, Sample, Side, Signature, UserProgram, Verdict,
    Workload,
};
use ktax::program::{PackedPrograms, SideArchives, pack_single};

use super::scene::Scene;
use crate::common::{assert_has, open_counts};
use crate::fake::scratch;

const MIB: u64 = 1 << 20;

/// Programs of these names beside the row `getppid`.
fn scene(names: &[&str], dir: &Path) -> Scene {
    let rows: Vec<String> = names.iter().map(|name| format!("program:{name}")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).chain(["getppid"]).collect();
    let mut scene = Scene::new(&rows);
    let program = |name: &&str| {
        let command = vec!["true".to_owned(), (*name).to_owned()];
        UserProgram { name: (*name).to_owned(), command, ops: Some(1), ..UserProgram::default() }
    };
    let programs: Vec<UserProgram> = names.iter().map(program).collect();
    let pack = |program| pack_single(program, (0, None), dir, 64 * MIB, &dir.join("cache"));
    let packed: Vec<PackedPrograms> =
        programs.iter().map(|program| pack(program).unwrap()).collect();
    scene.programs = SideArchives { common: None, programs: packed };
    scene.plan.method.asked.guest.programs = programs;
    for row in &mut scene.plan.method.workloads {
        if UserProgram::is_program_row(&row.row) {
            row.program = "program".to_owned();
        }
    }
    scene
}

#[test]
fn each_program_has_a_guest_without_the_others() {
    let dir = scratch();
    let scene = scene(&["one", "two"], dir.path());
    let ran = scene.run(&dir.path().join("out")).complete();
    let archive = |place: usize| scene.programs.programs[place].sha256.clone();
    let with = |place: usize| format!("000-base boot with {}", archive(place));
    let run = "000-base program".to_owned();
    let wanted = [
        "000-base boot".to_owned(),
        with(0),
        run.clone(),
        with(1),
        run,
        "000-base getppid".to_owned(),
    ];
    assert_eq!(ran.calls[..6], wanted);
    let script = fs::read_to_string(dir.path().join("out/boots/000-base/argv")).unwrap();
    assert_eq!(script.matches("program:").count(), 2, "{script}");
}

#[test]
fn a_program_alone_is_in_the_first_guest() {
    let dir = scratch();
    let mut scene = scene(&["one"], dir.path());
    scene.plan.method.workloads.truncate(1);
    let ran = scene.run(&dir.path().join("out")).complete();
    let with = format!("boot with {}", scene.programs.programs[0].sha256);
    assert_eq!(ran.calls[..2], [format!("000-base {with}"), "000-base program".to_owned()]);
}

#[test]
fn a_program_that_fails_says_which_files_of_this_machine_it_lacked() {
    let dir = scratch();
    let answer = |text: &str| {
        let wire = format!("ktax 1\nstart program\n{text}").into_bytes();
        RawAnswer { wire, ..RawAnswer::default() }
    };
    let scene = scene(&["one"], dir.path())
        .answer("program", Side::Change, 0, answer("fail its exit status is 2, expected 0: no x\n"))
        .answer(
            "program traced",
            Side::Change,
            0,
            answer("opened /etc\nmissing /nowhere\nmissing /etc/passwd\nvalue status 2\nend\n"),
        );
    scene.run(&dir.path().join("out")).complete();
    let out = open_counts(&dir.path().join("out")).unwrap();
    let run = out.run::<Sample>(&out.plan().method.steps[1], "program:one").unwrap().unwrap();
    let Outcome::Failed(Failure::Program { message }) = run.outcome else { panic!("{run:?}") };
    assert_eq!(
        message,
        "its exit status is 2, expected 0: no x; the guest lacks /etc/passwd, which is on this \
         machine: add --trace-files, or --file for each"
    );
}

// Programs on both Sides, from canned profiles to rows.

const ROW: &str = "program:p";

/// A program's run: how often it was in these system calls, and how often it read the clock.
#[derive(Clone, Default)]
struct Did {
    calls: Vec<(&'static str, u64)>,
    clock_reads: u64,
    /// `syscall` instructions that no function of the kernel served.
    unserved: u64,
    page_faults: u64,
    /// Instructions beside those of its calls.
    instructions: u64,
    /// Output of a program, as the guest sends it.
    printed: String,
}

impl Did {
    fn calls(calls: &[(&'static str, u64)]) -> Did {
        Did { calls: calls.to_vec(), instructions: 1_000_000, ..Did::default() }
    }

    /// Profile, as the plugin writes it.
    fn profile(&self) -> String {
        let calls: u64 = self.calls.iter().map(|(_, count)| count).sum();
        let (syscalls, faults) = (calls + self.unserved, self.page_faults);
        let mut lines = format!(
            "fn\tprocess\t{}\t0\t[p]main\ncostly\tprocess\tsyscall\t{syscalls}\t[p]main\n\
             fn\tprocess\t{syscalls}\t0\tdo_syscall_64\nfn\tprocess\t{faults}\t0\texc_page_fault\n",
            self.instructions
        );
        let mut paths = format!(
            "path\tprocess\t0\t{}\t0\t0\t[user]\npath-costly\t{syscalls}\tsyscall\n",
            self.instructions
        );
        if self.clock_reads > 0 {
            lines += &format!("costly\tprocess\trdtsc\t{}\t[user]\n", self.clock_reads);
            paths += &format!("path-costly\t{}\trdtsc\n", self.clock_reads);
        }
        paths += &format!("path\tprocess\t0\t{syscalls}\t0\t{syscalls}\tdo_syscall_64\n");
        for (function, count) in &self.calls {
            lines += &format!("fn\tprocess\t{count}\t0\t{function}\n");
            paths += &format!("path\tprocess\t1\t{count}\t0\t{count}\t{function}\n");
            // Other functions of the kernel call the same one.
            paths += &format!("path\tprocess\t2\t0\t0\t7\t{function}\n");
        }
        paths += &format!("path\tprocess\t0\t{faults}\t0\t{faults}\texc_page_fault\n");
        let total = self.instructions + syscalls + faults + calls;
        format!("ktax-profile\t1\napi\t1\nregion\t1\ntotal\t{total}\n{lines}{paths}end\n")
    }

    fn answer(&self) -> RawAnswer {
        let (printed, hash) = (&self.printed, self.printed.len() as u64);
        let wire = format!(
            "ktax 1\nstart {RUNNER}\nsig exit-status 0\nsig stdout {hash}\n{printed}\
             tsc 10820000\nend\n"
        );
        let (wire, profile) = (wire.into_bytes(), self.profile());
        RawAnswer { wire, profile, console_tail: String::new() }
    }
}

/// A program as a row, and what it did on each Side in each Layout.
fn scene_of_work(program: UserProgram, did: impl Fn(Side, usize) -> Did) -> Scene {
    let mut scene = Scene::new(&[ROW]).layouts(5);
    let workload = &mut scene.plan.method.workloads[0];
    workload.program = RUNNER.into();
    workload.ops = program.ops.unwrap_or(1);
    workload.signature = Signature::new();
    workload.numbers = program.numbers.clone();
    if program.numbers.contains_key(UserProgram::OPS) {
        workload.params.insert(Workload::PRINTS_OPS.to_owned(), 1);
    }
    scene.plan.method.asked.guest.programs.push(UserProgram { name: "p".into(), ..program });
    for (side, layout) in Side::BOTH.into_iter().flat_map(|side| (0..5).map(move |n| (side, n))) {
        scene = scene.answer(RUNNER, side, layout, did(side, layout).answer());
    }
    scene
}

fn compared(scene: &Scene) -> Comparison {
    let dir = scratch();
    scene.run(dir.path()).complete();
    counts(&open_counts(dir.path()).unwrap()).unwrap()
}

fn row_of(program: UserProgram, did: impl Fn(Side, usize) -> Did) -> Row {
    compared(&scene_of_work(program, did)).rows.remove(0)
}

/// Calls for a fixed time: fewer where each takes longer.
fn fixed_time(side: Side, _: usize) -> Did {
    let calls = if side == Side::Base { 29_600 } else { 20_000 };
    let mut did = Did::calls(&[("__do_sys_getppid", calls), ("__x64_sys_write", 16)]);
    did.clock_reads = calls / 100 + 1;
    did.instructions = 10_000_000 - 2 * calls;
    did
}

#[test]
fn a_program_that_runs_for_a_fixed_time_does_different_work() {
    let row = row_of(UserProgram::default(), fixed_time);
    assert_eq!(row.verdict, Verdict::DifferentWork);
    let reason = row.reason.as_deref().unwrap();
    assert_eq!(
        reason,
        "system calls 29616 in base, 20016 in change (getppid 29600, 20000); clock reads 297 in \
         base, 201 in change; both sides ran for 10.82 ms of the guest's clock: the program runs \
         for a fixed time"
    );
    // The number that a user gives is not what it did.
    let given = UserProgram { ops: Some(1), ..UserProgram::default() };
    assert_eq!(row_of(given, fixed_time).verdict, Verdict::DifferentWork);
}

#[test]
fn work_is_recorded_by_system_call() {
    let row = row_of(UserProgram::default(), |_, _| Did {
        unserved: 3,
        clock_reads: 9,
        page_faults: 24,
        ..Did::calls(&[
            ("__do_sys_getppid", 5),
            ("__x64_sys_openat.constprop.0", 2),
            ("__ia32_compat_sys_openat", 1),
            ("syscall_exit_to_user_mode", 4),
        ])
    });
    assert_eq!(row.verdict, Verdict::NoDetectedChange);
    let work = row.counts().unwrap().work.as_ref().unwrap();
    assert!(work.differences.is_empty(), "{work:?}");
    let calls: Vec<_> =
        work.sides.base.system_calls.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    // Other calls of the kernel are no system calls.
    assert_eq!(calls, [("getppid", 5), ("openat", 3), ("other", 7)]);
    assert_eq!((work.sides.base.clock_reads, work.sides.base.page_faults), (9, 24));
}

#[test]
fn work_that_varies_between_layouts_is_not_different() {
    let row = row_of(UserProgram::default(), |side, layout| {
        let woken = [100, 104, 101, 103, 102][layout] + u64::from(side == Side::Change) * 3;
        Did::calls(&[("__x64_sys_futex", woken), ("__x64_sys_read", 10)])
    });
    assert_eq!(row.verdict, Verdict::NoDetectedChange);
    let row = row_of(UserProgram::default(), |side, layout| {
        let woken = [100, 104, 101, 103, 102][layout] + u64::from(side == Side::Change) * 10;
        Did::calls(&[("__x64_sys_futex", woken), ("__x64_sys_read", 10)])
    });
    assert_eq!(row.verdict, Verdict::DifferentWork);
}

#[test]
fn a_clock_that_is_read_by_system_calls_is_the_same_work() {
    let without_vdso = |side: Side, _| match side {
        Side::Base => Did { clock_reads: 400, ..Did::calls(&[("__x64_sys_read", 10)]) },
        Side::Change => Did::calls(&[
            ("__x64_sys_clock_gettime", 390),
            ("__x64_sys_gettimeofday", 10),
            ("__x64_sys_read", 10),
        ]),
    };
    let row = row_of(UserProgram::default(), without_vdso);
    assert_ne!(row.verdict, Verdict::DifferentWork, "{:?}", row.reason);
}

#[test]
fn with_given_operations_other_calls_for_another_cost_are_compared() {
    let given = || UserProgram { ops: Some(100), ..UserProgram::default() };
    let dearer = |side: Side, _| match side {
        Side::Base => Did::calls(&[("__x64_sys_read", 1000)]),
        Side::Change => Did { instructions: 1_200_000, ..Did::calls(&[("__x64_sys_read", 2000)]) },
    };
    let row = row_of(given(), dearer);
    assert_eq!(row.verdict, Verdict::Slower);
    let work = row.counts().unwrap().work.as_ref().unwrap();
    assert_eq!(work.differences[0].kind, "read");
    assert_eq!(row_of(UserProgram::default(), dearer).verdict, Verdict::DifferentWork);
    // One call of a thousand more, as another kernel needs at a program's start.
    let one_more =
        |side: Side, _| Did::calls(&[("__x64_sys_read", 1000 + u64::from(side == Side::Change))]);
    assert_eq!(row_of(given(), one_more).verdict, Verdict::BelowThreshold);
    assert_eq!(row_of(UserProgram::default(), one_more).verdict, Verdict::DifferentWork);
}

#[test]
fn differences_of_page_faults_are_shown_and_allowed() {
    let fewer = |side: Side, _| Did {
        page_faults: if side == Side::Base { 5000 } else { 20 },
        ..Did::calls(&[("__x64_sys_mmap", 10)])
    };
    let row = row_of(UserProgram::default(), fewer);
    assert_eq!(row.verdict, Verdict::Faster);
    let work = row.counts().unwrap().work.as_ref().unwrap();
    let what: Vec<_> = work.differences.iter().map(|difference| difference.kind.as_str()).collect();
    assert_eq!(what, ["page faults"]);
}

/// A program that also prints how often it ran, as UnixBench does.
fn unixbench(side: Side, layout: usize) -> Did {
    let mut did = fixed_time(side, layout);
    let calls = did.calls[0].1;
    did.printed = format!("stderr COUNT|{calls}|1|lps\\x0a\n");
    did
}

#[test]
fn a_known_suite_is_compared_by_the_operations_that_it_prints() {
    let row = row_of(UserProgram::default(), unixbench);
    assert_eq!(row.verdict, Verdict::Slower, "{:?}", row.reason);
    let counts = row.counts().unwrap();
    let operations = counts.operations.as_ref().unwrap();
    assert_eq!(operations.suite.as_deref(), Some("unixbench"));
    assert_eq!((operations.count.base, operations.count.change), (29_600, 20_000));
    assert_eq!(row.ops, 29_600);
    // Fewer operations execute as many instructions.
    let effect = &row.effects()[0];
    assert!((effect.percent.unwrap() - 48.0).abs() < 0.1, "{effect:?}");
    let per_op = |raw: f64, ops: f64| raw / ops;
    assert!((effect.change - per_op(10_000_000.0, 20_000.0)).abs() < 0.1, "{effect:?}");
    // Functions are divided by the same number of operations.
    let sum: f64 = effect.functions.iter().map(|function| function.delta).sum();
    assert!((sum - effect.delta).abs() < 0.01, "{sum} {effect:?}");
    // The user knows better.
    let given = UserProgram { ops: Some(1), ..UserProgram::default() };
    assert_eq!(row_of(given, unixbench).verdict, Verdict::DifferentWork);
}

#[test]
fn operations_are_read_from_either_output_behind_a_text_or_by_an_expression() {
    let asked = |text: &str| UserProgram {
        numbers: [(UserProgram::OPS.to_owned(), text.to_owned())].into(),
        ..UserProgram::default()
    };
    let did = |output: &'static str| {
        move |side: Side, layout: usize| {
            let mut did = fixed_time(side, layout);
            did.printed = format!("{output} did {} calls\\x0a\n", did.calls[0].1);
            did
        }
    };
    for (text, output) in
        [("did", "stdout"), (r"^did (\d+) calls$", "stdout"), (r"(\d+) calls", "stderr")]
    {
        let row = row_of(asked(text), did(output));
        assert_eq!(row.verdict, Verdict::Slower, "{text}: {:?}", row.reason);
        assert_eq!(row.ops, 29_600, "{text}");
    }
    let row = row_of(asked("nothing"), did("stdout"));
    assert_eq!(row.verdict, Verdict::Failed);
    assert_has(row.failures[0].failure.to_string(), "it printed no number behind nothing");
}

#[test]
fn differing_output_is_kept_and_shown() {
    let did = |side: Side, _| Did {
        printed: format!("stdout of {} \\x1b[2J\\x0a\nstderr quiet\n", side.name()),
        ..Did::calls(&[("__x64_sys_write", 2)])
    };
    let scene = scene_of_work(UserProgram::default(), did);
    let dir = scratch();
    scene.run(dir.path()).complete();
    let kept_file = |name: &str| fs::read_to_string(dir.path().join("boots").join(name));
    assert_eq!(kept_file("000-base/runs/program:p.stdout").unwrap(), "of base \x1b[2J\n");
    assert_eq!(kept_file("001-change/runs/program:p.stderr").unwrap(), "quiet");
    assert!(kept_file("002-change/runs/program:p.stdout").is_err());
    let comparison = counts(&open_counts(dir.path()).unwrap()).unwrap();
    let row = &comparison.rows[0];
    assert_eq!(row.verdict, Verdict::DifferentWork);
    let printed = row.counts().unwrap().printed.as_ref().unwrap();
    assert_eq!(printed.base.stdout, ["of base \\x1b[2J"]);
    assert_eq!(printed.change.stdout, ["of change \\x1b[2J"]);
}

#[test]
fn output_of_failed_programs_is_kept_in_every_layout() {
    let mut scene = scene_of_work(UserProgram::default(), |_, _| Did::calls(&[]));
    let wire = format!(
        "ktax 1\nstart {RUNNER}\nstdout begun\nstderr no such file\nfail its exit status is 4\n"
    );
    let failed = RawAnswer { wire: wire.into_bytes(), ..RawAnswer::default() };
    scene = scene.answer(RUNNER, Side::Change, 1, failed);
    let dir = scratch();
    scene.run(dir.path()).complete();
    let runs = dir.path().join("boots/002-change/runs");
    assert_eq!(fs::read_to_string(runs.join("program:p.stdout")).unwrap(), "begun");
    assert_eq!(fs::read_to_string(runs.join("program:p.stderr")).unwrap(), "no such file");
}
