//! What is changed on the running kernel is put back on every way out. Each test is in a network
//! namespace of its own, whose settings are nobody else's.

mod changer;
mod container;
mod loops;
mod session;

use std::fs;
use std::path::Path;

use self::changer::{
    TTL, alone, ended, killed, side, sides, start, started, timed, values, workload,
};
use crate::common::{Ran, ktax, processes_below, run, scratch, until};
use ktax::engine::Timed;
use ktax::engine::host::Changer;
use ktax::model::{Blame, Failure, TimedSubject};
use rustix::process::Signal;

fn doctor(dir: &Path, options: &[&str]) -> Ran {
    // What it says of QEMU takes long and is nothing here.
    let mut command = ktax();
    command.args(["doctor", "--qemu", "/nonexistent"]).args(options);
    run(command.env("KTAX_STATE", dir))
}

/// What the doctor says of settings: whether it is well, and the fix.
fn finding(dir: &Path) -> (bool, String) {
    let findings: serde_json::Value =
        serde_json::from_str(&doctor(dir, &["--json"]).stdout).unwrap();
    let about_settings = |finding: &&serde_json::Value| finding["what"] == "settings";
    let finding = findings.as_array().unwrap().iter().find(about_settings).unwrap();
    (finding["ok"].as_bool().unwrap(), finding["fix"].as_str().unwrap().to_owned())
}

fn is_changed() {
    assert_eq!(values(), ["66", "4096\t8192\t16384"]);
}

fn has_journal(dir: &Path) -> bool {
    dir.join("journal.json").exists()
}

#[test]
fn at_the_end_all_is_put_back() {
    alone("at_the_end_all_is_put_back", |dir| {
        let before = values();
        let mut child = started(dir, "changes");
        is_changed();
        assert!(has_journal(dir));
        drop(child.stdin.take());
        assert_eq!(ended(child), (true, String::new()));
        assert_eq!((values(), has_journal(dir)), (before, false));
    });
}

#[test]
fn after_an_error_all_is_put_back() {
    alone("after_an_error_all_is_put_back", |dir| {
        let before = values();
        let (_, said) = ended(start(dir, "fails"));
        assert!(said.contains("the error in the middle"), "{said}");
        assert_eq!((values(), has_journal(dir)), (before, false));
    });
}

#[test]
fn stopped_by_the_user_all_is_put_back_and_nothing_runs_on() {
    alone("stopped_by_the_user_all_is_put_back_and_nothing_runs_on", |dir| {
        session::puts_back_after(Signal::INT, dir, &|| start(dir, "measures"));
    });
}

#[test]
fn after_a_kill_the_doctor_puts_back() {
    alone("after_a_kill_the_doctor_puts_back", |dir| {
        let before = values();
        assert_eq!(finding(dir), (true, String::new()));
        let child = start(dir, "measures");
        until("the loop runs", || processes_below(dir).len() >= 3);
        killed(child);
        // Its loops end with it, also behind a prefix.
        until("all processes end", || processes_below(dir).is_empty());
        is_changed();
        let (is_well, fix) = finding(dir);
        assert!(!is_well && fix.ends_with("ktax doctor --restore"), "{fix}");
        is_changed();
        let ran = doctor(dir, &["--restore", "--json"]);
        let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(told["put_back"][1]["to"], "64", "{told}");
        assert_eq!((values(), has_journal(dir), ran.status), (before, false, 0));
        let ran = doctor(dir, &["--restore"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, "no setting was left changed\n"));
        assert_eq!(finding(dir), (true, String::new()));
    });
}

#[test]
fn after_a_kill_the_next_start_puts_back() {
    alone("after_a_kill_the_next_start_puts_back", |dir| {
        let before = values();
        killed(started(dir, "changes"));
        is_changed();
        let mut next = started(dir, "begins");
        assert_eq!(values(), before);
        drop(next.stdin.take());
        let (_, said) = ended(next);
        assert!(said.contains("restored net.ipv4.ip_default_ttl to 64 (was 66)"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!((values(), has_journal(dir)), (before.clone(), false));
        // One that changes nothing puts back as well.
        killed(started(dir, "changes"));
        let nothing = TimedSubject::default();
        Changer::new(dir, [&nothing, &nothing], |_| ()).unwrap();
        assert_eq!((values(), has_journal(dir)), (before, false));
    });
}

#[test]
fn after_a_power_cut_the_journal_is_enough() {
    alone("after_a_power_cut_the_journal_is_enough", |dir| {
        let before = values();
        // Between the journal and the first change.
        killed(started(dir, "begins"));
        assert_eq!((values(), has_journal(dir)), (before.clone(), true));
        assert_eq!(doctor(dir, &["--restore"]).stdout, "no setting was left changed\n");
        assert!(!has_journal(dir));
        // Later: nothing is there but the journal.
        killed(started(dir, "changes"));
        let other = scratch();
        fs::copy(dir.join("journal.json"), other.path().join("journal.json")).unwrap();
        fs::write(other.path().join(".new-torn"), "{").unwrap();
        assert_eq!(doctor(other.path(), &["--restore"]).status, 0);
        assert_eq!(values(), before);
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "the lock");
    });
}

#[test]
fn what_others_have_set_since_stays() {
    alone("what_others_have_set_since_stays", |dir| {
        let before = values();
        killed(started(dir, "changes"));
        fs::write(TTL, "99").unwrap();
        let ran = doctor(dir, &["--restore"]);
        assert!(ran.stdout.contains("at 99: somebody else"), "{}", ran.stdout);
        assert_eq!((values(), ran.status), (["99".to_owned(), before[1].clone()], 0));
        assert!(!has_journal(dir));
    });
}

#[test]
fn what_the_kernel_makes_of_a_value_is_put_back_too() {
    alone("what_the_kernel_makes_of_a_value_is_put_back_too", |dir| {
        let before = values();
        let hex = side(&[("net/ipv4/ip_default_ttl", "0x42")]);
        let mut changer = Changer::new(dir, [&hex, &hex], |_| ()).unwrap();
        let error = changer.apply(&hex).unwrap_err().to_string();
        assert!(error.contains("\"0x42\" and reads back as \"66\""), "{error}");
        assert_eq!(values()[0], "66");
        // As if it were killed now.
        let other = scratch();
        fs::copy(dir.join("journal.json"), other.path().join("journal.json")).unwrap();
        assert_eq!(doctor(other.path(), &["--restore"]).status, 0);
        assert_eq!(values(), before);
        changer.restore().unwrap();
    });
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_changes() {
    alone("what_cannot_be_written_is_refused_before_anything_changes", |dir| {
        let before = values();
        for (name, word) in [
            ("net.ipv4.tcp_available_congestion_control", "read-only"),
            ("net.ipv4.route.flush", "cannot read"),
            ("net.ipv4.ip_default_tll", "there is no net.ipv4.ip_default_tll"),
        ] {
            let bad = side(&[("net.ipv4.ip_default_ttl", "66"), (name, "1")]);
            let error = Changer::new(dir, [&bad, &bad], |_| ()).err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
            assert_eq!((values(), has_journal(dir)), (before.clone(), false));
        }
    });
}

#[test]
fn a_journal_that_is_none_changes_nothing() {
    alone("a_journal_that_is_none_changes_nothing", |dir| {
        killed(started(dir, "changes"));
        let path = dir.join("journal.json");
        let good = fs::read_to_string(&path).unwrap();
        let name = "net.ipv4.ip_default_ttl";
        for (bad, word) in [
            (good[..good.len() / 2].to_owned(), "EOF"),
            (String::new(), "EOF"),
            ("\u{1b}[31m".into(), "expected value"),
            (good.replace(name, "kernel/../../etc/passwd"), "is not the name of a setting"),
            (good.replace(name, "../etc/passwd"), "is not the name of a setting"),
            (good.replace("\"sysctl\"", "\"governor\""), "is not the name of a setting"),
            (good.replace("\"sysctl\"", "\"path\""), "unknown variant"),
            (good.replace("\"64\"", "\"64\\n65\""), "control characters"),
            (good.replace("\"format\": 1", "\"format\": 2"), "format 2"),
        ] {
            assert_ne!(bad, good);
            fs::write(&path, &bad).unwrap();
            let ran = doctor(dir, &["--restore"]);
            assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{bad}");
            let message = &ran.stderr;
            assert!(message.contains(word) && message.contains("journal.json"), "{message}");
            assert!(
                message.ends_with("then remove it\n") && !message.contains('\u{1b}'),
                "{message}"
            );
            let next = Changer::new(dir, [&sides()[0], &sides()[1]], |_| ());
            assert_eq!(next.err().unwrap().to_string(), message["ktax: ".len()..].trim_end());
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
            is_changed();
        }
    });
}

#[test]
fn one_ktax_at_a_time_changes_this_machine() {
    alone("one_ktax_at_a_time_changes_this_machine", |dir| {
        let mut owner = started(dir, "changes");
        let ran = doctor(dir, &["--restore"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("another ktax"), "{}", ran.stderr);
        assert!(ran.stderr.ends_with("wait until it ends\n"), "{}", ran.stderr);
        let second = Changer::new(dir, [&sides()[0], &sides()[1]], |_| ()).err().unwrap();
        assert_eq!(second.blame, Blame::User);
        assert!(second.to_string().contains("another ktax"), "{second}");
        assert_eq!(finding(dir), (true, String::new()));
        is_changed();
        assert!(has_journal(dir));
        drop(owner.stdin.take());
        assert!(ended(owner).0);
    });
}

#[test]
fn a_state_directory_of_others_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    alone("a_state_directory_of_others_is_refused", |dir| {
        killed(started(dir, "changes"));
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
        let link = scratch();
        symlink(dir, link.path().join("link")).unwrap();
        for dir in [dir, &link.path().join("link")] {
            let ran = doctor(dir, &["--restore"]);
            assert_eq!(ran.status, 1, "{}", ran.stdout);
            assert!(ran.stderr.contains("other users can write to"), "{}", ran.stderr);
            is_changed();
        }
    });
}

#[test]
fn a_prefix_runs_the_loops_or_says_why_not() {
    alone("a_prefix_runs_the_loops_or_says_why_not", |dir| {
        let getppid = workload("getppid", &["ops=1000"]);
        let loops = [&getppid; 2];
        let boot = |prefix: &[&str]| {
            let prefix = prefix.iter().map(|word| (*word).to_owned()).collect();
            let side = TimedSubject { prefix, ..TimedSubject::default() };
            let host = timed(dir, [&side, &side]);
            let booted = host.boot(&side, &loops).unwrap();
            host.end().unwrap();
            booted.wires
        };
        for prefix in [&[][..], &["taskset", "-c", "0"], &["env", "A=B", "setarch", "-R"]] {
            for wire in boot(prefix) {
                let wire = String::from_utf8(wire.unwrap()).unwrap();
                assert!(wire.contains("1000"), "{wire}");
            }
        }
        for (prefix, word) in [
            (&["ktax-has-no-such"][..], "No such file"),
            (&["taskset", "-c", "99999"], "99999"),
            (&["false"], "exit status: 1"),
        ] {
            let failure = boot(prefix).remove(0).unwrap_err();
            assert!(matches!(failure, Failure::Prefix { .. }), "{failure:?}");
            let message = failure.to_string();
            assert!(message.contains(prefix[0]) && message.contains(word), "{message}");
        }
        assert!(!dir.join("lock").exists(), "nothing is changed, nothing is needed");
    });
}
