//! The process that changes settings, and the namespace in which it does.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ktax::engine::host::Host;
use ktax::engine::host::TimedHost;
use ktax::engine::host::Changer;
use ktax::engine::{Cancel, Limits, Stop, Timed};
use ktax::model::{Facts, TimedSubject, Workload};
use ktax::plan::{definitions, native_rows};
use rustix::process::getuid;

use crate::common::{Need, cache, is_alone, require, run_alone, scratch, until};

pub const TTL: &str = "/proc/sys/net/ipv4/ip_default_ttl";
pub const MEMORY: &str = "/proc/sys/net/ipv4/tcp_wmem";

/// Runs the test of this name again in a namespace of its own.
#[track_caller]
pub fn alone(name: &str, test: impl Fn(&Path)) {
    if is_alone() {
        let dir = scratch();
        test(dir.path());
        return;
    }
    let own = if getuid().is_root() { "-n" } else { "-rn" };
    let writes = format!("cat {TTL} >{TTL} && cat {MEMORY} >{MEMORY}");
    let can = Command::new("unshare").args([own, "sh", "-c", &writes]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !require(Need::Namespaces, can, "this user cannot write settings of a network namespace") {
        return;
    }
    run_alone(&["unshare", own], &format!("host_settings::{name}"));
}

pub fn side(settings: &[(&str, &str)]) -> TimedSubject {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    TimedSubject { sysctl: settings.iter().map(owned).collect(), ..TimedSubject::default() }
}

/// The base has an own value, the change one more.
pub fn sides() -> [TimedSubject; 2] {
    let ttl = "net.ipv4.ip_default_ttl";
    [side(&[(ttl, "65")]), side(&[(ttl, "66"), ("net.ipv4.tcp_wmem", "4096 8192 16384")])]
}

pub fn workload(name: &str, params: &[&str]) -> Workload {
    let params: Vec<String> = params.iter().map(|param| (*param).to_owned()).collect();
    native_rows(&definitions().unwrap(), name, &params).unwrap().1.remove(0)
}

pub fn timed(dir: &Path, sides: [&TimedSubject; 2]) -> TimedHost<'static> {
    let cancel = Cancel::on_signals().unwrap();
    let host = Host::new(&cache(), Limits::with_seconds(600), cancel).unwrap();
    TimedHost::new(host, dir, sides, Facts::default, |line| eprintln!("{line}")).unwrap()
}

/// The process that changes things, which the tests start and end.
#[test]
fn changes_things() {
    let Some(way) = std::env::var_os("KTAX_TEST_CHANGER") else { return };
    let dir = ktax::engine::host::state_dir();
    let [base, change] = &sides();
    let wait = || std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let ready = || fs::write(dir.join("ready"), "").unwrap();
    let new = || Changer::new(&dir, [base, change], |line| eprintln!("{line}")).unwrap();
    match way.to_str().unwrap() {
        "begins" => {
            let _changer = new();
            ready();
            wait();
        }
        "changes" => {
            let mut changer = new();
            changer.apply(base).unwrap();
            changer.apply(change).unwrap();
            ready();
            wait();
            changer.apply(base).unwrap();
            assert_eq!(values(), ["65".to_owned(), fs::read_to_string(dir.join("was")).unwrap()]);
            changer.restore().unwrap();
        }
        "fails" => {
            let bad = side(&[("net.ipv4.ip_default_ttl", "66"), ("net.ipv4.tcp_wmem", "x")]);
            let mut changer = Changer::new(&dir, [base, &bad], |_| ()).unwrap();
            let error = changer.apply(&bad).unwrap_err().to_string();
            assert!(error.contains("tcp_wmem to \"x\""), "{error}");
            assert_eq!(values()[0], "66");
            panic!("the error in the middle");
        }
        "measures" => {
            let prefix = ["taskset", "-c", "0"].map(str::to_owned).to_vec();
            let change = TimedSubject { prefix, ..change.clone() };
            let host = timed(&dir, [base, &change]);
            let stopped = host.boot(&change, &[&workload("locks", &["ms=600000"])]);
            assert_eq!(stopped.unwrap_err(), Stop::Cancelled);
            host.end().unwrap();
        }
        other => panic!("{other}"),
    }
}

pub fn start(dir: &Path, way: &str) -> Child {
    start_as(Command::new(std::env::current_exe().unwrap()), dir, way)
}

/// A changer that another command becomes.
pub fn start_as(mut command: Command, dir: &Path, way: &str) -> Child {
    command
        .args(["--exact", "host_settings::changer::changes_things", "--nocapture"])
        .env("KTAX_TEST_CHANGER", way);
    command.env("KTAX_STATE", dir).env("TMPDIR", dir);
    fs::write(dir.join("was"), &values()[1]).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// One that has changed things and waits.
pub fn started(dir: &Path, way: &str) -> Child {
    let child = start(dir, way);
    until("it changes things", || dir.join("ready").exists());
    fs::remove_file(dir.join("ready")).unwrap();
    child
}

pub fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

pub fn killed(mut child: Child) {
    child.kill().unwrap();
    ended(child);
}

pub fn values() -> [String; 2] {
    [TTL, MEMORY].map(|path| fs::read_to_string(path).unwrap().trim_end().to_owned())
}
