//! Changed settings of the running kernel are restored on every way out. Each test has a network
//! namespace of its own, whose settings nothing else uses.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ktax::engine::host::{Changer, Host, TimedHost};
use ktax::engine::{Cancel, Limits, Stop, Timed};
use ktax::model::{Blame, Facts, Failure, TimedSubject, Workload};
use ktax::plan::{definitions, native_rows};
use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::common::{
    Need, Ran, assert_has, cache, is_alone, isolate, ktax, processes_below, require, run,
    run_alone, scratch, scratch_path, until,
};

fn doctor(dir: &Path, options: &[&str]) -> Ran {
    // The doctor's checks of QEMU take long and do not matter here.
    let mut command = ktax();
    command.args(["doctor", "--qemu", "/nonexistent"]).args(options);
    run(command.env("KTAX_STATE", dir))
}

/// The doctor's check of settings: whether it is ok, and the fix.
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
        let (_, stderr) = ended(start(dir, "fails"));
        assert!(stderr.contains("the error in the middle"), "{stderr}");
        assert_eq!((values(), has_journal(dir)), (before, false));
    });
}

#[test]
fn settings_are_restored_after_an_interrupt() {
    alone("settings_are_restored_after_an_interrupt", |dir| {
        puts_back_after(Signal::INT, dir, &|| start(dir, "measures"));
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
        // The loops end with ktax, also behind a prefix.
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
        let (_, stderr) = ended(next);
        assert!(stderr.contains("restored net.ipv4.ip_default_ttl to 64 (was 66)"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!((values(), has_journal(dir)), (before.clone(), false));
        // A run that changes nothing restores settings as well.
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
fn settings_changed_by_others_are_not_restored() {
    alone("settings_changed_by_others_are_not_restored", |dir| {
        let before = values();
        killed(started(dir, "changes"));
        fs::write(TTL, "99").unwrap();
        let ran = doctor(dir, &["--restore"]);
        ran.prints("at 99: somebody else");
        assert_eq!((values(), ran.status), (["99".to_owned(), before[1].clone()], 0));
        assert!(!has_journal(dir));
    });
}

#[test]
fn values_that_the_kernel_normalises_are_restored() {
    alone("values_that_the_kernel_normalises_are_restored", |dir| {
        let before = values();
        let hex = side(&[("net/ipv4/ip_default_ttl", "0x42")]);
        let mut changer = Changer::new(dir, [&hex, &hex], |_| ()).unwrap();
        let error = changer.apply(&hex).unwrap_err().to_string();
        assert!(error.contains("\"0x42\" and reads back as \"66\""), "{error}");
        assert_eq!(values()[0], "66");
        // Make it look killed.
        let other = scratch();
        fs::copy(dir.join("journal.json"), other.path().join("journal.json")).unwrap();
        assert_eq!(doctor(other.path(), &["--restore"]).status, 0);
        assert_eq!(values(), before);
        changer.restore().unwrap();
    });
}

#[test]
fn unwritable_settings_are_refused_before_any_change() {
    alone("unwritable_settings_are_refused_before_any_change", |dir| {
        let before = values();
        for (name, word) in [
            ("net.ipv4.tcp_available_congestion_control", "read-only"),
            ("net.ipv4.route.flush", "cannot read"),
            ("net.ipv4.ip_default_tll", "this kernel has no setting net.ipv4.ip_default_tll"),
        ] {
            let bad = side(&[("net.ipv4.ip_default_ttl", "66"), (name, "1")]);
            assert_has(Changer::new(dir, [&bad, &bad], |_| ()).err().unwrap().to_string(), word);
            assert_eq!((values(), has_journal(dir)), (before.clone(), false));
        }
    });
}

#[test]
fn an_invalid_journal_changes_nothing() {
    alone("an_invalid_journal_changes_nothing", |dir| {
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
        ran.says("another ktax");
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
        let link = link.path().join("link");
        for (dir, problem) in [(dir, "other users can write to"), (&link, "is not a directory")] {
            doctor(dir, &["--restore"]).exits(1).says(problem);
            is_changed();
        }
    });
}

#[test]
fn a_prefix_runs_the_loops_or_fails_with_a_reason() {
    alone("a_prefix_runs_the_loops_or_fails_with_a_reason", |dir| {
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
                assert_has(String::from_utf8(wire.unwrap()).unwrap(), "1000");
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

// The process that changes settings, and the namespace in which it does.

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
    let namespaces = if getuid().is_root() { "-n" } else { "-rn" };
    let writes = format!("cat {TTL} >{TTL} && cat {MEMORY} >{MEMORY}");
    let can = Command::new("unshare").args([namespaces, "sh", "-c", &writes]).output();
    let can = can.is_ok_and(|output| output.status.success());
    if !require(Need::Namespaces, can, "this user cannot write settings of a network namespace") {
        return;
    }
    run_alone(&["unshare", namespaces], &format!("host_settings::{name}"));
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
        .args(["--exact", "host_settings::changes_things", "--nocapture"])
        .env("KTAX_TEST_CHANGER", way);
    command.env("KTAX_STATE", dir).env("TMPDIR", dir);
    fs::write(dir.join("was"), &values()[1]).unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Run that has changed settings and waits.
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

// Settings that are mounted read-only, as in most containers.

/// `ktax ARGUMENTS` where settings are mounted as in a container.
fn in_a_container(arguments: &[&str]) -> Ran {
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
                  exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_ktax")]);
    run(isolate(command.args(arguments)))
}

#[test]
fn root_is_not_enough_where_settings_are_read_only() {
    let can = getuid().is_root() && in_a_container(&["--version"]).status == 0;
    if !require(Need::Root, can, "this user cannot mount settings read-only") {
        return;
    }
    let of_root = |ran: Ran| {
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        let root = findings.into_iter().find(|finding| finding["what"] == "root").unwrap();
        (root["ok"] == true, root["found"].to_string())
    };
    let look = ["doctor", "--qemu", "/nonexistent", "--json"];
    let may = fs::File::options().write(true).open("/proc/sys/kernel/panic").is_ok();
    assert_eq!(of_root(run(ktax().args(look))).0, may);
    let (ok, found) = of_root(in_a_container(&look));
    assert!(!ok && found.contains("Read-only file system"), "{found}");
    let (_dir, out) = scratch_path("out");
    let compare = ["compare", "--engine", "host", "-w", "getppid", "--change-set"];
    let options = ["vm.swappiness=1", "--out", out.to_str().unwrap()];
    let ran = in_a_container(&[&compare[..], &options].concat());
    assert!(ran.status == 1 && ran.stderr.contains("read-only here"), "{ran:?}");
}

//

#[test]
fn after_a_failure_a_row_has_no_more_loops_and_the_other_rows_have() {
    let (dir, tried) = scratch_path("tried");
    // Says which program was tried, and fails for one of them.
    let script = "echo $2 >>$0; case $2 in getppid) exit 1; esac; exec \"$@\"";
    let prefix = ["sh", "-c", script, tried.to_str().unwrap()].map(str::to_owned).to_vec();
    let side = TimedSubject { prefix, ..TimedSubject::default() };
    let host = timed(dir.path(), [&side, &side]);
    let [fails, runs] = ["getppid", "open-close"].map(|name| workload(name, &["ops=10"]));
    let booted = host.boot(&side, &[&fails, &fails, &runs, &fails, &runs]).unwrap();
    let failures: Vec<Option<&Failure>> = booted.wires.iter().map(|w| w.as_ref().err()).collect();
    assert!(matches!(failures[0], Some(Failure::Prefix { .. })), "{failures:?}");
    assert_eq!(failures, [failures[0], failures[0], None, failures[0], None]);
    let tried = fs::read_to_string(tried).unwrap();
    assert_eq!(tried.lines().collect::<Vec<_>>(), ["getppid", "open-close", "open-close"]);
}

// When the session ends in which ktax was started.

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
    alone("when_the_session_ends_all_is_put_back", |dir| {
        puts_back_after(Signal::HUP, dir, &|| {
            // The tests may run under nohup.
            let mut session = Command::new("env");
            session.arg("--default-signal=HUP").arg(std::env::current_exe().unwrap());
            start_as(session, dir, "measures")
        });
    });
}

#[test]
fn behind_nohup_it_outlives_the_session() {
    alone("behind_nohup_it_outlives_the_session", |dir| {
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
