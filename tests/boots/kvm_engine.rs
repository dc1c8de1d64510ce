//! The engine of timed guests, with QEMU's translator in place of KVM: all but the times is the
//! same. And what `ktax doctor` finds of this machine's KVM.

mod command;
mod doctor;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::common::rows::short;
use crate::common::{self, KERNEL, cache, comes, processes, scratch};
use ktax::engine::kvm::{Kvm, Setup};
use ktax::engine::qemu::Qemu;
use ktax::engine::{Booted, Cancel, Limits, Stop, Timed, noise};
use ktax::kernel::{Talk, obtain};
use ktax::model::{Accelerator, Failure, Subject, TimedMachine, TimedSubject, Workload};
use ktax::plan;
use ktax::wire::{Answer, Done, parse_answer};

fn kernel() -> PathBuf {
    let quiet: &dyn Fn(&str) = &|_| {};
    let talk = Talk { note: quiet, status: quiet, task: &|_| {}, is_cancelled: &|| false };
    obtain(&Subject::new(KERNEL, ""), &cache(), &talk).unwrap().image
}

/// An engine with a cache of its own, so that its QEMUs are known by it.
fn engine(cache: &Path, limit_s: u64, cancel: &Cancel) -> Kvm {
    let cpu = thread::available_parallelism().unwrap().get() - 1;
    Kvm::new(Setup {
        programs: None,
        qemu: Qemu::find(None).unwrap(),
        cache: cache.to_owned(),
        images: BTreeMap::from([(KERNEL.to_owned(), kernel())]),
        shape: TimedMachine {
            cpu: "max".into(),
            memory_mib: 256,
            cpus: 1,
            cores: None,
            accelerator: Accelerator::Tcg,
        },
        cpus: vec![cpu],
        machine: noise::facts,
        limits: Limits::with_seconds(limit_s),
        cancel: cancel.clone(),
    })
    .unwrap()
}

fn subject(boot_line: &str) -> TimedSubject {
    TimedSubject {
        kernel: Some(KERNEL.into()),
        boot_line: boot_line.into(),
        ..TimedSubject::default()
    }
}

fn rows(names: &[&str]) -> Vec<Workload> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    plan::select(&plan::definitions().unwrap(), Some(&names)).unwrap()
}

/// Boots, and looks that nothing is left.
fn boot(boot_line: &str, names: &[&str], limit_s: u64) -> Result<Booted, Stop> {
    let dir = scratch();
    let engine = engine(dir.path(), limit_s, &Cancel::default());
    let rows: Vec<Workload> = names.iter().flat_map(|name| rows(&[name])).collect();
    let booted = engine.boot(&subject(boot_line), &rows.iter().collect::<Vec<_>>());
    engine.end().unwrap();
    assert_nothing_left(dir.path());
    booted
}

fn assert_nothing_left(cache: &Path) {
    assert_eq!(processes(cache), Vec::<String>::new());
    assert_eq!(fs::read_dir(cache.join("runs")).unwrap().count(), 0);
}

fn answer(wire: &Result<Vec<u8>, Failure>, row: &str) -> Answer {
    let wire = wire.as_ref().unwrap();
    parse_answer(wire, &rows(&[row])[0].program)
        .unwrap_or_else(|error| panic!("{row}: {error}: {}", wire.escape_ascii()))
}

fn done(wire: &Result<Vec<u8>, Failure>, row: &str) -> Done {
    match answer(wire, row) {
        Answer::Done(done) => {
            assert_eq!(rows(&[row])[0].deviations(&done.signature), Vec::<String>::new());
            assert!(done.values["nanoseconds"] > 0 && done.tsc.is_none(), "{done:?}");
            assert!(done.values.contains_key("user-us") && done.values.contains_key("system-us"));
            done
        }
        Answer::Refused(why) => panic!("{row}: {why}"),
    }
}

fn refused(wire: &Result<Vec<u8>, Failure>, row: &str) -> String {
    match answer(wire, row) {
        Answer::Refused(why) => why,
        Answer::Done(done) => panic!("{row}: {done:?}"),
    }
}

#[test]
fn rows_run_one_after_the_other_in_one_boot_and_say_times() {
    let names = ["getppid", "fork-exit", "getppid", "fork-exit", "getppid", "fork-exit"];
    let booted = boot("mitigatons=off", &names, 120).unwrap();
    assert_eq!(booted.wires.len(), names.len());
    for (wire, name) in booted.wires.iter().zip(names) {
        done(wire, name);
    }
    // Six processes, not one answer six times.
    let all: std::collections::BTreeSet<_> = booted.wires.iter().flatten().collect();
    assert!(all.len() > 2, "{:?}", booted.wires);
    let facts = &booted.facts;
    assert!(facts["kernel"].ends_with("-cloud-amd64"), "{facts:?}");
    assert!(facts["boot line"].ends_with(" mitigatons=off"), "{facts:?}");
    assert_eq!(facts["ignored parameters"], "mitigatons=off");
    assert!(booted.console.is_empty());
    // What it runs on is not mistaken for it.
    let here = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts["host kernel"], here.trim());
    assert!(facts["build-id"].len() == 40 && facts["accelerator"] == "tcg", "{facts:?}");
}

#[test]
fn a_row_that_fails_takes_no_other_away_and_leaves_nothing_to_it() {
    // What crashes leaves a process, a file and a semaphore that the next one could not make.
    let names = [
        "bad-crash",
        "bad-crash",
        "stat",
        "kernel-boot",
        "bad-escape",
        "bad-garbage",
        "bad-silent",
        "getppid",
    ];
    let booted = boot("", &names, 120).unwrap();
    let wires = &booted.wires;
    assert_eq!(refused(&wires[0], "bad-crash"), "ended by signal 6");
    assert_eq!(refused(&wires[1], "bad-crash"), "ended by signal 6");
    done(&wires[2], "stat");
    assert!(refused(&wires[3], "kernel-boot").contains("already runs"));
    assert!(refused(&wires[4], "bad-escape").contains("\\x1b"));
    for (wire, program) in [(&wires[5], "bad-garbage"), (&wires[6], "bad-silent")] {
        assert!(parse_answer(wire.as_ref().unwrap(), program).is_err(), "{wire:?}");
    }
    done(&wires[7], "getppid");
}

#[test]
fn a_kernel_that_panics_has_what_was_whole_before() {
    let booted = boot("", &["getppid", "bad-panic", "getppid"], 120).unwrap();
    done(&booted.wires[0], "getppid");
    for wire in &booted.wires[1..] {
        assert!(
            matches!(wire, Err(Failure::Panic { message }) if message.contains("sysrq")),
            "{wire:?}"
        );
    }
    let console = String::from_utf8_lossy(&booted.console);
    assert!(console.contains("Kernel panic"), "{console}");
}

#[test]
fn a_kernel_that_resets_without_a_word_has_what_was_whole_before() {
    let no_word = "loglevel=0 printk.console_no_auto_verbose=1";
    let booted = boot(no_word, &["getppid", "bad-panic", "getppid"], 120).unwrap();
    done(&booted.wires[0], "getppid");
    for wire in &booted.wires[1..] {
        assert!(matches!(wire, Err(Failure::Silent { .. })), "{wire:?}");
    }
}

#[test]
fn a_kernel_that_does_not_boot_is_no_boot() {
    match boot("rdinit=/nothing", &["getppid"], 120) {
        Err(Stop::Failed(Failure::Panic { message }, console)) => {
            assert!(message.contains("VFS"), "{message}");
            let console = String::from_utf8_lossy(&console).into_owned();
            assert!(console.contains("Kernel panic"), "{console}");
        }
        other => panic!("{other:?}"),
    }
    let never = boot("ktax.never=1", &["getppid"], 5);
    assert!(matches!(never, Err(Stop::Failed(Failure::RealTime { limit_s: 5 }, _))), "{never:?}");
}

#[test]
fn a_guest_that_hangs_is_ended_by_the_limit() {
    // The boot is within it, too, and may take longer elsewhere.
    let started = Instant::now();
    boot("", &["getppid"], 1200).unwrap();
    let limit_s = 2 + 2 * started.elapsed().as_secs();
    let booted = boot("", &["getppid", "bad-hang", "getppid"], limit_s).unwrap();
    done(&booted.wires[0], "getppid");
    for wire in &booted.wires[1..] {
        assert_eq!(*wire, Err(Failure::RealTime { limit_s }));
    }
}

#[test]
fn a_guest_that_floods_is_ended_by_the_limit_of_one_answer() {
    // It says 10 MiB, which is less than all of these may together.
    let mut names = ["getppid"; 14];
    names[1] = "bad-longline";
    let booted = boot("", &names, 120).unwrap();
    done(&booted.wires[0], "getppid");
    for wire in &booted.wires[1..] {
        assert_eq!(*wire, Err(Failure::Flood { limit_bytes: 1 << 20 }));
    }
}

#[test]
fn what_a_guest_does_not_take_is_refused_before_it_boots() {
    let dir = scratch();
    let engine = engine(dir.path(), 120, &Cancel::default());
    let rows = rows(&["getppid"]);
    let of_host = TimedSubject { thp: Some("never".into()), ..subject("") };
    let other = TimedSubject { kernel: Some("debian:other".into()), ..subject("") };
    let too_many = vec![&rows[0]; 4000];
    for (subject, loops, word) in [
        (of_host, vec![&rows[0]], "boot line"),
        (other, vec![&rows[0]], "no kernel"),
        (subject(""), too_many, "fewer rows or loops"),
    ] {
        match engine.boot(&subject, &loops) {
            Err(Stop::Failed(Failure::Refused { message }, _)) => {
                assert!(message.contains(word), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The CPUs that each thread of a process may use.
fn affinities(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let list = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.map(|list| list.trim().to_owned())
    };
    status.filter_map(list).collect()
}

#[test]
fn the_vcpu_stays_on_its_cpu_and_the_user_may_stop() {
    let dir = scratch();
    let cancel = Cancel::default();
    let engine = engine(dir.path(), 600, &cancel);
    let rows = rows(&["bad-hang"]);
    let cpus = thread::available_parallelism().unwrap().get();
    thread::scope(|scope| {
        let booted = scope.spawn(|| engine.boot(&subject(""), &[&rows[0]]));
        let pinned = || {
            let all = common::pids(dir.path()).into_iter().flat_map(affinities);
            all.filter(|list| *list == (cpus - 1).to_string()).count()
        };
        // Of several threads one: the vCPU's.
        let is_pinned = cpus == 1 || comes(|| pinned() == 1);
        cancel.cancel();
        assert!(matches!(booted.join().unwrap(), Err(Stop::Cancelled)));
        assert!(is_pinned);
    });
    assert_nothing_left(dir.path());
}

#[test]
fn every_usual_row_does_its_work_in_one_boot() {
    let rows = short(plan::select(&plan::definitions().unwrap(), None).unwrap(), 8);
    let names: Vec<&str> = rows.iter().map(String::as_str).collect();
    assert!(names.len() > 40);
    let booted = boot("", &names, 120).unwrap();
    for (wire, name) in booted.wires.iter().zip(names) {
        done(wire, name);
    }
}

#[test]
fn what_a_row_sets_is_put_back_for_the_next() {
    // The first keeps half of the memory for itself, and the second needs it.
    let names = ["fork-pages-hugetlb:pages=32768", "fork-pages-thp:pages=16384"];
    let booted = boot("", &names, 120).unwrap();
    for (wire, name) in booted.wires.iter().zip(names) {
        done(wire, name);
    }
}
