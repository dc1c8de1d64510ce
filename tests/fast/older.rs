//! Files of older releases are read: `tests/data/older` has what they wrote.

use std::fs;

use ktax::model::{
    Accelerator, AskedGuest, GuestWork, HostKind, SavedResult, Subject, UserProgram, read_results,
};
use ktax::plan::{CountsExperiment, Experiment};
use ktax::rundir::AnyRunDir;

use crate::common::{ktax, run, scratch, scratch_path};

fn older(name: &str) -> String {
    let path = format!("{}/tests/data/older/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

/// The kernels were in the subjects, and the machine in the key alone.
#[test]
fn a_comparison_is_read() {
    let text = older("comparison.json");
    let SavedResult::Comparison(comparison) = read_results(&text).unwrap().remove(0).result else {
        panic!("a comparison")
    };
    let counts = comparison.counts().unwrap();
    assert_eq!(counts.asked.subjects.base.boot_line, "lsm=capability");
    assert_eq!(counts.kernels.change.release.as_deref(), Some("6.1.0-56-cloud-amd64"));
    assert_eq!((&counts.asked.machine, counts.layouts), (&counts.key.machine, 4));
    let (_dir, path) = scratch_path("older.json");
    fs::write(&path, &text).unwrap();
    let mail = run(ktax().arg("report").arg(&path).args(["--format", "mail"])).stdout;
    let again = mail.split_once("To measure it again:").unwrap().1;
    assert!(again.contains("--base-boot-line lsm=capability"), "{mail}");
}

/// Older plans have the guests' resources beside the key, and the modules only in the key.
#[test]
fn a_plan_is_read() {
    let dir = scratch();
    fs::write(dir.path().join("plan.json"), older("plan.json")).unwrap();
    let AnyRunDir::Counts(opened) = AnyRunDir::open(dir.path()).unwrap() else { panic!("counts") };
    let asked = &opened.plan().method.asked;
    assert_eq!((asked.machine.cpus, asked.machine.quantum), (4, Some(500)));
    assert_eq!(asked.subjects.change.sysctl["vm.swappiness"], "10");
    let AskedGuest { modules, disk, hooks, .. } = &asked.guest;
    assert_eq!(*modules, ["nf_tables"]);
    assert_eq!(disk.as_ref().unwrap().to_string(), "ext4 mib=64 options=noatime");
    assert_eq!(hooks.as_ref().unwrap().setup.as_deref(), Some("nft -f rules.nft"));
    assert_eq!(asked.guest.all_modules(), opened.plan().method.key.modules);
}

fn experiment(name: &str) -> Experiment {
    Experiment::parse(&older(name), name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An experiment that the release shipped.
#[test]
fn a_shipped_experiment_is_read() {
    let experiment = experiment("lock-slow-paths.toml");
    let CountsExperiment { layouts, asked, .. } = experiment.method.counts().unwrap();
    assert_eq!((*layouts, asked.machine.cpus), (5, 8));
    let sources = asked.subjects.both().map(|subject| subject.kernel.as_str());
    assert_eq!(sources, ["debian-src:6.12"; 2]);
    assert_eq!(asked.subjects.change.patches.len(), 1);
}

#[test]
fn an_experiment_of_counts_keeps_every_key() {
    let experiment = experiment("counts.toml");
    assert_eq!((experiment.seed, experiment.threshold_percent), (7, 0.5));
    let CountsExperiment { layouts, workloads, asked, .. } = experiment.method.counts().unwrap();
    assert_eq!(*layouts, 3);
    assert_eq!(workloads.as_deref().unwrap(), ["getppid", "fork-pages:pages=16"]);
    let machine = &asked.machine;
    assert_eq!((machine.cpu.as_str(), machine.memory_mib), ("EPYC,-x2apic", 1024));
    assert_eq!((machine.cpus, machine.quantum), (4, Some(500)));
    assert_eq!(machine.model.as_ref().unwrap().name(), "coherence");
    let AskedGuest { modules, disk, programs, hooks, .. } = &asked.guest;
    assert_eq!(*modules, ["nf_tables"]);
    let disk = disk.as_ref().unwrap().to_string();
    assert_eq!(disk, "ext4 mib=64 options=noatime device=null_blk latency_us=80");
    let hooks = hooks.as_ref().unwrap();
    let commands = [&hooks.setup, &hooks.prepare].map(|commands| commands.as_deref().unwrap());
    assert_eq!(commands, ["nft -f rules.nft", "true"]);
    assert_eq!((&*hooks.files, &*hooks.env), (&["rules.nft".into()][..], &["LANG=C".into()][..]));
    let wanted = UserProgram {
        name: "sort".into(),
        command: vec!["sort".into(), "words".into()],
        files: vec!["words:words".into()],
        stdin: Some("words".into()),
        user: 1000,
        status: 1,
        warm_up: 2,
        ops: Some(10),
        numbers: [("rows".into(), "rows=".into())].into(),
        any_output: true,
        ..UserProgram::default()
    };
    assert_eq!(*programs, [wanted]);
    let source = Subject {
        tree: Some("linux".into()),
        start_config: Some("defconfig".into()),
        ..Subject::new("git:v6.12", "audit=1")
    };
    let base = Subject {
        boot_line: "quiet".into(),
        config: vec!["CONFIG_AUDIT=y".into()],
        patches: vec!["old.patch".into()],
        ..source.clone()
    };
    assert_eq!(asked.subjects.both(), [&base, &source]);
}

#[test]
fn an_experiment_of_times_keeps_every_key() {
    let experiment = experiment("times.toml");
    assert_eq!((experiment.seed, experiment.threshold_percent), (7, 2.5));
    let times = experiment.method.times().unwrap();
    let asked = &times.asked;
    assert_eq!((asked.pairs, asked.max_pairs, asked.loops), (Some(20), 40, 3));
    assert!(asked.allow_differences && asked.uses_running_kernel());
    let machine = &asked.machine;
    assert_eq!((machine.cpu.as_str(), machine.memory_mib), ("max", 256));
    assert_eq!((machine.cores, machine.accelerator), (Some(1), Accelerator::Tcg));
    assert_eq!(asked.subjects.change.boot_line, "audit=1");
    let runs = experiment.with_method(times.clone()).each_setting().unwrap();
    let cpus: Vec<u32> = runs.iter().map(|(_, run)| run.method.asked.machine.cpus).collect();
    assert_eq!(cpus, [1, 2]);
    let plan = runs[0].1.plan().unwrap();
    let rows: Vec<&str> = plan.method.workloads().map(|workload| &*workload.row).collect();
    assert_eq!(rows, ["fork-pages:pages=16", "fork-pages:pages=32", "getppid"]);
}

#[test]
fn an_experiment_with_guests_keeps_every_key() {
    let experiment = experiment("guests.toml");
    let guests = experiment.method.guests().unwrap();
    assert_eq!((experiment.seed, guests.layouts, guests.asked.host), (7, 3, HostKind::Kvm));
    let host = Subject {
        config: vec!["CONFIG_AUDIT=y".into()],
        patches: vec!["host.patch".into()],
        ..Subject::new("debian-src:6.12", "")
    };
    assert_eq!(guests.asked.host_subject, host);
    let works: Vec<&GuestWork> = guests.asked.rows.iter().map(|row| &row.work).collect();
    assert_eq!(works[..2], [&GuestWork::Boot, &GuestWork::Raw { kind: "out".into(), count: 9 }]);
    let base = &guests.asked.base.subject;
    assert_eq!(
        (&*base.hidden_features, base.cpus, base.memory_mib),
        (&["kvmclock".into()][..], 2, 128)
    );
    let change = &guests.asked.change.as_ref().unwrap().subject;
    assert_eq!(change.kernel, Some(Subject::new("debian:cloud-amd64", "audit=1")));
}
