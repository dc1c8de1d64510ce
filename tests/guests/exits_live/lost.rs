//! Nothing is lost, and what is, is counted.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::guest::{KTAX, record};
use crate::common::kvm::{assert_whole, can_record, count, exits};
use crate::common::{Need, parent_in, printed, require, until};

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
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut names = all.filter_map(|entry| entry.file_name().into_string().ok());
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
    let said = format!("{lost} events were lost");
    assert!(table.warnings.iter().any(|warning| warning.fact == said), "{table:?}");
}
