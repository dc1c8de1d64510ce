use std::collections::{BTreeMap, BTreeSet};

use super::average::Average;
use super::boots::{boots, only_what_differs};
use super::declared::{after, declared};

use crate::parameters::unknown_parameters;
use crate::settled;
use ktax_model::fact::{self, QUIET_PERCENT};
use ktax_model::{Facts, RunsOn, Side, TimedPair, TimedSubject, TimesPlan, Warning};

/// Above this share of the time of the CPUs in use a hypervisor's other guests are worth a word.
const STEAL_PERCENT: f64 = 1.0;

/// Those that are the CPU's own counter, read without a system call.
const GOOD_CLOCKS: [&str; 5] = ["tsc", "arch_sys_counter", "timebase", "riscv_clocksource", "tod"];

/// What to do about a fact that did not stay as it was.
pub const CHANGED_MENDS: &str = "find out who changes it, then measure again into a new directory";

/// The facts that spoil a comparison, each with what mends it; none that the Subjects themselves
/// differ in, as that is what is compared.
pub fn warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings = ignored_parameters(plan, pairs);
    warnings.extend(unsettled(pairs));
    warnings.extend(settings(plan, pairs));
    warnings.extend(Average::of(pairs).iter().flat_map(|it| meanwhile(plan, it)));
    warnings.extend(changed(pairs));
    warnings
}

fn warning(fact: impl Into<String>, next_step: &str) -> Warning {
    Warning { fact: fact.into(), next_step: next_step.to_owned() }
}

/// What the guests' Kernels of a Side's own boot line do not know.
pub fn ignored_parameters(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let of = |side: Side| {
        let own = boots(pairs).filter(|(_, of, _)| *of == side);
        let said = own.filter_map(|(_, _, boot)| boot.facts.get(fact::IGNORED));
        // One line for each Boot, in which a value may have spaces.
        let lines: BTreeSet<String> = said.map(|words| format!(" {words} ")).collect();
        let is_ignored = |word: &str| lines.iter().any(|line| line.contains(&format!(" {word} ")));
        unknown_parameters(side, &plan.subjects.get(side).boot_line, is_ignored)
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

/// What the guests' Kernels had not finished when their workloads began.
fn unsettled(pairs: &[TimedPair]) -> Vec<Warning> {
    let of = |side: Side| {
        let own = boots(pairs).filter(|(_, of, _)| *of == side);
        let facts: Vec<&Facts> = own.map(|(_, _, boot)| &boot.facts).collect();
        let busy = facts.iter().filter_map(|facts| facts.get(fact::BUSY));
        let busy = busy.flat_map(|names| names.split_whitespace()).collect();
        settled::warnings(side, &busy, facts.iter().any(|it| it.contains_key(fact::RANDOM_SEED)))
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

/// How the machine was set, in any of the Boots.
fn settings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let of_pair =
        |pair: &TimedPair| declared(plan, &pair.boots.base.facts, &pair.boots.change.facts);
    let compared = pairs.iter().filter(|pair| !pair.is_control);
    // Beside bare metal nothing of the machine is what is compared.
    let is_bare = plan.subjects.base.bare_metal;
    let declared: BTreeSet<&str> = compared.filter(|_| !is_bare).flat_map(of_pair).collect();
    let seen_as = |name: &str| -> BTreeSet<&str> {
        let boots = boots(pairs).filter(|_| !declared.contains(name));
        boots.filter_map(|(_, _, boot)| boot.facts.get(name)).map(String::as_str).collect()
    };
    // Of guests the machine's that they run on; the Sides' kernels are not its own.
    let seen = |name: &str| {
        let of_machine = fact::of_machine(name);
        let facts = boots(pairs).filter_map(|(_, _, boot)| boot.facts.get(&of_machine));
        let of_machine: BTreeSet<&str> = facts.map(String::as_str).collect();
        seen_as(name).into_iter().chain(of_machine).collect::<BTreeSet<&str>>()
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
    let has_fixed = [&plan.subjects.base, &plan.subjects.change].into_iter().all(fixes_addresses);
    if !has_fixed && seen_as(fact::ASLR).iter().any(|seen| *seen != "0") {
        warnings.push(random_addresses(plan));
    }
    warnings
}

fn random_addresses(plan: &TimesPlan) -> Warning {
    let mend = match plan.runs_on {
        RunsOn::RunningKernel => "give both sides the prefix `setarch -R`",
        RunsOn::Guests if plan.subjects.base.bare_metal => {
            "sudo sysctl kernel.randomize_va_space=0, and give the guest the boot line `norandmaps`"
        }
        RunsOn::Guests => "give both sides the boot line `norandmaps`",
    };
    warning("ASLR is on: each process has other addresses", mend)
}

/// Whether each loop is run by `setarch -R`: the machine's own setting is not used then.
fn fixes_addresses(subject: &TimedSubject) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let fixes = |word: &String| match word.starts_with("--") {
        true => word == "--addr-no-randomize",
        false => word.contains('R'),
    };
    let Some(words) = after(&subject.prefix, "setarch") else { return false };
    // An architecture may come first; behind the options is the program, with its own.
    let options = words.iter().skip(usize::from(words.first().is_some_and(|w| !is_option(w))));
    options.take_while(|word| is_option(word)).any(fixes)
}

/// What else ran, and the heat.
fn meanwhile(plan: &TimesPlan, average: &Average) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let Average { others_of_one_percent, steal_percent, throttled, .. } = average;
    if *others_of_one_percent > QUIET_PERCENT {
        let mend = match plan.runs_on {
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

/// Facts that were not the same in all Boots of one Side: one line each, of the first change.
fn changed(pairs: &[TimedPair]) -> Vec<Warning> {
    let mut last: BTreeMap<bool, &Facts> = BTreeMap::new();
    let mut changes: BTreeMap<&str, Warning> = BTreeMap::new();
    for (pair, side, boot) in boots(pairs) {
        let before = last.insert(side == Side::Base, &boot.facts).unwrap_or(&boot.facts);
        for name in before.keys().chain(boot.facts.keys()) {
            let [old, new] = [before, &boot.facts].map(|facts| facts.get(name).map_or("", |v| v));
            if old != new && !changes.contains_key(name.as_str()) {
                let said = |value: String| if value.is_empty() { "nothing".into() } else { value };
                let [old, new] = only_what_differs(old, new).map(said);
                let index = pair.index;
                let fact = format!("{name} changed during the run: {old}, from pair {index} {new}");
                changes.insert(name, warning(fact, CHANGED_MENDS));
            }
        }
    }
    changes.into_values().collect()
}
