use std::fs;

use ktax::model::{Arch, CountsPlan, Identity, ImageFormat, Key, Machine, Plan, Sides, Subject};
use ktax::plan::{CountsExperiment, Experiment};
use ktax::rundir::RunDir;

use crate::common::{ktax, run, scratch};

#[test]
fn mistakes_are_refused_with_the_next_step() {
    for (arguments, said) in [
        (&["--pairs", "10", "-w", "getppid"][..], "only applies to timed engines (host and kvm)"),
        (
            &["--engine", "host", "-w", "getppid", "--layouts", "2"],
            "--layouts (layouts) only applies to the exact",
        ),
        (&["--engine", "host", "-w", "getppid", "--change-set", "nonsense"], "there is no `=`"),
        (&["--engine", "host", "-w", "getppid"], "base and change are the same"),
        (&["--engine", "kvm", "--kernel", "x", "-w", "pipe"], "base and change are the same"),
        (&["--kernel", "x", "-w", "getppid"], "base and change are the same"),
        (
            &["--engine", "host", "-w", "getppid", "--change-set", "vm.swapiness=1"],
            "(did you mean vm.swappiness?)",
        ),
        (
            &["--engine", "host", "-w", "getppid", "--change-set", "swappiness=1"],
            "a dot or a slash",
        ),
        (&["--engine", "host", "-w", "getppid", "--change-set", "prefix='x"], "quote"),
        (&["--engine", "host", "--change-set", "thp=never"], "name rows with -w"),
        (&["--engine", "kvm", "-w", "getppid"], "kernel"),
        (&["--engine", "host", "--kernel", "debian:x", "-w", "getppid"], "--base-set kernel="),
        (&["--engine", "host", "--base", "6.1", "-w", "getppid"], "--base-set kernel="),
        (&["--engine", "host", "--change", "6.1", "-w", "getppid"], "--base-set kernel="),
        (
            &["--engine", "host", "--cpu", "max", "-w", "getppid"],
            "--cpu (machine.cpu) only applies",
        ),
        (&["--engine", "host", "--memory", "512", "-w", "getppid"], "memory_mib) only applies to"),
        (
            &["--engine", "host", "--vcpus", "1", "-w", "getppid"],
            "--cpus (machine.cpus) only applies to the exact engine and the kvm engine",
        ),
        (&["--engine", "host", "--cores", "1", "-w", "getppid"], "only apply to the kvm engine"),
        (&["--engine", "host", "--bare-metal", "-w", "getppid"], "only apply to the kvm engine"),
        (&["--engine", "host", "--base-boot-line", "quiet", "-w", "getppid"], "boot_line"),
        (
            &["--engine", "kvm", "--kernel", "x", "--base-set", "thp=never", "-w", "pipe"],
            "cannot be used with the kvm",
        ),
        (&["--engine", "kvm", "--bare-metal", "--base", "x", "-w", "pipe"], "--change"),
    ] {
        let ran = run(ktax().arg("plan").args(arguments));
        assert_eq!(ran.status, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn guests_that_are_the_same_are_refused_unless_that_is_asked_for() {
    let dir = scratch();
    let file = dir.path().join("guests.toml");
    let same = "title = \"x\"\nhost = \"kvm\"\nworkloads = [\"boot\"]\n\
                base = { kernel = \"/no/such\" }\nchange = { kernel = \"/no/such\" }\n";
    for (text, said) in [
        (same.to_owned(), "base and change are the same"),
        (format!("same = true\n{same}"), "/no/such"),
    ] {
        fs::write(&file, text).unwrap();
        let ran = run(ktax().arg("plan").arg(&file));
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

/// A plan of the exact engine.
fn counted() -> Plan<CountsPlan> {
    let identity = Identity {
        source: "x".into(),
        sha256: "0".repeat(64),
        release: Some("6.1".into()),
        package_date: None,
        build_id: None,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::BzImage,
    };
    let key = Key {
        engine: "exact".into(),
        qemu: "x".into(),
        machine_type: "x".into(),
        machine: Machine::default(),
        guest: "0".repeat(64),
        programs: String::new(),
        modules: Vec::new(),
    };
    let kernels = Sides { base: identity.clone(), change: identity };
    let method = CountsExperiment::between(Subject::new("x", ""), Subject::new("x", ""));
    let experiment = Experiment { title: "x".into(), seed: 1, threshold_percent: 0.1, method };
    experiment.plan(kernels, key, None).unwrap()
}

#[test]
fn what_is_of_times_is_refused_where_instructions_are_counted() {
    let dir = scratch();
    let timed = dir.path().join("timed.toml");
    fs::write(&timed, "title = \"x\"\nengine = \"host\"\nworkloads = [\"pipe\"]\n").unwrap();
    let ran = run(ktax().arg("plan").arg(&timed).args(["--engine", "exact"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("leave --engine out"), "{}", ran.stderr);
    let ran = run(ktax().args(["compare", "--same", "--kernel", "debian:x", "--peek"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--peek only applies to timed runs"), "{}", ran.stderr);
    let out = dir.path().join("counted");
    RunDir::create(&out, counted()).unwrap();
    let ran = run(ktax().arg("analyse").arg(&out).arg("--allow-differences"));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let said = "--allow-differences only applies to timed runs";
    assert!(ran.stderr.contains(said) && ran.stderr.contains("remove it"), "{}", ran.stderr);
    for (flags, next) in [
        (&["--peek"][..], "remove it"),
        (&["--side", "base"], "type `ktax run"),
        (&["--allow-differences"], "remove it"),
    ] {
        let ran = run(ktax().arg("run").arg(&out).args(flags));
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("only applies to timed runs"), "{}", ran.stderr);
        assert!(ran.stderr.contains(next), "{}", ran.stderr);
    }
}
