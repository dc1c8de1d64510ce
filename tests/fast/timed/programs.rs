//! The user's program as a row, on the running kernel: it runs where it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use ktax::model::{CountsPlan, Plan, Sides, Subject, TimedPair, Verdict};
use ktax::plan::{CountsExperiment, Experiment};
use ktax::rundir::RunDir;

use crate::common::{
    self, Need, cache, isolate, ktax, made, printed, require, run, scratch, scratch_path,
};

const QUICK: [&str; 8] = ["--engine", "host", "--seed", "1", "--loops", "1", "--pairs", "10"];

fn pair(out: &Path) -> TimedPair {
    serde_json::from_slice(&fs::read(out.join("pairs/0000.json")).unwrap()).unwrap()
}

#[test]
fn a_program_is_timed_without_packing() {
    let (dir, out) = scratch_path("run");
    fs::write(dir.path().join("input"), "of stdin\n").unwrap();
    let words = ["sh", "-c", "cat > seen; echo $MINE$PWD; echo $MINE > mine"];
    let options = ["--same", "--stdin", "input", "--env", "MINE=given", "--ops", "3"];
    let mut ktax = ktax();
    let ktax = ktax.current_dir(dir.path()).arg("compare").args(QUICK).args(options);
    let ran = run(ktax.arg("--json").arg("--out").arg(&out).arg("--").args(words));
    let comparison = ran.comparison();
    let row = &comparison.rows[0];
    assert_eq!(row.row, "program:sh", "{}", ran.stderr);
    assert!(row.times().unwrap().ns.base.unwrap() > 0.0, "{row:?}");
    assert_eq!(fs::read_to_string(dir.path().join("seen")).unwrap(), "of stdin\n");
    assert_eq!(fs::read_to_string(dir.path().join("mine")).unwrap(), "given\n");
    let of_base = &pair(&out).boots.base.runs["program:sh"];
    let runs = of_base.signature["runs"];
    assert!(runs > 0 && of_base.signature.contains_key("stdout"), "{of_base:?}");
    // The plan knows the program, where it starts, and how many operations that is.
    let plan: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("plan.json")).unwrap()).unwrap();
    let method = &plan["method"]["times"];
    assert_eq!(method["headline"][0]["ops"], runs * 3, "{method}");
    assert_eq!(method["programs_here"]["directory"], dir.path().to_str().unwrap());
}

#[test]
fn a_prefix_reaches_the_program_and_other_output_is_other_work() {
    let (_dir, out) = scratch_path("run");
    let planted = ["--change-set", "prefix=env PLANTED=1"];
    let ran = run(ktax()
        .arg("compare")
        .args(QUICK)
        .args(planted)
        .args(["--json", "--out"])
        .arg(&out)
        .args(["--", "sh", "-c", "echo $PLANTED"]));
    let comparison = ran.comparison();
    assert_eq!((comparison.rows[0].verdict, ran.status), (Verdict::DifferentWork, 4));
}

#[test]
fn a_failed_program_is_reported_and_leaves_no_files() {
    let dir = scratch();
    let compare = |name: &str, options: &[&str], command: &[&str]| {
        let mut ktax = ktax();
        let ktax = ktax.current_dir(dir.path()).args(["compare", "--same"]).args(QUICK);
        run(ktax.args(options).args(["--out", name, "--"]).args(command))
    };
    let failed =
        compare("a", &[], &["sh", "-c", "echo why >&2; tail -f -c 1000 /dev/null & exit 3"]);
    assert_eq!(failed.status, 69, "{}", failed.stderr);
    failed.prints("its exit status is 3, expected 0: why");
    assert_eq!(running("tail\0-f\0-c\x001000\0/dev/null\0"), 0);
    compare("b", &[], &["yes"]).prints("it printed more than 31 MiB");
    for (options, command, message) in [
        (&["--file", "x"][..], "true", "only a program in a guest has --file (files)"),
        (&["--setup", "true"], "true", "has --setup (setup)"),
        (&["--user", "1"], "true", "has --user (user)"),
        (&["--ops-from", "n"], "true", "only counts have --ops-from (ops_from)"),
        (&[], "no-such-program", "no directory of PATH has a program"),
    ] {
        compare("c", options, &[command]).exits(2).says(message);
        assert!(!dir.path().join("c").exists());
    }
    let nothing = run(ktax().args(["compare", "--same"]).args(QUICK).arg("--"));
    nothing.says("there is no program after --");
    let refused = run(ktax().args(["compare", "--same", "-w", "git-status"]).args(QUICK));
    refused.says("write the program after --");
    assert!(fs::read_dir(cache().join("runs")).is_ok());
}

#[test]
fn a_daemon_is_ended_before_the_next_row() {
    let dir = scratch();
    let daemon = "exec >/dev/null 2>&1
        setsid sh -c 'setsid tail -f -c 1001 /dev/null & exec tail -f -c 1002 /dev/null' &";
    let mut ktax = ktax();
    let ktax = ktax.args(["compare", "--same"]).args(QUICK).arg("--out").arg(dir.path().join("o"));
    let ran = run(ktax.args(["--", "sh", "-c", daemon]));
    assert!(matches!(ran.status, 0 | 4), "{}{}", ran.stdout, ran.stderr);
    for number in ["1001", "1002"] {
        assert_eq!(running(&format!("tail\0-f\0-c\0{number}\0/dev/null\0")), 0);
    }
}

/// How many processes have this command line.
fn running(command: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines =
        processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line == command).count()
}

#[test]
fn another_program_is_not_measured_into_the_same_pairs() {
    let dir = scratch();
    let dir = dir.path();
    let script = dir.join("mine");
    let write = |text: &str| fs::write(&script, text).unwrap();
    write("#!/bin/sh\necho 1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    let plan = ["plan", "--same", "--out", "p"];
    run(ktax().current_dir(dir).args(plan).args(QUICK).args(["--", "./mine"])).exits(0);
    write("#!/bin/sh\necho 2\n");
    run(ktax().arg("run").arg(dir.join("p"))).exits(2).says("are not those of the plan any more");
    write("#!/bin/sh\necho 1\n");
    // From any directory: the plan says where it starts.
    let ran = run(ktax().arg("run").arg(dir.join("p")));
    assert!(matches!(ran.status, 0 | 4), "{}", ran.stderr);
}

//

/// `ktax ARGUMENTS` in a mount namespace in which the kernel's names of this boot and of its boot
/// line are others.
fn booted(boot_id: &std::path::Path, arguments: &[&str]) -> common::Ran {
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && \
                  mount --bind \"$0\" /proc/cmdline && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(boot_id).arg(env!("CARGO_BIN_EXE_ktax"));
    run(isolate(command.args(arguments)))
}

/// A ktax of this machine's that changes settings holds the lock of the usual state directory.
#[test]
fn tests_do_not_depend_on_settings_of_another_ktax() {
    let dir = scratch();
    let script = "mount -t tmpfs none /var/lib && mkdir -m 755 /var/lib/ktax && \
                  echo {} >/var/lib/ktax/journal.json && exec flock /var/lib/ktax/lock \"$@\"";
    let quick = ["--same", "--engine", "host", "--loops", "1", "-w", "control-planted:ops=50"];
    let beside = |name: &str, state: &str| {
        let mut command = Command::new("unshare");
        isolate(&mut command).args(["-m", "sh", "-c", script, "sh", "env", state]);
        command.arg(env!("CARGO_BIN_EXE_ktax")).arg("compare").args(quick);
        run(command.args(["--pairs", "10", "--out"]).arg(dir.path().join(name)))
    };
    let can_mount = Command::new("unshare").args(["-m", "true"]).status();
    let can_mount = can_mount.is_ok_and(|status| status.success());
    if !require(Need::Namespaces, can_mount, "this user cannot mount in a namespace of its own") {
        return;
    }
    let ran = beside("tests", "LANG=C");
    assert!(matches!(ran.status, 0 | 3 | 4), "{ran:?}");
    let ran = beside("usual", "--unset=KTAX_STATE");
    assert!(ran.status == 2 && ran.stderr.contains("another ktax"), "{ran:?}");
}

#[test]
fn a_side_is_measured_in_a_boot_of_its_own() {
    let (dir, out) = scratch_path("run");
    let out = out.to_str().unwrap();
    let [first, two] = ["one", "two"].map(|name| dir.path().join(name));
    fs::write(&first, "11111111-0000-4000-8000-000000000000\n").unwrap();
    fs::write(&two, "22222222-0000-4000-8000-000000000000\n").unwrap();
    let can_mount = booted(&first, &["--version"]).status == 0;
    if !require(Need::Namespaces, can_mount, "this user cannot mount in a namespace of its own") {
        return;
    }
    let kernels = ["--base-set", "kernel=old", "--change-set", "kernel=new"];
    let rows = ["--engine", "host", "--seed", "1", "--loops", "1", "-w", "control-planted:ops=50"];
    let compare = [&["compare"], &rows[..], &kernels[..], &["--out", out]].concat();
    booted(&first, &compare).exits(2).says("`plan` for `compare` and with --out DIR");
    let planned =
        booted(&first, &[&["plan"], &rows[..], &kernels[..], &["--out", out]].concat()).exits(0);
    planned.says("--side base");
    for (boot, arguments, status, message) in [
        (
            &first,
            &["run", out][..],
            2,
            "the sides are kernels that you boot; boot old and type `ktax run",
        ),
        (&first, &["run", out, "--side", "base", "--peek"], 2, "remove --peek"),
        (&first, &["analyse", out], 2, "no pair yet"),
        (&first, &["run", out, "--side", "base"], 0, "the next block in the randomized order"),
        (&first, &["run", out, "--side", "change"], 2, "reboot first"),
        (&first, &["run", out, "--side", "base"], 2, "reboot first"),
        (&two, &["run", out, "--side", "base"], 2, "boot that kernel"),
        (&two, &["run", out, "--side", "change"], 0, "ktax analyse"),
        (&two, &["analyse", out], 4, "in"),
    ] {
        let ran = booted(boot, arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message) || status == 4, "{arguments:?}: {}", ran.stderr);
    }
    let comparison = printed::comparison(&booted(&two, &["report", "--json", out]).stdout);
    assert_eq!(comparison.title, "old against new");
    assert!(comparison.rows[0].times().unwrap().ns.change.is_some(), "{comparison:?}");
    // A machine that is too busy to measure says so first.
    let verdict = comparison.rows[0].verdict;
    assert!(matches!(verdict, Verdict::TooFewBoots | Verdict::Inconclusive), "{comparison:?}");
}

//

#[test]
fn mistakes_are_refused_with_the_next_step() {
    for (arguments, message) in [
        (&["--pairs", "10", "-w", "getppid"][..], "only applies to timed engines (host and kvm)"),
        (
            &["--engine", "host", "-w", "getppid", "--layouts", "2"],
            "--layouts (layouts) only applies to the exact",
        ),
        (&["--engine", "host", "-w", "getppid", "--change-set", "nonsense"], "there is no `=`"),
        (&["--engine", "host", "-w", "getppid"], "base and change are the same"),
        (&["--engine", "kvm", "--kernel", "x", "-w", "pipe"], "base and change are the same"),
        (&["--kernel", "x", "-w", "getppid"], "base and change are the same"),
        (
            &["--engine", "host", "-w", "getppid", "--change-set", "vm.swapiness=1"],
            "(did you mean vm.swappiness?)",
        ),
        (
            &["--engine", "host", "-w", "getppid", "--change-set", "swappiness=1"],
            "a dot or a slash",
        ),
        (&["--engine", "host", "-w", "getppid", "--change-set", "prefix='x"], "quote"),
        (&["--engine", "host", "--change-set", "thp=never"], "name rows with -w"),
        (&["--engine", "kvm", "-w", "getppid"], "kernel"),
        (&["--engine", "host", "--kernel", "debian:x", "-w", "getppid"], "--base-set kernel="),
        (&["--engine", "host", "--base", "6.1", "-w", "getppid"], "--base-set kernel="),
        (&["--engine", "host", "--change", "6.1", "-w", "getppid"], "--base-set kernel="),
        (
            &["--engine", "host", "--cpu", "max", "-w", "getppid"],
            "--cpu (machine.cpu) only applies",
        ),
        (&["--engine", "host", "--memory", "512", "-w", "getppid"], "memory_mib) only applies to"),
        (
            &["--engine", "host", "--vcpus", "1", "-w", "getppid"],
            "--cpus (machine.cpus) only applies to the exact engine and the kvm engine",
        ),
        (&["--engine", "host", "--cores", "1", "-w", "getppid"], "only apply to the kvm engine"),
        (&["--engine", "host", "--bare-metal", "-w", "getppid"], "only apply to the kvm engine"),
        (&["--engine", "host", "--base-boot-line", "quiet", "-w", "getppid"], "boot_line"),
        (
            &["--engine", "kvm", "--kernel", "x", "--base-set", "thp=never", "-w", "pipe"],
            "cannot be used with the kvm",
        ),
        (&["--engine", "kvm", "--bare-metal", "--base", "x", "-w", "pipe"], "--change"),
    ] {
        run(ktax().arg("plan").args(arguments)).exits(2).says(message);
    }
}

#[test]
fn guests_that_are_the_same_are_refused_unless_that_is_asked_for() {
    let (_dir, file) = scratch_path("guests.toml");
    let same = "title = \"x\"\nhost = \"kvm\"\nworkloads = [\"boot\"]\n\
                base = { kernel = \"/no/such\" }\nchange = { kernel = \"/no/such\" }\n";
    for (text, message) in [
        (same.to_owned(), "base and change are the same"),
        (format!("same = true\n{same}"), "/no/such"),
    ] {
        fs::write(&file, text).unwrap();
        run(ktax().arg("plan").arg(&file)).exits(2).says(message);
    }
}

/// A plan of the exact engine.
fn counted() -> Plan<CountsPlan> {
    let identity = made::identity("x", "00");
    let kernels = Sides { base: identity.clone(), change: identity };
    let method = CountsExperiment::between(Subject::new("x", ""), Subject::new("x", ""));
    let experiment = Experiment { title: "x".into(), seed: 1, threshold_percent: 0.1, method };
    experiment.plan(kernels, made::key("x"), None).unwrap()
}

#[test]
fn keys_of_times_are_refused_for_counts() {
    let (dir, timed) = scratch_path("timed.toml");
    fs::write(&timed, "title = \"x\"\nengine = \"host\"\nworkloads = [\"pipe\"]\n").unwrap();
    let ran = run(ktax().arg("plan").arg(&timed).args(["--engine", "exact"])).exits(2);
    ran.says("leave --engine out");
    let ran = run(ktax().args(["compare", "--same", "--kernel", "debian:x", "--peek"])).exits(2);
    ran.says("--peek only applies to timed runs");
    let out = dir.path().join("counted");
    RunDir::create(&out, counted()).unwrap();
    let ran = run(ktax().arg("analyse").arg(&out).arg("--allow-differences")).exits(2);
    let message = "--allow-differences only applies to timed runs";
    assert!(ran.stderr.contains(message) && ran.stderr.contains("remove it"), "{}", ran.stderr);
    for (flags, next) in [
        (&["--peek"][..], "remove it"),
        (&["--side", "base"], "type `ktax run"),
        (&["--allow-differences"], "remove it"),
    ] {
        let ran = run(ktax().arg("run").arg(&out).args(flags)).exits(2);
        ran.says("only applies to timed runs").says(next);
    }
}
