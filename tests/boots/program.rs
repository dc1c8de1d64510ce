//! Programs of the user's in real guests: what is counted, what it is attributed to, and every way
//! in which a program can fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::model::{Comparison, Context, Failure, Side, Verdict};

use crate::common::files::script;
use crate::common::kvm::compiled;
use crate::common::mounts::may_mount;
use crate::common::{
    KERNEL, MEANINGLESS, QUICK_BOOT, Ran, assert_no_orphans, ktax, open_counts, printed, quick,
    row, run, scratch, with_status,
};

/// Compiles a program in C.
pub fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) {
    let file = dir.join(format!("{name}.c"));
    fs::write(&file, source).unwrap();
    fs::copy("guest/ktax-mark.h", dir.join("ktax-mark.h")).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.current_dir(dir).args(["-O1", "-pthread", "-o", name, &format!("{name}.c")]).args(flags);
    run(&mut gcc).exits(0);
}

/// Compiles a program in Rust that marks a hundred calls, with the crate that has the markers.
fn compile_rust(dir: &Path) {
    let rust = |args: &[&str]| {
        let mut rustc = Command::new("rustc");
        run(rustc.args(["--edition", "2021", "-O", "--out-dir"]).arg(dir).args(args)).exits(0);
    };
    let marks = ["--crate-type", "rlib", "--crate-name", "ktax_mark"];
    rust(&[&marks[..], &["crates/ktax-mark/src/lib.rs"]].concat());
    fs::write(
        dir.join("rusty.rs"),
        "extern \"C\" { fn getppid() -> i32; }\nfn main() {\n    ktax_mark::begin();\n    \
         for _ in 0..100 { unsafe { getppid(); } }\n    ktax_mark::end();\n}\n",
    )
    .unwrap();
    let library = format!("ktax_mark={}", dir.join("libktax_mark.rlib").display());
    rust(&["--extern", &library, &dir.join("rusty.rs").display().to_string()]);
}

/// Compares a kernel with itself over the programs of this text, in one layout.
pub fn measured(dir: &Path, programs: &str, more: &[&str]) -> (Ran, Comparison) {
    let subject = format!("{{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}");
    let text = format!(
        "title = \"t\"\nsame = true\nlayouts = 1\nbase = {subject}\nchange = {subject}\n{programs}"
    );
    fs::write(dir.join("e.toml"), text).unwrap();
    let ran = run(ktax()
        .current_dir(dir)
        .args(["compare", "e.toml", "--json", "--out", "out"])
        .args(more));
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    assert_no_orphans(dir);
    let comparison = printed::comparison(&ran.stdout);
    (ran, comparison)
}

/// Instructions of a row in a function, in process context.
fn counted(dir: &Path, row: &str, function: &str) -> u64 {
    let dir = open_counts(&dir.join("out")).unwrap();
    let profile = dir.profile(&dir.plan().method.steps[0], row).unwrap();
    let lines = profile.lines.iter();
    let lines = lines.filter(|line| line.function == function && line.context == Context::Process);
    lines.map(|line| line.counts[ktax::model::Basic::Instructions]).sum()
}

const CALLS: &str = r#"
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #include "ktax-mark.h"
    __attribute__((noinline)) void planted(int n) {
        for (int i = 0; i < n; i++) syscall(SYS_getppid);
    }
    int main(int argc, char **argv) {
        if (argc > 2) ktax_begin();
        planted(atoi(argv[1]));
        if (argc > 2) ktax_end();
        return argc > 2 ? 3 : 0;
    }
"#;

const PLANTED: &str = r#"
        [[program]]
        command = ["./rusty"]
        [[program]]
        name = "few"
        command = ["./dynamic", "100"]
        warm_up = 1
        [[program]]
        name = "many"
        command = ["./dynamic", "300"]
        warm_up = 1
        [[program]]
        command = ["./static", "100"]
        [[program]]
        name = "marked"
        command = ["./static", "100", "x"]
        status = 3
        ops = 100
        [[program]]
        name = "script"
        command = ["./script.sh"]
        files = ["dynamic"]
    "#;

#[test]
fn a_planted_system_call_is_found_in_the_kernel_and_in_the_program() {
    let dir = scratch();
    let dir = dir.path();
    compile(dir, "dynamic", CALLS, &[]);
    compile(dir, "static", CALLS, &["-static"]);
    let text = "#!/bin/sh\nktax-mark begin\n./dynamic 50\nktax-mark end\necho done\n";
    script(dir, "script.sh", text);
    compile_rust(dir);
    let comparison = with_status(0, measured(dir, PLANTED, &[]));
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{row:?}");
        let effect = &row.effects()[0];
        assert_eq!(effect.samples.base, effect.samples.change, "{row:?}");
    }
    let calls = |row: &str| counted(dir, row, "__do_sys_getppid");
    let each = calls("program:static") / 100;
    assert!(each > 0 && calls("program:static") == 100 * each);
    assert_eq!(calls("program:few"), 100 * each);
    assert_eq!(calls("program:many"), 300 * each);
    assert_eq!(calls("program:marked"), 100 * each);
    assert_eq!(calls("program:script"), 50 * each);
    assert_eq!(calls("program:rusty"), 100 * each);
    // Functions of the program, and of its library.
    let planted = |row: &str, file: &str| counted(dir, row, &format!("[{file}]planted"));
    let loops = planted("program:many", "dynamic") - planted("program:few", "dynamic");
    assert!(loops > 0 && loops % 200 == 0, "{loops}");
    assert_eq!(planted("program:static", "static"), planted("program:marked", "static"));
    let library = counted(dir, "program:many", "[libc.so.6]syscall");
    assert!(library > counted(dir, "program:few", "[libc.so.6]syscall"));
    // Markers leave out the start of the program.
    let insn = |name: &str| row(&comparison, name).effects()[0].samples.get(Side::Base)[0];
    assert!(insn("program:marked") < insn("program:static") / 2);
    run(ktax().current_dir(dir).args(["run", "out"])).exits(0);
}

fn failure<'a>(comparison: &'a Comparison, name: &str) -> &'a str {
    let row = row(comparison, name);
    assert_eq!(row.verdict, Verdict::Failed, "{row:?}");
    match &row.failures[0].failure {
        Failure::Program { message } => message,
        other => panic!("{name}: {other:?}"),
    }
}

/// A program in C that does this.
fn main_of(text: &str) -> String {
    format!(
        "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         #include <sys/wait.h>\n#include <unistd.h>\n#include \"ktax-mark.h\"\n\
         static void *thread(void *n) {{ return n; }}\n\
         int main(void) {{ (void)thread; {text} return 0; }}\n"
    )
}

#[test]
#[ignore = "fills a guest's memory: make test-long"]
fn every_program_gives_a_number_or_says_why_not() {
    let dir = scratch();
    let dir = dir.path();
    let threads = "pthread_t t[8]; \
                   for (int i = 0; i < 8; i++) pthread_create(t + i, 0, thread, 0); \
                   for (int i = 0; i < 8; i++) pthread_join(t[i], 0);";
    let forks = "for (int i = 0; i < 100; i++) { if (!fork()) _exit(0); wait(0); }";
    let fill = "static char block[1 << 20]; memset(block, 1, sizeof block); \
                FILE *f = fopen(\"/tmp/full\", \"w\"); \
                for (int i = 0; i < 4096; i++) if (fwrite(block, 1 << 20, 1, f) != 1) { \
                perror(\"full\"); return 9; }";
    let print = "static char block[1 << 20]; memset(block, 'x', sizeof block); \
                 for (int i = 0; i < 1024; i++) write(1, block, sizeof block);";
    for (name, text) in [
        ("threads", threads),
        ("forks", forks),
        ("crash", "abort();"),
        ("fill", fill),
        ("print", print),
        ("orphan", "if (!fork()) for (;;) pause(); puts(\"left\");"),
    ] {
        compile(dir, name, &main_of(text), &["-w"]);
    }
    script(dir, "wrong.sh", "#!/bin/sh\necho 'evil \u{1b}[2J' >&2\nexit 4\n");
    let names = ["threads", "forks", "crash", "fill", "print", "orphan", "wrong.sh"];
    let programs: String =
        names.iter().map(|name| format!("[[program]]\ncommand = [\"./{name}\"]\n")).collect();
    let (ran, comparison) = measured(dir, &programs, &["--time-limit", "60"]);
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    for name in ["threads", "forks", "orphan"] {
        let row = row(&comparison, &format!("program:{name}"));
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{row:?}");
    }
    let message_of = |name: &str| failure(&comparison, &format!("program:{name}"));
    assert!(message_of("crash").contains("signal 6"), "{}", message_of("crash"));
    assert!(
        message_of("fill").contains("status is 9") && message_of("fill").contains("full"),
        "{}",
        message_of("fill")
    );
    assert!(message_of("print").contains("printed more than"), "{}", message_of("print"));
    let wrong = message_of("wrong-sh");
    assert!(wrong.contains("status is 4, expected 0: evil \\x1b"), "{wrong}");
    assert!(!ran.stdout.contains('\u{1b}'));
}

#[test]
fn a_program_that_does_not_execute_each_marker_once_says_what_it_did() {
    let dir = scratch();
    let dir = dir.path();
    let programs = [
        ("twice", "ktax_begin(); ktax_end(); ktax_begin(); ktax_end();"),
        ("begins", "ktax_begin();"),
        ("ends", "ktax_end();"),
        ("reversed", "ktax_end(); ktax_begin();"),
    ];
    let mut text = String::new();
    for (name, does) in programs {
        compile(dir, name, &main_of(does), &["-w"]);
        text += &format!("[[program]]\ncommand = [\"./{name}\"]\n");
    }
    let (_, comparison) = measured(dir, &text, &[]);
    let message_of = |name: &str| failure(&comparison, &format!("program:{name}"));
    for (name, [begins, ends]) in [("twice", [2, 2]), ("begins", [1, 0]), ("ends", [0, 1])] {
        let times = format!("`begin` and `end` {begins} and {ends} times, not once each");
        assert_eq!(message_of(name), format!("it executed {times}"));
    }
    assert_eq!(message_of("reversed"), "it executed `end` before `begin`");
}

#[test]
fn a_program_that_never_ends_is_stopped_and_another_output_is_other_work() {
    let dir = scratch();
    let dir = dir.path();
    script(dir, "endless.sh", "#!/bin/sh\nwhile :; do :; done\n");
    script(dir, "says.sh", "#!/bin/sh\nread version < /proc/cmdline\necho \"$version\"\n");
    let subject = |line: &str| format!("{{ kernel = \"{KERNEL}\", boot_line = \"{line}\" }}");
    let text = format!(
        "title = \"t\"\nlayouts = 1\nbase = {}\nchange = {}\n\
         [[program]]\ncommand = [\"./endless.sh\"]\n[[program]]\ncommand = [\"./says.sh\"]\n",
        subject(QUICK_BOOT),
        subject(&quick(MEANINGLESS))
    );
    fs::write(dir.join("e.toml"), text).unwrap();
    let words = ["compare", "e.toml", "--json", "--out", "out", "--time-limit", "8"];
    let ran = run(ktax().current_dir(dir).args(words));
    let comparison = printed::comparison(&ran.stdout);
    let endless = row(&comparison, "program:endless-sh");
    assert_eq!(endless.failures[0].failure, Failure::CpuTime { limit_s: 8 });
    assert_eq!(row(&comparison, "program:says-sh").verdict, Verdict::DifferentWork);
    let output = ran.stderr + &run(ktax().current_dir(dir).args(["report", "out"])).stdout;
    assert!(output.contains("out --time-limit 40`") && output.contains("--any-output"), "{output}");
    assert_no_orphans(dir);
}

#[test]
#[ignore = "boots three layouts of two programs: make test-long"]
fn a_noisy_program_is_explained_by_what_it_was_given() {
    let dir = scratch();
    let dir = dir.path();
    let noisy = "#include <sys/random.h>\n#include <sys/syscall.h>\n#include <time.h>\n\
        #include <sys/wait.h>\n#include <unistd.h>\n\
        int main(void) { struct timespec now; unsigned char bytes[16]; pid_t pid = fork();\n\
        if (!pid) { syscall(SYS_getrandom, bytes, 16, 0); _exit(0); }\n\
        waitpid(pid, NULL, 0);\n\
        clock_gettime(CLOCK_MONOTONIC, &now);\n\
        for (long i = 0; i < now.tv_nsec / 100 % 1000; i++) syscall(SYS_getppid);\n\
        return 0; }\n";
    compile(dir, "noisy", noisy, &["-w"]);
    compile(dir, "calm", CALLS, &["-static"]);
    let programs = "[[program]]\ncommand = [\"./noisy\"]\n\
        [[program]]\ncommand = [\"./calm\", \"100\"]\n";
    let subject = format!("{{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}");
    let text = format!(
        "title = \"t\"\nsame = true\nlayouts = 3\nbase = {subject}\nchange = {subject}\n{programs}"
    );
    fs::write(dir.join("e.toml"), text).unwrap();
    let args = ["compare", "e.toml", "--json", "--out", "out", "--explain-noise"];
    let ran = run(ktax().current_dir(dir).args(args));
    let comparison = printed::comparison(&ran.stdout);
    assert_eq!(row(&comparison, "program:noisy").verdict, Verdict::NoDetectedChange);
    let line = |name: &str| ran.stderr.lines().find(|line| line.contains(name));
    let explanation = line("ktax: program:noisy:").unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(explanation.contains("returned different data in two layouts: "), "{explanation}");
    let reads_clock = explanation.contains("rdtsc") || explanation.contains("clock_gettime");
    assert!(reads_clock && explanation.contains("getrandom (1 time)"), "{explanation}");
    // The layout decides where pages lie, and every program is given random bytes.
    let calm = line("ktax: program:calm:").unwrap_or_default();
    assert!(!calm.contains("clock") && !calm.contains("rdtsc") && !calm.contains("_id"), "{calm}");
    // This works for a measured plan, too.
    let again = run(ktax().current_dir(dir).args(["run", "out", "--explain-noise"]));
    again.says(explanation);
}

#[test]
fn a_row_costs_the_same_in_any_company() {
    let dir = scratch();
    let dir = dir.path();
    fs::write(dir.join("data"), vec![7; 20 << 20]).unwrap();
    let small = "[[program]]\nname = \"small\"\ncommand = [\"ls\", \"/\"]\nany_output = true\n";
    let large = "[[program]]\nname = \"large\"\ncommand = [\"cksum\", \"data\"]\n";
    let samples = |name: &str, programs: &str, more: &[&str]| {
        let dir = dir.join(name);
        fs::create_dir(&dir).unwrap();
        fs::copy(dir.join("../data"), dir.join("data")).unwrap();
        let comparison =
            with_status(0, measured(&dir, programs, &[&["--no-store"], more].concat()));
        let row = row(&comparison, "program:small");
        row.effects().iter().map(|effect| effect.samples.clone()).collect::<Vec<_>>()
    };
    let alone = samples("alone", small, &[]);
    let company = samples("company", &format!("{large}{small}"), &["-w", "getppid"]);
    assert_eq!(alone, company);
}

#[test]
fn costs_of_an_operation_and_of_the_start_are_separated() {
    let dir = scratch();
    let path = dir.path();
    // A start of its own, of which nothing depends on the size; then a call for each operation.
    let source = "#include <stdlib.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n
        int main(int argc, char **argv) {
            for (volatile long i = 0; i < 300000; i++) ;
            long size = atol(argv[1]);
            for (long i = argc > 2 ? 3000 - size : size; i > 0; i--) syscall(SYS_getppid);
            return 0;
        }\n";
    compile(path, "calls", source, &[]);
    let programs = "workloads = [\"getppid\"]\n\
                    [[program]]\ncommand = [\"./calls\", \"{size}\"]\nsizes = [100, 1100]\n\
                    [[program]]\nname = \"less\"\ncommand = [\"./calls\", \"{size}\", \"x\"]\n\
                    sizes = [100, 1100]\n";
    let (ran, comparison) = measured(path, programs, &[]);
    let instructions = |name: &str| row(&comparison, name).effects()[0].base;
    let [small, large] = [100, 1100].map(|size| instructions(&format!("program:calls-{size}")));
    let [operation, start] = ["program:calls", "program:calls-start"].map(instructions);
    assert_eq!(operation, (large - small) / 1000.0);
    assert!((start - (small - 100.0 * operation)).abs() <= 1.0, "{start}");
    // A row of ktax makes the same call, with a loop around it that is no dearer.
    let call = row(&comparison, "getppid").effects()[0].base;
    assert!((call - 5.0..call + 60.0).contains(&operation), "{operation}: {call}");
    // Almost all of both runs is the start, which the report says; and what does not grow has no
    // cost of an operation.
    let warns = |name: &str| comparison.warnings.iter().any(|warning| warning.fact.contains(name));
    assert!(warns("are its start") && warns("program:calls-1100"), "{:?}", comparison.warnings);
    let less = row(&comparison, "program:less");
    assert_eq!(less.verdict, Verdict::Failed, "{}", ran.stderr);
    assert!(less.reason.as_ref().unwrap().contains("does not execute more"), "{less:?}");
    assert_eq!(ran.status, 69, "{}", ran.stderr);
}

#[test]
fn what_the_guest_lacks_is_named_and_found_by_tracing_the_program_here() {
    let dir = scratch();
    fs::write(dir.path().join("data.txt"), "text\n").unwrap();
    let program = |name: &str, more: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\n\
             command = [\"sh\", \"-c\", \"n=data; cat $n.txt\"]\n{more}\n"
        )
    };
    let text = program("lacking", "") + &program("traced", "trace_files = true");
    let (_, comparison) = measured(dir.path(), &text, &["-w", "program:lacking"]);
    let message = failure(&comparison, "program:lacking");
    let wanted = "the guest lacks data.txt, which is on this machine: add --trace-files";
    assert!(message.contains(wanted), "{message}");
    if !may_mount() {
        return;
    }
    let again = ["--out", "again", "-w", "program:traced"];
    let ran = run(ktax().current_dir(dir.path()).args(["compare", "e.toml", "--json"]).args(again))
        .exits(0);
    assert!(row(&printed::comparison(&ran.stdout), "program:traced").failures.is_empty());
}

// A program of the user's in the commands that ask more than one comparison.

const CALLS_IN_LOOP: &str = "#include <sys/syscall.h>\n#include <unistd.h>\n\
    int main(void) { for (int i = 0; i < 1000; i++) syscall(SYS_getppid); return 0; }\n";

#[test]
#[ignore = "boots of five layouts: make test-long"]
fn a_search_finds_what_a_program_pays_for() {
    let dir = scratch();
    let dir = dir.path();
    let program = program(dir);
    let change = quick("ktax.a=1 audit=1 ktax.c=1");
    let subjects = ["--kernel", KERNEL, "--base-boot-line", QUICK_BOOT, "--change-boot-line"];
    let mut ktax = ktax();
    let ktax = ktax.current_dir(dir).args(["bisect", "start", "--json"]).args(subjects);
    let bisection = printed::bisection(
        &run(ktax.arg(&change).args(["--out", "search", "--", &program, "1000"])).exits(0).stdout,
    );
    let found = bisection.carriers.as_deref().unwrap();
    let names: Vec<_> =
        found.iter().map(|carrier| &*bisection.elements[carrier.count_before].name).collect();
    assert_eq!(names, ["audit=1"]);
}

#[test]
#[ignore = "boots of five layouts: make test-long"]
fn a_ledger_says_what_a_program_pays_for_each_addition() {
    let dir = scratch();
    let dir = dir.path();
    let program = program(dir);
    let text = format!(
        "title = \"t\"\nlayouts = 5\n\
         base = {{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}\n\
         add = [{{ name = \"nothing\", boot_line = \"ktax.a=1\" }},\n\
         {{ name = \"audit\", boot_line = \"audit=1\" }}]\n[[program]]\ncommand = [\"{program}\"]\n"
    );
    fs::write(dir.join("l.toml"), text).unwrap();
    let args = ["ledger", "l.toml", "--json", "--out", "ledger"];
    let ledger = printed::ledger(&run(ktax().current_dir(dir).args(args)).exits(0).stdout);
    let [row] = &ledger.rows[..] else { panic!("{:?}", ledger.rows) };
    assert_eq!(row.row, "program:program");
    let entries: Vec<_> =
        row.entries.iter().map(|entry| (entry.name.as_str(), entry.verdict)).collect();
    assert_eq!(entries, [("audit", Verdict::Slower), ("nothing", Verdict::NoDetectedChange)]);
}

/// Compiles the program; returns its name as seen from the directory.
fn program(dir: &Path) -> String {
    let path = compiled(dir, CALLS_IN_LOOP);
    format!("./{}", path.file_name().unwrap().to_str().unwrap())
}
