//! The engine of timed guests, with QEMU's translator in place of KVM: all but the times is the
//! same. And what `ktax doctor` finds of this machine's KVM.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{fs, thread};

use ktax::engine::kvm::{GuestSetup, Kvm, allowed_cpus};
use ktax::engine::qemu::Qemu;
use ktax::engine::{BootOutput, Cancel, Limits, Stop, Timed, noise};
use ktax::kernel::{Talk, obtain};
use ktax::model::{
    Accelerator, Failure, Subject, TimedMachine, TimedPair, TimedSubject, TimesComparison,
    Workload, fact,
};
use ktax::plan;
use ktax::wire::{Answer, Done, parse_answer};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::kvm::has_kvm;
use crate::common::rows::short;
use crate::common::{
    self, KERNEL, cache, comes, ktax, pids, processes, run, scratch, times_plan, until,
};

fn kernel() -> PathBuf {
    let quiet: &dyn Fn(&str) = &|_| {};
    let talk = Talk { note: quiet, status: quiet, task: &|_| {}, is_cancelled: &|| false };
    obtain(&Subject::new(KERNEL, ""), &cache(), &talk).unwrap().image
}

/// An engine with a cache of its own, so that its QEMUs are known by it.
fn engine(cache: &Path, limit_s: u64, cancel: &Cancel) -> Kvm {
    let cpu = thread::available_parallelism().unwrap().get() - 1;
    Kvm::new(GuestSetup {
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
        host_facts: noise::facts,
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
    plan::select_rows(&plan::definitions().unwrap(), Some(&names)).unwrap()
}

/// Boots, and looks that nothing is left.
fn boot(boot_line: &str, names: &[&str], limit_s: u64) -> Result<BootOutput, Stop> {
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
    let wires: std::collections::BTreeSet<_> = booted.wires.iter().flatten().collect();
    assert!(wires.len() > 2, "{:?}", booted.wires);
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
    // A crash leaves a process, a file and a semaphore that the next run could not create.
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
        assert!(matches!(wire, Err(Failure::NoAnswer { .. })), "{wire:?}");
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
#[ignore = "waits for a limit: make test-long"]
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
    // `bad-longline` prints 10 MiB, which is less than all of these may print together.
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
            let cpu_lists = common::pids(dir.path()).into_iter().flat_map(affinities);
            cpu_lists.filter(|list| *list == (cpus - 1).to_string()).count()
        };
        // The vCPU's thread, among several.
        let is_pinned = cpus == 1 || comes(|| pinned() == 1);
        cancel.cancel();
        assert!(matches!(booted.join().unwrap(), Err(Stop::Cancelled)));
        assert!(is_pinned);
    });
    assert_nothing_left(dir.path());
}

#[test]
fn every_usual_row_does_its_work_in_one_boot() {
    let rows = short(plan::select_rows(&plan::definitions().unwrap(), None).unwrap(), 8);
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

//

/// An experiment under QEMU's translator: everything works and times mean nothing.
fn compared(sides: &str) -> (TimesComparison, Vec<TimedPair>, String) {
    compared_by(ktax(), sides)
}

fn compared_by(mut ktax: Command, sides: &str) -> (TimesComparison, Vec<TimedPair>, String) {
    let dir = scratch();
    let file = dir.path().join("x.toml");
    let text = format!(
        "title = \"guests\"\nengine = \"kvm\"\nloops = 2\nworkloads = [\"getppid:ops=500\"]\n\
         [machine]\ncpu = \"max\"\naccelerator = \"tcg\"\n{sides}"
    );
    fs::write(&file, text).unwrap();
    let out = dir.path().join("run");
    let ran = run(ktax.arg("compare").arg(&file).arg("--json").arg("--out").arg(&out)).exits(4);
    let mut pairs = Vec::new();
    while let Ok(pair) = fs::read(out.join(format!("pairs/{:04}.json", pairs.len()))) {
        pairs.push(serde_json::from_slice(&pair).unwrap());
    }
    let text = run(common::ktax().arg("report").arg(&out)).stdout;
    let comparison = common::printed::comparison(&ran.stdout);
    (comparison.times().unwrap().clone(), pairs, text)
}

#[test]
fn a_run_goes_on_with_the_kernel_that_was_planned_or_not_at_all() {
    let dir = scratch();
    let image = dir.path().join("bzImage");
    fs::copy(kernel(), &image).unwrap();
    let out = dir.path().join("run");
    let flags = ["--engine", "kvm", "--change-boot-line", "nosmp", "-w", "getppid", "--kernel"];
    let own_cache = dir.path().join("cache");
    let planned = ktax()
        .arg("plan")
        .args(flags)
        .args([&image, Path::new("--out"), &out])
        .env("KTAX_CACHE", &own_cache)
        .output();
    assert!(planned.unwrap().status.success());
    let mut rebuilt = fs::read(&image).unwrap();
    rebuilt.push(0);
    fs::write(&image, rebuilt).unwrap();
    let gone_on = |cache: &Path| {
        let command = ["run", "--qemu", "/bin/false"];
        run(ktax().args(command).arg(&out).env("KTAX_CACHE", cache))
    };
    // The cache has what was planned: it is QEMU that is missing here.
    let ran = gone_on(&own_cache);
    ran.says("cannot start /bin/false");
    let ran = gone_on(&dir.path().join("other")).exits(2);
    ran.says("another kernel than when the plan was made");
}

#[test]
fn more_cores_than_there_are_is_refused_before_anything_is_made() {
    let dir = scratch();
    let out = dir.path().join("run");
    let of_machine = ["--engine", "kvm", "--kernel", KERNEL, "--cores", "1023"];
    let others = ["--change-boot-line", "nosmp", "-w", "getppid", "--out"];
    for command in ["compare", "plan"] {
        let ran = run(ktax().arg(command).args(of_machine).args(others).arg(&out));
        assert_eq!((ran.status, out.exists()), (2, false), "{}", ran.stderr);
        ran.says("--cores (machine.cores) is 1023");
    }
}

/// ktax as in a container or behind `taskset` that leaves it one CPU.
fn on_cpu(cpu: u32) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string()]).arg(env!("CARGO_BIN_EXE_ktax"));
    common::isolate(&mut command);
    command
}

#[test]
fn cpus_that_ktax_may_not_use_are_not_used() {
    let dir = scratch();
    let out = dir.path().join("run");
    let cpus = allowed_cpus().unwrap();
    let guests = ["--engine", "kvm", "--kernel", KERNEL, "--change-boot-line", "nosmp"];
    let plan = |cores: &[&str]| {
        let mut command = on_cpu(cpus[0]);
        command.arg("plan").args(guests).args(["-w", "getppid:ops=500"]).args(cores);
        run(command.arg("--out").arg(&out))
    };
    let ran = plan(&["--cores", "2"]);
    assert_eq!((ran.status, out.exists()), (2, false), "{}", ran.stderr);
    if let [_, other, ..] = cpus[..] {
        ran.says("(machine.cores) is 2, but ktax may use only 1 of");
        // A run that began elsewhere does not go on, and says so before a guest is started.
        assert_eq!(plan(&["--cores", "1"]).status, 0);
        fs::write(out.join("cpus.json"), format!("[{other}]")).unwrap();
        let ran = run(on_cpu(cpus[0]).arg("run").arg(&out));
        assert_eq!((ran.status, out.join("pairs/0000.json").exists()), (2, false), "{ran:?}");
        let message =
            format!("CPU {other}, on which this run began, is not among those that ktax may use");
        ran.says(&message);
    }
}

#[test]
fn bare_metal_is_this_machine_and_shares_the_one_cpu_that_ktax_may_use() {
    let cpu = *allowed_cpus().unwrap().last().unwrap();
    let sides = format!("[base]\nbare_metal = true\n[change]\nkernel = \"{KERNEL}\"\n");
    let (comparison, pairs, text) = compared_by(on_cpu(cpu), &format!("cpus = 2\n{sides}"));
    assert_eq!(comparison.pairs, 1, "{comparison:?}");
    let boots = &pairs.last().unwrap().boots;
    let here = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(boots.base.facts[fact::KERNEL], here.trim());
    assert!(boots.change.facts.contains_key("accelerator"), "{:?}", boots.change.facts);
    // One vCPU: both run on the same CPU, in every pair.
    let cpu = cpu.to_string();
    assert_eq!(boots.change.facts[fact::VCPU_CPUS], cpu);
    assert!(pairs.iter().all(|pair| pair.boots.base.facts[fact::AFFINITY] == cpu), "{pairs:?}");
    let run = &boots.change.runs["getppid:ops=500"];
    assert!(run.failure.is_none(), "{run:?}");
    // Bare metal could not be measured, so it has no share.
    assert!(!text.contains("% of bare metal"), "{text}");
}

#[test]
fn guests_are_told_apart_and_need_no_boot_of_the_machine() {
    let dir = scratch();
    let out = dir.path().join("run");
    let guests = ["--engine", "kvm", "--kernel", KERNEL, "-w", "control-planted:ops=50"];
    let lines = ["--base-boot-line", "quiet", "--change-boot-line", "quiet nosmt"];
    run(ktax().arg("plan").args(guests).args(lines).arg("--out").arg(&out)).exits(0);
    let plan = times_plan(&fs::read_to_string(out.join("plan.json")).unwrap());
    assert_eq!(plan.title, format!("{KERNEL} quiet against {KERNEL} quiet nosmt"));
    let ran = run(ktax().arg("run").arg(&out).args(["--side", "base"])).exits(2);
    ran.says("ktax starts both sides itself");
}

/// A program that leaves a directory and a process behind.
const PROGRAM: &str = r#"
[[program]]
name = "mine"
script = """
mkdir /tmp/left
echo $MINE
cat /tmp/setup /tmp/before
tail -f /dev/null &
"""
env = ["MINE=me"]
ops = 2
setup = "echo 1 > /tmp/setup"
prepare = "rm -rf /tmp/left; echo 2 > /tmp/before"
"#;

#[test]
fn guests_run_a_program_and_a_row_and_a_translator_is_no_clock() {
    let change = format!("[change]\nkernel = \"{KERNEL}\"\nboot_line = \"nosmp\"\n");
    let (comparison, pairs, text) =
        compared(&format!("[base]\nkernel = \"{KERNEL}\"\n{change}{PROGRAM}"));
    assert!(comparison.unfit.unwrap().contains("translator"));
    // Nobody goes on with what cannot be judged.
    assert_eq!((comparison.pairs, pairs.len()), (1, comparison.controls + 1));
    let boots = &pairs.last().unwrap().boots;
    for (boot, ends) in [(&boots.base, false), (&boots.change, true)] {
        let program = &boot.runs["program:mine"];
        assert!(program.failure.is_none() && program.loops_ns.len() == 2, "{program:?}");
        assert_eq!(program.signature["runs"], 1, "{program:?}");
        let row = &boot.runs["getppid:ops=500"];
        assert!(row.loops_ns.len() == 2 && row.failure.is_none(), "{row:?}");
        assert_eq!(row.signature["calls"], 500);
        assert_eq!(boot.facts[fact::BOOT_LINE].ends_with("nosmp"), ends, "{:?}", boot.facts);
    }
    assert!(text.contains("inconclusive"), "{text}");
    let rows = ["program:mine", "getppid:ops=500"].map(|row| text.find(row).unwrap());
    assert!(rows[0] < rows[1], "{text}");
}

// KVM as `ktax doctor` finds it.

/// `ktax doctor` with this image to try, and what it says of KVM.
fn doctor(cache: &Path, kernel: &Path, qemu: &Path) -> Command {
    let mut command = ktax();
    command.arg("doctor").arg("--cache").arg(cache);
    command.arg("--kernel").arg(kernel).arg("--qemu").arg(qemu).args(["--time-limit", "4"]);
    command
}

fn kvm_finding(printed: &str) -> &str {
    printed.lines().find_map(|line| line.get(5..)?.strip_prefix("KVM      ")).expect(printed)
}

#[test]
fn doctor_tries_kvm_and_says_what_came_of_it() {
    let (dir, qemu) = (scratch(), Path::new("qemu-system-x86_64"));
    let ran = run(&mut doctor(dir.path(), &kernel(), qemu)).exits(0);
    let finding = kvm_finding(&ran.stdout);
    println!("{finding}");
    let known = [
        ("/dev/kvm does not exist: ", "needs no KVM"),
        ("/dev/kvm cannot be opened (", "the kvm engine cannot measure here"),
        ("cannot run a small guest (", "the kvm engine cannot measure here"),
        ("runs a small guest but does not boot 6", "the kvm engine cannot measure here"),
        ("runs a small guest, but QEMU ends when it boots 6", "the kvm engine cannot measure here"),
        ("boots 6", " s: the kvm engine works here"),
    ];
    assert!(
        known.iter().any(|(begin, end)| finding.starts_with(begin) && finding.ends_with(end)),
        "{finding}"
    );
    let is_ok = ran.stdout.contains("\nok   KVM ");
    assert_eq!(is_ok, finding.starts_with("boots "), "{}", ran.stdout);
    assert_nothing_left(dir.path());
}

#[test]
fn doctor_fetches_no_kernel() {
    if !has_kvm() {
        return;
    }
    let dir = scratch();
    let ran = run(ktax().arg("doctor").arg("--cache").arg(dir.path()));
    let finding = kvm_finding(&ran.stdout);
    assert!(
        finding == "runs a small guest; a kernel was not tried, because the cache has none",
        "{finding}"
    );
    assert!(!dir.path().join("kernels").exists());
    run(&mut doctor(dir.path(), Path::new("debian:cloud-amd64"), Path::new("qemu"))).exits(2);
}

/// Kernel parameters after which a guest never says hello.
const NEVER: &str = "ktax.never=1 no_timer_check";

/// A QEMU whose guest under KVM never says hello, whatever this machine's KVM can do: with some,
/// QEMU itself ends at once, so it is a translated one.
fn never(dir: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'-accel kvm'*)\n\
         for word do shift; case \"$word\" in kvm) word=tcg;; host) word=max;; esac\n\
         set -- \"$@\" \"$word\"; done; set -- \"$@\" -append '{NEVER}';; esac\n\
         exec qemu-system-x86_64 \"$@\"\n"
    );
    let path = dir.join("qemu");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn doctor_gives_up_on_a_kernel_and_stops_when_it_is_told_to() {
    if !has_kvm() {
        return;
    }
    let (dir, kernel) = (scratch(), kernel());
    let qemu = never(dir.path());
    let ran = run(&mut doctor(dir.path(), &kernel, &qemu)).exits(0);
    let finding = kvm_finding(&ran.stdout);
    assert!(finding.starts_with("runs a small guest but does not boot "), "{finding}");
    assert!(finding.ends_with(" within 4 s: the kvm engine cannot measure here"), "{finding}");
    let child = doctor(dir.path(), &kernel, &qemu).stdout(Stdio::null()).spawn().unwrap();
    let booting = || processes(dir.path()).iter().any(|line| line.contains(NEVER));
    until("a guest boots", booting);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    until("its QEMU goes", || pids(dir.path()).is_empty());
    assert_nothing_left(dir.path());
}
