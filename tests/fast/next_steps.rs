//! A command that a message tells to type does what the message says, wherever the directory is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ktax::rundir::AnyRunDir;

use crate::common::{Ran, ktax, own, run, scratch};
use crate::rundirs::plans;

/// Names that a shell would read as something else.
const HARD: [&str; 4] = ["my dir", "it's", "two\nlines", "-x"];

/// The last command between backticks.
#[track_caller]
fn command_in(said: &str) -> &str {
    let mut parts = said.rsplit('`');
    parts.next();
    parts.next().unwrap_or_else(|| panic!("no command in {said:?}"))
}

/// Types a command of ktax's into a shell, in a directory.
fn type_in(dir: &Path, command: &str) -> Ran {
    assert!(command.starts_with("ktax "), "{command}");
    let mut shell = Command::new("bash");
    let path = Path::new(env!("CARGO_BIN_EXE_ktax")).parent().unwrap();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    run(own(&mut shell).current_dir(dir).env("PATH", path).args(["-c", command]))
}

#[test]
fn a_directory_that_is_no_run_has_a_next_step_that_works() {
    let dir = scratch();
    for name in HARD {
        let below = PathBuf::from(".").join(name);
        let absent = run(ktax().current_dir(dir.path()).arg("run").arg(&below));
        assert_eq!(absent.status, 2, "{}", absent.stderr);
        assert!(absent.stderr.contains("does not exist"), "{}", absent.stderr);
        // Without a QEMU nothing is fetched: what was typed was read, and a run is what it needs.
        let typed = command_in(&absent.stderr);
        let ran = type_in(dir.path(), &format!("{typed} --qemu /nonexistent/qemu"));
        assert_eq!(ran.status, 69, "{typed}: {}", ran.stderr);
        assert!(typed.starts_with("ktax plan lsm --out "), "{typed}");
    }
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let other = run(ktax().arg("run").arg(dir.path()));
    assert!(other.stderr.contains("no plan.json; give the directory of a run"), "{}", other.stderr);
    assert_eq!(command_in(&other.stderr), "ktax compare lsm");
    let [(_, plan), ..] = plans();
    AnyRunDir::create(&dir.path().join("a b"), plan).unwrap();
    let other = run(ktax().arg("run").arg(dir.path()));
    let below = format!("give one of them, such as {}\n", dir.path().join("a b").display());
    assert!(other.stderr.ends_with(&below), "{}", other.stderr);
}

#[test]
fn a_command_to_type_is_quoted_for_the_shell() {
    let dir = scratch();
    // Times would be measured, which nothing is missing for.
    let plans = plans().into_iter().filter(|(name, _)| *name != "times").collect::<Vec<_>>();
    for ((name, plan), hard) in plans.into_iter().cycle().zip(HARD) {
        let root = dir.path().join(hard);
        AnyRunDir::create(&root, plan).unwrap();
        let relative = PathBuf::from(".").join(hard);
        let reported = run(ktax().current_dir(dir.path()).arg("report").arg(&relative));
        let typed = command_in(&reported.stderr);
        assert!(!typed.contains(char::is_control), "{typed:?}");
        // The library's plans are of kernels that are nowhere, and of a QEMU that is not here.
        let ran = type_in(dir.path(), typed);
        let read = !ran.stderr.contains("does not exist") && !ran.stderr.contains("unexpected");
        assert!(read && !ran.stderr.contains("usage"), "{name} {typed}: {}", ran.stderr);
        let args = ["compare", "--same", "--kernel", "k", "-w", "getppid"];
        let out = format!("--out={hard}");
        let refused = run(ktax().current_dir(dir.path()).args(args).arg(out));
        let typed = command_in(&refused.stderr);
        assert!(typed.starts_with("ktax run "), "{}", refused.stderr);
        let ran = type_in(dir.path(), typed);
        let read = !ran.stderr.contains("does not exist") && !ran.stderr.contains("unexpected");
        assert!(read && !ran.stderr.contains("Usage"), "{name} {typed}: {}", ran.stderr);
    }
}
