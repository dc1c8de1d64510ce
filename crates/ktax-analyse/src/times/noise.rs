//! Facts and noise of timed pairs: warnings, undeclared differences between the Sides, and machines
//! that are too busy to measure.

use std::collections::{BTreeMap, BTreeSet};

use crate::warnings;
use crate::warnings::unknown_parameters;
use ktax_model::fact::{PART_SEPARATOR, QUIET_PERCENT};
use ktax_model::{
    FactDifference, Facts, Noise, RunsOn, Side, TimedBoot, TimedPair, TimedSubject, TimesPlan,
    Warning, boot_parameters, fact, unquoted_parameter,
};

/// Stolen time above which a warning is given, in percent of the time of the CPUs in use. A
/// hypervisor gives stolen time to other guests.
const STEAL_WARNING_PERCENT: f64 = 1.0;

/// Clock sources that are the CPU's own counter, read without a system call: of x86, ARM, POWER,
/// RISC-V and s390.
const CPU_CLOCKS: [&str; 5] = ["tsc", "arch_sys_counter", "timebase", "riscv_clocksource", "tod"];

/// Next step for a fact that changed during the run.
pub const CHANGED_NEXT_STEP: &str =
    "find out what changes it, then measure again in a new directory";

/// Warnings about facts that make a comparison less precise, each with a next step. Facts that the
/// Subjects set differently are left out, because they are compared.
pub fn warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings = ignored_parameters(plan, pairs);
    warnings.extend(unsettled_kernels(pairs));
    warnings.extend(setting_warnings(plan, pairs));
    warnings
        .extend(AverageNoise::average(pairs).iter().flat_map(|noise| load_warnings(plan, noise)));
    warnings.extend(changed_facts(pairs));
    warnings
}

fn warning(fact: impl Into<String>, next_step: &str) -> Warning {
    Warning { fact: fact.into(), next_step: next_step.to_owned() }
}

/// Warnings about parameters of a Side's boot line that the guests' Kernels do not know.
pub fn ignored_parameters(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let boots = boots_in_order(pairs).filter(|(_, boot_side, _)| *boot_side == side);
        let ignored = boots.filter_map(|(_, _, boot)| boot.facts.get(fact::IGNORED));
        // The lists are unquoted and values may contain spaces: they cannot be split into words.
        let lists: BTreeSet<String> = ignored.map(|list| format!(" {list} ")).collect();
        let is_ignored = |word: &str| lists.iter().any(|list| list.contains(&format!(" {word} ")));
        unknown_parameters(side, &plan.asked.subjects.get(side).boot_line, is_ignored)
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Warnings about Kernels that had not settled after their boot when the workloads began.
fn unsettled_kernels(pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let boots = boots_in_order(pairs).filter(|(_, boot_side, _)| *boot_side == side);
        let facts: Vec<&Facts> = boots.map(|(_, _, boot)| &boot.facts).collect();
        let busy = facts.iter().filter_map(|facts| facts.get(fact::BUSY));
        let busy = busy.flat_map(|names| names.split_whitespace()).collect();
        warnings::unsettled_side_warnings(
            side,
            &busy,
            facts.iter().any(|boot_facts| boot_facts.contains_key(fact::RANDOM_SEED)),
        )
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Warnings about the settings of the machine in any of the Boots.
fn setting_warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let declared_in_pair =
        |pair: &TimedPair| declared_facts(plan, &pair.boots.base.facts, &pair.boots.change.facts);
    let compared = pairs.iter().filter(|pair| !pair.is_control);
    // If the base is bare metal, the machine's facts are not compared.
    let is_bare_metal = plan.asked.subjects.base.bare_metal;
    let declared: BTreeSet<&str> =
        compared.filter(|_| !is_bare_metal).flat_map(declared_in_pair).collect();
    let boot_values = |name: &str| -> BTreeSet<&str> {
        let boots = boots_in_order(pairs).filter(|_| !declared.contains(name));
        boots.filter_map(|(_, _, boot)| boot.facts.get(name)).map(String::as_str).collect()
    };
    // Boots of guests also have the facts of the machine below the guests, under other names.
    let all_values = |name: &str| {
        let machine_name = fact::machine_fact(name);
        let facts = boots_in_order(pairs).filter_map(|(_, _, boot)| boot.facts.get(&machine_name));
        let machine_values = facts.map(String::as_str);
        boot_values(name).into_iter().chain(machine_values).collect::<BTreeSet<&str>>()
    };
    let mut warnings = Vec::new();
    if let Some(governor) = all_values(fact::GOVERNOR).iter().find(|name| **name != "performance") {
        warnings.push(warning(
            format!("the frequency governor is {governor}: the clock follows the load"),
            "sudo cpupower frequency-set -g performance",
        ));
    }
    for (value, command) in [
        ("no_turbo=0", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("boost=1", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"),
    ] {
        if all_values(fact::TURBO).contains(value) {
            let fact = format!("turbo is on ({value}): the clock follows heat and other CPUs");
            warnings.push(warning(fact, command));
        }
    }
    if all_values(fact::SMT).contains("on") {
        warnings.push(warning(
            "SMT is on: CPUs share cores",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
        ));
    }
    if let Some(clock) = all_values(fact::CLOCK).iter().find(|name| !CPU_CLOCKS.contains(*name)) {
        warnings.push(slow_clock_warning(clock));
    }
    let is_aslr_off = plan.asked.subjects.both().into_iter().all(has_aslr_off_by_prefix);
    if !is_aslr_off && boot_values(fact::ASLR).iter().any(|value| *value != "0") {
        warnings.push(aslr_warning(plan));
    }
    warnings
}

fn slow_clock_warning(clock: &str) -> Warning {
    let next_step = format!(
        "write the one of {} that available_clocksource in \
         /sys/devices/system/clocksource/clocksource0 lists to current_clocksource there; if none \
         is listed or the write fails, read `sudo dmesg`",
        CPU_CLOCKS.join(", ")
    );
    warning(format!("the clock source is {clock}: time is read slowly or coarsely"), &next_step)
}

fn aslr_warning(plan: &TimesPlan) -> Warning {
    let next_step = match plan.asked.runs_on {
        RunsOn::RunningKernel => "give both sides the prefix `setarch -R`",
        RunsOn::Guests if plan.asked.subjects.base.bare_metal => {
            "sudo sysctl kernel.randomize_va_space=0, and give the guest the boot line `norandmaps`"
        }
        RunsOn::Guests => "give both sides the boot line `norandmaps`",
    };
    warning("ASLR is on: each process has different addresses", next_step)
}

/// Returns true if the Subject's prefix has `setarch -R`, which turns ASLR off for its processes.
fn has_aslr_off_by_prefix(subject: &TimedSubject) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let is_aslr_off = |word: &String| match word.starts_with("--") {
        true => word == "--addr-no-randomize",
        false => word.contains('R'),
    };
    let Some(words) = words_after(&subject.prefix, "setarch") else { return false };
    // `setarch [ARCH] [OPTIONS] PROGRAM [ARGUMENTS]`: the program's arguments are no options of
    // setarch.
    let options = words.iter().skip(usize::from(words.first().is_some_and(|w| !is_option(w))));
    options.take_while(|word| is_option(word)).any(is_aslr_off)
}

/// Warnings about other tasks, stolen time and heat.
fn load_warnings(plan: &TimesPlan, average: &AverageNoise) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let AverageNoise { others_of_one_percent, steal_percent, throttled, .. } = average;
    if *others_of_one_percent > QUIET_PERCENT {
        let next_step = match plan.asked.runs_on {
            RunsOn::RunningKernel => {
                "stop other programs, or give both sides the prefix `taskset -c N` with a CPU that \
                 `ktax doctor` calls quiet"
            }
            RunsOn::Guests => "stop other programs; `ktax doctor` says which CPUs are busy",
        };
        warnings.push(warning(
            format!("other tasks and interrupts took {others_of_one_percent:.1} % of one CPU"),
            next_step,
        ));
    }
    if *steal_percent > STEAL_WARNING_PERCENT {
        warnings.push(warning(
            format!("a hypervisor ran something else for {steal_percent:.1} % of the time"),
            "measure on a machine that has its CPUs to itself",
        ));
    }
    if *throttled > 0 {
        warnings.push(warning(
            format!("CPUs were thermally throttled; times counted: {throttled}"),
            "cool the machine, or lower its clock: sudo cpupower frequency-set -u FREQUENCY",
        ));
    }
    warnings
}

/// Warnings about facts that changed between Boots of one Side: one warning for each fact, with its
/// first change.
fn changed_facts(pairs: &[TimedPair]) -> Vec<Warning> {
    let mut last_facts: BTreeMap<bool, &Facts> = BTreeMap::new();
    let mut changes: BTreeMap<&str, Warning> = BTreeMap::new();
    for (pair, side, boot) in boots_in_order(pairs) {
        let before = last_facts.insert(side == Side::Base, &boot.facts).unwrap_or(&boot.facts);
        for name in before.keys().chain(boot.facts.keys()) {
            let [old, new] = [before, &boot.facts].map(|facts| facts.get(name).map_or("", |v| v));
            if old != new && !changes.contains_key(name.as_str()) {
                let or_nothing =
                    |value: String| if value.is_empty() { "nothing".into() } else { value };
                let [old, new] = differing_parts(old, new).map(or_nothing);
                let index = pair.index;
                let fact = format!(
                    "{name} changed during the run: {old} at first, {new} from pair {index} on"
                );
                changes.insert(name, warning(fact, CHANGED_NEXT_STEP));
            }
        }
    }
    changes.into_values().collect()
}

/// Kernel parameters with the facts that they change. [`fact::MITIGATIONS`] is not listed, because
/// many parameters change it.
const PARAMETER_FACTS: [(&str, &[&str]); 12] = [
    ("amd_pstate", &[fact::GOVERNOR, fact::TURBO]),
    ("clocksource", &[fact::CLOCK]),
    ("cpufreq.default_governor", &[fact::GOVERNOR]),
    ("intel_pstate", &[fact::GOVERNOR, fact::TURBO]),
    // Tasks may not run on isolated CPUs unless they ask.
    ("isolcpus", &[fact::ISOLATED, fact::AFFINITY]),
    ("maxcpus", &[fact::CPUS, fact::SMT, fact::AFFINITY]),
    ("nohz_full", &[fact::NOHZ_FULL]),
    ("norandmaps", &[fact::ASLR]),
    ("nosmt", &[fact::CPUS, fact::SMT]),
    ("nr_cpus", &[fact::CPUS, fact::SMT, fact::AFFINITY]),
    ("transparent_hugepage", &[fact::THP]),
    ("tsc", &[fact::CLOCK]),
];

/// Facts in which the Boots of a pair differ, although the Subjects do not set them differently.
/// A/A pairs are left out, because both Boots have one Subject; facts that change between Boots of
/// one Side are warnings.
pub fn undeclared_differences(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<FactDifference> {
    let facts_of_pairs = || {
        let pairs = pairs.iter().filter(|pair| !pair.is_control).map(|pair| &pair.boots);
        pairs
            .map(|boots| [&boots.base.facts, &boots.change.facts])
            .filter(|both| both.iter().all(|facts| !facts.is_empty()))
    };
    let mut differences: BTreeMap<(&str, [String; 2]), usize> = BTreeMap::new();
    for [base, change] in facts_of_pairs() {
        let declared = declared_facts(plan, base, change);
        let names: BTreeSet<&str> = base.keys().chain(change.keys()).map(String::as_str).collect();
        // A guest and bare metal are two machines, on which only the kernel can be equal.
        let is_compared = |name: &&str| match plan.asked.subjects.base.bare_metal {
            true => *name == fact::KERNEL,
            false => !declared.contains(name),
        };
        for name in names.into_iter().filter(is_compared) {
            let [base, change] = [base, change].map(|facts| facts.get(name).map_or("", |v| v));
            if base != change {
                *differences.entry((name, differing_parts(base, change))).or_default() += 1;
            }
        }
    }
    let pair_count = facts_of_pairs().count();
    let difference = |((fact, [base, change]), pairs): ((&str, [String; 2]), usize)| {
        FactDifference { fact: fact.to_owned(), base, change, pairs, compared_pairs: pair_count }
    };
    differences.into_iter().map(difference).collect()
}

/// Facts that may differ between the Sides: those that the Subjects set differently. If the user
/// boots another kernel for each Side, also those that the boot lines of the machines set
/// differently.
fn declared_facts(plan: &TimesPlan, base: &Facts, change: &Facts) -> BTreeSet<&'static str> {
    let sides = plan.asked.subjects.both();
    let differ = |value: fn(&TimedSubject) -> Option<&str>| value(sides[0]) != value(sides[1]);
    // Warnings report these two facts for each Side.
    let mut declared = BTreeSet::from([fact::BUSY, fact::RANDOM_SEED]);
    if differ(|side| side.kernel.as_deref()) {
        declared.extend([fact::KERNEL, fact::BUILD, fact::BUILD_ID, fact::IGNORED]);
        declared.extend([fact::BOOT_LINE, fact::MITIGATIONS]);
    }
    if differ(|side| Some(&side.boot_line)) {
        declared.extend([fact::BOOT_LINE, fact::IGNORED, fact::MITIGATIONS]);
        declared.extend(facts_of_parameters(sides.map(|side| side.boot_line.as_str())));
    }
    if declared.contains(fact::BOOT_LINE) {
        let line = |facts: &Facts| facts.get(fact::BOOT_LINE).cloned().unwrap_or_default();
        declared.extend(facts_of_parameters([&line(base), &line(change)]));
    }
    if differ(|side| sysctl(side, "kernel.randomize_va_space")) {
        declared.insert(fact::ASLR);
    }
    if differ(|side| side.thp.as_deref()) {
        declared.insert(fact::THP);
    }
    if differ(|side| side.governor.as_deref()) {
        declared.insert(fact::GOVERNOR);
    }
    let prefixes =
        [("taskset", fact::AFFINITY), ("numactl", fact::AFFINITY), ("setarch", fact::ASLR)];
    if sides[0].prefix != sides[1].prefix {
        let uses = |program| sides.iter().any(|side| words_after(&side.prefix, program).is_some());
        declared.extend(prefixes.into_iter().filter(|(program, _)| uses(program)).map(|p| p.1));
    }
    declared
}

/// Words of a prefix after the name of a program; `None` if the prefix does not have the program.
fn words_after<'a>(prefix: &'a [String], program: &str) -> Option<&'a [String]> {
    let is_program = |word: &String| word.rsplit('/').next() == Some(program);
    prefix.iter().position(is_program).map(|index| &prefix[index + 1..])
}

/// Value of a sysctl of a Subject. The Subject may separate the parts of the name by dots or
/// slashes, as for sysctl(8).
fn sysctl<'a>(subject: &'a TimedSubject, name: &str) -> Option<&'a str> {
    let mut values = subject.sysctl.iter();
    values.find(|(key, _)| key.replace('/', ".") == name).map(|(_, value)| value.as_str())
}

/// Facts that are changed by parameters of only one of two boot lines.
fn facts_of_parameters(lines: [&str; 2]) -> BTreeSet<&'static str> {
    let [base, change] = lines.map(|line| {
        boot_parameters(line).into_iter().map(unquoted_parameter).collect::<BTreeSet<String>>()
    });
    let mut declared = BTreeSet::new();
    for parameter in base.symmetric_difference(&change) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let facts =
            PARAMETER_FACTS.iter().filter(|(known, _)| *known == name).map(|(_, facts)| facts);
        declared.extend(facts.copied().flatten());
        // Options such as those of `mitigations=auto,nosmt` and `l1tf=full,force` turn SMT off.
        let mut options = value.split([',', ';']).skip(1);
        if options.any(|option| ["nosmt", "force"].contains(&option)) {
            declared.extend([fact::CPUS, fact::SMT]);
        }
    }
    declared
}

/// Stolen time above which a machine cannot measure, in percent of the time of the CPUs in use.
const MAX_STEAL_PERCENT: f64 = 10.0;

/// Reason why the machine cannot measure, with the next step: a hypervisor that takes its CPUs
/// away, or other tasks that keep all its CPUs busy. `None` if the machine can measure.
pub fn cannot_measure(pairs: &[TimedPair]) -> Option<String> {
    let average = AverageNoise::average(pairs)?;
    let AverageNoise { steal_percent, others_percent, limit_percent, cpus, .. } = average;
    if steal_percent > MAX_STEAL_PERCENT {
        return Some(format!(
            "a hypervisor ran something else for {steal_percent:.1} % of the time, and at most \
             {MAX_STEAL_PERCENT} % is tolerated; measure on a machine that has its CPUs to itself"
        ));
    }
    (others_percent > limit_percent).then(|| {
        format!(
            "other tasks took {others_percent:.1} % of the time of the CPUs in use ({cpus}); above \
             {limit_percent:.1} % the workload has no CPU of its own: stop other programs, and \
             measure again"
        )
    })
}

/// Share of the time of N CPUs above which other tasks keep all N CPUs busy, in percent. Next to
/// the one measured task, N busy loops get N/(N+1) of the time, and N-1 busy loops, which leave a
/// CPU to the measured task, get (N-1)/N. The limit is the middle between the two.
pub fn busy_limit_percent(cpus: u32) -> f64 {
    let cpus = f64::from(cpus.max(1));
    100.0 * ((cpus - 1.0) / cpus + cpus / (cpus + 1.0)) / 2.0
}

/// Noise during all pairs, averaged by CPU time.
pub struct AverageNoise {
    pub steal_percent: f64,
    pub others_percent: f64,
    /// Limit from [`busy_limit_percent`], averaged over the pairs.
    pub limit_percent: f64,
    /// Time of other tasks in percent of one CPU's time; more than 100 with several busy CPUs.
    pub others_of_one_percent: f64,
    pub throttled: u64,
    /// Largest number of CPUs in use.
    pub cpus: u32,
}

impl AverageNoise {
    /// Averages the noise of pairs; `None` if the pairs took no time.
    pub fn average(pairs: &[TimedPair]) -> Option<AverageNoise> {
        let noises = || pairs.iter().map(|pair| &pair.noise).filter(|noise| noise.seconds > 0.0);
        let cpu_time = noises().map(|noise| noise.seconds * f64::from(noise.cpus)).sum::<f64>();
        let time: f64 = noises().map(|noise| noise.seconds).sum();
        if cpu_time <= 0.0 {
            return None;
        }
        let weighted_by_cpu_time = |share: &dyn Fn(&Noise) -> f64| -> f64 {
            noises().map(|noise| share(noise) * noise.seconds * f64::from(noise.cpus)).sum()
        };
        let others = weighted_by_cpu_time(&|noise| noise.others_percent);
        Some(AverageNoise {
            steal_percent: weighted_by_cpu_time(&|noise| noise.steal_percent) / cpu_time,
            others_percent: others / cpu_time,
            limit_percent: weighted_by_cpu_time(&|noise| busy_limit_percent(noise.cpus)) / cpu_time,
            others_of_one_percent: others / time,
            throttled: noises().fold(0, |sum, noise| sum.saturating_add(noise.throttled)),
            cpus: noises().map(|noise| noise.cpus).max()?,
        })
    }
}

/// Boots in the order in which they were made, with pair and Side; both Boots of an A/A pair are
/// the base's. Boots without facts are left out.
pub fn boots_in_order(pairs: &[TimedPair]) -> impl Iterator<Item = (&TimedPair, Side, &TimedBoot)> {
    let boots = pairs.iter().flat_map(|pair| {
        let change = if pair.is_control { Side::Base } else { Side::Change };
        let mut both = [(pair, Side::Base, &pair.boots.base), (pair, change, &pair.boots.change)];
        if pair.change_first {
            both.reverse();
        }
        both
    });
    boots.filter(|(_, _, boot)| !boot.facts.is_empty())
}

/// Parts of each value that the other value lacks; both whole values if only the order of their
/// parts differs.
fn differing_parts(first: &str, second: &str) -> [String; 2] {
    let without = |first: &str, second: &str| {
        let parts = first
            .split(PART_SEPARATOR)
            .filter(|part| !second.split(PART_SEPARATOR).any(|o| o == *part));
        parts.collect::<Vec<_>>().join(PART_SEPARATOR)
    };
    match [without(first, second), without(second, first)] {
        [a, b] if a.is_empty() && b.is_empty() => [first.to_owned(), second.to_owned()],
        different => different,
    }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
