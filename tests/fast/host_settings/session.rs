//! When the session ends in which ktax was started.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use super::changer::{alone, ended, start_as, values};
use super::{has_journal, is_changed};
use crate::common::{processes_below, until};

/// A signal ends it well in the middle of a loop: all is as before, and no process is left.
pub fn puts_back_after(signal: Signal, dir: &Path, start: &dyn Fn() -> Child) {
    let before = values();
    let child = start();
    until("the loop runs", || processes_below(dir).len() >= 3);
    is_changed();
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(ended(child), (true, String::new()));
    assert_eq!((values(), has_journal(dir)), (before, false));
    until("all processes end", || processes_below(dir).is_empty());
}

#[test]
fn when_the_session_ends_all_is_put_back() {
    alone("session::when_the_session_ends_all_is_put_back", |dir| {
        puts_back_after(Signal::HUP, dir, &|| {
            // Whoever runs the tests may be behind nohup.
            let mut session = Command::new("env");
            session.arg("--default-signal=HUP").arg(std::env::current_exe().unwrap());
            start_as(session, dir, "measures")
        });
    });
}

#[test]
fn behind_nohup_it_outlives_the_session() {
    alone("session::behind_nohup_it_outlives_the_session", |dir| {
        let before = values();
        let mut nohup = Command::new("nohup");
        nohup.arg(std::env::current_exe().unwrap());
        let child = start_as(nohup, dir, "measures");
        until("the loop runs", || processes_below(dir).len() >= 3);
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let has_hangup = |set: &str| {
            let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
        };
        assert!(has_hangup("SigIgn:") && !has_hangup("SigCgt:"), "{status}");
        is_changed();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(ended(child), (true, String::new()));
        assert_eq!((values(), has_journal(dir)), (before, false));
    });
}
