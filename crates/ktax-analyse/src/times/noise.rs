//! Noise facts of timed pairs: warnings, undeclared differences, and whether the machine can
//! measure at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::warnings;
use crate::warnings::unknown_parameters;
use ktax_model::fact::{PART_SEPARATOR, QUIET_PERCENT};
use ktax_model::{
    FactDifference, Facts, Noise, RunsOn, Side, TimedBoot, TimedPair, TimedSubject, TimesPlan,
    Warning, fact,
};

/// Share of the time of the CPUs in use from which other guests of a hypervisor are worth a
/// warning, in percent.
const STEAL_PERCENT: f64 = 1.0;

/// Clock sources that are the CPU's own counter, read without a system call.
const GOOD_CLOCKS: [&str; 5] = ["tsc", "arch_sys_counter", "timebase", "riscv_clocksource", "tod"];

/// Next step for a fact that changed during the run.
pub const CHANGED_MENDS: &str = "find out who changes it, then measure again into a new directory";

/// Warnings about facts that spoil a comparison, each with a remedy. Facts in which the Subjects
/// themselves differ are left out, because they are compared.
pub fn warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings = ignored_parameters(plan, pairs);
    warnings.extend(unsettled_kernels(pairs));
    warnings.extend(setting_warnings(plan, pairs));
    warnings.extend(Average::over(pairs).iter().flat_map(|average| load_warnings(plan, average)));
    warnings.extend(changed_facts(pairs));
    warnings
}

fn warning(fact: impl Into<String>, next_step: &str) -> Warning {
    Warning { fact: fact.into(), next_step: next_step.to_owned() }
}

/// Warnings about parameters of a Side's boot line that the guests' Kernels do not know.
pub fn ignored_parameters(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let boots =
            boots_in_order(pairs).filter(|(_, warnings_of_side, _)| *warnings_of_side == side);
        let ignored = boots.filter_map(|(_, _, boot)| boot.facts.get(fact::IGNORED));
        // One line for each Boot, because a value may have spaces.
        let lines: BTreeSet<String> = ignored.map(|words| format!(" {words} ")).collect();
        let is_ignored = |word: &str| lines.iter().any(|line| line.contains(&format!(" {word} ")));
        unknown_parameters(side, &plan.asked.subjects.get(side).boot_line, is_ignored)
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Warnings about Kernels that had not finished their boot when the workloads began.
fn unsettled_kernels(pairs: &[TimedPair]) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let boots =
            boots_in_order(pairs).filter(|(_, warnings_of_side, _)| *warnings_of_side == side);
        let facts: Vec<&Facts> = boots.map(|(_, _, boot)| &boot.facts).collect();
        let busy = facts.iter().filter_map(|facts| facts.get(fact::BUSY));
        let busy = busy.flat_map(|names| names.split_whitespace()).collect();
        warnings::unsettled_side_warnings(
            side,
            &busy,
            facts.iter().any(|facts_of_boot| facts_of_boot.contains_key(fact::RANDOM_SEED)),
        )
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Warnings about the settings of the machine in any of the Boots.
fn setting_warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let declared_in_pair =
        |pair: &TimedPair| declared(plan, &pair.boots.base.facts, &pair.boots.change.facts);
    let compared = pairs.iter().filter(|pair| !pair.is_control);
    // If the base is bare metal, the machine's facts are not compared.
    let is_bare = plan.asked.subjects.base.bare_metal;
    let declared: BTreeSet<&str> =
        compared.filter(|_| !is_bare).flat_map(declared_in_pair).collect();
    let seen_as = |name: &str| -> BTreeSet<&str> {
        let boots = boots_in_order(pairs).filter(|_| !declared.contains(name));
        boots.filter_map(|(_, _, boot)| boot.facts.get(name)).map(String::as_str).collect()
    };
    // Guests also have facts of the machine below them; the Sides' kernels are not those of the
    // machine.
    let seen = |name: &str| {
        let machine_name = fact::machine_fact(name);
        let facts = boots_in_order(pairs).filter_map(|(_, _, boot)| boot.facts.get(&machine_name));
        let machine_name: BTreeSet<&str> = facts.map(String::as_str).collect();
        seen_as(name).into_iter().chain(machine_name).collect::<BTreeSet<&str>>()
    };
    let mut warnings = Vec::new();
    if let Some(governor) = seen(fact::GOVERNOR).iter().find(|seen| **seen != "performance") {
        warnings.push(warning(
            format!("the frequency governor is {governor}: the clock follows the load"),
            "sudo cpupower frequency-set -g performance",
        ));
    }
    for (value, mend) in [
        ("no_turbo=0", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("boost=1", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"),
    ] {
        if seen(fact::TURBO).contains(value) {
            let fact = format!("turbo is on ({value}): the clock follows heat and other CPUs");
            warnings.push(warning(fact, mend));
        }
    }
    if seen(fact::SMT).contains("on") {
        warnings.push(warning(
            "SMT is on: CPUs share cores",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
        ));
    }
    if let Some(clock) = seen(fact::CLOCK).iter().find(|seen| !GOOD_CLOCKS.contains(*seen)) {
        warnings.push(warning(
            format!("the clock source is {clock}: time is read slowly or coarsely"),
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource; \
             where that is refused, `sudo dmesg` says why",
        ));
    }
    let has_fixed = plan.asked.subjects.both().into_iter().all(fixes_addresses);
    if !has_fixed && seen_as(fact::ASLR).iter().any(|seen| *seen != "0") {
        warnings.push(random_addresses(plan));
    }
    warnings
}

fn random_addresses(plan: &TimesPlan) -> Warning {
    let mend = match plan.asked.runs_on {
        RunsOn::RunningKernel => "give both sides the prefix `setarch -R`",
        RunsOn::Guests if plan.asked.subjects.base.bare_metal => {
            "sudo sysctl kernel.randomize_va_space=0, and give the guest the boot line `norandmaps`"
        }
        RunsOn::Guests => "give both sides the boot line `norandmaps`",
    };
    warning("ASLR is on: each process has other addresses", mend)
}

/// Returns true if each loop is run by `setarch -R`, so that the machine's own setting is not used.
fn fixes_addresses(subject: &TimedSubject) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let fixes = |word: &String| match word.starts_with("--") {
        true => word == "--addr-no-randomize",
        false => word.contains('R'),
    };
    let Some(words) = words_after(&subject.prefix, "setarch") else { return false };
    // An architecture may come first. The program follows the options, with options of its own.
    let options = words.iter().skip(usize::from(words.first().is_some_and(|w| !is_option(w))));
    options.take_while(|word| is_option(word)).any(fixes)
}

/// Warnings about other load, and about heat.
fn load_warnings(plan: &TimesPlan, average: &Average) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Average { others_of_one_percent, steal_percent, throttled, .. } = average;
    if *others_of_one_percent > QUIET_PERCENT {
        let mend = match plan.asked.runs_on {
            RunsOn::RunningKernel => {
                "end what else runs, or give both sides the prefix `taskset -c N` with a CPU that \
                 `ktax doctor` calls quiet"
            }
            RunsOn::Guests => "end what else runs; `ktax doctor` says which CPUs are busy",
        };
        warnings.push(warning(
            format!("other tasks and interrupts took {others_of_one_percent:.1} % of one CPU"),
            mend,
        ));
    }
    if *steal_percent > STEAL_PERCENT {
        warnings.push(warning(
            format!("a hypervisor ran something else for {steal_percent:.1} % of the time"),
            "measure on a machine that has its CPUs to itself",
        ));
    }
    if *throttled > 0 {
        warnings.push(warning(
            format!("heat slowed CPUs down; times counted: {throttled}"),
            "cool the machine, or lower its clock: sudo cpupower frequency-set -u FREQUENCY",
        ));
    }
    warnings
}

/// Warnings about facts that changed in the Boots of one Side, one for each fact, about its first
/// change.
fn changed_facts(pairs: &[TimedPair]) -> Vec<Warning> {
    let mut last: BTreeMap<bool, &Facts> = BTreeMap::new();
    let mut changes: BTreeMap<&str, Warning> = BTreeMap::new();
    for (pair, side, boot) in boots_in_order(pairs) {
        let before = last.insert(side == Side::Base, &boot.facts).unwrap_or(&boot.facts);
        for name in before.keys().chain(boot.facts.keys()) {
            let [old, new] = [before, &boot.facts].map(|facts| facts.get(name).map_or("", |v| v));
            if old != new && !changes.contains_key(name.as_str()) {
                let or_nothing =
                    |value: String| if value.is_empty() { "nothing".into() } else { value };
                let [old, new] = only_what_differs(old, new).map(or_nothing);
                let index = pair.index;
                let fact = format!("{name} changed during the run: {old}, from pair {index} {new}");
                changes.insert(name, warning(fact, CHANGED_MENDS));
            }
        }
    }
    changes.into_values().collect()
}

/// Kernel parameters and the facts that each changes, besides [`fact::MITIGATIONS`], which many
/// change.
const PARAMETERS: [(&str, &[&str]); 12] = [
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

/// Facts in which the Boots of a pair differ, although nothing in which the Subjects differ
/// explains it. A/A pairs have one Subject and no such difference; changes within them, or on both
/// Sides alike, are warnings.
pub fn undeclared(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<FactDifference> {
    let compared = || {
        let pairs = pairs.iter().filter(|pair| !pair.is_control).map(|pair| &pair.boots);
        pairs
            .map(|boots| [&boots.base.facts, &boots.change.facts])
            .filter(|both| both.iter().all(|facts| !facts.is_empty()))
    };
    let mut differences: BTreeMap<(&str, [String; 2]), usize> = BTreeMap::new();
    for [base, change] in compared() {
        let declared = declared(plan, base, change);
        let names: BTreeSet<&str> = base.keys().chain(change.keys()).map(String::as_str).collect();
        // A guest is another machine; it shares only the kernel with this one.
        let is_compared = |name: &&str| match plan.asked.subjects.base.bare_metal {
            true => *name == fact::KERNEL,
            false => !declared.contains(name),
        };
        for name in names.into_iter().filter(is_compared) {
            let [base, change] = [base, change].map(|facts| facts.get(name).map_or("", |v| v));
            if base != change {
                *differences.entry((name, only_what_differs(base, change))).or_default() += 1;
            }
        }
    }
    let compared = compared().count();
    let difference = |((fact, [base, change]), pairs): ((&str, [String; 2]), usize)| {
        FactDifference { fact: fact.to_owned(), base, change, pairs, compared_pairs: compared }
    };
    differences.into_iter().map(difference).collect()
}

/// Facts that may differ between the Sides: those that the Subjects set differently or, if the user
/// boots another kernel for each Side, that the boot lines of the machines set differently.
pub(super) fn declared(plan: &TimesPlan, base: &Facts, change: &Facts) -> BTreeSet<&'static str> {
    let sides = plan.asked.subjects.both();
    let differ = |what: fn(&TimedSubject) -> Option<&str>| what(sides[0]) != what(sides[1]);
    // These facts have warnings of their own, which name the Side.
    let mut declared = BTreeSet::from([fact::BUSY, fact::RANDOM_SEED]);
    if differ(|side| side.kernel.as_deref()) {
        declared.extend([fact::KERNEL, fact::BUILD, fact::BUILD_ID, fact::IGNORED]);
        declared.extend([fact::BOOT_LINE, fact::MITIGATIONS]);
    }
    if differ(|side| Some(&side.boot_line)) {
        declared.extend([fact::BOOT_LINE, fact::IGNORED, fact::MITIGATIONS]);
        declared.extend(by_parameters(sides.map(|side| side.boot_line.as_str())));
    }
    if declared.contains(fact::BOOT_LINE) {
        let line = |facts: &Facts| facts.get(fact::BOOT_LINE).cloned().unwrap_or_default();
        declared.extend(by_parameters([&line(base), &line(change)]));
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

/// Words of a prefix after this program.
fn words_after<'a>(prefix: &'a [String], program: &str) -> Option<&'a [String]> {
    let is_program = |word: &String| word.rsplit('/').next() == Some(program);
    prefix.iter().position(is_program).map(|index| &prefix[index + 1..])
}

/// A sysctl of a Subject; its name may have dots or slashes between its parts, as sysctl(8) takes
/// both.
fn sysctl<'a>(subject: &'a TimedSubject, name: &str) -> Option<&'a str> {
    let mut values = subject.sysctl.iter();
    values.find(|(key, _)| key.replace('/', ".") == name).map(|(_, value)| value.as_str())
}

/// Facts that are changed by a parameter of only one of the boot lines.
fn by_parameters(lines: [&str; 2]) -> BTreeSet<&'static str> {
    let [base, change] = lines.map(|line| line.split_whitespace().collect::<BTreeSet<_>>());
    let mut declared = BTreeSet::new();
    for word in base.symmetric_difference(&change) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let facts = PARAMETERS.iter().filter(|(known, _)| *known == name).map(|(_, facts)| facts);
        declared.extend(facts.copied().flatten());
        // As in `mitigations=auto,nosmt` and `l1tf=full,force`.
        let mut options = value.split([',', ';']).skip(1);
        if options.any(|option| ["nosmt", "force"].contains(&option)) {
            declared.extend([fact::CPUS, fact::SMT]);
        }
    }
    declared
}

/// Share of the time of the CPUs in use above which a hypervisor's other guests make measuring
/// impossible, in percent.
const MOST_STEAL_PERCENT: f64 = 10.0;

/// Reason why this machine cannot measure, with the figures and the next step: a hypervisor that
/// takes its CPUs away, or other tasks that are busy on all of them.
pub fn cannot_measure(pairs: &[TimedPair]) -> Option<String> {
    let Average { steal_percent, others_percent, limit_percent, cpus, .. } = Average::over(pairs)?;
    if steal_percent > MOST_STEAL_PERCENT {
        return Some(format!(
            "a hypervisor ran something else for {steal_percent:.1} % of the time, and above \
             {MOST_STEAL_PERCENT} % times say nothing; measure on a machine that has its CPUs to \
             itself"
        ));
    }
    (others_percent > limit_percent).then(|| {
        format!(
            "others' work took {others_percent:.1} % of the time of the CPUs in use ({cpus}), and \
             above {limit_percent:.1} % none is left to what is measured; end what else runs, and \
             measure again"
        )
    })
}

/// Share of the time of `cpus` CPUs from which others' work keeps all of them busy, in percent.
/// Beside one task of ours, as many busy loops as CPUs get N/(N+1) of the time; one loop less,
/// which leaves us a CPU, gets (N-1)/N. This is the middle.
pub fn busy_limit_percent(cpus: u32) -> f64 {
    let cpus = f64::from(cpus.max(1));
    100.0 * ((cpus - 1.0) / cpus + cpus / (cpus + 1.0)) / 2.0
}

/// Noise during all pairs, averaged by CPU time.
pub struct Average {
    pub steal_percent: f64,
    pub others_percent: f64,
    /// [`busy_limit_percent`].
    pub limit_percent: f64,
    /// Share of one CPU's time, so it can be more than 100.
    pub others_of_one_percent: f64,
    pub throttled: u64,
    /// Largest number of CPUs in use.
    pub cpus: u32,
}

impl Average {
    /// Averages over pairs; `None` if they took no time.
    pub fn over(pairs: &[TimedPair]) -> Option<Average> {
        let noises = || pairs.iter().map(|pair| &pair.noise).filter(|noise| noise.seconds > 0.0);
        let cpu_time = noises().map(|noise| noise.seconds * f64::from(noise.cpus)).sum::<f64>();
        let time: f64 = noises().map(|noise| noise.seconds).sum();
        if cpu_time <= 0.0 {
            return None;
        }
        let cpu_seconds = |share: &dyn Fn(&Noise) -> f64| -> f64 {
            noises().map(|noise| share(noise) * noise.seconds * f64::from(noise.cpus)).sum()
        };
        let others = cpu_seconds(&|noise| noise.others_percent);
        Some(Average {
            steal_percent: cpu_seconds(&|noise| noise.steal_percent) / cpu_time,
            others_percent: others / cpu_time,
            limit_percent: cpu_seconds(&|noise| busy_limit_percent(noise.cpus)) / cpu_time,
            others_of_one_percent: others / time,
            throttled: noises().fold(0, |sum, noise| sum.saturating_add(noise.throttled)),
            cpus: noises().map(|noise| noise.cpus).max()?,
        })
    }
}

/// All Boots in the order in which they were made, with pair and Side; both Boots of an A/A pair
/// are the base's. Boots without facts are left out.
pub fn boots_in_order(pairs: &[TimedPair]) -> impl Iterator<Item = (&TimedPair, Side, &TimedBoot)> {
    let both = pairs.iter().flat_map(|pair| {
        let change = if pair.is_control { Side::Base } else { Side::Change };
        let mut both = [(pair, Side::Base, &pair.boots.base), (pair, change, &pair.boots.change)];
        if pair.change_first {
            both.reverse();
        }
        both
    });
    both.filter(|(_, _, boot)| !boot.facts.is_empty())
}

/// Parts of each value that the other lacks; the values themselves if only the order differs.
pub fn only_what_differs(first: &str, second: &str) -> [String; 2] {
    let without = |first: &str, second: &str| {
        let parts = first
            .split(PART_SEPARATOR)
            .filter(|part| !second.split(PART_SEPARATOR).any(|o| o == *part));
        parts.collect::<Vec<_>>().join(PART_SEPARATOR)
    };
    match [without(first, second), without(second, first)] {
        // Equal parts in another order.
        [a, b] if a.is_empty() && b.is_empty() => [first.to_owned(), second.to_owned()],
        different => different,
    }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
