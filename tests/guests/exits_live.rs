//! `ktax exits record` and `watch` on this machine's KVM, whatever it is: guests whose exits are
//! known, at the boundary of KVM_RUN, and what is said where something is missing.

mod guest;
mod lost;
mod missing;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use self::guest::{Endless, GUEST, record, records, tables};
use crate::common::kvm::{assert_whole, can_record, count, exits};
use crate::common::{printed, run, scratch, until};
use ktax::model::RawKind;
use ktax::vmm::{Loops, raw};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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
        // What the kernel times of programs; of what is copied nobody knows.
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
    // What came before the recording is a short part of it.
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
    // It did nothing while it stood still.
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
    for other in ["bpf", "perf"] {
        let both = std::thread::scope(|scope| {
            let one = |via| record(&["--level", "run", "--via", via], &GUEST).0;
            let threads = ["bpf", other].map(|via| scope.spawn(move || one(via)));
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
    let own = std::process::id().to_string();
    let options = ["record", "--json", "--level", "run", "--per", "both", "--pid", &own];
    let record = exits(&options).stdout(Stdio::piped()).spawn().unwrap();
    until("it records", || records(&record));
    let guest = || {
        let loops = Loops::default().with(RawKind::Out, 100);
        raw::run(&loops).unwrap().ended.unwrap();
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
