//! Helpers of the tests: the binary, one cache of real kernels and snapshots, and processes.
#![allow(dead_code)]

pub mod calls;
pub mod files;
pub mod hostile;
pub mod kvm;
pub mod made;
pub mod mounts;
pub mod page;
pub mod printed;
mod ran;
pub mod recorder;
pub mod require;
pub mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use files::files_below;
pub use ran::{Ran, run};
pub use require::{Need, require};

use ktax::engine::die_with_parent;
use ktax::model::{Comparison, CountsPlan, Plan, PlanMethod, Row, TimesPlan};
use ktax::rundir::{AnyRunDir, RunDir};
use tempfile::TempDir;

/// The kernel that the tests boot: the newest of the distribution.
pub const KERNEL: &str = "debian:cloud-amd64";

/// A boot in half of the time: the APIC's timer is not measured, in a loop that leaves the
/// translator each time around. Tests that share boot lines share boots: this is their base.
pub const QUICK_BOOT: &str = "nolapic_timer";

/// The shared change that costs each system call something.
pub const SLOWER: &str = "audit=1";

/// The shared change that costs nothing: nobody reads it.
pub const MEANINGLESS: &str = "ktax.none=a";

/// Asserts that a text has this part.
#[track_caller]
pub fn assert_has(text: impl AsRef<str>, part: impl AsRef<str>) {
    assert!(text.as_ref().contains(part.as_ref()), "{}", text.as_ref());
}

/// The built binary.
pub fn ktax() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ktax"));
    isolate(&mut command).env_remove("NO_COLOR");
    command
}

/// Gives a command that is or starts ktax the tests' own cache and state: another ktax of this
/// machine, with its locks and its journal, is nothing to it. Nothing is taken from a store.
pub fn isolate(command: &mut Command) -> &mut Command {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    // The documents show what a terminal of UTF-8 shows.
    let command = command.env("KTAX_CACHE", cache()).env("KTAX_STATE", state).env("KTAX_STORE", "");
    command.env("LC_ALL", "C.UTF-8").env_remove("KTAX_CACHE_SIZE")
}

/// A cache that all tests share, so that each Boot is made once.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// A cache of a test's own, without Boots: it has the kernels of the shared one, so that apt is not
/// asked anew, and QEMUs are known by its path.
pub fn own_cache(dir: &Path) -> PathBuf {
    run(ktax().args(["plan", "--same", "--kernel", KERNEL, "-w", "getppid"])).exits(0);
    let own_cache = dir.join("cache");
    fs::create_dir(&own_cache).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-a").args([cache().join("kernels"), own_cache.join("kernels")]);
    assert_eq!(run(&mut copy).status, 0);
    own_cache
}

/// Links directories of the shared cache into a cache of a test's own. Those that no test has made
/// yet are made: a link to nothing is in ktax's way.
pub fn link_shared(own_cache: &Path, names: &[&str]) {
    for name in names {
        let shared = cache().join(name);
        fs::create_dir_all(&shared).unwrap();
        std::os::unix::fs::symlink(shared, own_cache.join(name)).unwrap();
    }
}

/// The sum of these fields of a /proc/PID/stat, counted from the one behind the name: 11 and 12 are
/// utime and stime, 13 and 14 those of children that were waited for, all in ticks.
pub fn ticks(stat: &str, fields: [usize; 2]) -> u64 {
    let values: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields.iter().map(|field| values[*field].parse::<u64>().unwrap()).sum()
}

/// The parent in a /proc/PID/stat: after the name in parentheses the state, then it.
pub fn parent_in(stat: &str) -> Option<&str> {
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1))
}

/// Processes that do nothing, as fast as they can; gone when this is, and also when the whole test
/// program is killed.
pub struct Loops(pub Vec<Child>);

impl Loops {
    pub fn start(count: usize) -> Loops {
        Loops::with_niceness(count, 0)
    }

    /// Loops that get a quarter of a CPU beside something else.
    pub fn start_nice(count: usize) -> Loops {
        Loops::with_niceness(count, 5)
    }

    fn with_niceness(count: usize, niceness: u8) -> Loops {
        let start = |_| {
            let mut command = Command::new("nice");
            command.args(["-n", &niceness.to_string(), "sh", "-c", "while :; do :; done"]);
            command.stdin(Stdio::null());
            die_with_parent(&mut command, [None, None]);
            command.spawn().unwrap()
        };
        Loops((0..count).map(start).collect())
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Whether this process was started for one test, by [`run_alone`].
pub fn is_alone() -> bool {
    std::env::var_os("KTAX_TEST_ALONE").is_some()
}

/// Runs the test of this name again, by `starter`: in a process that has no other test's children.
pub fn run_alone(starter: &[&str], name: &str) {
    let program = std::env::current_exe().unwrap();
    let (first, rest) = match starter {
        [first, rest @ ..] => (Path::new(first), [rest, &[program.to_str().unwrap()]].concat()),
        [] => (program.as_path(), Vec::new()),
    };
    let mut again = Command::new(first);
    again.args(rest).args(["--exact", name, "--nocapture"]).env("KTAX_TEST_ALONE", "1");
    let ran = run(&mut again);
    assert!(ran.status == 0 && ran.stdout.contains("1 passed"), "{}{}", ran.stdout, ran.stderr);
    print!("{}", ran.stdout);
}

/// Whether all CPUs of the machine may be used, and so kept busy.
#[track_caller]
pub fn may_use_all(cpus: usize) -> bool {
    let may = std::thread::available_parallelism().unwrap().get() >= cpus;
    require(Need::Cpus, may, format!("not all {cpus} CPUs may be used"))
}

/// A directory that goes away with the test.
pub fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("ktax-test-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A directory that goes away with the test, and a path in it where nothing is yet.
pub fn scratch_path(name: &str) -> (TempDir, PathBuf) {
    with_path(scratch(), name)
}

/// The directory, and a path in it.
pub fn with_path(dir: TempDir, name: &str) -> (TempDir, PathBuf) {
    let path = dir.path().join(name);
    (dir, path)
}

/// `ktax compare` of two quick boots of one Kernel, each with these words on its boot line.
pub fn compare(out: &Path, words: [&str; 2], args: &[&str]) -> (Ran, Comparison) {
    let lines = words.map(quick);
    compare_lines(out, [&lines[0], &lines[1]], args)
}

/// The boot line of a quick boot with these words.
pub fn quick(words: &str) -> String {
    format!("{QUICK_BOOT} {words}").trim_end().to_owned()
}

/// `ktax compare` of one Kernel with two boot lines.
pub fn compare_lines(out: &Path, lines: [&str; 2], args: &[&str]) -> (Ran, Comparison) {
    let ran = run(ktax()
        .args(["compare", "--kernel", KERNEL, "--json", "--out"])
        .arg(out)
        .args(["--base-boot-line", lines[0], "--change-boot-line", lines[1]])
        .args((lines[0] == lines[1]).then_some("--same"))
        .args(args));
    let comparison = ran.comparison();
    (ran, comparison)
}

/// Comparison, after asserting the exit status.
#[track_caller]
pub fn with_status<T>(status: i32, (ran, compared): (Ran, T)) -> T {
    ran.exits(status);
    compared
}

/// A printed plan of counts.
pub fn counts_plan(text: &str) -> CountsPlan {
    match serde_json::from_str::<Plan>(text).unwrap().method {
        PlanMethod::Counts(counts) => counts,
        other => panic!("{other:?}"),
    }
}

/// A printed plan of times.
pub fn times_plan(text: &str) -> Plan<TimesPlan> {
    let plan: Plan = serde_json::from_str(text).unwrap();
    let PlanMethod::Times(times) = plan.method.clone() else { panic!("{plan:?}") };
    plan.map_method(|_| times)
}

/// Opens a run directory of counts.
pub fn open_counts(root: &Path) -> Result<RunDir<CountsPlan>, ktax::model::Error> {
    AnyRunDir::open(root).map(|dir| match dir {
        AnyRunDir::Counts(dir) => dir,
        other => panic!("{other:?}"),
    })
}

/// Instructions of the first boot in functions whose names begin with `prefix`.
pub fn executed(root: &Path, row: &str, prefix: &str) -> u64 {
    let dir = open_counts(root).unwrap();
    let profile = dir.profile(&dir.plan().method.steps[0], row).unwrap();
    let lines = profile.lines.iter().filter(|line| line.function.starts_with(prefix));
    lines.map(|line| line.counts[ktax::model::Basic::Instructions]).sum()
}

/// Opens a run directory of times.
pub fn open_times(root: &Path) -> Result<RunDir<TimesPlan>, ktax::model::Error> {
    AnyRunDir::open(root).map(|dir| match dir {
        AnyRunDir::Times(dir) => dir,
        other => panic!("{other:?}"),
    })
}

/// The row of that name.
pub fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.row == name).unwrap()
}

/// The samples and profiles of a run directory.
pub fn measurements(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_below(dir);
    files.retain(|(path, _)| path.parent().is_some_and(|parent| parent.ends_with("runs")));
    files
}

/// The QEMU processes whose command line mentions `needle`: their ids and their command lines.
fn qemus(needle: &Path) -> Vec<(i32, String)> {
    let needle = needle.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let pid = entry.file_name().to_string_lossy().parse();
        if let (Ok(pid), true) = (pid, line.contains("qemu-system") && line.contains(&needle)) {
            found.push((pid, line));
        }
    }
    found
}

/// Their command lines.
pub fn processes(needle: &Path) -> Vec<String> {
    qemus(needle).into_iter().map(|(_, line)| line).collect()
}

/// Their ids.
pub fn pids(needle: &Path) -> Vec<i32> {
    qemus(needle).into_iter().map(|(pid, _)| pid).collect()
}

/// The QEMUs of the shared cache and of `needle` whose parent is no ktax any more.
fn orphans(needle: &Path) -> Vec<String> {
    let of_ktax = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = parent_in(&stat).unwrap_or("0");
        let line = fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
        // A process that has just gone has neither.
        stat.is_empty() || String::from_utf8_lossy(&line).contains("ktax")
    };
    let mut processes = qemus(&cache());
    processes.extend(qemus(needle));
    processes.retain(|(pid, _)| !of_ktax(pid));
    processes.into_iter().map(|(_, line)| line).collect()
}

/// The processes that a run started: all have its TMPDIR in their environment.
pub fn processes_below(dir: &Path) -> Vec<u32> {
    let mark = format!("TMPDIR={}", dir.display()).into_bytes();
    let ours = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark)
    };
    let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(ours).collect()
}

/// Waits until no QEMU is left alone; a killed one takes a moment to go.
pub fn assert_no_orphans(needle: &Path) {
    until("orphans go", || orphans(needle).is_empty());
}

/// Only what never comes takes this long. What waits for it takes seconds on an idle machine, so a
/// busy one does not pass it.
pub const NEVER: Duration = Duration::from_secs(1200);

/// Waits for this. Whether it came.
pub fn comes(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + NEVER;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}

/// Waits for what comes at once on an idle machine.
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(comes(condition), "in vain: {what}");
}
