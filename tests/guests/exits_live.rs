//! `ktax exits record` and `watch` on this machine's KVM, whatever it is: guests whose exits are
//! known, at the boundary of KVM_RUN, and what is said where something is missing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ktax::model::{ExitTable, RawKind};
use ktax::vmm::{RawLoops, raw};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

use crate::common::kvm::{TRACEFS, assert_whole, can_record, count, exits, exits_after};
use crate::common::{Need, Ran, parent_in, printed, require, run, scratch, until};

#[test]
fn every_return_of_kvm_run_is_counted_on_any_kvm() {
    if !can_record() {
        return;
    }
    for via in ["bpf", "perf"] {
        let (table, account) = record(&["--level", "run", "--via", via], &GUEST);
        // The last OUT is the guest's end, after which KVM_RUN is not called again.
        let counted = ["KVM_EXIT_IO", "KVM_EXIT_MMIO", "KVM_EXIT_HLT", "KVM_RUN"];
        let counts = counted.map(|reason| count(&table, reason));
        assert_eq!(counts, [200, 300, 100, 601], "{via}: {table:?}");
        assert_whole(&table);
        let wall_ns = account["vcpus"][0]["wall_ns"].as_u64().unwrap();
        assert!(table.sum_ns() <= wall_ns, "{} of {wall_ns}", table.sum_ns());
        // The kernel times programs, but no copies.
        let cost = table.account.as_ref().unwrap().recorder.as_ref();
        assert_eq!(cost.is_some_and(|cost| cost.exit_ns > 0), via == "bpf", "{table:?}");
    }
}

/// The recorders come to a guest that does nothing but leave, and go while it does: neither their
/// first nor their last moment may be half seen; and whether the last does not go on.
fn has_whole_ends(guest: &Endless, via: &str) -> bool {
    let some = ["record", "--json", "--level", "run", "--via", via, "--seconds", "0.5"];
    let ran = run(exits(&some).args(["--pid", &guest.pid()]));
    let table = tables(&ran).remove(0);
    let account = table.account.as_ref().unwrap();
    assert_eq!((account.lost, account.unpaired), (0, 0), "{via}: {table:?}");
    let [left, entered] = ["KVM_EXIT_IO", "KVM_RUN"].map(|reason| count(&table, reason));
    assert!(left.abs_diff(entered) <= 1, "{via}: {left} {entered}");
    assert_eq!(table.sum_ns() + account.open[0].ns, account.wall_ns, "{via}");
    let longest_ns = table.rows.iter().filter_map(|row| row.most_ns).max().unwrap();
    account.open[0].ns <= 2 * longest_ns
}

#[test]
fn a_vm_that_ends_and_one_that_is_left_alone_both_give_their_table() {
    if !can_record() {
        return;
    }
    let guest = Endless::start();
    let some = ["record", "--json", "--level", "run", "--seconds", "0.5", "--pid", &guest.pid()];
    let ran = run(&mut exits(&some));
    let table = tables(&ran).remove(0);
    assert!(count(&table, "KVM_EXIT_IO") > 100 && table.elapsed_s() >= Some(0.5), "{table:?}");
    // A stall of the machine in the last moment is one that goes on, but not each time.
    for via in ["bpf", "perf"] {
        assert!((0..3).any(|_| has_whole_ends(&guest, via)), "{via}");
    }
    // With one vCPU both tables are the same but for their names.
    let both = ["--per", "both", "--level", "run"];
    let ran =
        run(exits(&["record", "--json", "--seconds", "0.5", "--pid", &guest.pid()]).args(both));
    let tables = tables(&ran);
    assert_eq!((tables.len(), &tables[0].rows), (2, &tables[1].rows));
    assert!(tables[1].name.starts_with("vcpu 0 (thread "), "{}", tables[1].name);
    // Ctrl-C ends the recording and not the VM.
    let record = exits(&["record", "--pid", &guest.pid()]).stdout(Stdio::piped()).spawn().unwrap();
    until("it records", || records(&record));
    kill_process(Pid::from_child(&record), Signal::INT).unwrap();
    let output = record.wait_with_output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty());
    // The VM ends while it is watched.
    let watch = ["watch", "--level", "run", "--interval", "0.2", "--pid", &guest.pid()];
    let mut watch = exits(&watch).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(shown.any(|line| line.contains("KVM_EXIT_IO")));
    drop(guest);
    shown.for_each(drop);
    assert!(watch.wait().unwrap().success());
}

/// KVM's own statistics are taken from the VMM, without any event. A guest that only writes to a
/// port leaves once for each write, and besides that only for the host's interrupts.
#[test]
fn the_statistics_count_as_many_exits_as_the_vmm() {
    if !can_record() {
        return;
    }
    let dir = scratch();
    let account = dir.path().join("account.json").display().to_string();
    let guest = Endless::writing_to(&account);
    let record = exits(&["record", "--json", "--via", "stats", "--pid", &guest.pid()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("it records", || records(&record));
    // Only a short part of it precedes the recording.
    let enough = 4 * guest.cpu_ticks() + 100;
    until("it has run", || guest.cpu_ticks() >= enough);
    guest.signal(Signal::TERM);
    let output = record.wait_with_output().unwrap();
    let table = printed::exits(&String::from_utf8_lossy(&output.stdout)).remove(0);
    let account: Value = serde_json::from_str(&fs::read_to_string(account).unwrap()).unwrap();
    let counted = account["vcpus"][0]["exits"]["KVM_EXIT_IO"].as_u64().unwrap();
    let least = counted / 2;
    assert_eq!(table.source, "KVM's statistics");
    assert!((least..counted + counted / 4).contains(&table.exits()), "{counted}: {table:?}");
    assert!(table.rows.iter().any(|row| !row.is_reason() && row.count > least), "{table:?}");
}

/// A VM that does nothing at first is recorded from the beginning on, and its rate is that of all
/// of the recording. One that is started with the recording is recorded from its first entry on.
#[test]
fn a_rate_is_of_the_whole_recording() {
    if !can_record() {
        return;
    }
    let guest = Endless::start();
    guest.signal(Signal::STOP);
    until("it stands still", || guest.state() == "T");
    let options = ["record", "--json", "--level", "run", "--pid", &guest.pid()];
    let recorder = exits(&options).stdout(Stdio::piped()).spawn().unwrap();
    until("it records", || records(&recorder));
    let began = Instant::now();
    let (table, _) = record(&["--level", "run"], &GUEST);
    assert_eq!(table.elapsed_ns, table.account.map(|account| account.wall_ns));
    let (still, before) = (began.elapsed(), guest.cpu_ticks());
    guest.signal(Signal::CONT);
    until("it has run", || guest.cpu_ticks() > before);
    let least = began.elapsed();
    kill_process(Pid::from_child(&recorder), Signal::INT).unwrap();
    let output = recorder.wait_with_output().unwrap();
    let table = printed::exits(&String::from_utf8_lossy(&output.stdout)).remove(0);
    let elapsed = Duration::from_nanos(table.elapsed_ns.unwrap());
    assert!(elapsed >= least, "{least:?}: {table:?}");
    // The command did nothing while it was stopped.
    let ran = Duration::from_nanos(table.account.as_ref().unwrap().wall_ns);
    assert!(elapsed >= ran + still, "{still:?}: {table:?}");
}

/// Programs that the kernel has compiled from eBPF, by their addresses.
fn programs() -> BTreeSet<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    symbols.lines().filter(|line| line.contains(" bpf_prog_")).map(str::to_owned).collect()
}

#[test]
fn nothing_stays_in_the_kernel_after_a_sigkill() {
    if !can_record() {
        return;
    }
    let (guest, before) = (Endless::start(), programs());
    let mut record = exits(&["record", "--pid", &guest.pid()]).spawn().unwrap();
    until("it records", || records(&record));
    let loaded: BTreeSet<String> = programs().difference(&before).cloned().collect();
    assert!(!loaded.is_empty());
    record.kill().unwrap();
    record.wait().unwrap();
    until("the kernel has let go", || loaded.is_disjoint(&programs()));
}

#[test]
fn two_recorders_do_not_disturb_each_other() {
    if !can_record() {
        return;
    }
    for other in ["bpf", "perf"] {
        let both = std::thread::scope(|scope| {
            let record_via = |via| record(&["--level", "run", "--via", via], &GUEST).0;
            let threads = ["bpf", other].map(|via| scope.spawn(move || record_via(via)));
            threads.map(|thread| thread.join().unwrap())
        });
        for table in both {
            assert_eq!(count(&table, "KVM_RUN"), 601, "{other}");
            assert_whole(&table);
        }
    }
}

#[test]
fn vcpus_that_come_and_go_are_all_in_the_table() {
    if !can_record() {
        return;
    }
    // This process is the VMM: it has a VM, and threads that are vCPUs for a while.
    let kvm = kvm_ioctls::Kvm::new().unwrap();
    let vm = kvm.create_vm().unwrap();
    let vcpu = vm.create_vcpu(0).unwrap();
    let pid = std::process::id().to_string();
    let options = ["record", "--json", "--level", "run", "--per", "both", "--pid", &pid];
    let record = exits(&options).stdout(Stdio::piped()).spawn().unwrap();
    until("it records", || records(&record));
    let guest = || {
        let loops = RawLoops::default().with_count(RawKind::Out, 100);
        raw::run(&loops).unwrap().end.unwrap();
    };
    guest();
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(guest))));
    guest();
    kill_process(Pid::from_child(&record), Signal::INT).unwrap();
    let output = record.wait_with_output().unwrap();
    drop(vcpu);
    let tables = printed::exits(&String::from_utf8_lossy(&output.stdout));
    // The last OUT of each is the end of its guest, after which nothing is called: it has not
    // ended, and is in no row.
    let counts: Vec<u64> = tables.iter().map(|table| count(table, "KVM_EXIT_IO")).collect();
    assert_eq!(counts, [500, 100, 100, 100, 100, 100], "{tables:?}");
    tables.iter().for_each(assert_whole);
}

// Guests on this machine's KVM, and who records them.

pub const KTAX: &str = env!("CARGO_BIN_EXE_ktax");
pub const BTF: &str = "/sys/kernel/btf";
pub const ENDLESS: [&str; 5] = [KTAX, "vmm", "raw", "--out", "4000000000"];

pub fn tables(ran: &Ran) -> Vec<ExitTable> {
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    printed::exits(&ran.stdout)
}

/// Records a raw guest from its first exit to its last; the table, and the VMM's own account.
pub fn record(options: &[&str], guest: &[&str]) -> (ExitTable, Value) {
    let dir = scratch();
    let account = dir.path().join("account.json").display().to_string();
    let vmm = [&["--", KTAX, "vmm", "raw", "--account", &account], guest].concat();
    let ran = run(exits(&["record", "--json"]).args(options).args(vmm)).exits(0);
    let account = serde_json::from_str(&fs::read_to_string(account).unwrap()).unwrap();
    (tables(&ran).remove(0), account)
}

pub const GUEST: [&str; 8] = ["--out", "200", "--mmio", "300", "--cpuid", "400", "--hlt", "100"];

/// A guest that never ends by itself; it goes with the test.
pub struct Endless(Child);

impl Endless {
    pub fn start() -> Endless {
        Endless::with(&[])
    }

    /// One whose VMM writes its account to a file in the end.
    pub fn writing_to(account: &str) -> Endless {
        Endless::with(&["--account", account])
    }

    fn with(options: &[&str]) -> Endless {
        let mut command = Command::new(KTAX);
        command.args(&ENDLESS[1..]).args(options).stderr(Stdio::null());
        let guest = Endless(command.spawn().unwrap());
        let links = format!("/proc/{}/fd", guest.0.id());
        until("it has a VM", || {
            let entries = fs::read_dir(&links).into_iter().flatten().flatten();
            let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            links.any(|link| link.to_string_lossy().contains("kvm-vcpu-stats"))
        });
        guest
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The state of the process and the numbers behind it in /proc/PID/stat.
    fn stat(&self) -> Vec<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let behind_name = stat.rsplit_once(") ").unwrap().1;
        behind_name.split(' ').map(str::to_owned).collect()
    }

    /// `T` if it is stopped.
    pub fn state(&self) -> String {
        self.stat().remove(0)
    }

    /// How long its threads have run, in the guest too, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let times = &self.stat()[11..13];
        times.iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// SIGTERM ends the guest, after which its VMM writes its account.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Whether a recorder, which takes the place of what was started, has all its programs at work:
/// only then does it wait for the VM to end.
pub fn records(recorder: &Child) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/syscall", recorder.id())).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_poll) || number == Some(libc::SYS_ppoll)
}

// Nothing is lost, and what is, is counted.

/// The highest rate that there is: two vCPUs' threads that do nothing else.
#[test]
fn nothing_is_lost_however_fast_it_comes() {
    if !can_record() {
        return;
    }
    for via in ["bpf", "perf"] {
        let record_once = || record(&["--level", "run", "--via", via], &["--out", "20000"]).0;
        let tables = std::thread::scope(|scope| {
            [scope.spawn(record_once), scope.spawn(record_once)]
                .map(|thread| thread.join().unwrap())
        });
        for table in tables {
            assert_eq!(count(&table, "KVM_EXIT_IO"), 20_000, "{via}: {table:?}");
            assert_whole(&table);
        }
    }
}

/// A process that goes on whatever becomes of the test.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // With a test that fails its recorder goes too, and with that the guest.
        let signal = if std::thread::panicking() { Signal::KILL } else { Signal::CONT };
        kill_process(self.0, signal).unwrap();
    }
}

/// Whether the kernel counts what a ring had no room for (PERF_FORMAT_LOST, 6.0).
#[track_caller]
fn counts_losses() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let major = release.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let counts = major.is_some_and(|major| major >= 6);
    let why = format!("Linux {release} tells of a loss only with a later event");
    require(Need::Linux6, counts, why)
}

fn stat(process: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{process}/stat")).ok()
}

fn child_of(parent: Pid) -> Option<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let parent = parent.as_raw_nonzero().to_string();
    let is_its = |stat: String| parent_in(&stat) == Some(&parent);
    names.find(|name| stat(name).is_some_and(is_its))
}

fn is_vmm(process: &str) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.starts_with(format!("{KTAX}\0vmm\0").as_bytes())
}

/// A recorder that stands still while its rings fill, and its guest comes to its end.
#[test]
fn what_found_no_room_is_counted_and_said() {
    if !can_record() || !counts_losses() {
        return;
    }
    // All in one CPU's rings, of which the largest has room for 233 000 calls of KVM_RUN.
    const EXITS: u64 = 400_000;
    let cpus = sched_getaffinity(None).unwrap();
    let cpu = (0..CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap().to_string();
    let guest = ["--", "taskset", "-c", &cpu, KTAX, "vmm", "raw", "--out", &EXITS.to_string()];
    let options = ["record", "--json", "--level", "run", "--via", "perf"];
    let mut command = exits(&[&options[..], &guest].concat());
    let record = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&record);
    let stopped = Stopped(pid);
    // Until then it holds still, in ktax's own name.
    until("the guest runs", || child_of(pid).is_some_and(|child| is_vmm(&child)));
    kill_process(pid, Signal::STOP).unwrap();
    let child = child_of(pid).unwrap();
    until("the guest ends", || stat(&child).is_some_and(|stat| stat.contains(") Z ")));
    drop(stopped);
    let output = record.wait_with_output().unwrap();
    let tables = printed::exits(&String::from_utf8_lossy(&output.stdout));
    let (table, lost) = (&tables[0], tables[0].account.as_ref().unwrap().lost);
    assert!(lost > 0, "{table:?}");
    assert!(count(table, "KVM_EXIT_IO") + lost >= EXITS, "{table:?}");
    let message = format!("{lost} events were lost");
    assert!(table.warnings.iter().any(|warning| warning.fact == message), "{table:?}");
}

// Messages where something is missing.

#[test]
fn without_a_choice_the_best_that_there_is_is_used_and_named() {
    if !can_record() {
        return;
    }
    let (table, _) = record(&[], &GUEST);
    assert_whole(&table);
    assert!(table.source.ends_with(", eBPF"), "{}", table.source);
    // A kernel without type information of itself is enough.
    let hidden = format!("{TRACEFS} && {{ ! test -d {BTF} || mount -t tmpfs none {BTF}; }}");
    let vmm = ["record", "--level", "run", "--json", "--", KTAX, "vmm", "raw"];
    let ran = run(exits_after(&hidden, "").args(vmm));
    assert!(tables(&ran)[0].source.ends_with(", eBPF"), "{ran:?}");
    // Without the privilege for eBPF the same counts come another way, and this is said.
    let mut command = exits_after(TRACEFS, "setpriv --bounding-set -bpf,-sys_admin");
    let ran = run(command.args(vmm)).exits(0);
    let table = tables(&ran).remove(0);
    assert!(table.source.ends_with(", perf ring buffer"), "{}", table.source);
    assert!(table.warnings[0].fact.starts_with("eBPF is refused here"), "{:?}", table.warnings);
}

#[test]
fn what_is_missing_is_named_with_the_next_step() {
    if !can_record() {
        return;
    }
    let hide = "mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug";
    let empty = "mount -t tmpfs none /sys/kernel/tracing && mkdir /sys/kernel/tracing/events";
    let powerless = "setpriv --bounding-set -all";
    for (before, privileges, message) in [
        (hide, "", "type: sudo mount -t tracefs"),
        (hide, "", "--via stats needs no tracefs"),
        (empty, "", "load KVM with `sudo modprobe kvm`"),
        (TRACEFS, powerless, "run ktax as root, or with CAP_PERFMON"),
    ] {
        let vmm = ["record", "--", KTAX, "vmm", "raw"];
        let ran = run(exits_after(before, privileges).args(vmm));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
        ran.says(message);
    }
    let pid = std::process::id().to_string();
    for (target, message) in [
        (["--pid", pid.as_str()], "runs no KVM guest"),
        (["--pid", "4194304"], "there is no process 4194304"),
        (["--vm", "no such machine"], "no VM is named no such machine"),
        (["--", "/no/such/vmm"], "cannot start /no/such/vmm"),
    ] {
        let ran = run(exits(&["record"]).args(target));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{ran:?}");
        assert!(ran.stderr.contains(message), "{ran:?}");
    }
    let ran = run(&mut exits(&["record", "--", "true"])).exits(0);
    assert!(ran.stdout.contains("no vCPU left its guest or entered it"), "{ran:?}");
    // A machine without KVM: the VMM says so.
    let without = format!("{TRACEFS} && mount -t tmpfs none /dev");
    let ran = run(exits_after(&without, "").args(["record", "--", KTAX, "vmm", "raw"]));
    assert!(ran.status != 0 && ran.stderr.contains("/dev/kvm"), "{ran:?}");
    // The step that the message without tracefs gives does work without it.
    let guest = Endless::start();
    let stats = ["record", "--json", "--via", "stats", "--seconds", "0.2", "--pid", &guest.pid()];
    assert!(tables(&run(exits_after(hide, "").args(stats)))[0].exits() > 0);
    // KVM's own tables are PowerPC's, and of a VM that is there.
    let ran = run(exits(&["record", "--via", "timing", "--pid", &guest.pid()]).env("LANG", "C"));
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(ran.stderr.contains("CONFIG_KVM_EXIT_TIMING"), "{ran:?}");
}
