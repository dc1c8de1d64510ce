//! The command that a report prints asks for the same experiment again.

use clap::Parser;

use super::ExperimentArgs;
use crate::model::{
    Arch, Comparison, ComparisonMethod, CountsComparison, CountsPlan, Evidence, Identity,
    ImageFormat, Key, Plan, Row, Sides, Subject, TimesComparison, TimesPlan, Verdict,
};
use crate::plan::{self, Experiment, ExperimentMethod};
use crate::report::Report;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Kernel with the name that was asked for.
fn kernel(subject: &Subject) -> Identity {
    Identity {
        source: subject.kernel.clone(),
        sha256: "ab".repeat(32),
        release: None,
        package_date: None,
        build_id: None,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::BzImage,
    }
}

fn counts_plan(experiment: &Experiment) -> Option<Plan<CountsPlan>> {
    let ExperimentMethod::Counts(counts) = &experiment.method else { return None };
    let key = Key {
        engine: "exact".into(),
        qemu: "7.2".into(),
        machine_type: "q35".into(),
        machine: counts.asked.machine.clone(),
        guest: String::new(),
        programs: String::new(),
        modules: counts.asked.guest.all_modules(),
    };
    let kernels = Sides::from_fn(|side| kernel(counts.asked.subjects.get(side)));
    let plan = experiment.with(counts.clone()).plan(kernels, key, None).unwrap();
    Some(Plan { title: String::new(), ..plan })
}

fn times_plan(experiment: &Experiment) -> Option<Plan<TimesPlan>> {
    let ExperimentMethod::Times(times) = &experiment.method else { return None };
    let plan = experiment.with(times.clone()).plan().unwrap();
    // The printed command names each row of a swept parameter.
    let method = TimesPlan { swept: Vec::new(), ..plan.method };
    Some(Plan { title: String::new(), method, ..plan })
}

/// Words that the report of an experiment prints, whatever it measured.
fn words(experiment: &Experiment) -> Vec<String> {
    let (rows, method) = if let Some(Plan { method: plan, seed, .. }) = counts_plan(experiment) {
        let CountsPlan { asked, key, kernels, layouts, .. } = plan.clone();
        let method = ComparisonMethod::Counts(CountsComparison {
            asked,
            key,
            kernels,
            layouts: layouts.len(),
            seed,
            crc32c: Vec::new(),
            growth: Vec::new(),
        });
        let evidence = || Evidence::Counts(Default::default());
        let row = |workload| Row::new(workload, Verdict::Failed, evidence());
        (plan.workloads.iter().map(row).collect::<Vec<_>>(), method)
    } else if let Some(Plan { method: plan, seed, .. }) = times_plan(experiment) {
        let failed = || Evidence::Counts(Default::default());
        let row =
            |workload, headline| Row { headline, ..Row::new(workload, Verdict::Failed, failed()) };
        let rows = plan.headline.iter().map(|workload| row(workload, true));
        let rows = rows.chain(plan.secondary.iter().map(|workload| row(workload, false)));
        let rows = rows.collect();
        let method = ComparisonMethod::Times(TimesComparison {
            seed,
            plan,
            pairs: 0,
            controls: 0,
            unfit: None,
            facts: Sides::default(),
            looks: Vec::new(),
            crossings: Vec::new(),
        });
        (rows, method)
    } else {
        panic!("no command line asks for guests of a KVM host")
    };
    let comparison = Comparison {
        title: "t".into(),
        threshold_percent: experiment.threshold_percent,
        method,
        rows,
        warnings: Vec::new(),
    };
    comparison.view().again
}

/// Checks that the printed command asks for the same experiment.
fn check(name: &str, experiment: &Experiment) {
    let words = words(experiment);
    assert_eq!(words[..2], ["ktax", "compare"], "{name}: {words:?}");
    let typed =
        Typed::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{name}: {error}"));
    let again = typed.experiment.experiment().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(counts_plan(&again), counts_plan(experiment), "{name}: {words:?}");
    assert_eq!(times_plan(&again), times_plan(experiment), "{name}: {words:?}");
}

fn counted(name: &str, head: &str, base: &str, change: &str) {
    let text = format!(
        "title = \"t\"\nsame = true\n{head}\n[base]\nkernel = \"k\"\n{base}\n[change]\n\
         kernel = \"k\"\n{change}\n"
    );
    let experiment =
        Experiment::parse(&text, "t.toml").unwrap_or_else(|error| panic!("{name}: {error}"));
    check(name, &experiment);
}

#[test]
fn every_shipped_experiment_is_asked_for_again() {
    let mut seen = 0;
    for built_in in plan::experiments() {
        let experiment = Experiment::parse(built_in.text, built_in.name).unwrap();
        // There are no flags for guests of a KVM host.
        if !matches!(experiment.method, ExperimentMethod::Guests(_)) {
            check(built_in.name, &experiment);
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

const ROW: &str = "workloads = [\"getppid\"]";

/// Keys at the head of a file.
const KEYS: [&str; 28] = [
    "layouts = 3",
    "seed = 7",
    "threshold_percent = 2.5",
    "workloads = [\"@lmbench\", \"fork-pages:pages=16\"]",
    "modules = [\"zram num_devices=2\", \"nf_tables\"]",
    "disk = { fs = \"ext4\" }",
    "disk = { fs = \"ext4\", mib = 64, options = \"noatime,data=journal\", mkfs = \"-O '^x y'\" }",
    "disk = { fs = \"btrfs\", device = \"null_blk\", latency_us = 80 }",
    "disk = { fs = \"xfs\", device = \"zram\" }\nmodules = [\"xfs\", \"nf_tables\"]",
    "hooks = { setup = \"a 'b'\\nc\", prepare = \"d\", files = [\"e:f\"], env = [\"A=b c\"] }",
    "hooks = { setup = \"a\", root = \"r\" }",
    "machine.cpu = \"EPYC,-x2apic\"",
    "machine.memory_mib = 1024",
    "machine.cpus = 4",
    "machine.cpus = 4\nmachine.cpu = \"max\"",
    "machine.cpus = 4\nmachine.quantum = 500",
    "machine.cpus = 4\nmachine.model = \"coherence\"",
    "machine.model = \"zen3\"",
    "program = [{ command = [\"sh\", \"-c\", \"a b\"], name = \"x\" }]",
    "program = [{ command = [\"a\"], files = [\"b\", \"c:d\"], root = \"r\", env = [\"A=1\"] }]",
    "program = [{ command = [\"a\"], stdin = \"f\", user = 3, status = 2, warm_up = 4, ops = 5 }]",
    "program = [{ command = [\"a\"], setup = \"b\\nc\", prepare = \"d\", any_output = true }]",
    "program = [{ command = [\"a\"], numbers = { n = \"rows=\" }, ops_from = \"ops: \" }]",
    "program = [{ command = [\"a\", \"{size}\"], sizes = [10, 20], setup = \"b {size}\" }]",
    "program = [{ script = \"echo 'a'\\nb\\n\" }]",
    "workloads = [\"git-status\"]",
    "workloads = [\"git-status\", \"getppid\"]",
    "seed = 18446744073709551615",
];

/// Keys of a side.
const OF_SIDE: [&str; 15] = [
    "boot_line = \"quiet dyndbg='file a.c +p'\"",
    "config = [\"CONFIG_A=y\", \"some.config\"]",
    "patches = [\"1.patch\", \"2.patch\"]",
    "sysctl = { \"vm.swappiness\" = \"10\", \"net.ipv4.tcp_rmem\" = \"1 2 3\" }",
    "modules = [\"zram num_devices=3\"]",
    "disk = { fs = \"ext4\" }",
    "disk = { fs = \"ext4\", mkfs = \"-O ^metadata_csum\", options = \"noatime\" }",
    "disk = { fs = \"tmpfs\" }",
    "files = [\"old.conf:conf\", \"data\"]",
    "setup = \"true\"",
    "setup = \"nft -f 'a b'\\necho $x\\n\"",
    "setup = \"-x\"",
    "files = [\"-x\"]",
    "boot_line = \"-x\"",
    "modules = [\"-x\"]",
];

#[test]
fn every_key_alone_is_asked_for_again() {
    for key in KEYS {
        let head = if key.contains("workloads") || key.contains("program") { "" } else { ROW };
        counted(key, &format!("{head}\n{key}"), "", "");
    }
    for key in OF_SIDE {
        counted(&format!("base: {key}"), ROW, key, "");
        counted(&format!("change: {key}"), ROW, "", key);
        counted(&format!("both: {key}"), ROW, key, key);
        let disk = format!("{ROW}\ndisk = {{ fs = \"btrfs\" }}\nmodules = [\"nf_tables\"]");
        counted(&format!("change, with a disk of both: {key}"), &disk, "", key);
        let program = "program = [{ command = [\"a\"] }]";
        counted(&format!("change, with a program: {key}"), program, "", key);
    }
    let source = "start_config = \"defconfig\"\ntree = \"linux\"";
    let git = "kernel = \"git:v6.12\"";
    let text = format!(
        "title = \"t\"\nsame = true\n{ROW}\n[base]\n{git}\n{source}\n[change]\n{git}\n{source}\n"
    );
    check("source", &Experiment::parse(&text, "t.toml").unwrap());
}

/// Keys of timed experiments: at the head, of the base, of the change.
const TIMED: [(&str, &str, &str); 15] = [
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "", "thp = \"never\""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "", ""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "sysctl = { \"vm.swappiness\" = \"1\" }", ""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "", "prefix = [\"env\", \"A=b c\"]"),
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "kernel = \"a\"", "kernel = \"b\""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]", "", "governor = \"performance\""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]\npairs = 20\nloops = 3\nseed = 9", "", ""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]\nmost_pairs = 40\nthreshold_percent = 2.0", "", ""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]\nallow_differences = true", "", ""),
    ("engine = \"host\"\nworkloads = [\"pipe\"]\nsecondary = [\"stat\"]", "", ""),
    ("engine = \"host\"\nprogram = [{ command = [\"a\", \"b\"], ops = 3 }]", "", ""),
    ("engine = \"host\"\nprogram = [{ command = [\"a\"] }]\nworkloads = [\"pipe\"]", "", ""),
    ("engine = \"kvm\"\nworkloads = [\"pipe\"]\nmachine.cpus = 2\nmachine.cores = 1", GUEST, GUEST),
    ("engine = \"kvm\"\nworkloads = [\"pipe\"]\nmachine.cpu = \"EPYC\"", GUEST, GUEST),
    (
        "engine = \"kvm\"\nworkloads = [\"pipe\"]\nmachine.memory_mib = 256",
        "bare_metal = true",
        GUEST,
    ),
];

const GUEST: &str = "kernel = \"k\"\nboot_line = \"quiet\"";

#[test]
fn every_timed_key_alone_is_asked_for_again() {
    for (head, base, change) in TIMED {
        let text =
            format!("title = \"t\"\nsame = true\n{head}\n[base]\n{base}\n[change]\n{change}\n");
        let experiment = Experiment::parse(&text, "t.toml");
        check(head, &experiment.unwrap_or_else(|error| panic!("{head}: {error}")));
    }
}
