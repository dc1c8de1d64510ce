//! Tests that the command in a report describes the same experiment.

#[path = "../../tests/common/made.rs"]
#[allow(dead_code)]
mod made;

use clap::{CommandFactory, Parser};
use proptest::prelude::*;

use super::ExperimentArgs;
use crate::flow::stored_plan;
use crate::model::{
    Comparison, ComparisonMethod, CountsComparison, CountsPlan, Evidence, GuestsComparison,
    GuestsPlan, HistoryAsked, HistoryLine, HistoryPoint, Identity, Key, Machine, Measurement, Plan,
    Row, Sides, Subject, TimesComparison, TimesPlan, Verdict,
};
use crate::plan::{self, Experiment, ExperimentMethod, Ledger};
use crate::report::Report;
use crate::store::{SideRow, side_rows};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    experiment: ExperimentArgs,
}

/// Identity of a kernel with the requested name.
fn kernel(subject: &Subject) -> Identity {
    made::identity(&subject.kernel, "ab")
}

fn key(machine: Machine, modules: Vec<String>) -> Key {
    Key { machine, modules, ..made::key("7.2") }
}

fn counts_plan(experiment: &Experiment) -> Option<Plan<CountsPlan>> {
    let ExperimentMethod::Counts(counts) = &experiment.method else { return None };
    let key = key(counts.asked.machine.clone(), counts.asked.guest.all_modules());
    let kernels = Sides::from_fn(|side| kernel(counts.asked.subjects.get(side)));
    let plan = experiment.with_method(counts.clone()).plan(kernels, key, None).unwrap();
    Some(Plan { title: String::new(), ..plan })
}

fn times_plan(experiment: &Experiment) -> Option<Plan<TimesPlan>> {
    let ExperimentMethod::Times(times) = &experiment.method else { return None };
    let plan = experiment.with_method(times.clone()).plan().unwrap();
    // The printed command names each row of a swept parameter.
    let method = TimesPlan { swept_parameters: Vec::new(), ..plan.method };
    Some(Plan { title: String::new(), method, ..plan })
}

fn guests_plan(experiment: &Experiment) -> Option<Plan<GuestsPlan>> {
    let mut guests = experiment.method.guests()?.clone();
    let host_kernel = kernel(&guests.asked.host_subject);
    guests
        .asked
        .sides_mut()
        .for_each(|side| side.kernel = side.subject.kernel.as_ref().map(kernel));
    Some(experiment.with_method(guests).plan(host_kernel, key(Machine::default(), Vec::new())))
}

/// Comparison of counts of a run of this plan, without measurements.
fn counts_comparison(plan: &Plan<CountsPlan>) -> Comparison {
    let Plan { seed, threshold_percent, method, .. } = plan.clone();
    let CountsPlan { asked, key, kernels, layouts, workloads, .. } = method;
    let (layouts, crc32c, growth) = (layouts.len(), Vec::new(), Vec::new());
    let row = |row| Row::new(row, Verdict::Failed, Evidence::Counts(Default::default()));
    let rows = workloads.iter().map(row).collect();
    let counts = CountsComparison { asked, key, kernels, layouts, seed, crc32c, growth };
    let (title, method) = ("t".into(), ComparisonMethod::Counts(counts));
    Comparison { title, threshold_percent, method, rows, warnings: Vec::new() }
}

/// Comparison of times of a run of this plan, without measurements.
fn times_comparison(plan: Plan<TimesPlan>) -> Comparison {
    let Plan { seed, threshold_percent, method: plan, .. } = plan;
    let failed = || Evidence::Counts(Default::default());
    let row =
        |workload, headline| Row { headline, ..Row::new(workload, Verdict::Failed, failed()) };
    let rows = plan.headline.iter().map(|workload| row(workload, true));
    let rows = rows.chain(plan.secondary.iter().map(|workload| row(workload, false))).collect();
    let method = ComparisonMethod::Times(TimesComparison {
        seed,
        plan,
        pairs: 0,
        controls: 0,
        unfit: None,
        facts: Sides::default(),
        pairs_at_looks: Vec::new(),
        crossings: Vec::new(),
    });
    Comparison { title: "t".into(), threshold_percent, method, rows, warnings: Vec::new() }
}

/// Comparison of a run of this experiment, written as JSON and read back.
fn comparison(experiment: &Experiment) -> Comparison {
    let comparison = match &experiment.method {
        ExperimentMethod::Counts(_) => counts_comparison(&counts_plan(experiment).unwrap()),
        ExperimentMethod::Times(_) => times_comparison(times_plan(experiment).unwrap()),
        ExperimentMethod::Guests(_) => guests_comparison(guests_plan(experiment).unwrap()),
    };
    serde_json::from_str(&serde_json::to_string(&comparison).unwrap()).unwrap()
}

/// Comparison of guests of a run of this plan, without measurements.
fn guests_comparison(plan: Plan<GuestsPlan>) -> Comparison {
    let Plan { threshold_percent, method: plan, .. } = plan;
    let (rows, method) = (Vec::new(), ComparisonMethod::Guests(GuestsComparison { plan }));
    Comparison { title: "t".into(), threshold_percent, method, rows, warnings: Vec::new() }
}

/// Comparison that `ktax diff` makes of the measurements of this experiment; `None` without counts.
fn stored_comparison(experiment: &Experiment) -> Option<Comparison> {
    let plan = counts_plan(experiment)?;
    let groups = side_rows(&plan);
    let (base, change) = groups.split_at(groups.len() / 2);
    let stored = |group: &SideRow| {
        let json = serde_json::to_string(&group.measurement(Vec::new())).unwrap();
        serde_json::from_str(&json).unwrap()
    };
    let rows = base
        .iter()
        .zip(change)
        .map(|(base, change)| Sides { base: stored(base), change: stored(change) });
    let rows: Vec<Sides<Measurement>> = rows.collect();
    Some(counts_comparison(&stored_plan(&rows, plan.threshold_percent)?))
}

/// Parses the experiment of a printed command.
fn parse_command(name: &str, words: &[String]) -> Experiment {
    assert_eq!(words[..2], ["ktax", "compare"], "{name}: {words:?}");
    let command_line =
        CommandLine::try_parse_from(&words[1..]).unwrap_or_else(|error| panic!("{name}: {error}"));
    command_line.experiment.experiment().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that the commands of a comparison and of a diff of stored measurements describe the same
/// experiment.
fn check(name: &str, experiment: &Experiment) {
    let compared = comparison(experiment);
    let words = compared.view().again;
    if let ComparisonMethod::Guests(guests) = &compared.method {
        // No command line can describe guests of a KVM host, so no command is printed.
        assert_eq!(words, [""; 0], "{name}");
        assert_eq!(guests.plan, guests_plan(experiment).unwrap().method, "{name}");
        return;
    }
    let again = parse_command(name, &words);
    assert_eq!(counts_plan(&again), counts_plan(experiment), "{name}: {words:?}");
    assert_eq!(times_plan(&again), times_plan(experiment), "{name}: {words:?}");
    if let Some(stored) = stored_comparison(experiment) {
        assert_eq!(stored.view().again, words, "{name}");
    }
}

/// Checks an experiment of counts with these keys.
fn check_counts(name: &str, head: &str, base: &str, change: &str) {
    let text = format!(
        "title = \"t\"\nsame = true\n{head}\n[base]\nkernel = \"k\"\n{base}\n[change]\n\
         kernel = \"k\"\n{change}\n"
    );
    let experiment =
        Experiment::parse(&text, "t.toml").unwrap_or_else(|error| panic!("{name}: {error}"));
    check(name, &experiment);
}

#[test]
fn the_command_of_every_built_in_experiment_describes_it() {
    for built_in in plan::experiments() {
        check(built_in.name, &Experiment::parse(built_in.text, built_in.name).unwrap());
    }
}

/// Reports of a ledger's run directories print commands, too.
#[test]
fn the_command_of_every_addition_of_a_built_in_ledger_describes_it() {
    for built_in in plan::ledgers() {
        for (name, experiment) in Ledger::parse(built_in.text, built_in.name).unwrap().experiments {
            check(&format!("{}: {name}", built_in.name), &experiment);
        }
    }
}

/// Guests of a history have no settings but a boot line.
#[test]
fn the_command_of_a_step_of_a_history_describes_it() {
    for head in [
        HEAD_KEYS[0],
        HEAD_KEYS[1],
        HEAD_KEYS[11],
        HEAD_KEYS[12],
        HEAD_KEYS[13],
        HEAD_KEYS[15],
        HEAD_KEYS[16],
        HEAD_KEYS[17],
    ] {
        let text = format!(
            "title = \"t\"\nthreshold_percent = 0.5\n{ROW}\n{head}\n[base]\nkernel = \
             \"debian:a=1\"\nboot_line = \"quiet\"\n[change]\nkernel = \"debian:a=2\"\n"
        );
        let experiment = Experiment::parse(&text, "t.toml").unwrap();
        let counts = experiment.method.counts().unwrap();
        let points = counts.asked.subjects.both().map(point);
        let asked = HistoryAsked {
            machine: counts.asked.machine.clone(),
            layouts: counts.layouts as usize,
            seed: experiment.seed,
        };
        let line = HistoryLine {
            row: "getppid".into(),
            operation: String::new(),
            ops: 1,
            lineage: String::new(),
            measured: String::new(),
            asked: Some(asked),
            points: points.to_vec(),
        };
        let words = plan::HistorySteps::new(&line, 0.5).words(&points[0], &points[1]);
        assert_eq!(
            counts_plan(&parse_command(head, &words)),
            counts_plan(&experiment),
            "{words:?}"
        );
    }
}

fn point(subject: &Subject) -> HistoryPoint {
    HistoryPoint {
        position: 0,
        name: String::new(),
        kernel: String::new(),
        package: Some(subject.kernel.clone()),
        boot_line: subject.boot_line.clone(),
        tags: Vec::new(),
        values: Vec::new(),
        anchor_difference: None,
        previous_difference: None,
        functions: Vec::new(),
    }
}

const ROW: &str = "workloads = [\"getppid\"]";

/// Keys at the head of a file.
const HEAD_KEYS: [&str; 28] = [
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
const SIDE_KEYS: [&str; 15] = [
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
fn the_command_has_the_flag_of_every_key() {
    for key in HEAD_KEYS {
        let head = if key.contains("workloads") || key.contains("program") { "" } else { ROW };
        check_counts(key, &format!("{head}\n{key}"), "", "");
    }
    for key in SIDE_KEYS {
        check_counts(&format!("base: {key}"), ROW, key, "");
        check_counts(&format!("change: {key}"), ROW, "", key);
        check_counts(&format!("both: {key}"), ROW, key, key);
        let disk = format!("{ROW}\ndisk = {{ fs = \"btrfs\" }}\nmodules = [\"nf_tables\"]");
        check_counts(&format!("change, with a disk of both: {key}"), &disk, "", key);
        let program = "program = [{ command = [\"a\"] }]";
        check_counts(&format!("change, with a program: {key}"), program, "", key);
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
fn the_command_has_the_flag_of_every_timed_key() {
    for (head, base, change) in TIMED {
        let text =
            format!("title = \"t\"\nsame = true\n{head}\n[base]\n{base}\n[change]\n{change}\n");
        let experiment = Experiment::parse(&text, "t.toml");
        check(head, &experiment.unwrap_or_else(|error| panic!("{head}: {error}")));
    }
}

/// Rows of random experiments.
const ROWS: [&str; 4] = [ROW, HEAD_KEYS[18], HEAD_KEYS[23], HEAD_KEYS[26]];

/// Random keys of counting experiments: at the head, and of each side.
fn heads() -> impl Strategy<Value = String> {
    let machine = prop_oneof![
        Just(String::new()),
        (2_u32..=32, prop::option::of(20_u32..5000), prop::bool::ANY).prop_map(
            |(cpus, quantum, is_coherent)| {
                let quantum = quantum.map_or(String::new(), |n| format!("machine.quantum = {n}\n"));
                let model = if is_coherent { "machine.model = \"coherence\"\n" } else { "" };
                format!("machine.cpus = {cpus}\n{quantum}{model}")
            }
        ),
        Just("machine.model = \"zen3\"\n".to_owned()),
    ];
    let numbers = (
        one_of("layouts", 1_u64..=99),
        one_of("seed", 0..=u64::MAX / 2),
        one_of("machine.memory_mib", 400..=2048),
        prop::option::of(0.01_f64..100.0).prop_map(|percent| {
            percent.map_or(String::new(), |percent| format!("threshold_percent = {percent}\n"))
        }),
    );
    let keys =
        (some_of(&HEAD_KEYS[4..9]), some_of(&HEAD_KEYS[9..12]), prop::sample::select(&ROWS[..]));
    (machine, numbers, keys).prop_map(|(machine, (a, b, c, d), (disk, other, rows))| {
        format!("{a}{b}{d}{disk}{other}{rows}\n{machine}{c}")
    })
}

fn one_of(
    key: &'static str,
    values: std::ops::RangeInclusive<u64>,
) -> impl Strategy<Value = String> {
    prop::option::of(values)
        .prop_map(move |value| value.map_or(String::new(), |value| format!("{key} = {value}\n")))
}

/// One of these keys, or none.
fn some_of(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::option::of(prop::sample::select(keys))
        .prop_map(|key| key.map_or(String::new(), |key| format!("{key}\n")))
}

fn sides() -> impl Strategy<Value = String> {
    let kernel = prop::sample::select(&["k", "debian:cloud-amd64", "git:v6.12", "src:a b"][..]);
    let text = |key: &'static str, text: &'static str| {
        prop::option::of(text).prop_map(move |value| {
            let quoted = |value: String| toml::Value::String(value).to_string();
            value.map_or(String::new(), |value| format!("{key} = {}\n", quoted(value)))
        })
    };
    let keys = prop::sample::subsequence(&SIDE_KEYS[1..5], 0..=4);
    let more = (some_of(&SIDE_KEYS[5..8]), some_of(&SIDE_KEYS[8..9]));
    (kernel, text("boot_line", "[ -~]{0,30}"), text("setup", "[ -~\n]{1,30}"), keys, more).prop_map(
        |(kernel, boot_line, setup, keys, (disk, files))| {
            let keys = keys.join("\n");
            format!("kernel = \"{kernel}\"\n{boot_line}{setup}{keys}\n{disk}{files}")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_global_rejects: 100_000,
        ..ProptestConfig::with_cases(1000)
    })]
    #[test]
    fn commands_describe_random_counts(head in heads(), base in sides(), change in sides()) {
        let text = format!(
            "title = \"t\"\nsame = true\n{head}\n[base]\n{base}\n[change]\n{change}\n"
        );
        let experiment = Experiment::parse(&text, "t.toml");
        prop_assume!(experiment.as_ref().is_ok_and(rows_fit_into_memory));
        check(&text, &experiment.unwrap());
    }
}

/// Rows of random timed experiments.
const TIMED_ROWS: [&str; 4] = [
    "workloads = [\"pipe\", \"fork-pages:pages=16\"]",
    "workloads = [\"getppid\"]\nsecondary = [\"stat\", \"pipe\"]",
    "program = [{ command = [\"a\", \"b c\"], ops = 3 }]",
    "program = [{ command = [\"a\"], env = [\"A=1\"] }]\nworkloads = [\"pipe\"]",
];

/// Random keys of timed experiments at the head.
fn timed_heads() -> impl Strategy<Value = String> {
    let numbers = (
        one_of("pairs", 10..=10_000),
        one_of("most_pairs", 20..=10_000),
        one_of("loops", 1..=1000),
        one_of("seed", 0..=u64::MAX / 2),
        prop::option::of(0.01_f64..100.0).prop_map(|percent| {
            percent.map_or(String::new(), |percent| format!("threshold_percent = {percent}\n"))
        }),
        some_of(&["allow_differences = true", "allow_differences = false"]),
    );
    let rows = prop::sample::select(&TIMED_ROWS[..]);
    (numbers, rows).prop_map(|((a, b, c, d, e, f), rows)| format!("{a}{b}{c}{d}{e}{f}{rows}\n"))
}

/// Random settings of the running kernel.
fn settings() -> impl Strategy<Value = String> {
    const SETTINGS: [&str; 5] = [
        "thp = \"never\"",
        "governor = \"performance\"",
        "kernel = \"6.12\"",
        "sysctl = { \"vm.swappiness\" = \"10\", \"net.ipv4.tcp_rmem\" = \"1 2 3\" }",
        "prefix = [\"taskset\", \"-c\", \"a b\"]",
    ];
    prop::sample::subsequence(&SETTINGS[..], 0..=5).prop_map(|keys| keys.join("\n"))
}

/// Random timed guests: the machine, and the keys of each side.
fn timed_guests() -> impl Strategy<Value = (String, String, String)> {
    let machine = (
        one_of("machine.cpus", 1..=255),
        one_of("machine.cores", 1..=1023),
        one_of("machine.memory_mib", 128..=65_536),
        some_of(&["machine.cpu = \"EPYC,-x2apic\"", "machine.cpu = \"max\""]),
    );
    let line = || "[ -~]{0,30}".prop_map(|line| toml::Value::String(line).to_string());
    let base = prop_oneof![
        Just("bare_metal = true".to_owned()),
        line().prop_map(|line| format!("kernel = \"k\"\nboot_line = {line}")),
    ];
    let change = line().prop_map(|line| format!("kernel = \"l\"\nboot_line = {line}"));
    (machine, base, change)
        .prop_map(|((a, b, c, d), base, change)| (format!("{a}{b}{c}{d}"), base, change))
}

/// Random guests of a KVM host: the head, and the keys of each side.
fn guests() -> impl Strategy<Value = (String, String, String)> {
    let head = (
        prop::sample::select(&["[\"boot\", \"raw:out=9\"]", "[\"getppid\", \"boot\"]"][..]),
        one_of("layouts", 1..=99),
        one_of("seed", 0..=u64::MAX / 2),
        some_of(&["host_kernel = \"h\"", "host_config = [\"CONFIG_A=y\"]"]),
    );
    let side = || {
        let (cpus, memory_mib) = (one_of("cpus", 1..=16), one_of("memory_mib", 64..=3072));
        let without = some_of(&["without = [\"kvmclock\"]", "boot_line = \"quiet\""]);
        (cpus, memory_mib, without).prop_map(|(a, b, c)| format!("kernel = \"k\"\n{a}{b}{c}"))
    };
    let head =
        head.prop_map(|(rows, a, b, c)| format!("host = \"kvm\"\nworkloads = {rows}\n{a}{b}{c}"));
    (head, side(), side())
}

fn check_text(head: &str, base: &str, change: &str) {
    let text = format!("title = \"t\"\nsame = true\n{head}\n[base]\n{base}\n[change]\n{change}\n");
    check(&text, &Experiment::parse(&text, "t.toml").unwrap());
}

proptest! {
    #[test]
    fn commands_describe_random_timed_experiments(
        head in timed_heads(),
        base in settings(),
        change in settings(),
        (machine, guest, other) in timed_guests(),
    ) {
        check_text(&format!("engine = \"host\"\n{head}"), &base, &change);
        check_text(&format!("engine = \"kvm\"\n{head}{machine}"), &guest, &other);
    }

    #[test]
    fn comparisons_keep_the_keys_of_random_guests((head, base, change) in guests()) {
        check_text(&head, &base, &change);
    }
}

/// Returns true if the rows fit into the memory of the guest.
fn rows_fit_into_memory(experiment: &Experiment) -> bool {
    experiment.method.counts().is_some_and(|counts| counts.rows().is_ok())
}

#[test]
fn every_flag_belongs_to_a_key() {
    let command = CommandLine::command();
    let flags_of_help: Vec<&str> =
        command.get_arguments().filter_map(|arg| arg.get_long()).collect();
    for key in plan::KEYS {
        let flags = key.flags.iter().filter_map(|flag| flag.strip_prefix("--"));
        for flag in flags.filter(|flag| !flag.starts_with(' ')) {
            let flags = flag.split(" or --");
            flags.for_each(|flag| assert!(flags_of_help.contains(&flag), "{flag} of {}", key.name));
        }
    }
    // Some flags set no key of their own.
    let without = ["kernel", "machine", "config", "patch", "workload", "help", "setup", "prepare"];
    for long in flags_of_help.iter().filter(|long| !without.contains(long)) {
        let flag = format!("--{long}");
        assert!(plan::KEYS.iter().any(|key| key.flags.contains(&&*flag)), "{flag} has no key");
    }
}
