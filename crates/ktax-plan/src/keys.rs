//! Keys of experiments, each described once: its flag, meaning, methods, and how it is printed to
//! be measured again. Checks, messages, `--help`, the table in `docs/compare.md` and
//! [`again`](crate::again()) follow from [`KEYS`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::again::{Asked, AskedSide};
use crate::bounds;
use crate::file::{ExperimentFile, SubjectKeys};
use ktax_model::{Machine, Method, RunsOn, Side, Subject, TimedSubject, UserProgram};

/// A key of experiment files and the command line.
pub struct ExperimentKey {
    /// Name in a file. `SIDE.boot_line` stands for `base.boot_line` and `change.boot_line`,
    /// `program.files` for `files` of a `[[program]]`.
    pub name: &'static str,
    /// Flags of the base and of the change; equal if the key has no Side, and empty if only a file
    /// sets it.
    pub flags: [&'static str; 2],
    /// Lines of help of both flags.
    pub help: [&'static str; 2],
    /// Methods that it applies to.
    pub methods: &'static [Method],
    pub(super) scope: Scope,
}

/// Values of a flag, one for each time that it is given.
pub(super) type Values = Vec<String>;

/// Table of a key, with a check if it is set there, and its values unless they are the default.
pub(super) enum Scope {
    File(fn(&ExperimentFile) -> bool, fn(&Asked<'_>) -> Values),
    Side(Group, fn(&SubjectKeys) -> bool, fn(AskedSide<'_>) -> Values),
    Program(fn(&UserProgram, &[u64]) -> Values),
}

/// Keys of a Side that are printed together, those of the base first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Group {
    Source,
    BootLine,
    Settings,
}

const ALL: &[Method] = &[Method::Counts, Method::Times, Method::Guests];
const COUNTS: &[Method] = &[Method::Counts];
const TIMES: &[Method] = &[Method::Times];
const GUESTS: &[Method] = &[Method::Guests];
const COUNTS_AND_TIMES: &[Method] = &[Method::Counts, Method::Times];
const COUNTS_AND_GUESTS: &[Method] = &[Method::Counts, Method::Guests];
const GUESTS_AND_TIMES: &[Method] = &[Method::Guests, Method::Times];

const fn file(
    name: &'static str,
    flag: &'static str,
    methods: &'static [Method],
    help: &'static str,
    is_set: fn(&ExperimentFile) -> bool,
    again: fn(&Asked<'_>) -> Values,
) -> ExperimentKey {
    let (flags, help) = ([flag, flag], [help, help]);
    ExperimentKey { name, flags, help, methods, scope: Scope::File(is_set, again) }
}

const fn side(
    (name, group): (&'static str, Group),
    flags: [&'static str; 2],
    methods: &'static [Method],
    help: [&'static str; 2],
    is_set: fn(&SubjectKeys) -> bool,
    again: fn(AskedSide<'_>) -> Values,
) -> ExperimentKey {
    ExperimentKey { name, flags, help, methods, scope: Scope::Side(group, is_set, again) }
}

const fn program(
    name: &'static str,
    flag: &'static str,
    help: &'static str,
    again: fn(&UserProgram, &[u64]) -> Values,
) -> ExperimentKey {
    let (flags, help) = ([flag, flag], [help, help]);
    ExperimentKey { name, flags, help, methods: COUNTS_AND_TIMES, scope: Scope::Program(again) }
}

fn values<T: ToString>(values: impl IntoIterator<Item = T>) -> Values {
    values.into_iter().map(|value| value.to_string()).collect()
}

/// The value, unless it is the default.
fn unless<T: ToString>(is_usual: bool, value: T) -> Values {
    if is_usual { Vec::new() } else { vec![value.to_string()] }
}

/// Value of a flag without one.
pub(super) const SWITCH: &str = "\0";

fn switch(is_on: bool) -> Values {
    unless(!is_on, SWITCH)
}

/// Values of a Side that is counted; none of a timed one.
fn counted(side: AskedSide<'_>, values: impl FnOnce(&Subject) -> Values) -> Values {
    match side {
        AskedSide::Counts(_, subject) => values(subject),
        AskedSide::Times(..) => Vec::new(),
    }
}

/// Values of a key that both Sides share: printed once.
fn shared(side: AskedSide<'_>, value: fn(&Subject) -> &Option<String>) -> Values {
    match side {
        AskedSide::Counts(Side::Change, subject) => values(value(subject)),
        _ => Vec::new(),
    }
}

/// A setting of the running kernel, as `--base-set` takes it: `thp=never`.
fn setting(
    name: &str,
    side: AskedSide<'_>,
    value: impl FnOnce(&TimedSubject) -> Option<String>,
) -> Values {
    match side {
        AskedSide::Times(RunsOn::RunningKernel, subject) => {
            values(value(subject).map(|value| format!("{name}={value}")))
        }
        _ => Vec::new(),
    }
}

fn none(_: &Asked<'_>) -> Values {
    Vec::new()
}

/// All keys, in the order in which their flags are printed.
pub static KEYS: &[ExperimentKey] = &[
    file("title", "", ALL, "What is asked, in one line", |file| file.title.is_some(), none),
    file("why", "", ALL, "Why it is asked, for people", |file| !file.why.is_empty(), none),
    file(
        "engine",
        "--engine",
        ALL,
        "Run both sides with this engine [default: exact]",
        |file| file.engine.is_some(),
        none,
    ),
    file(
        "host",
        "",
        ALL,
        "Compare guests of this kind of KVM host instead of kernels",
        |file| file.host.is_some(),
        none,
    ),
    file(
        "host_kernel",
        "",
        GUESTS,
        "The host's kernel [default: the usual one of its kind]",
        |file| file.host_kernel.is_some(),
        none,
    ),
    file(
        "host_config",
        "",
        GUESTS,
        "Options of the host's kernel, from source",
        |file| !file.host_config.is_empty(),
        none,
    ),
    file(
        "host_patches",
        "",
        GUESTS,
        "Patches of the host's kernel, from source",
        |file| !file.host_patches.is_empty(),
        none,
    ),
    side(
        ("SIDE.kernel", Group::Settings),
        ["--base", "--change"],
        ALL,
        ["Use this kernel for the base", "Use this kernel for the change"],
        |keys| keys.kernel.is_some(),
        |_| Vec::new(),
    ),
    side(
        ("SIDE.bare_metal", Group::Settings),
        ["--bare-metal", ""],
        TIMES,
        ["Compare the guest with this machine itself, without virtualization", ""],
        |keys| keys.bare_metal,
        |_| Vec::new(),
    ),
    side(
        ("SIDE.config", Group::Source),
        ["--base-config", "--config"],
        COUNTS_AND_GUESTS,
        [
            "Build the base with this option, too: CONFIG_NAME=VALUE, or a file of them; repeat \
             for more",
            "Build the change with this option: CONFIG_NAME=VALUE, or a file of them; repeat for \
             more",
        ],
        |keys| !keys.config.is_empty(),
        |side| counted(side, |subject| values(&subject.config)),
    ),
    side(
        ("SIDE.patches", Group::Source),
        ["--base-patch", "--patch"],
        COUNTS_AND_GUESTS,
        [
            "Build the base with this patch, too; repeat for more",
            "Build the change with this patch; repeat for more",
        ],
        |keys| !keys.patches.is_empty(),
        |side| counted(side, |subject| values(&subject.patches)),
    ),
    side(
        ("SIDE.start_config", Group::Source),
        ["--start-config"; 2],
        COUNTS,
        ["Start both configurations from base (a small one of ktax), defconfig, running (the \
          running kernel's) or a file [default: base]"; 2],
        |keys| keys.start_config.is_some(),
        |side| shared(side, |subject| &subject.start_config),
    ),
    side(
        ("SIDE.tree", Group::Source),
        ["--tree"; 2],
        COUNTS,
        ["Look up git:REVISION in this repository [default: the current directory]"; 2],
        |keys| keys.tree.is_some(),
        |side| shared(side, |subject| &subject.tree),
    ),
    side(
        ("SIDE.boot_line", Group::BootLine),
        ["--base-boot-line", "--change-boot-line"],
        ALL,
        [
            "Boot the base with these kernel parameters",
            "Boot the change with these kernel parameters",
        ],
        |keys| keys.boot_line.is_some(),
        |side| match side {
            AskedSide::Counts(_, subject) => {
                unless(subject.boot_line.is_empty(), &subject.boot_line)
            }
            AskedSide::Times(RunsOn::RunningKernel, _) => Vec::new(),
            AskedSide::Times(_, subject) => {
                unless(subject.boot_line.is_empty(), &subject.boot_line)
            }
        },
    ),
    side(
        ("SIDE.sysctl", Group::Settings),
        ["--base-set", "--change-set"],
        COUNTS_AND_TIMES,
        [
            "Use this setting for the base; NAME is a sysctl, or on the running kernel also thp, \
             governor, prefix (a command that runs each loop: prefix='taskset -c 1') or kernel \
             (one that you boot); repeat for more",
            "Use this setting for the change; repeat for more",
        ],
        |keys| !keys.sysctl.is_empty(),
        |side| match side {
            AskedSide::Counts(_, Subject { sysctl, .. }) => settings(sysctl),
            AskedSide::Times(_, TimedSubject { sysctl, .. }) => settings(sysctl),
        },
    ),
    side(
        ("SIDE.thp", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Transparent huge pages of the running kernel: always, madvise or never"; 2],
        |keys| keys.thp.is_some(),
        |side| setting("thp", side, |subject| subject.thp.clone()),
    ),
    side(
        ("SIDE.governor", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Frequency governor of all CPUs"; 2],
        |keys| keys.governor.is_some(),
        |side| {
            let governor = setting("governor", side, |subject| subject.governor.clone());
            // A word for a kernel that the user boots is a setting too.
            [governor, setting("kernel", side, |subject| subject.kernel.clone())].concat()
        },
    ),
    side(
        ("SIDE.prefix", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Command that runs each loop, by its words"; 2],
        |keys| !keys.prefix.is_empty(),
        |side| {
            setting("prefix", side, |subject| {
                let words = subject.prefix.iter().map(String::as_str);
                shlex::try_join(words).ok().filter(|prefix| !prefix.is_empty())
            })
        },
    ),
    side(
        ("SIDE.modules", Group::Settings),
        ["--base-module", "--change-module"],
        COUNTS,
        [
            "Load this module in the base's guest alone; repeat for more",
            "Load this module in the change's guest alone; repeat for more",
        ],
        |keys| !keys.modules.is_empty(),
        |side| counted(side, |subject| values(&subject.modules)),
    ),
    side(
        ("SIDE.disk", Group::Settings),
        ["--base-disk", "--change-disk"],
        COUNTS,
        [
            "Put the base's files on this file system [default: that of --disk]",
            "Put the change's files on this file system [default: that of --disk]",
        ],
        |keys| keys.disk.is_some(),
        |side| counted(side, |subject| values(&subject.disk)),
    ),
    side(
        ("SIDE.files", Group::Settings),
        ["--base-file", "--change-file"],
        COUNTS,
        [
            "Copy this file or directory into the base's guest alone, for programs and commands; \
             repeat for more",
            "Copy this file or directory into the change's guest alone; repeat for more",
        ],
        |keys| !keys.files.is_empty(),
        |side| counted(side, |subject| values(&subject.files)),
    ),
    side(
        ("SIDE.setup", Group::Settings),
        ["--base-setup", "--change-setup"],
        COUNTS,
        [
            "Run these shell commands once in the base's guest, before anything is measured",
            "Run these shell commands once in the change's guest, before anything is measured",
        ],
        |keys| keys.setup.is_some(),
        |side| counted(side, |subject| values(&subject.setup)),
    ),
    side(
        ("SIDE.without", Group::Settings),
        ["", ""],
        GUESTS,
        ["Features of KVM that the guest does not see"; 2],
        |keys| !keys.without.is_empty(),
        |_| Vec::new(),
    ),
    side(
        ("SIDE.cpus", Group::Settings),
        ["", ""],
        GUESTS,
        ["vCPUs of the guest: 1 to 16 [default: 1]"; 2],
        |keys| keys.cpus.is_some(),
        |_| Vec::new(),
    ),
    side(
        ("SIDE.memory_mib", Group::Settings),
        ["", ""],
        GUESTS,
        ["Memory of the guest, in MiB: 64 to 3072 [default: 256]"; 2],
        |keys| keys.memory_mib.is_some(),
        |_| Vec::new(),
    ),
    file(
        "same",
        "--same",
        ALL,
        "Allow two sides that are the same, which measures noise",
        |file| file.same.is_some(),
        |asked| switch(asked.has_same_sides()),
    ),
    file(
        "machine.cpu",
        "--cpu",
        COUNTS_AND_TIMES,
        "Give the guest this CPU model, as QEMU names it [default: max; timed: host]",
        |file| file.machine.cpu.is_some(),
        |asked| match asked.machines() {
            (Some(machine), _) => unless(machine.cpu == machine.usual_cpu(), &machine.cpu),
            (_, Some(machine)) => unless(machine.cpu == machine.accelerator.cpu(), &machine.cpu),
            _ => Vec::new(),
        },
    ),
    file(
        "machine.memory_mib",
        "--memory",
        COUNTS_AND_TIMES,
        "Give the guest this much memory, in MiB [default: 512]",
        |file| file.machine.memory_mib.is_some(),
        |asked| {
            let (counted, timed) = asked.machines();
            let mib = counted.map(|machine| machine.memory_mib);
            let mib = mib.or(timed.map(|machine| machine.memory_mib));
            values(mib.filter(|mib| *mib != Machine::default().memory_mib))
        },
    ),
    file(
        "machine.cpus",
        "--cpus",
        COUNTS_AND_TIMES,
        "Give the guest N CPUs: 1 to 32, or 1 to 255 with --engine kvm [default: 1]",
        |file| file.machine.cpus.is_some(),
        |asked| {
            let (counted, timed) = asked.machines();
            let cpus = counted.map(|machine| machine.cpus).or(timed.map(|machine| machine.cpus));
            values(cpus.filter(|cpus| *cpus != 1))
        },
    ),
    file(
        "machine.quantum",
        "--quantum",
        COUNTS,
        "Let each of several CPUs execute N instructions in turn [default: 1000, and 200 while \
         they wait for each other]",
        |file| file.machine.quantum.is_some(),
        |asked| values(asked.machines().0.and_then(|machine| machine.quantum)),
    ),
    file(
        "machine.model",
        "--model",
        COUNTS,
        "Model the caches, TLBs and branches of this machine: a name that `ktax experiments` \
         lists, or a file that ends in .toml, as `ktax calibrate` writes one; or model the \
         coherence of several CPUs. If the file has times, also estimate the cycles that the \
         machine would take",
        |file| file.machine.model.is_some(),
        |asked| {
            let model = asked.machines().0.and_then(|machine| machine.model.as_ref());
            values(model.map(|model| model.name()))
        },
    ),
    file(
        "machine.cores",
        "--cores",
        TIMES,
        "Run the guest's CPUs on N quiet ones of this machine; fewer than its own is overcommit \
         [default: one for each]",
        |file| file.machine.cores.is_some(),
        |asked| values(asked.machines().1.and_then(|machine| machine.cores)),
    ),
    file(
        "machine.accelerator",
        "",
        TIMES,
        "What executes the guest's instructions: kvm, or tcg for tests",
        |file| file.machine.accelerator.is_some(),
        |asked| {
            let accelerator = asked.machines().1.map(|machine| machine.accelerator);
            values(
                accelerator
                    .filter(|accelerator| *accelerator != Default::default())
                    .map(|accelerator| accelerator.name()),
            )
        },
    ),
    file(
        "disk",
        "--disk",
        COUNTS,
        "Put the files of rows and programs on this file system, in memory: ext4, xfs, btrfs, f2fs \
         or overlay; a KEY is mib, options, mkfs, device or latency_us [default: tmpfs]",
        |file| file.disk.is_some(),
        |asked| values(asked.counts.and_then(|counts| counts.guest.disk.as_ref())),
    ),
    file(
        "modules",
        "--module",
        COUNTS,
        "Load this module of the kernel's package, with what it depends on; repeat for more",
        |file| !file.modules.is_empty(),
        |asked| values(asked.counts.into_iter().flat_map(|counts| &counts.guest.modules)),
    ),
    file(
        "workloads_from",
        "--workloads-from",
        COUNTS,
        "Also offer the workloads of this directory, whose C files are compiled into the guest",
        |file| file.workloads_from.is_some(),
        |asked| values(asked.counts.and_then(|counts| counts.guest.workloads_from.as_ref())),
    ),
    file(
        "workloads",
        "-w",
        ALL,
        "Measure this workload, @GROUP or row; repeat for more [default: those of the file, or \
         every row that `ktax workloads` does not mark `*`; timed engines have no default]",
        |file| file.workloads.is_some(),
        |asked| values(&asked.rows),
    ),
    file(
        "secondary",
        "--secondary",
        TIMES,
        "Also measure this row, but exclude it from the exit status; repeat for more",
        |file| !file.secondary.is_empty(),
        |asked| values(&asked.secondary),
    ),
    file(
        "sweep",
        "--sweep",
        GUESTS_AND_TIMES,
        "Measure each value: one row for each value of a workload's parameter, one run for each \
         value of a setting; repeat for more",
        |file| !file.sweep.is_empty(),
        // The rows and the settings of one run have the values.
        none,
    ),
    file(
        "layouts",
        "--layouts",
        COUNTS_AND_GUESTS,
        "Boot each side N times under different layouts [default: 5]",
        |file| file.layouts.is_some(),
        |asked| {
            let usual = asked.machines().0.map(|machine| machine.usual_layouts() as usize);
            values(usual.filter(|usual| *usual != asked.layouts).map(|_| asked.layouts))
        },
    ),
    file(
        "pairs",
        "--pairs",
        TIMES,
        "Measure exactly N pairs of boots [default: as many as are needed]",
        |file| file.pairs.is_some(),
        |asked| values(asked.times.and_then(|times| times.pairs)),
    ),
    file(
        "most_pairs",
        "--most-pairs",
        TIMES,
        "Stop after N pairs at the latest [default: 200]",
        |file| file.most_pairs.is_some(),
        |asked| values(asked.times.map(|times| times.most_pairs).filter(|pairs| *pairs != 200)),
    ),
    file(
        "loops",
        "--loops",
        TIMES,
        "Run each row N times in each boot [default: 5]",
        |file| file.loops.is_some(),
        |asked| values(asked.times.map(|times| times.loops).filter(|loops| *loops != 5)),
    ),
    file(
        "seed",
        "--seed",
        ALL,
        "Use this random seed for layouts or the order of pairs [default: 1; timed: drawn]",
        |file| file.seed.is_some(),
        // Without a seed the order of the pairs would be drawn anew.
        |asked| unless(asked.seed == 1 && asked.times.is_none(), asked.seed),
    ),
    file(
        "threshold_percent",
        "--threshold",
        ALL,
        "Call no change `slower` or `faster` that is smaller than this [default: 0.1; timed: 1]",
        |file| file.threshold_percent.is_some(),
        |asked| {
            let usual = match asked.times {
                Some(_) => bounds::TIMED_THRESHOLD_PERCENT,
                None => bounds::THRESHOLD_PERCENT,
            };
            unless(asked.threshold_percent == usual, asked.threshold_percent)
        },
    ),
    file(
        "allow_differences",
        "--allow-differences",
        TIMES,
        "Continue with a warning if base and change differ in more than was declared",
        |file| file.allow_differences.is_some(),
        |asked| switch(asked.times.is_some_and(|times| times.allow_differences)),
    ),
    file(
        "hooks",
        "--setup or --prepare",
        COUNTS,
        "Commands beside rows that are no programs: a table with setup, prepare, files, root, \
         trace_files and env",
        |file| file.hooks.is_some(),
        none,
    ),
    file(
        "program",
        "-- CMD",
        COUNTS_AND_TIMES,
        "Measure this program. In the guest it is counted from its exec to its exit, and the files \
         and directories that its arguments name are copied there; the host engine times it where \
         it is",
        |file| !file.program.is_empty(),
        none,
    ),
    program(
        "program.name",
        "--name",
        "Name its row program:NAME [default: the file name of CMD]",
        |program, _| vec![program.name.clone()],
    ),
    program(
        "program.files",
        "--file",
        "Copy one more file or directory into the guest; AT is its place there, absolute or below \
         /work; repeat for more",
        |program, _| values(&program.files),
    ),
    program(
        "program.root",
        "--root",
        "Copy the content of this directory or tar archive into the guest's root directory; CMD is \
         looked up there first",
        |program, _| values(&program.root),
    ),
    program(
        "program.trace_files",
        "--trace-files",
        "Run it once on this machine, in a sandbox that discards what it writes, and copy the \
         files that it opens into the guest",
        |program, _| switch(program.trace_files),
    ),
    program(
        "program.env",
        "--env",
        "Set this variable in its environment; repeat for more",
        |program, _| values(&program.env),
    ),
    program(
        "program.setup",
        "--setup",
        "Run these shell commands in the guest before anything is measured, in the program's root \
         directory; without a program, beside the rows",
        |program, _| values(&program.setup),
    ),
    program(
        "program.prepare",
        "--prepare",
        "Run these shell commands before each run; they are not counted",
        |program, _| values(&program.prepare),
    ),
    program(
        "program.stdin",
        "--stdin",
        "Let it read this file from its standard input [default: an empty file]",
        |program, _| values(&program.stdin),
    ),
    program(
        "program.user",
        "--user",
        "Run it as the user and group of this number [default: 0]",
        |program, _| unless(program.user == 0, program.user),
    ),
    program("program.status", "--status", "Expect this exit status [default: 0]", |program, _| {
        unless(program.status == 0, program.status)
    }),
    program(
        "program.warm_up",
        "--warm-up",
        "Run it N times before the run that is counted [default: 0]",
        |program, _| unless(program.warm_up == 0, program.warm_up),
    ),
    program(
        "program.ops",
        "--ops",
        "Divide its counts by this number of operations [default: 1]",
        |program, _| values(program.ops),
    ),
    program(
        "program.numbers",
        "--number",
        "Make the number that it prints behind TEXT a part of its work signature; TEXT may be a \
         regular expression with a group of digits, such as 'did (\\d+) calls'; repeat for more",
        |program, _| {
            let numbers = program.numbers.iter().filter(|(name, _)| *name != UserProgram::OPS);
            values(numbers.map(|(name, text)| format!("{name}={text}")))
        },
    ),
    program(
        "program.ops_from",
        "--ops-from",
        "Divide them by the number that it prints behind TEXT, on either output; TEXT may be a \
         regular expression with a group of digits",
        |program, _| values(program.numbers.get(UserProgram::OPS)),
    ),
    program(
        "program.sizes",
        "--sizes",
        "Run it twice, with each number in the place of {size}, so that what an operation costs \
         and what its start costs are apart: --sizes 1000,2000",
        |_, sizes| match sizes {
            [from, to] => vec![format!("{from},{to}")],
            _ => Vec::new(),
        },
    ),
    program(
        "program.any_output",
        "--any-output",
        "Let it print something else each time",
        |program, _| switch(program.any_output),
    ),
    program(
        "program.script",
        "--script",
        "Measure this shell script in the place of CMD",
        |program, _| values(&program.script),
    ),
];

fn settings(sysctl: &BTreeMap<String, String>) -> Values {
    values(sysctl.iter().map(|(name, value)| format!("{name}={value}")))
}

/// The key of this name, and the index of its flag; `None` for unknown keys.
fn find(name: &str) -> Option<(&'static ExperimentKey, usize)> {
    let of_side = |(index, side): (usize, Side)| {
        let key = name.strip_prefix(side.name())?.strip_prefix('.')?;
        let is_key = |known: &&ExperimentKey| known.name.strip_prefix("SIDE.") == Some(key);
        Some((KEYS.iter().find(is_key)?, index))
    };
    let is_key = |known: &&ExperimentKey| {
        known.name == name || known.name.strip_prefix("program.") == Some(name)
    };
    let sides = Side::BOTH.into_iter().enumerate();
    let side_key = sides.filter_map(of_side).next();
    side_key.or_else(|| KEYS.iter().find(is_key).map(|key| (key, 0)))
}

/// Line of help of the flag of a key, such as `base.modules`. Panics if there is no such key.
pub fn help(name: &str) -> &'static str {
    let (key, index) = find(name).expect("the command line sets keys of KEYS");
    key.help[index]
}

/// Name of a key in messages: after the flag that sets it, if there is one.
pub(super) fn with_flag(name: &str) -> String {
    match find(name).map(|(key, index)| key.flags[index]) {
        Some(flag) if !flag.is_empty() => format!("{flag} ({name})"),
        _ => name.to_owned(),
    }
}

/// The keys as a table of Markdown.
pub fn keys_table() -> String {
    let mut table = "| Key | Flag | Of | Meaning |\n|---|---|---|---|\n".to_owned();
    for ExperimentKey { name, flags, help, methods, .. } in KEYS {
        let mut flags = flags.to_vec();
        flags.retain(|flag| !flag.is_empty());
        flags.dedup();
        let flags: Vec<String> = flags.iter().map(|flag| format!("`{flag}`")).collect();
        let methods: Vec<&str> = methods.iter().map(|method| method_word(*method)).collect();
        let methods = if methods.len() == 3 { "all".to_owned() } else { methods.join(", ") };
        let meaning = help[0].replace('|', "\\|");
        let flags = flags.join(", ");
        writeln!(table, "| `{name}` | {flags} | {methods} | {meaning} |").expect("to a String");
    }
    table
}

fn method_word(method: Method) -> &'static str {
    match method {
        Method::Counts => "counts",
        Method::Times => "times",
        Method::Guests => "guests",
    }
}
