//! Builds kernels from the distribution's source, and measures what a patch, a comment and an
//! option cost. Each build takes minutes, so `make test-kernels` runs these tests and `make test`
//! does not.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ktax::model::{
    Bisection, CacheLine, Comparison, Context, Costly, Effect, Memory, Point, SPIN_WAIT, TRANSFERS,
    Verdict,
};
use ktax::rundir::profile;

use crate::common::require::newer_qemu as newer;
use crate::common::rows::costly_of;
use crate::common::{cache, files_below, ktax, measurements, printed, row, run, scratch};

const SOURCE: &str = "debian-src:6.12";

/// One task switch of this kernel takes the process 1 045 instructions; in one of 60 000 calls:
const SWITCH: f64 = 1_050.0 / 60_000.0;

fn compare(out: &Path, args: &[&str]) -> Comparison {
    let mut command = ktax();
    command.args(["compare", "--kernel", SOURCE, "--json", "--out"]).arg(out).args(args);
    run(&mut command).comparison()
}

/// A hunk for kernel/sys.c that adds these lines at the beginning of getppid.
fn hunk_of_getppid(lines: &str) -> String {
    let added: String = lines.lines().map(|line| format!("+{line}\n")).collect();
    let count = 5 + lines.lines().count();
    format!(
        "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -984,5 +984,{count} @@\n \
         SYSCALL_DEFINE0(getppid)\n {{\n \tint pid;\n{added} \n \trcu_read_lock();\n"
    )
}

fn patch(dir: &Path, line: &str) -> String {
    let path = dir.join("getppid.patch");
    fs::write(&path, hunk_of_getppid(line)).unwrap();
    path.display().to_string()
}

#[test]
fn one_instruction_in_a_patch_is_found_in_its_function() {
    let dir = scratch();
    let patch = patch(dir.path(), "\tasm volatile(\"nop\");");
    let rows = ["-w", "getppid", "-w", "stat", "-w", "fork-exit"];
    let args = [&["--patch", &patch][..], &rows].concat();
    let comparison = compare(&dir.path().join("out"), &args);
    let getppid = &row(&comparison, "getppid").effects()[0];
    assert_eq!(getppid.delta, 1.0);
    let carried: Vec<(&str, f64)> = getppid
        .functions
        .iter()
        .map(|function| (function.function.as_str(), function.delta))
        .collect();
    assert_eq!(carried, [("__do_sys_getppid", 1.0)]);
    // A grace period of RCU ends while the calls run. Its thread is switched to once, from the
    // process or from an interrupt: that depends on the instruction at which the timer fires.
    let (least, most) = getppid.delta_range;
    assert!((1.0 - SWITCH..=1.0).contains(&least), "{least}");
    assert!((1.0..=1.0 + SWITCH).contains(&most), "{most}");
    for name in ["stat", "fork-exit"] {
        assert_eq!(row(&comparison, name).verdict, Verdict::NoDetectedChange, "{name}");
    }
}

#[test]
fn a_comment_costs_nothing_in_every_row() {
    let dir = scratch();
    let patch = patch(dir.path(), "\t/* a comment */");
    let args = ["--patch", &patch, "--layouts", "1"];
    let comparison = compare(&dir.path().join("out"), &args);
    assert!(comparison.rows.len() > 20, "{}", comparison.rows.len());
    for row in &comparison.rows {
        for effect in row.effects() {
            assert_eq!(effect.samples.base, effect.samples.change, "{}", row.row);
        }
    }
}

#[test]
fn an_option_that_kconfig_drops_is_an_error_with_its_dependency() {
    let ran =
        run(ktax().args(["plan", "--kernel", SOURCE, "--config", "CONFIG_KVM_GUEST=y"])).exits(2);
    ran.says("but PARAVIRT is not set; set PARAVIRT");
}

// A patch in the write path of ext4, built into the kernel: every row that writes to it pays, and
// no other.

const FUNCTION: &str = "ext4_buffered_write_iter";

/// A hundred instructions more in each write.
const PATCH: &str = "--- a/fs/ext4/file.c\n+++ b/fs/ext4/file.c\n@@ -288,5 +288,6 @@\n \
    \tssize_t ret;\n \tstruct inode *inode = file_inode(iocb->ki_filp);\n\
    +\tasm volatile(\".rept 100\\n\\tnop\\n\\t.endr\");\n \n \
    \tif (iocb->ki_flags & IOCB_NOWAIT)\n \t\treturn -EOPNOTSUPP;\n";

const FILE_SYSTEM_OPTIONS: [&str; 6] = [
    "CONFIG_BLOCK=y",
    "CONFIG_BLK_DEV=y",
    "CONFIG_BLK_DEV_RAM=y",
    "CONFIG_BLK_DEV_RAM_COUNT=1",
    "CONFIG_BLK_DEV_RAM_SIZE=131072",
    "CONFIG_EXT4_FS=y",
];

#[test]
fn a_patch_of_ext4_is_found_in_the_rows_that_write_and_nowhere_else() {
    let dir = scratch();
    fs::write(dir.path().join("ext4.patch"), PATCH).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = {FILE_SYSTEM_OPTIONS:?}");
    let rows = r#"["@file-systems", "getppid", "open-close", "stat", "pipe", "fork-exit"]"#;
    let text = format!(
        "title = \"t\"\nworkloads = {rows}\ndisk = {{ fs = \"ext4\" }}\n\
         base = {{ {subject} }}\nchange = {{ {subject}, patches = [\"ext4.patch\"] }}\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let args = ["compare", "e.toml", "--json", "--out", "out"];
    let comparison = run(ktax().current_dir(dir.path()).args(args)).exits(3).comparison();
    for row in &comparison.rows {
        let effect = &row.effects()[0];
        let carried = effect.functions.iter().find(|function| function.function == FUNCTION);
        let delta = carried.map(|function| function.delta);
        let (wanted, verdict) = match row.row.as_str() {
            "fs-append:fsync=0" | "fs-append:fsync=1" => (Some(100.0), Verdict::Slower),
            // One write among all that is cut off again.
            "fs-truncate" => (None, Verdict::BelowThreshold),
            _ => (None, Verdict::NoDetectedChange),
        };
        assert_eq!((delta, row.verdict), (wanted, verdict), "{}: {effect:?}", row.row);
    }
    assert_eq!(comparison.rows.len(), 10);
}

// A global spinlock around getppid, built into the kernel: one CPU pays its instructions, and four
// wait for it, in the functions of the lock and nowhere else, and pass its cache line around.

const LOCK: &str = "\tstatic DEFINE_SPINLOCK(planted_lock);\n\n\tspin_lock(&planted_lock);\n\
    \tasm volatile(\".rept 100\\n\\tnop\\n\\t.endr\");\n\tspin_unlock(&planted_lock);";

const ROW: &str = "scale:call=getppid,cpus=4,ops=64000";

/// Functions of the 100 instructions and of the uncontended lock.
const OWN: [&str; 3] = ["__do_sys_getppid", "_raw_spin_lock", "_raw_spin_unlock"];

const SLOW_PATH: &str = "queued_spin_lock_slowpath";

fn carried(effect: &Effect) -> Vec<&str> {
    effect.functions.iter().map(|function| function.function.as_str()).collect()
}

#[test]
fn a_planted_lock_is_found_by_one_cpu_as_instructions_and_by_four_as_waits_for_its_line() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    fs::write(dir.path().join("lock.patch"), hunk_of_getppid(LOCK)).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = [\"CONFIG_KALLSYMS_ALL=y\"]");
    let text = format!(
        "title = \"t\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, patches = [\"lock.patch\"] }}\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let compared = |args: &[&str], out: &str| -> Comparison {
        let command = ["compare", "e.toml", "--json", "--out", out];
        run(ktax().current_dir(dir.path()).args(command).args(args)).exits(3).comparison()
    };

    let comparison = compared(&["-w", "getppid"], "one");
    let effect = &row(&comparison, "getppid").effects()[0];
    assert_eq!(effect.verdict, Verdict::Slower);
    assert!((100.0..200.0).contains(&effect.delta), "{effect:?}");
    let others: Vec<&str> =
        carried(effect).into_iter().filter(|name| !OWN.contains(name)).collect();
    assert_eq!(others, Vec::<&str>::new());

    let qemu = qemu.display().to_string();
    let four = ["-w", ROW, "--cpus", "4", "--model", "coherence", "--qemu", &qemu];
    let four = compared(&four, "four");
    let row = row(&four, ROW);
    assert_eq!(row.verdict, Verdict::Slower);
    let waits = row.effect(SPIN_WAIT).unwrap();
    let [none, some] = waits.samples.both();
    // A CPU in four waits for others half of its time; without the lock, for hardly anything.
    assert!(none.iter().all(|wait| *wait * 100 < *some.iter().min().unwrap()), "{waits:?}");
    let in_slow_path: u64 = row.counts().unwrap().waits.as_ref().unwrap().change[SLOW_PATH];
    assert!(in_slow_path * 100 >= some.iter().min().unwrap() * 99, "{in_slow_path} of {some:?}");
    let transfers = row.effect(TRANSFERS).unwrap();
    assert_eq!(transfers.verdict, Verdict::Slower);
    let lines = row.counts().unwrap().model_lines.as_ref().unwrap();
    // The lock itself, and where each CPU waits for its turn.
    let is_of_lock = |line: &CacheLine| match line.memory {
        Memory::Data => line.name.starts_with("planted_lock"),
        memory => memory == Memory::Percpu && line.name == "qnodes",
    };
    let of_lock = |side: &[CacheLine]| -> u64 {
        let named = side.iter().filter(|line| is_of_lock(line));
        named.map(|line| line.transfers).sum()
    };
    assert_eq!(of_lock(&lines.base), 0);
    // Nearly all that is more is this line's.
    let more =
        transfers.samples.change[transfers.layout] - transfers.samples.base[transfers.layout];
    assert!(of_lock(&lines.change) * 10 >= more * 9, "{lines:?}");
    let mut most =
        transfers.functions.iter().filter(|comparison| comparison.transfers.change > more / 20);
    assert!(
        most.all(
            |comparison| OWN.contains(&&*comparison.function) || comparison.function == SLOW_PATH
        )
    );
}

// A history of sixteen commits on the distribution's source, without a check-out.

/// A file of the tree, a text in it, and the text that replaces it.
type Edit = (&'static str, &'static str, &'static str);

const SYS: &str = "kernel/sys.c";
const GETPPID: &str = "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n";
const INIT: &str = "static int __ref kernel_init(void *unused)\n{\n\tint ret;\n";
const PANICS: &str =
    "static int __ref kernel_init(void *unused)\n{\n\tint ret;\n\tpanic(\"planted\");\n";

/// The place, from 1, of the commit that makes getppid slower.
pub const PLANTED: usize = 13;

/// The subject and the edits of each commit.
pub const COMMITS: [(&str, &[Edit]); 16] = [
    ("docs: a word", &[("README", "Linux kernel", "The Linux kernel")]),
    ("fork: a comment", &[("kernel/fork.c", "int nr_threads;", "int nr_threads; /* of all */")]),
    ("pipe: a comment", &[("fs/pipe.c", "struct pipe_inode_info", "/* */ struct pipe_inode_info")]),
    ("mm: an unused helper", &[("mm/mmap.c", "#include <linux/kernel.h>", UNUSED)]),
    ("exit: a comment", &[("kernel/exit.c", "void put_task_struct_rcu_user", EXIT)]),
    (
        "sys, init: panic",
        &[
            (SYS, GETPPID, "SYSCALL_DEFINE0(getppid)\n{\n\tint pid; /* of whom */\n"),
            ("init/main.c", INIT, PANICS),
        ],
    ),
    ("init: do not panic", &[("init/main.c", PANICS, INIT)]),
    ("sched: a comment", &[("kernel/sched/core.c", "#include <linux/highmem.h>", SCHED)]),
    (
        "sys, fork: broken",
        &[
            (SYS, "int pid; /* of whom */", "int pid;"),
            ("kernel/fork.c", "/* of all */", "int broken = ;"),
        ],
    ),
    ("fork: mended", &[("kernel/fork.c", "int broken = ;", "")]),
    ("signal: a comment", &[("kernel/signal.c", "static struct kmem_cache *", SIGNAL)]),
    ("readdir: a comment", &[("fs/readdir.c", "struct getdents_callback {", READDIR)]),
    ("sys: count to eight", &[(SYS, GETPPID, LOOP)]),
    ("stat: a comment", &[("fs/stat.c", "#ifdef __ARCH_WANT_OLD_STAT", STAT)]),
    ("open: a comment", &[("fs/open.c", "struct file *filp_open(", OPEN)]),
    ("docs: another word", &[("README", "The Linux kernel", "Linux, the kernel")]),
];

const UNUSED: &str =
    "#include <linux/kernel.h>\nstatic int __maybe_unused planted(void) { return 1; }";
const EXIT: &str = "/* planted */ void put_task_struct_rcu_user";
const SCHED: &str = "/* planted */\n#include <linux/highmem.h>";
const SIGNAL: &str = "/* planted */ static struct kmem_cache *";
const READDIR: &str = "/* planted */ struct getdents_callback {";
const STAT: &str = "/* planted */\n#ifdef __ARCH_WANT_OLD_STAT";
const OPEN: &str = "/* planted */ struct file *filp_open(";
const LOOP: &str = "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n\tint planted;\n\n\
                    \tfor (planted = 0; planted < 8; planted++)\n\t\tbarrier();\n";

pub struct History {
    pub repository: PathBuf,
    /// The id of the base, then of each commit.
    pub ids: Vec<String>,
}

impl History {
    /// A bare repository in `dir` whose first commit is the tree of the source package.
    pub fn new(dir: &Path) -> History {
        // Planning downloads the source package.
        let plan = ["plan", "--same", "--kernel", SOURCE, "-w", "getppid"];
        run(ktax().args(plan)).exits(0);
        let repository = dir.join("linux.git");
        let trees = cache().join("builds/trees.git");
        assert!(git(dir, &["init", "-q", "--bare", "linux.git"], None).is_empty());
        let alternates = repository.join("objects/info/alternates");
        fs::write(alternates, trees.join("objects").display().to_string() + "\n").unwrap();
        let mut packages = fs::read_dir(cache().join("builds/packages")).unwrap();
        let tree = fs::read_to_string(packages.next().unwrap().unwrap().path()).unwrap();
        git(&repository, &["read-tree", tree.trim()], None);
        let mut history = History { repository, ids: Vec::new() };
        history.commit("the distribution's");
        let mut contents = BTreeMap::new();
        for (subject, edits) in COMMITS {
            for edit in edits {
                history.edit(&mut contents, edit);
            }
            history.commit(subject);
        }
        history
    }

    fn edit(&self, contents: &mut BTreeMap<&'static str, String>, (path, from, to): &Edit) {
        let content = contents
            .entry(path)
            .or_insert_with(|| git(&self.repository, &["show", &format!(":{path}")], None));
        assert!(content.contains(from), "{path} has no {from:?}");
        *content = content.replacen(from, to, 1);
        let blob = git(&self.repository, &["hash-object", "-w", "--stdin"], Some(content));
        let entry = format!("100644,{},{path}", blob.trim());
        git(&self.repository, &["update-index", "--cacheinfo", &entry], None);
    }

    fn commit(&mut self, subject: &str) {
        let tree = git(&self.repository, &["write-tree"], None);
        let mut arguments = vec!["commit-tree", tree.trim(), "-m", subject];
        if let Some(parent) = self.ids.last() {
            arguments.extend(["-p", parent]);
        }
        let id = git(&self.repository, &arguments, None).trim().to_owned();
        git(&self.repository, &["update-ref", "refs/heads/main", &id], None);
        self.ids.push(id);
    }
}

fn git(dir: &Path, arguments: &[&str], input: Option<&str>) -> String {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "init.defaultBranch=main",
    ]);
    git.arg("-C").arg(dir).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.unwrap_or_default().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

// `ktax bisect` with real builds: over the commits of a history, over options.

fn bisect(out: &Path, args: &[&str]) -> Bisection {
    let ran = run(ktax()
        .args(["bisect", "start", "--json", "-w", "getppid", "--out"])
        .arg(out)
        .args(args));
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::bisection(&ran.stdout)
}

/// The number of places that were built and measured.
fn measured(bisection: &Bisection) -> usize {
    bisection.points.values().filter(|point| matches!(point, Point::Cost(_))).count()
}

#[test]
fn the_commit_is_found_and_those_that_do_not_build_or_boot_are_skipped() {
    let dir = scratch();
    let history = History::new(dir.path());
    let before = files_below(&history.repository);
    let ends = [&history.ids[0], &history.ids[16]].map(|id| format!("git:{id}"));
    let repository = history.repository.display().to_string();
    let out = dir.path().join("out");
    let bisection =
        bisect(&out, &["--tree", &repository, "--base", &ends[0], "--change", &ends[1]]);
    let found = bisection.carriers.as_deref().unwrap();
    assert_eq!(
        (found.len(), found[0].count_before, found[0].count_with),
        (1, PLANTED - 1, PLANTED)
    );
    assert!(found[0].delta > 8.0, "{found:?}");
    assert_eq!(bisection.elements[PLANTED - 1].name, history.ids[PLANTED]);
    assert_eq!(bisection.elements[PLANTED - 1].title, COMMITS[PLANTED - 1].0);
    let skipped = bisection.points.iter().filter_map(|(place, point)| match point {
        Point::Skipped(why) => Some((*place, why.as_str())),
        Point::Cost(_) => None,
    });
    let skipped: Vec<_> = skipped.collect();
    assert_eq!(skipped.len(), 2, "{:?}", bisection.points);
    assert!(skipped[0].0 == 6 && skipped[0].1.contains("panicked: planted"), "{skipped:?}");
    assert!(skipped[1].0 == 9 && skipped[1].1.contains("does not build: "), "{skipped:?}");
    assert!(measured(&bisection) <= 5, "{:?}", bisection.points);
    assert!(files_below(&history.repository) == before, "the repository changed");
}

#[test]
fn git_bisect_finds_the_same_commit() {
    let dir = scratch();
    let history = History::new(dir.path());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&history.repository).args(args).env("KTAX_CACHE", cache());
        run(&mut git)
    };
    let (good, bad) = (&history.ids[0], &history.ids[16]);
    git(&["bisect", "start", "--no-checkout", bad, good]).exits(0);
    let base = format!("git:{good}");
    let compare = ["compare", "--bisect", "--base", &base, "--change", "git:BISECT_HEAD"];
    let ktax = ["bisect", "run", env!("CARGO_BIN_EXE_ktax")];
    let ran = git(&[&ktax[..], &compare, &["-w", "getppid"]].concat());
    let found = format!("{} is the first bad commit", history.ids[PLANTED]);
    assert!(ran.stdout.contains(&found), "{}\n{}", ran.stdout, ran.stderr);
}

const OPTIONS: usize = 40;

/// An experiment with forty options. Those in `costs` add so many instructions to getppid, the
/// others none.
fn options(dir: &Path, costs: &[(usize, u32)]) -> String {
    let option = |n: usize| format!("+config PLANTED_{n}\n+\tbool \"planted {n}\"\n");
    let kconfig: String = (1..=OPTIONS).map(option).collect();
    let nops = |(n, nops): &(usize, u32)| {
        format!("#ifdef CONFIG_PLANTED_{n}\n\tasm volatile(\".rept {nops}; nop; .endr\");\n#endif")
    };
    let lines: Vec<String> = costs.iter().map(nops).collect();
    let text = format!(
        "--- a/init/Kconfig\n+++ b/init/Kconfig\n@@ -1,2 +1,{} @@\n \
         # SPDX-License-Identifier: GPL-2.0-only\n{kconfig} config CC_VERSION_TEXT\n{}",
        2 + 2 * OPTIONS,
        hunk_of_getppid(&lines.join("\n")),
    );
    let patch = dir.join("options.patch");
    fs::write(&patch, text).unwrap();
    let set: Vec<String> = (1..=OPTIONS).map(|n| format!("\"CONFIG_PLANTED_{n}=y\"")).collect();
    let subject = format!("kernel = \"{SOURCE}\", patches = [\"{}\"]", patch.display());
    let experiment = dir.join("options.toml");
    let text = format!(
        "title = \"planted options\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, config = [{}] }}\n",
        set.join(", ")
    );
    fs::write(&experiment, text).unwrap();
    experiment.display().to_string()
}

#[test]
fn each_option_with_a_cost_is_found_with_its_share() {
    for costs in [&[(29, 30)][..], &[(7, 50), (33, 20)]] {
        let dir = scratch();
        let experiment = options(dir.path(), costs);
        let bisection = bisect(&dir.path().join("out"), &[&experiment]);
        assert_eq!(bisection.elements.len(), OPTIONS);
        let total: u32 = costs.iter().map(|(_, nops)| nops).sum();
        let found = bisection.carriers.as_deref().unwrap();
        let names: Vec<_> =
            found.iter().map(|carrier| &*bisection.elements[carrier.count_before].name).collect();
        let planted: Vec<_> = costs.iter().map(|(n, _)| format!("CONFIG_PLANTED_{n}=y")).collect();
        assert_eq!(names, planted);
        for (carrier, (_, nops)) in found.iter().zip(costs) {
            let share = f64::from(*nops) / f64::from(total) * 100.0;
            assert!((carrier.share_percent - share).abs() < 1.0, "{found:?}");
        }
        let built = measured(&bisection);
        assert!(built <= 12 && (costs.len() > 1 || built <= 8), "{:?}", bisection.points);
    }
}

// A function that getppid calls directly, through a pointer, and by a tail call, and a locked
// instruction: each path has its calls, each kind its count, and nothing else moves.

const FUNCTIONS: &str = "\
#define PLANTED static noinline __attribute__((__noipa__)) int
PLANTED planted(int x)
{
	asm volatile(\".rept 10\\n\\tnop\\n\\t.endr\");
	return x;
}
static int (*volatile planted_pointer)(int) = planted;
static atomic_t planted_counter;
PLANTED planted_by_pointer(int x)
{
	return planted_pointer(x) + 1;
}
PLANTED planted_tail(int x)
{
	return planted(x + 1);
}
";

const CALLS: &str = "\
	planted(1);
	planted_by_pointer(2);
	planted_tail(3);
	asm volatile(\"lock incl %0\" : \"+m\"(planted_counter.counter));
";

/// Those above the planted function.
const PATHS: [&str; 3] = [
    ";__do_sys_getppid;planted",
    ";__do_sys_getppid;planted_by_pointer;planted",
    ";__do_sys_getppid;planted_tail;planted",
];

fn reached_patch() -> String {
    let added = |lines: &str| lines.lines().map(|line| format!("+{line}\n")).collect::<String>();
    let count = 5 + FUNCTIONS.lines().count() + CALLS.lines().count();
    format!(
        "--- a/kernel/sys.c\n+++ b/kernel/sys.c\n@@ -984,5 +984,{count} @@\n{} \
         SYSCALL_DEFINE0(getppid)\n {{\n \tint pid;\n{} \n \trcu_read_lock();\n",
        added(FUNCTIONS),
        added(CALLS)
    )
}

/// Calls and instructions below each of the paths, by what ends so.
fn reached(profile: Vec<u8>) -> [(u64, u64); 3] {
    let parsed = profile::parse(&String::from_utf8(profile).unwrap()).unwrap();
    let mut above: Vec<String> = Vec::new();
    let mut found = [(0, 0); 3];
    for path in parsed.profile.paths.iter().filter(|path| path.context == Context::Process) {
        above.truncate(path.depth as usize);
        above.push(path.function.clone());
        let stack = above.join(";");
        for (end, found) in PATHS.iter().zip(&mut found) {
            if stack.ends_with(end) {
                *found =
                    (found.0 + path.calls, found.1 + path.counts[ktax::model::Basic::Instructions]);
            }
        }
    }
    found
}

#[test]
fn a_function_is_found_below_each_path_that_reaches_it_and_nothing_else_moves() {
    let dir = scratch();
    fs::write(dir.path().join("reached.patch"), reached_patch()).unwrap();
    let subject = format!("kernel = \"{SOURCE}\", config = [\"CONFIG_KALLSYMS_ALL=y\"]");
    let text = format!(
        "title = \"t\"\nbase = {{ {subject} }}\n\
         change = {{ {subject}, patches = [\"reached.patch\"] }}\nworkloads = [\"getppid\"]\n"
    );
    fs::write(dir.path().join("e.toml"), text).unwrap();
    let command = ["compare", "e.toml", "--json", "--out", "out"];
    let comparison = run(ktax().current_dir(dir.path()).args(command)).exits(3).comparison();
    let row = row(&comparison, "getppid");
    let effect = &row.effects()[0];
    assert_eq!(effect.verdict, Verdict::Slower);
    let is_own = |name: &str| {
        name.starts_with("planted") || name == "__do_sys_getppid" || name.starts_with("__x86_")
    };
    let others: Vec<_> =
        effect.functions.iter().filter(|function| !is_own(&function.function)).collect();
    assert!(others.is_empty(), "{others:?}");
    // A return that jumps to a thunk is one more for each of the functions.
    let mut changed = costly_of(row, |effect| effect.verdict.is_change());
    changed.retain(|(kind, _)| *kind != Costly::ReturnThunk);
    assert_eq!(changed, [(Costly::Locked, 1.0), (Costly::Indirect, 1.0)]);

    let mut seen = 0;
    for (path, profile) in measurements(&dir.path().join("out")) {
        let name = path.to_string_lossy().into_owned();
        if !name.ends_with("getppid.profile.tsv") {
            continue;
        }
        let found = reached(profile);
        match name.contains("-base/") {
            true => assert_eq!(found, [(0, 0); 3], "{name}"),
            false => assert!(
                found.iter().all(|function| *function == found[0])
                    && found[0].0 == row.ops
                    && found[0].1 >= 10 * row.ops,
                "{name}: {found:?}"
            ),
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}
