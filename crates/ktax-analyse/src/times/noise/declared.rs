use std::collections::{BTreeMap, BTreeSet};

use super::boots::only_what_differs;
use ktax_model::{FactDifference, Facts, TimedPair, TimedSubject, TimesPlan, fact};

/// Facts that kernel parameters change, beside [`fact::MITIGATIONS`], which many do.
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

/// Facts in which the Boots of a pair differ, though the Subjects do not differ in anything that
/// makes it so. A/A pairs are of one Subject and have no such difference; what changes in them, or
/// on both Sides alike, is a warning.
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
        // A guest is another machine; the kernel is what it shares with this one.
        let is_compared = |name: &&str| match plan.subjects.base.bare_metal {
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
    let of = compared().count();
    let difference = |((fact, [base, change]), pairs): ((&str, [String; 2]), usize)| {
        FactDifference { fact: fact.to_owned(), base, change, pairs, of }
    };
    differences.into_iter().map(difference).collect()
}

/// The facts that may differ between the Sides, because the Subjects do, or, where the user boots
/// another kernel for each Side, the boot lines that the machines then had.
pub(super) fn declared(plan: &TimesPlan, base: &Facts, change: &Facts) -> BTreeSet<&'static str> {
    let sides = [&plan.subjects.base, &plan.subjects.change];
    let differ = |what: fn(&TimedSubject) -> Option<&str>| what(sides[0]) != what(sides[1]);
    // Each has a warning of its own, which names the Side.
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
        let uses = |program| sides.iter().any(|side| after(&side.prefix, program).is_some());
        declared.extend(prefixes.into_iter().filter(|(program, _)| uses(program)).map(|p| p.1));
    }
    declared
}

/// The words of a prefix after this program.
pub(super) fn after<'a>(prefix: &'a [String], program: &str) -> Option<&'a [String]> {
    let is_it = |word: &String| word.rsplit('/').next() == Some(program);
    prefix.iter().position(is_it).map(|at| &prefix[at + 1..])
}

/// The names of values have dots or slashes between their parts, as sysctl(8) takes both.
fn sysctl<'a>(subject: &'a TimedSubject, name: &str) -> Option<&'a str> {
    let mut values = subject.sysctl.iter();
    values.find(|(key, _)| key.replace('/', ".") == name).map(|(_, value)| value.as_str())
}

/// The facts that those parameters change which only one of two boot lines has.
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
