//! Several CPUs: what they execute repeats to the last byte, whatever else this machine does, and
//! what does not repeat is a failure and no number.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::files::{script, wrapped_qemu};
use crate::common::require::newer_qemu as newer;
use crate::common::{
    Loops, Ran, compare_lines, ktax, measurements, own_cache, row, run, scratch, with_status,
};
use ktax::model::{
    Comparison, CpuActivity, CpuPosition, Failure, MAKESPAN, METRICS, Memory, Outcome, Run,
    SPIN_WAIT, TRANSFERS, Verdict,
};

/// A row whose processes wait for each other and for locks.
const CONTENDED: &str = "messaging:channel=pipe,workers=process,fds=10";

const FOUR: [&str; 4] = ["--cpus", "4", "--layouts", "1"];

fn four(out: &Path, qemu: &Path, more: &[&str]) -> (Ran, Comparison) {
    let qemu = qemu.display().to_string();
    compare_lines(out, ["", ""], &[&FOUR, more, &["--qemu", &qemu]].concat())
}

fn with_four(out: &Path, qemu: &Path, more: &[&str]) -> (Ran, Comparison) {
    four(out, qemu, &[&["-w", CONTENDED], more].concat())
}

fn samples(out: &Path) -> Vec<(Run, String)> {
    let files = measurements(out);
    let runs = files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "json"));
    let both = runs.map(|(path, content)| {
        let profile = fs::read_to_string(out.join(path.with_extension("profile.tsv")));
        (serde_json::from_slice(content).unwrap(), profile.unwrap_or_default())
    });
    both.collect()
}

#[test]
fn four_cpus_repeat_to_the_last_byte_and_their_times_add_up() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let mut results = Vec::new();
    for (name, loops) in [("quiet", 0), ("loaded", 2)] {
        let _loops = Loops::start_nice(loops);
        let out = dir.path().join(name);
        fs::create_dir(&out).unwrap();
        let cache = own_cache(&out).display().to_string();
        let comparison = with_status(0, with_four(&out.join("out"), &qemu, &["--cache", &cache]));
        let row = row(&comparison, CONTENDED);
        assert_eq!(row.verdict, Verdict::NoDetectedChange);
        let found = |name: &str| row.effect(name).unwrap().base;
        assert!(found(MAKESPAN) > 0.0 && found(SPIN_WAIT) > 0.0, "{row:?}");
        let page = run(ktax().arg("report").arg(out.join("out"))).stdout;
        assert!(page.contains("CPU time per operation, sum of 4 CPUs"), "{page}");
        results.push(measurements(&out.join("out")));
    }
    assert!(results[0] == results[1]);
    for (run, profile) in samples(&dir.path().join("quiet/out")) {
        let Outcome::Measured(sample) = run.outcome else { panic!("{} failed", run.row) };
        let parallel = sample.parallel.unwrap();
        assert_eq!(parallel.cpus.len(), 4);
        // Parse by hand: the reader refuses a file that does not add up.
        let sum = |kind: &str, fields: &[usize]| -> u64 {
            let lines = profile.lines().map(|line| line.split('\t').collect::<Vec<_>>());
            let matching = lines.filter(|line| line[0] == kind);
            matching
                .flat_map(|line| {
                    fields.iter().map(move |field| line[*field].parse::<u64>().unwrap())
                })
                .sum()
        };
        assert_eq!(sum("fn", &[2, 3]), sample.total);
        assert_eq!(sum("cpu", &[2]), sample.total);
        assert_eq!(sum("wait", &[2]), sum("cpu", &[3]));
        assert_eq!(sum("idle", &[1]), sum("cpu", &[4]));
        assert_eq!(sum("cpu", &[2, 3, 4, 5]), 4 * parallel.makespan);
        assert_eq!(sum("path-wait", &[1]), sum("wait", &[2]));
        let sleeps = sum("path-idle", &[1]);
        assert!(sleeps > 0 && sleeps <= sum("idle", &[1]), "{sleeps}");
    }
}

#[test]
fn planted_false_sharing_changes_only_transfers() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let [near, far] = ["control-sharing", "control-sharing:apart=1"];
    let qemu = qemu.display().to_string();
    let with = |name: &str, more: &[&str]| {
        let rows = ["-w", near, "-w", far, "--cpus", "2", "--layouts", "1", "--qemu", &qemu];

        with_status(0, compare_lines(&dir.path().join(name), ["", ""], &[&rows, more].concat()))
    };
    let modelled = with("modelled", &["--model", "coherence"]);
    let count_of = |found: &Comparison, name: &str, metric: &str| {
        row(found, name).effect(metric).map(|effect| effect.samples.base[0])
    };
    for metric in METRICS.iter().filter(|metric| metric.name != TRANSFERS) {
        let [first, other] = [near, far].map(|name| count_of(&modelled, name, metric.name));
        assert_eq!(first, other, "{}", metric.name);
    }
    let [shared, apart] = [near, far].map(|name| count_of(&modelled, name, TRANSFERS).unwrap());
    // Each has 50 000 increments of 5 instructions or so, in slices of 500 to 1500.
    assert!(shared > apart + 100, "{shared} {apart}");
    let lines = |name| &row(&modelled, name).counts().unwrap().model_lines.as_ref().unwrap().base;
    let most = &lines(near)[0];
    assert_eq!((most.memory, most.name.as_str()), (Memory::User, "[user]"));
    assert!(most.transfers >= shared - apart, "{most:?}");
    // The model changes none of what is counted.
    let counted = with("counted", &[]);
    for (name, metric) in
        [near, far].iter().flat_map(|name| METRICS.iter().map(move |metric| (name, metric)))
    {
        let expected = count_of(&modelled, name, metric.name).filter(|_| metric.name != TRANSFERS);
        assert_eq!(count_of(&counted, name, metric.name), expected, "{name} {}", metric.name);
    }
}

/// The kernel has queued locks only where it sees no hypervisor.
#[test]
#[ignore = "four comparisons on four CPUs: make test-long"]
fn a_queued_lock_takes_no_longer_than_with_the_finest_quantum() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let row_name = "scale:call=dup,cpus=4,ops=4000";
    let makespan = |name: &str, more: &[&str]| {
        let more = [&["-w", row_name, "--model", "coherence"], more].concat();
        let (ran, comparison) = four(&dir.path().join(name), &qemu, &more);
        let found = row(&comparison, row_name);
        assert_eq!(ran.status, 0, "{}{:?}", ran.stderr, found.failures);
        let evidence = found.counts().unwrap();
        // Two functions wait for the lock of the table of files, on their way to open and to close.
        let waits: u64 = evidence.cpu_time.as_ref().unwrap().base.wait;
        let of_takers = evidence.wait_stacks.iter().filter(|stack| {
            ["alloc_fd", "close_fd"]
                .iter()
                .any(|taker| stack.functions.iter().any(|function| function == taker))
        });
        let of_takers: u64 = of_takers.map(|stack| stack.wait.base).sum();
        assert!(waits > 0 && of_takers * 100 >= waits * 95, "{of_takers} of {waits}");
        let page = run(ktax().arg("report").arg(dir.path().join(name))).stdout;
        let is_named = |taker: &str| {
            let line =
                |line: &&str| line.contains(taker) && line.contains("files_struct.file_lock");
            page.lines().any(|text| line(&text))
        };
        assert!(is_named(" alloc_fd ") && is_named(" close_fd "), "{page}");
        let lines = &evidence.model_lines.as_ref().unwrap().base;
        let is_queued = lines.iter().any(|line| line.name == "qnodes");
        (found.effect(MAKESPAN).unwrap().base, is_queued)
    };
    let (usual, is_queued) = makespan("usual", &[]);
    assert!(is_queued);
    let (fine, _) = makespan("fine", &["--quantum", "200"]);
    assert!((usual / fine - 1.0).abs() < 0.1, "{usual} {fine}");
    // A queue stands still while the slice lasts of whom it waits for.
    let (coarse, _) = makespan("coarse", &["--quantum", "2000"]);
    assert!(coarse > 2.0 * fine, "{coarse} {fine}");
    let (_, is_queued) = makespan("hypervisor", &["--cpu", "max"]);
    assert!(!is_queued);
}

/// Two threads wait for each other, and a row has too many operations.
const ENDLESS: [&str; 2] = ["bad-deadlock", "scale:call=mmap,cpus=4,ops=16000000"];

#[test]
fn a_guest_that_never_ends_is_stopped_at_the_same_instruction_each_time() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    // The boots are made here, without a limit.
    four(&dir.path().join("boots"), &qemu, &["-w", "getppid:ops=1"]);
    let stopped = |name: &str, rows: &[&str], limit_s: &str| {
        let rows = rows.iter().flat_map(|row| ["-w", *row]);
        let args: Vec<&str> = rows.chain(["--time-limit", limit_s]).collect();
        let comparison = with_status(69, four(&dir.path().join(name), &qemu, &args));
        (comparison, measurements(&dir.path().join(name)))
    };
    let (comparison, quiet) = stopped("quiet", &ENDLESS, "1");
    let loops = Loops::start_nice(2);
    assert!(quiet == stopped("loaded", &ENDLESS, "1").1);
    drop(loops);
    let [deadlock, long] = ENDLESS.map(|name| &row(&comparison, name).failures[0].failure);
    let Failure::CountedTime { limit_s: 1, cpus } = deadlock else { panic!("{deadlock:?}") };
    let waits = cpus
        .iter()
        .filter(|place| place.activity == CpuActivity::Wait && place.function == "[user]");
    assert_eq!(waits.count(), 2, "{deadlock}");
    assert!(deadlock.to_string().contains("its CPUs wait for each other: CPU 0"), "{deadlock}");
    let Failure::CountedTime { cpus, .. } = long else { panic!("{long:?}") };
    assert!(cpus.len() == 4 && cpus.iter().all(|place| place.function != "[user]"), "{long}");
    assert!(cpus.iter().any(CpuPosition::is_working), "{long}");
    // All CPUs idle: the clock flies, and next to no instruction is counted.
    let asleep = ["bad-sleep", "bad-halt"];
    let (comparison, _) = stopped("asleep", &asleep, "4");
    for name in asleep {
        let failure = &row(&comparison, name).failures[0].failure;
        assert_eq!(*failure, Failure::VirtualTime { limit_s: 300 }, "{name}");
    }
}

/// A QEMU that gives its plugin another seed each time.
fn forgetful(dir: &Path, qemu: &Path) -> PathBuf {
    wrapped_qemu(dir, qemu, "case $word in *,jitter=*) word=${word%=*}=$$;; esac")
}

#[test]
fn runs_that_do_not_repeat_fail() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let out = dir.path().join("out");
    let comparison = with_status(69, with_four(&out, &forgetful(dir.path(), &qemu), &[]));
    let failures = &row(&comparison, CONTENDED).failures;
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures.iter().all(|failed| failed.failure == Failure::NotRepeated), "{failures:?}");
}

#[test]
fn a_qemu_that_cannot_is_refused_with_the_package_that_can() {
    let dir = scratch();
    let old = dir.path().join("qemu");
    script(dir.path(), "qemu", "#!/bin/sh\necho QEMU emulator version 9.2.1 '(Debian)'\n");
    let old = old.display().to_string();
    let kernel = ["compare", "--kernel", "debian:cloud-amd64", "--change-boot-line", "nopti"];
    let ran = run(ktax().args(kernel).args(["-w", CONTENDED]).args(FOUR).args(["--qemu", &old]))
        .exits(69);
    let message = "--cpus 4 (machine.cpus) needs QEMU 10.0 or later, and this is 9.2.1 (Debian); \
                   name a newer QEMU with --qemu: Debian 13 has one, and on Debian 12 `ktax doctor \
                   --newer-qemu DIR`";
    ran.says(message);
}

#[test]
fn a_newer_qemu_is_unpacked_into_a_new_directory_only() {
    let dir = scratch();
    fs::write(dir.path().join("mine"), "").unwrap();
    let unpack = |path: &Path| run(ktax().args(["doctor", "--newer-qemu"]).arg(path));
    for place in [dir.path().to_owned(), dir.path().join("mine")] {
        let ran = unpack(&place).exits(2);
        assert!(
            ran.stderr
                .ends_with("is a file, or a directory that is not empty; name a new directory\n")
        );
    }
    assert!(dir.path().join("mine").is_file());
    // Files that `make newer-qemu` has unpacked are not fetched again.
    let Some(qemu) = newer() else { return };
    let ran = unpack(qemu.parent().unwrap()).exits(0);
    assert!(ran.stdout.starts_with("QEMU 10"), "{}", ran.stdout);
    assert!(ran.stdout.contains("use it with `export KTAX_QEMU=/"), "{}", ran.stdout);
}
