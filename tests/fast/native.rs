//! `ktax workloads`: listed, described, and run on this machine without leaving a trace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::{self, Ran, ktax, processes_below, run, scratch, scratch_path, until};
use ktax::analyse::is_column;
use ktax::plan::definitions;
use rustix::process::{Pid, Signal, kill_process};

fn workloads(args: &[&str]) -> Ran {
    run(ktax().arg("workloads").args(args))
}

#[test]
fn the_list_names_sources_and_show_prints_details() {
    let list = workloads(&[]).stdout;
    for word in ["lmbench", "getppid", " lsm ", "page-tables", "mmap-stress*"] {
        assert!(list.contains(word), "{word}: {list}");
    }
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    for definition in definitions().unwrap() {
        let shown = workloads(&["show", &definition.name]).exits(0);
        for (name, param) in &definition.params {
            // Words, because the table wraps.
            let mut words = param.about.split_whitespace().chain([name.as_str()]);
            assert!(words.all(|word| shown.stdout.contains(word)), "{name}: {}", shown.stdout);
        }
    }
    let shown = workloads(&["show", "fork-pages"]).stdout;
    for word in [
        "pages",
        "0 to 1048576 pages",
        "children = ops",
        "modelled on",
        "page-tables-2002",
        "fork-pages:pages=16",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[test]
fn every_column_that_a_definition_names_exists() {
    for definition in definitions().unwrap() {
        for column in &definition.columns {
            assert!(is_column(column), "{}: {column}", definition.name);
        }
    }
    assert!(!is_column("jobs-per-fortnight"));
}

#[test]
fn a_workload_prints_its_samples_and_the_words_of_the_original() {
    let ran = workloads(&["run", "pipe", "-p", "ops=500", "--samples", "3"]).exits(0);
    ran.prints("Pipe latency: ");
    let ran = workloads(&["run", "getppid", "-p", "ops=1000", "--samples", "4", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let row = &json["result"]["native"]["rows"][0];
    assert_eq!(row["samples"].as_array().unwrap().len(), 4, "{json}");
    assert_eq!(row["samples"][0]["signature"]["calls"], 1000);
    let cell = &row["cells"][0];
    let samples: Vec<f64> =
        cell["samples"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert!(samples.iter().all(|time| *time > 0.0), "{json}");
    let (least, most) = (cell["least"].as_f64().unwrap(), cell["most"].as_f64().unwrap());
    assert!(samples.contains(&least) && samples.contains(&most), "{json}");
}

#[test]
fn several_values_make_several_rows() {
    let ran = workloads(&[
        "run",
        "fork-pages",
        "-p",
        "pages=0,16,64",
        "-p",
        "ops=5",
        "--samples",
        "1",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = json["result"]["native"]["rows"].as_array().unwrap();
    let pages: Vec<u64> =
        rows.iter().map(|row| row["workload"]["params"]["pages"].as_u64().unwrap()).collect();
    assert_eq!(pages, [0, 16, 64]);
}

#[test]
fn uncounted_counters_have_a_reason() {
    let ran =
        workloads(&["run", "getppid", "-p", "ops=1000", "--samples", "1", "--counters"]).exits(0);
    for counter in
        ["task clock", "CPU migrations", "context switches", "page faults", "cache misses"]
    {
        let line = ran.stdout.lines().find(|line| line.contains(counter));
        let line = line.unwrap_or_else(|| panic!("{counter}: {}", ran.stdout));
        // Not counted, and then with a reason; never a zero that nobody saw.
        assert!(!line.contains("not counted here") || line.ends_with(')'), "{line}");
    }
}

#[test]
fn a_bad_parameter_is_refused_before_anything_runs() {
    for (arguments, word) in [
        (&["fork-pages", "-p", "pages=1000000000"][..], "0 to"),
        (&["fork-pages", "-p", "pages=-1"], "0 to"),
        (&["fork-pages", "-p", "pages="], "NAME=VALUE"),
        (&["fork-pages", "-p", "pages=1,,2"], "0 to"),
        (&["fork-pages", "-p", "pages"], "NAME=VALUE"),
        (&["fork-pages", "-p", "users=1"], "pages"),
        (&["pipe", "-p", "ops=0"], "from 1"),
        (&["pipe", "-p", "ops=99999999999999999999"], "from 1"),
        (&["page-fault", "-p", "ops=100000000000"], "MiB"),
        (&["pipes"], "pipe"),
    ] {
        let ran = run(ktax().args(["workloads", "run"]).args(arguments)).exits(2);
        assert!(
            ran.stderr.contains(word) && ran.stdout.is_empty(),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    // The exact engine's machine is smaller than this one.
    let row = "fork-pages:pages=131072";
    let ran = run(ktax()
        .args(["plan", "--same", "--kernel", common::KERNEL, "-w", row, "--out"])
        .arg("never"))
    .exits(2);
    ran.says("needs 512 MiB");
    assert!(!Path::new("never").exists());
}

#[test]
fn work_that_was_not_done_is_no_number() {
    workloads(&["run", "bad-work", "--samples", "1"]).exits(69).prints("did not do its work");
}

/// Below this directory a run of ktax keeps everything that it makes.
fn start(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = ktax();
    command.args(["workloads", "run"]).args(arguments).env("TMPDIR", dir);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap()
}

/// Shared memory and semaphores of this machine.
fn ipc() -> usize {
    let lines =
        |name: &str| fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap().lines().count();
    lines("shm") + lines("sem")
}

/// Ends a run in the middle of its work, and looks at what is left.
fn nothing_is_left_of(arguments: &[&str], end: impl Fn(&Child)) {
    let dir = scratch();
    let before = ipc();
    let mut child = start(dir.path(), arguments);
    // A row works when it has a process and, if it makes such objects, one of them.
    until("it starts", || processes_below(dir.path()).len() >= 3);
    if arguments.contains(&SHARED_MEMORY) {
        until("it has an IPC object", || ipc() > before);
    }
    end(&child);
    child.wait().unwrap();
    until("its processes end", || processes_below(dir.path()).is_empty());
    until("its files go", || fs::read_dir(dir.path()).unwrap().next().is_none());
    until("its IPC objects go", || ipc() <= before);
}

const SHARED_MEMORY: &str = "job=shared-memory";

/// Rows of every kind: files, IPC objects, many processes, threads, a tree with a load beside it.
const LONG: &[&[&str]] = &[
    &["create-delete", "-p", "bytes=10240", "-p", "ops=1000000000"],
    &["high-systime-job", "-p", SHARED_MEMORY, "-p", "ops=100000000"],
    &["high-systime", "-p", "users=3", "-p", "ops=1000000"],
    &["messaging", "-p", "fds=4", "-p", "ops=100000000"],
    &["locks", "-p", "ms=600000"],
    &["under-load", "-p", "load=xtar", "-p", "ops=1000000"],
];

// One after the other: they count the IPC objects of the whole machine.
#[test]
fn what_is_ended_in_the_middle_leaves_nothing() {
    for arguments in LONG {
        for signal in [Signal::INT, Signal::KILL] {
            let end = |child: &Child| kill_process(Pid::from_child(child), signal).unwrap();
            nothing_is_left_of(arguments, end);
        }
    }
}

/// A directory with one row in C, whose program is this one.
fn own_rows(dir: &Path, c: &str) -> PathBuf {
    let rows = dir.join("rows");
    fs::create_dir_all(&rows).unwrap();
    let toml = "name = \"mine\"\ngroup = \"mine\"\ntitle = \"a row\"\nwhy = \"It is a test.\"\n\
        program = \"mine\"\noperation = \"one\"\nops = 1\n[signature]\ndone = \"ops\"\n";
    fs::write(rows.join("mine.toml"), toml).unwrap();
    fs::write(rows.join("mine.c"), c).unwrap();
    rows
}

const OWN_ROW: &str = "#include \"ktax.h\"\nstatic int op(void) { return 0; }\n\
    static void run(const struct order *o) { measure(o, 1, op, \"done\"); }\n\
    WORKLOAD(\"mine\", run);\n";

#[test]
fn the_c_of_a_directory_is_compiled_where_it_is_checked() {
    let dir = scratch();
    let list = |c: &str| {
        let rows = own_rows(dir.path(), c);
        run(ktax().args(["workloads", "--workloads"]).arg(rows))
    };
    let sound = list(OWN_ROW);
    assert!(sound.status == 0 && sound.stdout.contains("mine"), "{}", sound.stderr);
    let refused = list(&OWN_ROW.replace("op, ", "opp, "));
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""));
    refused.says("does not compile: mine.c:3:");
}

const STOPPED: &str = "ktax: stopped; finished work is kept: type the same command to continue\n";

/// The compiler gets the signal, as everything in a terminal does, and so does ktax.
#[test]
fn ctrl_c_in_a_compile_is_no_error_of_the_c() {
    let (dir, compiler) = scratch_path("cc");
    fs::write(&compiler, "#!/bin/sh\nkill -INT $PPID\nkill -INT $$\n").unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let (rows, cache) = (own_rows(dir.path(), OWN_ROW), dir.path().join("cache"));
    let mut list = ktax();
    list.args(["workloads", "--workloads"]).arg(rows).env("CC", compiler);
    let ran = run(list.env("KTAX_CACHE", &cache));
    assert_eq!((ran.status, ran.stderr.as_str()), (130, STOPPED));
    let left: Vec<_> = fs::read_dir(cache.join("runs")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
