//! `ktax stat`: known work is counted, what is not counted says why, and nothing is left of what is
//! ended. The table's looks are in `tests/fast/golden.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{
    self, Need, Ran, ktax, printed, processes_below, require, run, scratch, until,
};
use ktax::model::{ELAPSED, STAT_COUNTERS, StatRow, StatTable};
use rustix::process::{Pid, Signal, getuid, kill_process};
use rustix::thread::sched_getaffinity;

fn stat(args: &[&str]) -> Ran {
    run(ktax().arg("stat").args(args))
}

fn table(args: &[&str]) -> StatTable {
    let ran = stat(&[&["--json"], args].concat()).exits(0);
    printed::stat(&ran.stdout)
}

fn row<'a>(table: &'a StatTable, name: &str) -> &'a StatRow {
    table.rows.iter().find(|row| row.counter == name).unwrap()
}

fn value(table: &StatTable, name: &str) -> f64 {
    let row = row(table, name);
    let seen = row.repeats.first().unwrap_or_else(|| panic!("{name}: {:?}", row.uncounted));
    assert_eq!(seen.values.len(), 1);
    seen.values[0]
}

fn paranoid() -> i32 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().parse().unwrap_or(99)
}

/// Whether the kernel's own events may be counted; said where not.
#[track_caller]
fn may_count() -> bool {
    let may = getuid().is_root() || paranoid() <= 1;
    require(Need::Paranoid, may, format!("kernel.perf_event_paranoid is {}", paranoid()))
}

/// Minimum of the task-clock for 20 ms that a child counts itself. The child reads the scheduler's
/// clock, and the counter the CPU's: each leaves out a part of the time that a hypervisor takes.
/// One uncounted child of three is still missed.
const LEAST_OF_A_CHILD_NS: f64 = 0.75 * 20e6;

/// The program that does as much as it is told.
fn work(dir: &Path) -> String {
    let program = dir.join("work");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fast/stat/work.c");
    let mut build = Command::new(compiler);
    build.args(["-static", "-O1", source, "-o"]).arg(&program);
    assert!(build.status().unwrap().success());
    program.display().to_string()
}

#[test]
fn known_work_of_children_is_counted() {
    if !may_count() {
        return;
    }
    let dir = scratch();
    let (program, file) = (work(dir.path()), dir.path().join("said").display().to_string());
    let (children, pages, sleeps, moves) = (3.0, 4000.0, 200.0, 50.0);
    let counted = table(&["--", &program, &file, "3", "4000", "200", "50"]);
    let text = fs::read_to_string(&file).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [minor, major, switches] = numbers[..] else { panic!("{numbers:?}") };
    assert!(minor >= children * pages && switches >= children * sleeps, "{numbers:?}");
    // Beside what the children did there are the parent's start and end.
    for (name, least, slack) in [
        ("minor-faults", minor, 200.0),
        ("major-faults", major, 50.0),
        ("page-faults", minor + major, 250.0),
        ("context-switches", switches, 100.0),
    ] {
        let value = value(&counted, name);
        assert!(least <= value && value <= least + slack, "{name}: {value}, {least} known");
    }
    // The first move may go where the child is already; with one CPU there are none.
    if counted.cpus > 1 {
        let migrations = value(&counted, "cpu-migrations");
        assert!(migrations >= children * (moves - 1.0), "{migrations}");
        assert!(migrations <= children * moves + 100.0, "{migrations}");
    }
    let task_clock = value(&counted, "task-clock");
    assert!(task_clock >= children * LEAST_OF_A_CHILD_NS, "{task_clock}");
    // All CPUs may use up their share of a quota at once.
    let cpus = sched_getaffinity(None).unwrap().count();
    assert!(value(&counted, "elapsed") >= task_clock / f64::from(cpus));
}

#[test]
fn every_counter_has_a_value_or_a_reason_and_a_next_step() {
    let counted = table(&["--", "true"]);
    let names: Vec<&str> = counted.rows.iter().map(|row| row.counter.as_str()).collect();
    let counters: Vec<&str> =
        STAT_COUNTERS.iter().chain([&ELAPSED]).map(|counter| counter.name).collect();
    assert_eq!(names, counters);
    for row in &counted.rows {
        let reason = row.uncounted.as_deref().unwrap_or_default();
        assert_eq!(row.repeats.len(), usize::from(row.uncounted.is_none()), "{row:?}");
        assert!(row.uncounted.is_none() || reason.contains("; "), "{row:?}");
    }
    let has_pmu = ["cpu", "cpu_core", "armv8_pmuv3_0"]
        .iter()
        .any(|name| Path::new("/sys/bus/event_source/devices").join(name).exists());
    if !has_pmu && may_count() {
        for name in ["cycles", "cycles-user", "instructions-kernel", "cache-misses", "dtlb-misses"]
        {
            let reason = row(&counted, name).uncounted.as_deref().unwrap_or_default();
            assert!(reason.starts_with("no PMU here"), "{name}: {reason:?}");
        }
        let text = stat(&["--", "true"]).stdout;
        assert_eq!(text.matches("no PMU here").count(), 1, "{text}");
        assert_eq!(text.matches("not counted here").count(), 9, "{text}");
    }
}

#[test]
fn who_may_not_count_is_told_what_to_type() {
    let is_strict = (2..4).contains(&paranoid());
    let reason = format!("kernel.perf_event_paranoid is {} and not 2 or 3", paranoid());
    if !require(Need::Root, getuid().is_root(), "only root can become another user")
        || !require(Need::Paranoid, is_strict, reason)
    {
        return;
    }
    let dir = tempfile::Builder::new().prefix("ktax-user-").tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = dir.path().join("ktax");
    fs::copy(env!("CARGO_BIN_EXE_ktax"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.args(["stat", "--json", "--", "sleep", "0"]).uid(65534).gid(65534).current_dir("/");
    let counted = printed::stat(&run(command.env("TMPDIR", "/tmp")).exits(0).stdout);
    // A zero that nobody saw would be a lie: these are filtered out, not refused, for user code.
    for name in ["context-switches", "cpu-migrations", "page-faults", "cache-misses"] {
        let reason = row(&counted, name).uncounted.as_deref().unwrap_or_default();
        let expected = format!("kernel.perf_event_paranoid is {}; type `sudo sysctl", paranoid());
        assert!(reason.contains(&expected), "{name}: {reason:?}");
    }
    if paranoid() == 2 {
        assert!(value(&counted, "task-clock") > 0.0);
    }
}

#[test]
fn pairs_are_interleaved_in_an_order_that_the_seed_says() {
    let dir = scratch();
    let log = dir.path().join("log").display().to_string();
    let order = |seed: &str| {
        let _ = fs::remove_file(&log);
        let base = format!("sh -c 'printf b >> {log}'");
        let change = format!("printf c >> {log}");
        let options = ["-n", "8", "--seed", seed, "--vs", &base];
        let counted = table(&[&options[..], &["--", "sh", "-c", &change]].concat());
        assert_eq!(counted.commands[0].words, ["sh", "-c", &format!("printf b >> {log}")]);
        for row in counted.rows.iter().filter(|row| row.uncounted.is_none()) {
            assert!(row.repeats.len() == 2 && row.repeats.iter().all(|r| r.values.len() == 8));
        }
        fs::read_to_string(&log).unwrap()
    };
    let first = order("1");
    for pair in 0..8 {
        assert!(["bc", "cb"].contains(&&first[2 * pair..2 * pair + 2]), "{first}");
    }
    assert!(first.contains("bb") || first.contains("cc"), "one side is always first: {first}");
    assert_eq!(first, order("1"));
    assert_ne!(first, order("2"));
}

#[test]
fn a_seed_that_nobody_chose_is_drawn_and_kept() {
    let drawn = || table(&["-n", "1", "--vs", "true", "--", "true"]).seed.unwrap();
    assert_ne!(drawn(), drawn()); // once in 2^32 runs they are the same
    assert_eq!(table(&["-n", "1", "--seed", "7", "--vs", "true", "--", "true"]).seed, Some(7));
}

#[test]
fn two_commands_are_compared_the_right_way_round() {
    let dir = scratch();
    let (program, file) = (work(dir.path()), dir.path().join("said").display().to_string());
    let little = format!("{program} {file} 1 0 0 0");
    let counted = table(&["-n", "3", "--vs", &little, "--", &program, &file, "3", "0", "0", "0"]);
    let clock = row(&counted, "task-clock");
    // 60 ms of work against 20.
    assert!(clock.change.unwrap().percent > 0.0, "{clock:?}");
    let least = |side: usize| clock.repeats[side].sorted[0];
    assert!(least(1) >= 3.0 * LEAST_OF_A_CHILD_NS && least(0) >= LEAST_OF_A_CHILD_NS, "{clock:?}");
    let runs = table(&["--vs", "true", "--", "true"]).runs;
    assert_eq!(runs, 10);
}

#[test]
fn what_repeats_says_how_well() {
    let counted = table(&["-n", "6", "--", "true"]);
    let seen = &row(&counted, "elapsed").repeats[0];
    assert_eq!((seen.values.len(), seen.sorted.len()), (6, 6));
    assert!(seen.sorted.is_sorted());
    let interval = seen.interval.unwrap();
    assert_eq!((interval.low, interval.high), (seen.sorted[0], seen.sorted[5]));
    assert_eq!(interval.level_percent, 96.875);
    let text = stat(&["-n", "6", "--values", "--", "true"]).stdout;
    let line = text.lines().find(|line| line.starts_with("time elapsed (msecs): ")).unwrap();
    assert_eq!(line.split("  ").count(), 6, "{line}");
    assert!(text.contains("96.9 %"), "{text}");
    assert!(stat(&["-n", "5", "--", "true"]).stdout.contains("it needs six runs"));
}

#[test]
fn the_commands_output_is_shown_on_demand_and_its_input_is_empty() {
    let command = ["--", "sh", "-c", "cat; echo $((6 * 7)); echo $((6 * 8)) >&2"];
    let quiet = stat(&command);
    assert_eq!((quiet.status, quiet.stderr.as_str()), (0, ""));
    assert!(!quiet.stdout.contains("\n42\n") && !quiet.stdout.starts_with("42"));
    let shown = stat(&[&["--show-output"], &command[..]].concat());
    assert!(shown.stdout.starts_with("42\nPerformance counter stats"), "{}", shown.stdout);
    assert_eq!(shown.stderr, "48\n");
}

#[test]
fn a_command_that_fails_is_named_with_its_last_words() {
    let failing = ["--", "sh", "-c", "echo $((6 * 7)) >&2; exit 3"];
    let ran = stat(&failing);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    for word in ["sh -c", "exit status 3: 42", "--ignore-failure"] {
        ran.says(word);
    }
    let ran = stat(&["--", "sh", "-c", "kill -9 $$"]);
    assert!(ran.status == 1 && ran.stderr.contains("failed with signal 9;"), "{}", ran.stderr);
    let ran = stat(&[&["-n", "2", "--ignore-failure"], &failing[..]].concat()).exits(0);
    ran.prints("2 of 2 runs of ");
}

#[test]
fn what_cannot_be_started_is_a_mistake_of_the_command_line() {
    let dir = scratch();
    let text = dir.path().join("text").display().to_string();
    fs::write(&text, "no program").unwrap();
    // An executable file that cannot run is not taken for a command with that exit status.
    let script = dir.path().join("script").display().to_string();
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["no-such-program", &text, &script] {
        let ran = stat(&["--", program]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        ran.says("name a program that exists");
    }
    for (args, word) in [
        (&["--vs", "'true", "--", "true"][..], "a quote in it is not closed"),
        (&["--vs", " ", "--", "true"], "it is empty"),
        (&["-n", "0", "--", "true"], "from 1 to 10000"),
        (&["--seed", "2", "--", "true"], "--vs"),
        (&[], "COMMAND"),
    ] {
        let ran = stat(args);
        assert!(ran.status == 2 && ran.stderr.contains(word), "{args:?}: {}", ran.stderr);
    }
}

/// Ends ktax while its command runs, which has made a file; its status, when all has gone.
fn ended(signal: Signal, command: &str) -> Option<i32> {
    let dir = scratch();
    let began: PathBuf = dir.path().join("began");
    let script = format!("touch {}; {command}", began.display());
    let mut ktax = ktax();
    ktax.args(["stat", "--", "sh", "-c", &script]).env("TMPDIR", dir.path());
    ktax.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = ktax.spawn().unwrap();
    until("the command begins", || began.exists());
    kill_process(Pid::from_child(&child), signal).unwrap();
    let status = child.wait().unwrap();
    until("its processes end", || processes_below(dir.path()).is_empty());
    let left: BTreeMap<_, _> = common::files_below(dir.path()).into_iter().collect();
    assert_eq!(left.keys().collect::<Vec<_>>(), [Path::new("began")]);
    status.code()
}

#[test]
fn what_is_ended_in_the_middle_leaves_nothing() {
    let with_children = "sleep 1000 & sleep 1000";
    assert_eq!(ended(Signal::INT, with_children), Some(130));
    assert_eq!(ended(Signal::TERM, with_children), Some(130));
    // Nobody can catch it: the kernel ends the command itself.
    assert_eq!(ended(Signal::KILL, "exec sleep 1000"), None);
}
