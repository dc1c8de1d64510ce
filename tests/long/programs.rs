//! Real programs as rows: the same bytes from two caches, no false verdict, and what callgrind
//! counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::model::{Context, CountsPlan, Verdict};
use ktax::rundir::RunDir;

use crate::common::files::script;
use crate::common::require::are_there;
use crate::common::{KERNEL, QUICK_BOOT, ktax, open_counts, own_cache, printed, row, run, scratch};

/// Debian's own: a shim of another Python before it in PATH is a script that calls half a system.
const PYTHON: &str = "/usr/bin/python3";

pub fn experiment(dir: &Path, lines: [&str; 2], layouts: u32, programs: &str) {
    let subject = |line: &str| format!("{{ kernel = \"{KERNEL}\", boot_line = \"{line}\" }}");
    let [base, change] = lines.map(subject);
    let text = format!(
        "title = \"t\"\nsame = true\nlayouts = {layouts}\nbase = {base}\nchange = {change}\n\
         {programs}"
    );
    fs::write(dir.join("e.toml"), text).unwrap();
}

pub fn shell(dir: &Path, command: &str) {
    run(Command::new("sh").current_dir(dir).args(["-ec", command])).exits(0);
}

/// Programs that people compile, search and start.
const APPLICATIONS: &str = r#"
[[program]]
command = ["gcc", "-O1", "-c", "many.c", "-o", "/tmp/many.o"]
files = ["GCC_PARTS", "/usr/bin/as", "/usr/include/stdc-predef.h"]
[[program]]
command = ["git", "-C", "repo", "status"]
[[program]]
name = "git-log"
command = ["git", "-C", "repo", "log", "--stat"]
[[program]]
name = "sqlite"
command = ["sqlite3", ":memory:"]
stdin = "script.sql"
[[program]]
name = "python"
command = ["/usr/bin/python3", "-c", "import json, re; print(json.dumps([1, 2]))"]
"#;

#[test]
fn compiler_git_database_and_python_are_the_same_bytes_from_two_caches() {
    if !are_there(&["gcc", "git", "sqlite3", PYTHON]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    let functions = (0..50).map(|n| format!("int f{n}(int a) {{ return a * {n} + {n}; }}\n"));
    fs::write(dir.join("many.c"), functions.collect::<String>()).unwrap();
    let sql = "CREATE TABLE t(a, b); \
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) \
               INSERT INTO t SELECT i, i * 7 % 101 FROM n; \
               SELECT b, sum(a) FROM t GROUP BY b;";
    fs::write(dir.join("script.sql"), sql).unwrap();
    shell(
        dir,
        "git init -q repo; cd repo; git config user.email a@b; git config user.name a; \
         for i in 1 2 3; do seq $i 200 >f$i; git add f$i; git commit -qm $i; done; echo x >>f1",
    );
    let parts = run(Command::new("gcc").arg("-print-prog-name=cc1"));
    let programs = APPLICATIONS.replace("GCC_PARTS", parts.stdout.trim());
    experiment(dir, ["", "mitigations=off"], 2, &programs);
    let measured = |out: &str, cache: &Path| {
        let ran = run(ktax()
            .current_dir(dir)
            .env("KTAX_CACHE", cache)
            .args(["compare", "e.toml", "--json", "--out", out]));
        assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
        ran.stdout
    };
    let [first, other] = ["one", "other"].map(|name| {
        let directory = dir.join(format!("cache-{name}"));
        fs::create_dir(&directory).unwrap();
        measured(name, &own_cache(&directory))
    });
    assert_eq!(first, other);
    for row in &printed::comparison(&first).rows {
        assert!(row.failures.is_empty() && row.verdict != Verdict::DifferentWork, "{row:?}");
    }
}

/// Twenty programs, of which many see the time, addresses, random numbers or each other.
const RESTLESS: [&str; 20] = [
    "date +%N >/dev/null",
    "head -c 4096 /dev/urandom | sort >/dev/null",
    "mktemp /tmp/XXXXXX >/dev/null",
    "echo $$ >/dev/null",
    "cat /proc/self/maps >/dev/null",
    "cat /proc/interrupts >/dev/null",
    "cat /proc/stat >/dev/null",
    "ls -l /proc >/dev/null",
    "for i in 1 2 3 4 5 6 7 8; do cat /dev/null & done; wait",
    "seq 1000 | sort -R >/dev/null",
    "timeout 0.01 cat /dev/zero >/dev/null; :",
    "seq 3000 | sort -n | uniq | wc -l",
    "find /usr -type f >/dev/null",
    "dd if=/dev/zero of=/tmp/x bs=4096 count=500 2>/dev/null; sync; rm /tmp/x",
    "seq 2000 | grep 7 | wc -l",
    "mkdir -p /tmp/a/b/c; touch /tmp/a/b/c/d; rm -r /tmp/a",
    "while read -r a; do :; done </proc/meminfo",
    "cat /dev/urandom | head -c 100000 | cksum >/dev/null",
    "seq 500 | while read -r i; do echo $((i * i)); done | tail -n 1",
    "(kill $$) & while :; do :; done 2>/dev/null; exit 0",
];

#[test]
fn no_program_gets_a_verdict_for_a_change_that_is_none() {
    let dir = scratch();
    let dir = dir.path();
    let tools = [
        "cat", "cksum", "date", "dd", "find", "grep", "head", "ls", "mkdir", "mktemp", "rm", "seq",
        "sort", "sync", "tail", "timeout", "touch", "uniq", "wc",
    ];
    let files: Vec<String> = tools
        .iter()
        .map(|tool| {
            let found = run(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
            format!("{:?}", found.stdout.trim())
        })
        .collect();
    let mut programs = String::new();
    for (number, text) in RESTLESS.iter().enumerate() {
        script(dir, &format!("p{number}"), &format!("#!/bin/sh\n{text}\n"));
        let status = if text.contains("kill $$") { "status = 143\n" } else { "" };
        let files = files.join(", ");
        programs +=
            &format!("[[program]]\ncommand = [\"./p{number}\"]\nfiles = [{files}]\n{status}");
    }
    // The last one ends by a signal, which is a failure that both sides share.
    experiment(dir, [QUICK_BOOT, &format!("{QUICK_BOOT} ktax.nothing=1")], 5, &programs);
    let words = ["compare", "e.toml", "--json", "--out", "out"];
    let comparison = run(ktax().current_dir(dir).args(words)).comparison();
    assert_eq!(comparison.rows.len(), RESTLESS.len());
    for (row, text) in comparison.rows.iter().zip(RESTLESS) {
        let is_killed = text.contains("kill $$");
        let quiet = [Verdict::NoDetectedChange, Verdict::DifferentWork];
        assert!(quiet.contains(&row.verdict) || is_killed, "{text}: {row:?}");
    }
}

/// Programs that spend their time in functions of their own.
const SOLVERS: [(&str, &str); 3] = [
    (
        "matrix",
        "static double a[60][60], b[60][60], c[60][60];\n\
         __attribute__((noinline)) void work(void) {\n\
         for (int i = 0; i < 60; i++) for (int j = 0; j < 60; j++) {\n\
         a[i][j] = i + j; b[i][j] = i; }\n\
         for (int n = 0; n < 12; n++) for (int i = 0; i < 60; i++) for (int j = 0; j < 60; j++) {\n\
         double s = 0; for (int k = 0; k < 60; k++) s += a[i][k] * b[k][j];\n\
         c[i][j] = s + c[i][j] / 2; } }\n\
         int result(void) { return c[1][2] > 0; }\n",
    ),
    (
        "sieve",
        "static unsigned char out[200000]; static int count;\n\
         __attribute__((noinline)) void work(void) {\n\
         for (int n = 0; n < 5; n++) { for (int i = 0; i < 200000; i++) out[i] = n & 0;\n\
         for (int i = 2; i < 200000; i++) if (!out[i]) { count++;\n\
         for (int j = 2 * i; j < 200000; j += i) out[j] = 1; } } }\n\
         int result(void) { return count > 0; }\n",
    ),
    (
        "queens",
        "static int found;\n\
         __attribute__((noinline)) static void place(int n, unsigned c, unsigned l, unsigned r) {\n\
         if (!n) { found++; return; }\n\
         for (unsigned free = ~(c | l | r) & 0x1ff; free; free &= free - 1) {\n\
         unsigned bit = free & -free; place(n - 1, c | bit, (l | bit) << 1, (r | bit) >> 1); } }\n\
         __attribute__((noinline)) void work(void) {\n\
         for (int i = 0; i < 80; i++) place(9, 0, 0, 0); }\n\
         int result(void) { return found > 0; }\n",
    ),
];

/// Instructions of a program in user mode, each repeat of a string instruction too, as callgrind
/// counts.
fn in_user_mode(counted: &RunDir<CountsPlan>, name: &str) -> u64 {
    let step = &counted.plan().method.steps[0];
    let profile = counted.profile(step, &format!("program:{name}")).unwrap();
    let user = profile.lines.iter().filter(|line| {
        line.context == Context::Process
            && line.function.starts_with('[')
            && line.function != "[kernel]"
    });
    user.map(|line| line.counts.executed()).sum()
}

#[test]
fn user_mode_is_what_callgrind_counts() {
    if !are_there(&["gcc", "valgrind"]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    fs::copy("guest/ktax-mark.h", dir.join("ktax-mark.h")).unwrap();
    let mut programs = String::new();
    for (name, source) in SOLVERS {
        // An instruction whose page is missing is dispatched twice, so all pages are there before.
        let main = "__attribute__((noinline)) void counted(void) { work(); __asm__(\"\"); }\n\
                    int main(void) { work(); ktax_begin(); counted(); ktax_end(); \
                    return !result(); }\n";
        fs::write(dir.join("p.c"), format!("#include \"ktax-mark.h\"\n{source}{main}")).unwrap();
        shell(dir, &format!("gcc -O1 -fno-tree-loop-distribute-patterns -static -o {name} p.c"));
        programs += &format!("[[program]]\ncommand = [\"./{name}\"]\n");
    }
    experiment(dir, [QUICK_BOOT; 2], 1, &programs);
    let words = ["compare", "e.toml", "--json", "--out", "out"];
    run(ktax().current_dir(dir).args(words)).exits(0);
    let counted = open_counts(&dir.join("out")).unwrap();
    for (name, _) in SOLVERS {
        let ours = in_user_mode(&counted, name);
        let valgrind =
            "valgrind --tool=callgrind --toggle-collect=counted --callgrind-out-file=out.cg";
        let ran =
            run(Command::new("sh").current_dir(dir).args(["-c", &format!("{valgrind} ./{name}")]));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let text = fs::read_to_string(dir.join("out.cg")).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
        let theirs: u64 = total.trim().parse().unwrap();
        let ratio = ours as f64 / theirs as f64 - 1.0;
        assert!(theirs > 10_000_000 && ratio.abs() <= 1e-6, "{name}: {ours}, callgrind {theirs}");
    }
}

/// Commands on a tree of files that are old. The last one is a control: without what it opens
/// itself, `rsync` does not read the configuration of OpenSSL, which this machine's does.
const ON_OLD_FILES: [(&str, &str, bool); 5] = [
    ("make", "make -C tree -n", true),
    ("tar", "tar -uf tree.tar tree/src", true),
    ("git", "git -C tree status", true),
    ("rsync", "rsync -a tree/ copy/", true),
    ("rsync-untraced", "rsync -a tree/ copy/", false),
];

/// Makes so many files that valgrind's addition to the start of a program, whose loader has two
/// libraries more, is below 1 %.
const MAKES_OLD_FILES: &str = "mkdir -p made/tree/src; cd made; \
     for i in $(seq 600); do seq $i $((i + 300)) \
     >tree/src/f$i.c; done; { printf 'all:'; for i in $(seq 600); do printf ' f%s.o' $i; done; \
     printf '\n%%.o: src/%%.c\n\tcc -c -o $@ $<\n'; } >tree/Makefile; \
     cd tree; git init -q; git config user.email a@b; git config user.name a; git add .; \
     git commit -qm x; cd ..; find . -exec touch -d 2019-01-01 {} +; tar cf tree.tar tree/src";

/// A copy that no program has used, as a guest has it: git writes into its index what it saw of
/// each file, and rsync says nothing of a time that is that of the file before. Files are listed in
/// the order of their making in a guest's memory and in this one's, and a guest's directories are
/// of 1970.
const COPIES_OLD_FILES: &str = "rm -rf tree copy; cp made/tree.tar .; \
     (cd made; find tree | LC_ALL=C sort | cpio --quiet -pdm ..); \
     find tree -type d -exec touch -d @0 {} +";

/// Counts a command with callgrind, in all its processes, in the environment of a guest and on one
/// CPU.
fn by_callgrind(dir: &Path, command: &str) -> u64 {
    shell(dir, COPIES_OLD_FILES);
    // A child begins with its parent's counts, unless these are written before it is made.
    let valgrind =
        "taskset -c 0 valgrind -q --tool=callgrind --trace-children=yes --dump-before=fork";
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let environment = format!("USER=root HOME=/work PATH={path} LANG=C TZ=UTC0");
    shell(
        dir,
        &format!(
            "rm -f out.cg.*; \
             env -i {environment} {valgrind} --callgrind-out-file=out.cg.%p {command} >list"
        ),
    );
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.to_string_lossy().contains("/out.cg."));
    let summary = |path: PathBuf| -> u64 {
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
        line.trim().parse().unwrap()
    };
    files.map(summary).sum()
}

#[test]
fn git_make_rsync_and_tar_execute_on_old_files_what_callgrind_counts() {
    if !are_there(&["cpio", "git", "make", "rsync", "tar", "valgrind"]) {
        return;
    }
    // rsync goes through the characters of the whole path of each file, and a guest's is short:
    // /work.
    let dir = tempfile::Builder::new().prefix("").rand_bytes(4).tempdir_in("/dev/shm").unwrap();
    let dir = dir.path();
    shell(dir, MAKES_OLD_FILES);
    shell(dir, COPIES_OLD_FILES);
    let program = |(name, command, is_traced): (&str, &str, bool)| {
        let words: Vec<&str> = command.split(' ').collect();
        format!(
            "[[program]]\nname = \"{name}\"\nfiles = [\"tree\", \"tree.tar\"]\n\
             command = {words:?}\ntrace_files = {is_traced}\n"
        )
    };
    experiment(dir, [QUICK_BOOT; 2], 1, &ON_OLD_FILES.map(program).concat());
    run(ktax().current_dir(dir).args(["compare", "e.toml", "--json", "--out", "out"])).exits(0);
    let counted = open_counts(&dir.join("out")).unwrap();
    for (name, command, is_traced) in ON_OLD_FILES {
        let ours = in_user_mode(&counted, name);
        let theirs = by_callgrind(dir, command);
        let percent = (ours as f64 / theirs as f64 - 1.0) * 100.0;
        println!("{name}: {ours}, callgrind {theirs}, {percent:+.2} %");
        assert!(
            theirs > 5_000_000 && (percent.abs() < 1.0) == is_traced,
            "{name}: {percent:+.2} %"
        );
    }
}

/// Programs that run for a fixed time; what each operation costs more with `audit=1` is not in the
/// number of instructions.
const FIXED_TIME: &str = r#"
[[program]]
name = "unixbench"
command = ["./fixed-time"]
[[program]]
name = "will-it-scale"
command = ["./fixed-time", "x"]
[[program]]
name = "unknown"
command = ["sh", "-c", "./fixed-time 2> /dev/null"]
files = ["fixed-time"]
[[program]]
name = "expression"
command = ["./fixed-time"]
ops_from = 'COUNT.(\d+).1'
"#;

#[test]
fn a_program_of_a_fixed_time_is_never_unchanged_when_its_calls_cost_more() {
    let has_stress_ng = are_there(&["stress-ng"]);
    if !are_there(&["gcc"]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    fs::copy("tests/data/programs/fixed-time.c", dir.join("fixed-time.c")).unwrap();
    shell(dir, "gcc -O2 -static -o fixed-time fixed-time.c");
    let stress_ng = "[[program]]\nname = \"stress-ng\"\nany_output = true\n\
                     command = [\"stress-ng\", \"--get\", \"1\", \"--timeout\", \"1\", \
                     \"--metrics\"]\n";
    let programs = format!("{FIXED_TIME}{}", if has_stress_ng { stress_ng } else { "" });
    experiment(dir, [QUICK_BOOT, &format!("{QUICK_BOOT} audit=1")], 5, &programs);
    let comparison =
        run(ktax().current_dir(dir).args(["compare", "e.toml", "--json", "--out", "out"]))
            .comparison();
    for row in &comparison.rows {
        let allowed = [Verdict::Slower, Verdict::DifferentWork];
        assert!(allowed.contains(&row.verdict), "{row:?}");
    }
    for name in ["unixbench", "will-it-scale", "expression"] {
        let row = row(&comparison, &format!("program:{name}"));
        let percent = row.effects()[0].percent.unwrap();
        assert!(row.verdict == Verdict::Slower && (30.0..70.0).contains(&percent), "{row:?}");
    }
    let unknown = row(&comparison, "program:unknown");
    let reason = unknown.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("getppid") && reason.contains("fixed time"), "{unknown:?}");
}

#[test]
fn git_reads_no_file_again_that_is_newer_than_2020() {
    if !are_there(&["git"]) {
        return;
    }
    let dir = scratch();
    let dir = dir.path();
    shell(
        dir,
        "git init -q old; cd old; git config user.email a@b; git config user.name a; \
         for i in 1 2 3 4 5 6 7 8 9; do seq $i 20000 >f$i; done; touch -d 2019-01-01 f*; \
         git add .; git commit -qm x; cd ..; cp -a old new; cd new; touch f*; git status",
    );
    let program = |name: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\nwarm_up = 1\n\
             command = [\"git\", \"-C\", \"{name}\", \"status\"]\n"
        )
    };
    experiment(dir, [QUICK_BOOT; 2], 1, &(program("old") + &program("new")));
    let comparison =
        run(ktax().current_dir(dir).args(["compare", "e.toml", "--json", "--out", "out"]))
            .exits(0)
            .comparison();
    let [old, new] =
        ["old", "new"].map(|name| row(&comparison, &format!("program:{name}")).effects()[0].base);
    assert!((new / old - 1.0).abs() < 0.02, "{old} {new}");
}
