//! The table of keys, and the keys of `[machine]`.

use std::collections::BTreeMap;

use super::{ExperimentKey, Group, MachineFlag, SWITCH, Scope, Values, default_number};
use crate::again::{Request, RequestedSide};
use crate::experiment::Error;
use crate::models::{ModelKey, model_names};
use ktax_model::{
    Accelerator, CONTENDED_QUANTUM, GuestSubject, Machine, Method, QUANTUM, RunsOn, Side, Subject,
    TimedMachine, TimedSubject, UserProgram,
};
use ktax_stats::timed::MIN_PAIRS;
use serde::{Deserialize, Serialize};

/// Default threshold of counts, in percent. A smaller change gets no verdict.
pub const THRESHOLD_PERCENT: f64 = 0.1;

/// Default threshold of times, in percent. It is higher than that of counts because of noise.
pub const TIMED_THRESHOLD_PERCENT: f64 = 1.0;

/// Keys of `[machine]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineKeys {
    /// QEMU's name of a CPU model, with its features.
    pub cpu: Option<String>,
    pub memory_mib: Option<u32>,
    /// Number of the guest's CPUs.
    #[serde(alias = "vcpus")]
    pub cpus: Option<u32>,
    /// Number of instructions that each of several CPUs executes in turn.
    pub quantum: Option<u32>,
    /// Model that counts further events: coherence, or a machine.
    pub model: Option<ModelKey>,
    /// Number of CPUs of this machine that the guest's CPUs run on.
    pub cores: Option<u32>,
    /// Accelerator that executes the guest's instructions.
    pub accelerator: Option<Accelerator>,
}

impl MachineKeys {
    /// Machine of counted guests.
    pub(crate) fn machine(&self) -> Result<Machine, Error> {
        let keys = self.clone();
        let default = Machine::with_cpus(keys.cpus.unwrap_or(Machine::default().cpus));
        Ok(Machine {
            cpu: keys.cpu.unwrap_or(default.cpu),
            memory_mib: keys.memory_mib.unwrap_or(default.memory_mib),
            cpus: default.cpus,
            quantum: keys.quantum,
            model: keys.model.as_ref().map(ModelKey::model).transpose()?,
        })
    }

    /// Machine of timed guests.
    pub(crate) fn timed_machine(&self) -> TimedMachine {
        let keys = self.clone();
        let (default, accelerator) =
            (TimedMachine::default(), keys.accelerator.unwrap_or_default());
        TimedMachine {
            cpu: keys.cpu.unwrap_or_else(|| accelerator.cpu().to_owned()),
            memory_mib: keys.memory_mib.unwrap_or(default.memory_mib),
            cpus: keys.cpus.unwrap_or(default.cpus),
            cores: keys.cores,
            accelerator,
        }
    }
}

const ALL: &[Method] = &[Method::Counts, Method::Times, Method::Guests];
const COUNTS: &[Method] = &[Method::Counts];
const TIMES: &[Method] = &[Method::Times];
const GUESTS: &[Method] = &[Method::Guests];
const COUNTS_AND_TIMES: &[Method] = &[Method::Counts, Method::Times];
const COUNTS_AND_GUESTS: &[Method] = &[Method::Counts, Method::Guests];
const GUESTS_AND_TIMES: &[Method] = &[Method::Guests, Method::Times];

/// Creates a key that both Sides share; `values` returns the values of its flag.
const fn file_key(
    name: &'static str,
    flag: &'static str,
    methods: &'static [Method],
    help: &'static str,
    values: fn(&Request<'_>) -> Values,
) -> ExperimentKey {
    ExperimentKey::new(name, [flag; 2], methods, [help; 2], Scope::File(values))
}

/// Creates a key of a Side; `values` returns the values of its flag.
const fn side_key(
    (name, group): (&'static str, Group),
    flags: [&'static str; 2],
    methods: &'static [Method],
    help: [&'static str; 2],
    values: fn(RequestedSide<'_>) -> Values,
) -> ExperimentKey {
    ExperimentKey::new(name, flags, methods, help, Scope::Side(group, values))
}

/// Creates a key of a program; `values` returns the values of its flag.
const fn program_key(
    name: &'static str,
    flag: &'static str,
    help: &'static str,
    values: fn(&UserProgram, &[u64]) -> Values,
) -> ExperimentKey {
    ExperimentKey::new(name, [flag; 2], COUNTS_AND_TIMES, [help; 2], Scope::Program(values))
}

/// Creates a flag of `[machine]` without an alias and suggestions.
const fn machine_flag(
    value_name: &'static str,
    set: fn(&mut MachineKeys, &str) -> Result<(), String>,
) -> MachineFlag {
    MachineFlag { value_name, alias: None, suggestions: Vec::new, set }
}

/// Parses the number of a flag, whose bounds are checked before.
fn parse_number(text: &str) -> Result<Option<u32>, String> {
    text.parse().map(Some).map_err(|_| "it takes a whole number".to_owned())
}

fn values<T: ToString>(values: impl IntoIterator<Item = T>) -> Values {
    values.into_iter().map(|value| value.to_string()).collect()
}

/// The value, unless it is the default.
fn value_unless<T: ToString>(is_default: bool, value: T) -> Values {
    if is_default { Vec::new() } else { vec![value.to_string()] }
}

fn switch(is_on: bool) -> Values {
    value_unless(!is_on, SWITCH)
}

/// Values of a counted Side; empty for a timed Side.
fn counted_values(side: RequestedSide<'_>, values: impl FnOnce(&Subject) -> Values) -> Values {
    match side {
        RequestedSide::Counts(_, subject) => values(subject),
        RequestedSide::Times(..) => Vec::new(),
    }
}

/// Value of a key that both Sides share, which is printed once.
fn shared_value(side: RequestedSide<'_>, value: fn(&Subject) -> &Option<String>) -> Values {
    match side {
        RequestedSide::Counts(Side::Change, subject) => values(value(subject)),
        _ => Vec::new(),
    }
}

/// Setting of the running kernel in the form of `--base-set`: `thp=never`.
fn setting(
    name: &str,
    side: RequestedSide<'_>,
    value: impl FnOnce(&TimedSubject) -> Option<String>,
) -> Values {
    match side {
        RequestedSide::Times(RunsOn::RunningKernel, subject) => {
            values(value(subject).map(|value| format!("{name}={value}")))
        }
        _ => Vec::new(),
    }
}

fn no_values(_: &Request<'_>) -> Values {
    Vec::new()
}

/// The number, unless it is the default of its key.
fn number_unless_default(name: &str, number: Option<u32>) -> Values {
    values(number.filter(|number| *number != default_number(name)))
}

/// All keys, in the order in which their flags are printed.
pub static KEYS: &[ExperimentKey] = &[
    file_key("title", "", ALL, "Title of the experiment, in one line", no_values),
    file_key("why", "", ALL, "Purpose of the experiment, for readers of the file", no_values),
    file_key("engine", "--engine", ALL, "Run both sides with this engine", no_values)
        .default("exact"),
    file_key(
        "host",
        "",
        ALL,
        "Compare guests of this kind of KVM host instead of kernels",
        no_values,
    ),
    file_key("host_kernel", "", GUESTS, "The host's kernel", no_values)
        .default("the usual one of its kind"),
    file_key("host_config", "", GUESTS, "Options of the host's kernel, from source", no_values),
    file_key("host_patches", "", GUESTS, "Patches of the host's kernel, from source", no_values),
    side_key(
        ("SIDE.kernel", Group::Settings),
        ["--base", "--change"],
        ALL,
        ["Use this kernel for the base", "Use this kernel for the change"],
        |_| Vec::new(),
    ),
    side_key(
        ("SIDE.bare_metal", Group::Settings),
        ["--bare-metal", ""],
        TIMES,
        ["Compare the guest with this machine itself, without virtualization", ""],
        |_| Vec::new(),
    ),
    side_key(
        ("SIDE.config", Group::Source),
        ["--base-config", "--config"],
        COUNTS_AND_GUESTS,
        [
            "Build the base with this option, too: CONFIG_NAME=VALUE, or a file of them; repeat \
             for more",
            "Build the change with this option: CONFIG_NAME=VALUE, or a file of them; repeat for \
             more",
        ],
        |side| counted_values(side, |subject| values(&subject.config)),
    ),
    side_key(
        ("SIDE.patches", Group::Source),
        ["--base-patch", "--patch"],
        COUNTS_AND_GUESTS,
        [
            "Build the base with this patch, too; repeat for more",
            "Build the change with this patch; repeat for more",
        ],
        |side| counted_values(side, |subject| values(&subject.patches)),
    ),
    side_key(
        ("SIDE.start_config", Group::Source),
        ["--start-config"; 2],
        COUNTS,
        ["Start both configurations from base (a small one of ktax), defconfig, running (the \
          running kernel's) or a file"; 2],
        |side| shared_value(side, |subject| &subject.start_config),
    )
    .default("base"),
    side_key(
        ("SIDE.tree", Group::Source),
        ["--tree"; 2],
        COUNTS,
        ["Look up git:REVISION in this repository"; 2],
        |side| shared_value(side, |subject| &subject.tree),
    )
    .default("the current directory"),
    side_key(
        ("SIDE.boot_line", Group::BootLine),
        ["--base-boot-line", "--change-boot-line"],
        ALL,
        [
            "Boot the base with these kernel parameters",
            "Boot the change with these kernel parameters",
        ],
        |side| match side {
            RequestedSide::Counts(_, subject) => {
                value_unless(subject.boot_line.is_empty(), &subject.boot_line)
            }
            RequestedSide::Times(RunsOn::RunningKernel, _) => Vec::new(),
            RequestedSide::Times(_, subject) => {
                value_unless(subject.boot_line.is_empty(), &subject.boot_line)
            }
        },
    ),
    side_key(
        ("SIDE.sysctl", Group::Settings),
        ["--base-set", "--change-set"],
        COUNTS_AND_TIMES,
        [
            "Use this setting for the base; NAME is a sysctl, or on the running kernel also thp, \
             governor, prefix (a command that runs each loop: prefix='taskset -c 1') or kernel \
             (one that you boot); repeat for more",
            "Use this setting for the change; repeat for more",
        ],
        |side| match side {
            RequestedSide::Counts(_, Subject { sysctl, .. }) => settings(sysctl),
            RequestedSide::Times(_, TimedSubject { sysctl, .. }) => settings(sysctl),
        },
    ),
    side_key(
        ("SIDE.thp", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Transparent huge pages of the running kernel: always, madvise or never"; 2],
        |side| setting("thp", side, |subject| subject.thp.clone()),
    ),
    side_key(
        ("SIDE.governor", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Frequency governor of all CPUs"; 2],
        |side| {
            let governor = setting("governor", side, |subject| subject.governor.clone());
            // The word for a kernel that the user boots is also given with `--base-set`.
            [governor, setting("kernel", side, |subject| subject.kernel.clone())].concat()
        },
    ),
    side_key(
        ("SIDE.prefix", Group::Settings),
        ["--base-set", "--change-set"],
        TIMES,
        ["Command that runs each loop, by its words"; 2],
        |side| {
            setting("prefix", side, |subject| {
                let words = subject.prefix.iter().map(String::as_str);
                shlex::try_join(words).ok().filter(|prefix| !prefix.is_empty())
            })
        },
    ),
    side_key(
        ("SIDE.modules", Group::Settings),
        ["--base-module", "--change-module"],
        COUNTS,
        [
            "Load this module in the base's guest alone; repeat for more",
            "Load this module in the change's guest alone; repeat for more",
        ],
        |side| counted_values(side, |subject| values(&subject.modules)),
    ),
    side_key(
        ("SIDE.disk", Group::Settings),
        ["--base-disk", "--change-disk"],
        COUNTS,
        ["Put the base's files on this file system", "Put the change's files on this file system"],
        |side| counted_values(side, |subject| values(&subject.disk)),
    )
    .default("that of --disk"),
    side_key(
        ("SIDE.files", Group::Settings),
        ["--base-file", "--change-file"],
        COUNTS,
        [
            "Copy this file or directory into the base's guest alone, for programs and commands; \
             repeat for more",
            "Copy this file or directory into the change's guest alone; repeat for more",
        ],
        |side| counted_values(side, |subject| values(&subject.files)),
    ),
    side_key(
        ("SIDE.setup", Group::Settings),
        ["--base-setup", "--change-setup"],
        COUNTS,
        [
            "Run these shell commands once in the base's guest, before anything is measured",
            "Run these shell commands once in the change's guest, before anything is measured",
        ],
        |side| counted_values(side, |subject| values(&subject.setup)),
    ),
    side_key(
        ("SIDE.without", Group::Settings),
        ["", ""],
        GUESTS,
        ["Features of KVM that the guest does not see"; 2],
        |_| Vec::new(),
    ),
    side_key(("SIDE.cpus", Group::Settings), ["", ""], GUESTS, ["vCPUs of the guest:"; 2], |_| {
        Vec::new()
    })
    .bounds(GuestSubject::CPUS)
    .default_number(1),
    side_key(
        ("SIDE.memory_mib", Group::Settings),
        ["", ""],
        GUESTS,
        ["Memory of the guest, in MiB:"; 2],
        |_| Vec::new(),
    )
    .bounds(GuestSubject::MEMORY_MIB)
    .default_number(256),
    file_key(
        "same",
        "--same",
        ALL,
        "Allow two sides that are the same, which measures noise",
        |request| switch(request.has_same_sides()),
    ),
    file_key(
        "machine.cpu",
        "--cpu",
        COUNTS_AND_TIMES,
        "Give the guest this CPU model, as QEMU names it",
        |request| match request.machines() {
            (Some(machine), _) => value_unless(machine.cpu == machine.default_cpu(), &machine.cpu),
            (_, Some(machine)) => {
                value_unless(machine.cpu == machine.accelerator.cpu(), &machine.cpu)
            }
            _ => Vec::new(),
        },
    )
    .default_text(|| format!("{}; timed: {}", Machine::default().cpu, TimedMachine::default().cpu))
    .flag(machine_flag("MODEL", |keys, text| {
        keys.cpu = Some(text.to_owned());
        Ok(())
    })),
    file_key(
        "machine.memory_mib",
        "--memory",
        COUNTS_AND_TIMES,
        "Give the guest this much memory, in MiB",
        |request| {
            let (counted, timed) = request.machines();
            let mib = counted.map(|machine| machine.memory_mib);
            number_unless_default(
                "machine.memory_mib",
                mib.or(timed.map(|machine| machine.memory_mib)),
            )
        },
    )
    .bounds(128..=65_536)
    .default_number(Machine::DEFAULT_MEMORY_MIB)
    .flag(machine_flag("MIB", |keys, text| {
        parse_number(text).map(|number| keys.memory_mib = number)
    })),
    file_key("machine.cpus", "--cpus", COUNTS_AND_TIMES, "Give the guest N CPUs:", |request| {
        let (counted, timed) = request.machines();
        let cpus = counted.map(|machine| machine.cpus).or(timed.map(|machine| machine.cpus));
        number_unless_default("machine.cpus", cpus)
    })
    .bounds(1..=Machine::MAX_CPUS)
    .timed_bounds(1..=255)
    .default_number(1)
    .flag(MachineFlag {
        alias: Some("vcpus"),
        ..machine_flag("N", |keys, text| parse_number(text).map(|number| keys.cpus = number))
    }),
    file_key(
        "machine.quantum",
        "--quantum",
        COUNTS,
        "Let each of several CPUs execute N instructions in turn",
        |request| values(request.machines().0.and_then(|machine| machine.quantum)),
    )
    .bounds(20..=1_000_000_000)
    .default_text(|| format!("{QUANTUM}, and {CONTENDED_QUANTUM} while they wait for each other"))
    .flag(machine_flag("N", |keys, text| parse_number(text).map(|number| keys.quantum = number))),
    file_key(
        "machine.model",
        "--model",
        COUNTS,
        "Model the caches, TLBs and branches of this machine: a name that `ktax experiments` \
         lists, or a file that ends in .toml, as `ktax calibrate` writes one; or model the \
         coherence of several CPUs. If the file has times, also estimate the cycles that the \
         machine would take",
        |request| {
            let model = request.machines().0.and_then(|machine| machine.model.as_ref());
            values(model.map(|model| model.name()))
        },
    )
    .flag(MachineFlag {
        suggestions: || model_names().collect(),
        ..machine_flag("MODEL|FILE", |keys, text| {
            keys.model = Some(ModelKey::Name(text.to_owned()));
            Ok(())
        })
    }),
    file_key(
        "machine.cores",
        "--cores",
        TIMES,
        "Run the guest's CPUs on N quiet ones of this machine; fewer than its own is overcommit",
        |request| values(request.machines().1.and_then(|machine| machine.cores)),
    )
    .bounds(1..=1023)
    .default("one for each")
    .flag(machine_flag("N", |keys, text| parse_number(text).map(|number| keys.cores = number))),
    file_key(
        "machine.accelerator",
        "",
        TIMES,
        "What executes the guest's instructions: kvm, or tcg for tests",
        |request| {
            let accelerator = request.machines().1.map(|machine| machine.accelerator);
            values(
                accelerator
                    .filter(|accelerator| *accelerator != Default::default())
                    .map(|accelerator| accelerator.name()),
            )
        },
    ),
    file_key(
        "disk",
        "--disk",
        COUNTS,
        "Put the files of rows and programs on this file system, in memory: ext4, xfs, btrfs, f2fs \
         or overlay; a KEY is mib, options, mkfs, device or latency_us",
        |request| values(request.counts.and_then(|counts| counts.guest.disk.as_ref())),
    )
    .default("tmpfs"),
    file_key(
        "modules",
        "--module",
        COUNTS,
        "Load this module of the kernel's package, with what it depends on; repeat for more",
        |request| values(request.counts.into_iter().flat_map(|counts| &counts.guest.modules)),
    ),
    file_key(
        "workloads_from",
        "--workloads-from",
        COUNTS,
        "Also offer the workloads of this directory, whose C files are compiled into the guest",
        |request| values(request.counts.and_then(|counts| counts.guest.workloads_from.as_ref())),
    ),
    file_key(
        "workloads",
        "-w",
        ALL,
        "Measure this workload, @GROUP or row; repeat for more",
        |request| values(&request.rows),
    )
    .default(
        "those of the file, or every row that `ktax workloads` does not mark `*`; timed engines \
         have no default",
    ),
    file_key(
        "secondary",
        "--secondary",
        TIMES,
        "Also measure this row, but exclude it from the exit status; repeat for more",
        |request| values(&request.secondary),
    ),
    file_key(
        "sweep",
        "--sweep",
        GUESTS_AND_TIMES,
        "Measure each value: one row for each value of a workload's parameter, one run for each \
         value of a setting; repeat for more",
        // The rows and settings of each run already have the swept values.
        no_values,
    ),
    file_key(
        "layouts",
        "--layouts",
        COUNTS_AND_GUESTS,
        "Boot each side N times under different layouts",
        |request| {
            let default = request.machines().0.map(|machine| machine.default_layouts() as usize);
            values(default.filter(|default| *default != request.layouts).map(|_| request.layouts))
        },
    )
    .bounds(1..=99)
    .default_text(|| Machine::default().default_layouts().to_string()),
    file_key("pairs", "--pairs", TIMES, "Measure exactly N pairs of boots", |request| {
        values(request.times.and_then(|times| times.pairs))
    })
    .bounds(MIN_PAIRS as u32..=10_000)
    .default("as many as are needed"),
    file_key("most_pairs", "--most-pairs", TIMES, "Stop after N pairs at the latest", |request| {
        number_unless_default("most_pairs", request.times.map(|times| times.max_pairs))
    })
    .bounds(20..=10_000)
    .default_number(200),
    file_key("loops", "--loops", TIMES, "Run each row N times in each boot", |request| {
        number_unless_default("loops", request.times.map(|times| times.loops))
    })
    .bounds(1..=1000)
    .default_number(5),
    file_key(
        "seed",
        "--seed",
        ALL,
        "Use this random seed for layouts or the order of pairs",
        // Without a seed a timed run would have another random order of the pairs.
        |request| value_unless(request.seed == 1 && request.times.is_none(), request.seed),
    )
    .default("1; timed: random"),
    file_key(
        "threshold_percent",
        "--threshold",
        ALL,
        "Call no change `slower` or `faster` that is smaller than this",
        |request| {
            let default = match request.times {
                Some(_) => TIMED_THRESHOLD_PERCENT,
                None => THRESHOLD_PERCENT,
            };
            value_unless(request.threshold_percent == default, request.threshold_percent)
        },
    )
    .default_text(|| format!("{THRESHOLD_PERCENT}; timed: {TIMED_THRESHOLD_PERCENT}")),
    file_key(
        "allow_differences",
        "--allow-differences",
        TIMES,
        "Continue with a warning if base and change differ in more than was declared",
        |request| switch(request.times.is_some_and(|times| times.allow_differences)),
    ),
    file_key(
        "hooks",
        "--setup or --prepare",
        COUNTS,
        "Commands beside rows that are no programs: a table with setup, prepare, files, root, \
         trace_files and env",
        no_values,
    ),
    file_key(
        "program",
        "-- CMD",
        COUNTS_AND_TIMES,
        "Measure this program. In the guest it is counted from its exec to its exit, and the files \
         and directories that its arguments name are copied there; the host engine times it where \
         it is",
        no_values,
    ),
    program_key("program.name", "--name", "Name its row program:NAME", |program, _| {
        vec![program.name.clone()]
    })
    .default("the file name of CMD"),
    program_key(
        "program.files",
        "--file",
        "Copy one more file or directory into the guest; AT is its place there, absolute or below \
         /work; repeat for more",
        |program, _| values(&program.files),
    ),
    program_key(
        "program.root",
        "--root",
        "Copy the content of this directory or tar archive into the guest's root directory; CMD is \
         looked up there first",
        |program, _| values(&program.root),
    ),
    program_key(
        "program.trace_files",
        "--trace-files",
        "Run it once on this machine, in a sandbox that discards what it writes, and copy the \
         files that it opens into the guest",
        |program, _| switch(program.trace_files),
    ),
    program_key(
        "program.env",
        "--env",
        "Set this variable in its environment; repeat for more",
        |program, _| values(&program.env),
    ),
    program_key(
        "program.setup",
        "--setup",
        "Run these shell commands in the guest before anything is measured, in the program's root \
         directory; without a program, beside the rows",
        |program, _| values(&program.setup),
    ),
    program_key(
        "program.prepare",
        "--prepare",
        "Run these shell commands before each run; they are not counted",
        |program, _| values(&program.prepare),
    ),
    program_key(
        "program.stdin",
        "--stdin",
        "Let it read this file from its standard input",
        |program, _| values(&program.stdin),
    )
    .default("an empty file"),
    program_key(
        "program.user",
        "--user",
        "Run it as the user and group of this number",
        |program, _| value_unless(program.user == 0, program.user),
    )
    .default_number(0),
    program_key("program.status", "--status", "Expect this exit status", |program, _| {
        value_unless(program.status == 0, program.status)
    })
    .default_number(0),
    program_key(
        "program.warm_up",
        "--warm-up",
        "Run it N times before the run that is counted",
        |program, _| value_unless(program.warm_up == 0, program.warm_up),
    )
    .default_number(0),
    program_key(
        "program.ops",
        "--ops",
        "Divide its counts by this number of operations",
        |program, _| values(program.ops),
    )
    .default_number(1),
    program_key(
        "program.numbers",
        "--number",
        "Make the number that it prints behind TEXT a part of its work signature; TEXT may be a \
         regular expression with a group of digits, such as 'did (\\d+) calls'; repeat for more",
        |program, _| {
            let numbers = program.numbers.iter().filter(|(name, _)| *name != UserProgram::OPS);
            values(numbers.map(|(name, text)| format!("{name}={text}")))
        },
    ),
    program_key(
        "program.ops_from",
        "--ops-from",
        "Divide them by the number that it prints behind TEXT, on either output; TEXT may be a \
         regular expression with a group of digits",
        |program, _| values(program.numbers.get(UserProgram::OPS)),
    ),
    program_key(
        "program.sizes",
        "--sizes",
        "Run it twice, with each number in the place of {size}, so that what an operation costs \
         and what its start costs are apart: --sizes 1000,2000",
        |_, sizes| match sizes {
            [from, to] => vec![format!("{from},{to}")],
            _ => Vec::new(),
        },
    ),
    program_key(
        "program.any_output",
        "--any-output",
        "Let it print something else each time",
        |program, _| switch(program.any_output),
    ),
    program_key(
        "program.script",
        "--script",
        "Measure this shell script in the place of CMD",
        |program, _| values(&program.script),
    ),
];

fn settings(sysctl: &BTreeMap<String, String>) -> Values {
    values(sysctl.iter().map(|(name, value)| format!("{name}={value}")))
}
