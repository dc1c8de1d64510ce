//! The user's program as a row, on the running kernel: it runs where it is.

use std::fs;
use std::path::Path;

use ktax::model::{TimedPair, Verdict};

use crate::common::{cache, ktax, printed, run, scratch};

const QUICK: [&str; 8] = ["--engine", "host", "--seed", "1", "--loops", "1", "--pairs", "10"];

fn pair(out: &Path) -> TimedPair {
    serde_json::from_slice(&fs::read(out.join("pairs/0000.json")).unwrap()).unwrap()
}

#[test]
fn a_program_is_timed_where_it_is() {
    let dir = scratch();
    let out = dir.path().join("run");
    fs::write(dir.path().join("input"), "of stdin\n").unwrap();
    let words = ["sh", "-c", "cat > seen; echo $MINE$PWD; echo $MINE > mine"];
    let options = ["--same", "--stdin", "input", "--env", "MINE=given", "--ops", "3"];
    let mut ktax = ktax();
    let ktax = ktax.current_dir(dir.path()).arg("compare").args(QUICK).args(options);
    let ran = run(ktax.arg("--json").arg("--out").arg(&out).arg("--").args(words));
    let comparison = printed::comparison(&ran.stdout);
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
    let dir = scratch();
    let out = dir.path().join("run");
    let planted = ["--change-set", "prefix=env PLANTED=1"];
    let ran = run(ktax()
        .arg("compare")
        .args(QUICK)
        .args(planted)
        .arg("--json")
        .arg("--out")
        .arg(&out)
        .args(["--", "sh", "-c", "echo $PLANTED"]));
    let comparison = printed::comparison(&ran.stdout);
    assert_eq!((comparison.rows[0].verdict, ran.status), (Verdict::DifferentWork, 4));
}

#[test]
fn what_fails_is_said_and_leaves_nothing() {
    let dir = scratch();
    let compare = |name: &str, options: &[&str], command: &[&str]| {
        let mut ktax = ktax();
        let ktax = ktax.current_dir(dir.path()).args(["compare", "--same"]).args(QUICK);
        run(ktax.args(options).args(["--out", name, "--"]).args(command))
    };
    let failed =
        compare("a", &[], &["sh", "-c", "echo why >&2; tail -f -c 1000 /dev/null & exit 3"]);
    assert_eq!(failed.status, 69, "{}", failed.stderr);
    assert!(failed.stdout.contains("its exit status is 3, expected 0: why"), "{}", failed.stdout);
    assert_eq!(running("tail\0-f\0-c\x001000\0/dev/null\0"), 0);
    let full = compare("b", &[], &["yes"]);
    assert!(full.stdout.contains("it printed more than 31 MiB"), "{}", full.stdout);
    for (options, command, said) in [
        (&["--file", "x"][..], "true", "only a program in a guest has --file (files)"),
        (&["--setup", "true"], "true", "has --setup (setup)"),
        (&["--user", "1"], "true", "has --user (user)"),
        (&["--ops-from", "n"], "true", "only counts have --ops-from (ops_from)"),
        (&[], "no-such-program", "no directory of PATH has a program"),
    ] {
        let refused = compare("c", options, &[command]);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert!(!dir.path().join("c").exists());
    }
    let nothing = run(ktax().args(["compare", "--same"]).args(QUICK).arg("--"));
    assert!(nothing.stderr.contains("there is no program behind --"), "{}", nothing.stderr);
    let own = run(ktax().args(["compare", "--same", "-w", "git-status"]).args(QUICK));
    assert!(own.stderr.contains("write the program behind --"), "{}", own.stderr);
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
    let planned = run(ktax().current_dir(dir).args(plan).args(QUICK).args(["--", "./mine"]));
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    write("#!/bin/sh\necho 2\n");
    let stale = run(ktax().arg("run").arg(dir.join("p")));
    assert_eq!(stale.status, 2, "{}", stale.stderr);
    assert!(stale.stderr.contains("are not those of the plan any more"), "{}", stale.stderr);
    write("#!/bin/sh\necho 1\n");
    // From any directory: the plan says where it starts.
    let ran = run(ktax().arg("run").arg(dir.join("p")));
    assert!(matches!(ran.status, 0 | 4), "{}", ran.stderr);
}
