//! `ktax exits record` and `watch` on this machine's KVM, whatever it is: guests whose exits are
//! known, at the boundary of KVM_RUN, and what is said where something is missing.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::kvm::{TRACEFS, assert_whole, can_record, count, exits, exits_after};
use common::{Ran, run, scratch, until};
use ktax::model::ExitTable;
use ktax::vmm::{Loops, raw};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const KTAX: &str = env!("CARGO_BIN_EXE_ktax");
const ENDLESS: [&str; 5] = [KTAX, "vmm", "raw", "--out", "4000000000"];

fn tables(ran: &Ran) -> Vec<ExitTable> {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Records a raw guest from its first exit to its last; the table, and the VMM's own account.
fn record(options: &[&str], guest: &[&str]) -> (ExitTable, Value) {
    let dir = scratch();
    let account = dir.path().join("account.json").display().to_string();
    let vmm = [&["--", KTAX, "vmm", "raw", "--account", &account], guest].concat();
    let ran = run(exits(&["record", "--json"]).args(options).args(vmm));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let account = serde_json::from_str(&fs::read_to_string(account).unwrap()).unwrap();
    (tables(&ran).remove(0), account)
}

const GUEST: [&str; 8] = ["--out", "200", "--mmio", "300", "--cpuid", "400", "--hlt", "100"];

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
    }
}

/// The highest rate that there is: two vCPUs' threads that do nothing else.
#[test]
fn nothing_is_lost_however_fast_it_comes() {
    if !can_record() {
        return;
    }
    for via in ["bpf", "perf"] {
        let one = || record(&["--level", "run", "--via", via], &["--out", "20000"]).0;
        let tables = std::thread::scope(|scope| {
            [scope.spawn(one), scope.spawn(one)].map(|thread| thread.join().unwrap())
        });
        for table in tables {
            assert_eq!(count(&table, "KVM_EXIT_IO"), 20_000, "{via}: {table:?}");
            assert_whole(&table);
        }
    }
}

#[test]
fn without_a_choice_the_best_that_there_is_is_used_and_named() {
    if !can_record() {
        return;
    }
    let (table, _) = record(&[], &GUEST);
    assert_whole(&table);
    assert!(table.source.ends_with(", eBPF"), "{}", table.source);
    // Without the privilege for eBPF the same counts come another way, and this is said.
    let mut command = exits_after(TRACEFS, "setpriv --bounding-set -bpf,-sys_admin");
    let ran = run(command.args(["record", "--level", "run", "--json", "--", KTAX, "vmm", "raw"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
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
    for (before, privileges, said) in [
        (hide, "", "type: sudo mount -t tracefs"),
        (empty, "", "load KVM with `sudo modprobe kvm`"),
        (TRACEFS, powerless, "run it as root, or with CAP_PERFMON"),
    ] {
        let vmm = ["record", "--", KTAX, "vmm", "raw"];
        let ran = run(exits_after(before, privileges).args(vmm));
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    let own = std::process::id().to_string();
    for (target, said) in [
        (["--pid", own.as_str()], "has no virtual machine of KVM"),
        (["--pid", "4194304"], "there is no process 4194304"),
        (["--vm", "no such machine"], "no process is a VM named no such machine"),
        (["--", "/no/such/vmm"], "cannot start /no/such/vmm"),
        (["--", "true"], "no vCPU left its guest or entered it"),
    ] {
        let ran = run(exits(&["record"]).args(target));
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(said), "{ran:?}");
    }
}

/// A guest that never ends by itself; it goes with the test.
struct Endless(Child);

impl Endless {
    fn start() -> Endless {
        let mut command = Command::new(KTAX);
        command.args(&ENDLESS[1..]).stderr(Stdio::null());
        let guest = Endless(command.spawn().unwrap());
        let links = format!("/proc/{}/fd", guest.0.id());
        until("it has a VM", || {
            let entries = fs::read_dir(&links).into_iter().flatten().flatten();
            let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            links.any(|link| link.to_string_lossy().contains("kvm-vcpu-stats"))
        });
        guest
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
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
    assert!(count(&tables(&ran)[0], "KVM_EXIT_IO") > 100, "{ran:?}");
    // A stall of the machine in the last moment is one that goes on, but not each time.
    for via in ["bpf", "perf"] {
        assert!((0..3).any(|_| has_whole_ends(&guest, via)), "{via}");
    }
    // KVM's own statistics are taken from the VMM, without any event.
    let stats = ["record", "--json", "--via", "stats", "--seconds", "0.5", "--pid", &guest.pid()];
    let table = tables(&run(&mut exits(&stats))).remove(0);
    assert!(count(&table, "exits") > 100 && table.source == "KVM's statistics", "{table:?}");
    // With one vCPU both tables are the same but for their names.
    let both = ["--per", "both", "--level", "run"];
    let ran =
        run(exits(&["record", "--json", "--seconds", "0.5", "--pid", &guest.pid()]).args(both));
    let tables = tables(&ran);
    assert_eq!((tables.len(), &tables[0].rows), (2, &tables[1].rows));
    assert!(tables[1].of.starts_with("vcpu 0 (thread "), "{}", tables[1].of);
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

/// Whether a recorder, which takes the place of what was started, has all its programs at work:
/// only then does it wait for the VM to end.
fn records(recorder: &Child) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/syscall", recorder.id())).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_poll) || number == Some(libc::SYS_ppoll)
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
    let own: BTreeSet<String> = programs().difference(&before).cloned().collect();
    assert!(!own.is_empty());
    record.kill().unwrap();
    record.wait().unwrap();
    until("the kernel has let go", || own.is_disjoint(&programs()));
}

#[test]
fn two_recorders_do_not_disturb_each_other() {
    if !can_record() {
        return;
    }
    let both = std::thread::scope(|scope| {
        let one = || record(&["--level", "run"], &GUEST).0;
        let threads = [scope.spawn(one), scope.spawn(one)];
        threads.map(|thread| thread.join().unwrap())
    });
    for table in both {
        assert_eq!(count(&table, "KVM_RUN"), 601);
        assert_whole(&table);
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
    let own = std::process::id().to_string();
    let options = ["record", "--json", "--level", "run", "--per", "both", "--pid", &own];
    let record = exits(&options).stdout(Stdio::piped()).spawn().unwrap();
    until("it records", || records(&record));
    let guest = || {
        let loops = Loops { out: 100, ..Loops::default() };
        raw::run(&loops).unwrap().ended.unwrap();
    };
    guest();
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(guest))));
    guest();
    kill_process(Pid::from_child(&record), Signal::INT).unwrap();
    let output = record.wait_with_output().unwrap();
    drop(vcpu);
    let tables: Vec<ExitTable> = serde_json::from_slice(&output.stdout).unwrap();
    // The last OUT of each is the end of its guest, after which nothing is called: it has not
    // ended, and is in no row.
    let counts: Vec<u64> = tables.iter().map(|table| count(table, "KVM_EXIT_IO")).collect();
    assert_eq!(counts, [500, 100, 100, 100, 100, 100], "{tables:?}");
    tables.iter().for_each(assert_whole);
}
