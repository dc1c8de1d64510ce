//! Commands that `ktax exits record` and `watch` start, and their output.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::common::{self, Ran, run, until};
use common::kvm::{can_record, exits};
use rustix::process::{Pid, Signal, kill_process};

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");

/// Starts it with its output kept.
fn spawn(args: &[&str]) -> Child {
    exits(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// How it ended; it must do so soon.
fn ended(mut child: Child) -> Ran {
    let pid = child.id();
    let is_over = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") Z ")
    };
    let in_time = std::panic::catch_unwind(|| until("ktax ends", is_over));
    if in_time.is_err() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (output.stdout, output.stderr);
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(in_time.is_ok(), "it never ended: {stderr}");
    Ran { status: output.status.code().unwrap_or(-1), stdout, stderr }
}

#[test]
fn a_command_that_does_not_end_when_asked_is_made_to() {
    if !can_record() {
        return;
    }
    let loops = "trap '' TERM; while :; do :; done";
    for script in ["kill -STOP $$", loops] {
        ended(spawn(&["record", "--seconds", "0.5", "--", "sh", "-c", script])).exits(0);
    }
    ended(spawn(&["record", "--seconds", "0.1", "--", KTAX, "vmm", "raw"])).exits(0);
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn waiting_for_a_stop_ends_with_ctrl_c_and_a_command_without_one_is_told_so() {
    if !can_record() {
        return;
    }
    let begun = common::scratch();
    let mark = begun.path().join("begun");
    let script = format!("touch {}; while :; do sleep 0.1; done", mark.display());
    let waiting = spawn(&["record", "--from-stop", "--", "sh", "-c", &script]);
    until("the command runs", || mark.exists());
    interrupt(&waiting);
    let ran = ended(waiting);
    assert_eq!((ran.status, ran.stderr.as_str()), (130, "ktax: stopped\n"));
    let ran = run(&mut exits(&["record", "--from-stop", "--", "true"]));
    assert!(ran.stderr.contains("true ended but never stopped itself; remove"), "{ran:?}");
    assert!(!ran.stderr.contains("cannot start"), "{ran:?}");
}

#[test]
fn watching_ends_with_the_second_stop_and_with_its_reader() {
    if !can_record() {
        return;
    }
    let twice = "kill -STOP $$; kill -STOP $$";
    let watch = ["watch", "--interval", "0.1", "--from-stop", "--", "sh", "-c", twice];
    ended(spawn(&watch)).exits(0);
    let endless = ["--", KTAX, "vmm", "raw", "--out", "4000000000"];
    let mut watch = spawn(&[&["watch", "--interval", "0.1"], &endless[..]].concat());
    drop(watch.stdout.take());
    assert_eq!(ended(watch).status, 0);
}

#[test]
fn a_recording_is_not_lost_with_its_file() {
    if !can_record() {
        return;
    }
    let dir = common::scratch();
    let [mark, gone] = ["begun", "gone"].map(|name| dir.path().join(name).display().to_string());
    let touch = ["--", "touch", &mark];
    for out in [&format!("{gone}/x"), dir.path().to_str().unwrap()] {
        let ran = run(exits(&["record", "--out", out]).args(touch)).exits(2);
        assert!(ran.stderr.contains(&format!("cannot write {out}: ")), "{ran:?}");
        assert!(!ran.stderr.contains(".new-") && !fs::exists(&mark).unwrap(), "{ran:?}");
    }
    // If something goes wrong meanwhile, the tables are still printed.
    fs::create_dir(&gone).unwrap();
    let vmm = format!("rmdir {gone}; exec {KTAX} vmm raw --out 200");
    let record = ["record", "--level", "run", "--out", &format!("{gone}/x")];
    let ran = run(exits(&record).args(["--", "sh", "-c", &vmm]));
    assert!(ran.status == 2 && ran.stdout.contains("KVM_EXIT_IO"), "{ran:?}");
    assert!(!ran.stderr.contains(".new-"), "{ran:?}");
    // A name alone is one in the current directory.
    let plain = ["record", "--out", "plain", "--", KTAX, "vmm", "raw"];
    let ran = run(exits(&plain).current_dir(dir.path()));
    assert!(ran.status == 0 && dir.path().join("plain").exists(), "{ran:?}");
}

#[test]
fn names_of_others_do_nothing_to_a_terminal() {
    let ran = run(Command::new(KTAX).args(["exits", "report", "/no/\x1b[31mfile"]));
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("/no/\\u{1b}[31mfile"), "{ran:?}");
    let ran = run(Command::new(KTAX).args(["exits", "record", "--vm", "a\x1b[2Jb"]));
    assert!(ran.stderr.contains("a\\u{1b}[2Jb") && !ran.stderr.contains('\x1b'), "{ran:?}");
}

#[test]
fn a_command_that_is_not_itself_the_vmm_is_told_so() {
    if !can_record() {
        return;
    }
    let child = format!("{KTAX} vmm raw; exit 3");
    let ran = run(&mut exits(&["record", "--", "sh", "-c", &child]));
    assert!(ran.stderr.contains("its own process ran no guest"), "{ran:?}");
    assert!(ran.stderr.contains("let it `exec` the VMM"), "{ran:?}");
}

#[test]
fn help_says_all_of_it() {
    for (command, expected) in [
        ("record", "Ends with the VM, after --seconds, or with Ctrl-C"),
        ("watch", "Ends with the VM, with Ctrl-C"),
        ("report", "The file is a recording"),
    ] {
        let ran = run(Command::new(KTAX).args(["exits", command, "--help"]));
        assert!(ran.stdout.contains(expected), "{ran:?}");
        assert!(!ran.stdout.contains("and record it to its end"), "{ran:?}");
        assert!(command == "report" || ran.stdout.contains("itself must be the VMM"), "{ran:?}");
    }
}

#[test]
fn what_kvm_itself_does_not_count_is_refused() {
    for (via, args, expected) in [
        ("stats", ["--per", "vcpu", "--pid", "1"], "remove --per"),
        ("stats", ["--level", "run", "--pid", "1"], "remove --level"),
        ("stats", ["--per", "vm", "--", "true"], "give --pid or --vm"),
        ("timing", ["--level", "run", "--pid", "1"], "remove --level"),
        ("timing", ["--per", "vcpu", "--", "true"], "give --pid or --vm"),
    ] {
        for command in ["record", "watch"] {
            let ran = run(Command::new(KTAX).args(["exits", command, "--via", via]).args(args));
            assert!(ran.status == 2 && ran.stderr.contains(expected), "{ran:?}");
        }
    }
}
