use super::*;
use ktax_model::{AskedTimes, Sides, TimedMachine};
use proptest::prelude::*;

fn plan(base: TimedSubject, change: TimedSubject) -> TimesPlan {
    TimesPlan {
        asked: AskedTimes {
            engine: "host".into(),
            runs_on: RunsOn::RunningKernel,
            pairs: None,
            max_pairs: 200,
            loops: 3,
            allow_differences: false,
            machine: TimedMachine::default(),
            subjects: Sides { base, change },
            programs: Vec::new(),
        },
        kernels: Default::default(),
        archive_sha256: String::new(),
        native_programs: None,
        swept_parameters: Vec::new(),
        headline: Vec::new(),
        secondary: Vec::new(),
    }
}

fn in_guests(mut plan: TimesPlan) -> TimesPlan {
    (plan.asked.engine, plan.asked.runs_on) = ("kvm".into(), RunsOn::Guests);
    plan
}

fn equal_subjects() -> TimesPlan {
    plan(TimedSubject::default(), TimedSubject::default())
}

/// A plan whose change is modified.
fn plan_with_change(modify: impl Fn(&mut TimedSubject)) -> TimesPlan {
    let mut plan = equal_subjects();
    modify(&mut plan.asked.subjects.change);
    plan
}

fn facts(entries: &[(&str, &str)]) -> Facts {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn pair(index: u32, base: &[(&str, &str)], change: &[(&str, &str)]) -> TimedPair {
    let boot = |entries| TimedBoot { facts: facts(entries), ..TimedBoot::default() };
    let noise = Noise { seconds: 10.0, cpus: 2, ..Noise::default() };
    let boots = Sides { base: boot(base), change: boot(change) };
    TimedPair { index, is_control: false, change_first: false, boots, noise }
}

fn control(index: u32, base: &[(&str, &str)], change: &[(&str, &str)]) -> TimedPair {
    TimedPair { is_control: true, ..pair(index, base, change) }
}

fn noisy(seconds: f64, cpus: u32, steal_percent: f64, others_percent: f64) -> TimedPair {
    let noise = Noise { seconds, cpus, steal_percent, others_percent, throttled: 0 };
    TimedPair { noise, ..pair(0, &[], &[]) }
}

const GOOD: [(&str, &str); 5] = [
    (fact::GOVERNOR, "performance"),
    (fact::TURBO, "no_turbo=1"),
    (fact::SMT, "off"),
    (fact::CLOCK, "tsc"),
    (fact::ASLR, "0"),
];

#[test]
fn a_quiet_machine_has_no_warnings_and_can_measure() {
    let pairs = [pair(0, &GOOD, &GOOD), control(1, &GOOD, &GOOD)];
    assert_eq!(warnings(&equal_subjects(), &pairs), []);
    assert_eq!(undeclared_differences(&equal_subjects(), &pairs), []);
    assert_eq!(cannot_measure(&pairs), None);
    // A machine without facts, and no pair at all.
    assert_eq!(warnings(&equal_subjects(), &[pair(0, &[], &[])]), []);
    assert_eq!((warnings(&equal_subjects(), &[]), cannot_measure(&[])), (vec![], None));
}

#[test]
fn a_machine_with_more_than_10_percent_steal_cannot_measure() {
    assert_eq!(cannot_measure(&[noisy(10.0, 4, 10.0, 0.0)]), None);
    let reason = cannot_measure(&[noisy(10.0, 4, 10.1, 0.0)]).unwrap();
    assert!(reason.contains("10.1 %") && reason.contains("measure on a machine"), "{reason}");
    // Noise is averaged by time: a long quiet pair and a short noisy one.
    assert_eq!(cannot_measure(&[noisy(90.0, 4, 1.0, 0.0), noisy(10.0, 4, 80.0, 0.0)]), None);
    let often = [noisy(50.0, 4, 1.0, 0.0), noisy(10.0, 4, 80.0, 0.0)];
    assert!(cannot_measure(&often).is_some());
    assert!(cannot_measure(&[noisy(0.0, 4, 90.0, 90.0)]).is_none());
}

#[test]
fn as_many_busy_loops_as_cpus_are_too_many_and_one_fewer_is_not() {
    for cpus in [1, 2, 4, 64, 256] {
        let loops = |loops: f64, running: f64| {
            let others_percent = 100.0 * loops / running;
            cannot_measure(&[noisy(10.0, cpus, 0.0, others_percent)])
        };
        let n = f64::from(cpus);
        assert_eq!(loops(n - 1.0, n), None, "{cpus}");
        let reason = loops(n, n + 1.0).unwrap();
        assert!(reason.contains("stop other programs") && reason.contains(&format!("({cpus})")));
        assert!(loops(2.0 * n, 2.0 * n + 1.0).is_some());
    }
    assert_eq!(busy_limit_percent(1), 25.0);
    assert_eq!(busy_limit_percent(0), 25.0);
    let limit = busy_limit_percent(2);
    assert!((limit - 58.333).abs() < 0.001);
    assert_eq!(cannot_measure(&[noisy(10.0, 2, 0.0, limit - 0.001)]), None);
    assert!(cannot_measure(&[noisy(10.0, 2, 0.0, limit + 0.001)]).is_some());
}

proptest! {
    #[test]
    fn the_busy_limit_lies_between_one_free_cpu_and_no_free_cpu(cpus in 1..100_000_u32) {
        let (n, limit) = (f64::from(cpus), busy_limit_percent(cpus));
        prop_assert!(100.0 * (n - 1.0) / n < limit && limit < 100.0 * n / (n + 1.0));
    }

    #[test]
    fn averages_lie_between_the_extremes_and_do_not_depend_on_splits(
        shares in prop::collection::vec(
            (0.1..100.0_f64, 1..64_u32, 0.0..50.0_f64, 0.0..50.0_f64),
            1..8,
        ),
    ) {
        let split = |parts: &[f64]| {
            let pairs = shares.iter().flat_map(|(seconds, cpus, steal, others)| {
                parts.iter().map(move |part| noisy(seconds * part, *cpus, *steal, *others))
            });
            AverageNoise::average(&pairs.collect::<Vec<_>>()).unwrap()
        };
        let [whole, parts] = [split(&[1.0]), split(&[0.25, 0.75])];
        let steals = shares.iter().map(|share| share.2);
        let most = steals.clone().fold(0.0, f64::max);
        let least = steals.fold(100.0, f64::min);
        prop_assert!(least - 1e-9 <= whole.steal_percent && whole.steal_percent <= most + 1e-9);
        prop_assert!((whole.steal_percent - parts.steal_percent).abs() < 1e-9);
        prop_assert!((whole.others_percent - parts.others_percent).abs() < 1e-9);
        prop_assert!((whole.limit_percent - parts.limit_percent).abs() < 1e-9);
    }
}

#[test]
fn an_undeclared_difference_is_found_in_pairs_and_not_in_controls() {
    let [old, new] = [[(fact::MICROCODE, "0xf4")], [(fact::MICROCODE, "0xf6")]];
    let pairs = [
        pair(0, &old, &new),
        control(1, &old, &new),
        pair(2, &old, &old),
        pair(3, &old, &[]),
        pair(4, &old, &new),
    ];
    let found = undeclared_differences(&equal_subjects(), &pairs);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["microcode: base 0xf4, change 0xf6 (2 of 3 pairs)"]);
    assert_eq!(undeclared_differences(&equal_subjects(), &pairs[1..3]), []);
    // Over all pairs the Sides have the same values; within each pair they differ.
    assert_eq!(
        undeclared_differences(&equal_subjects(), &[pair(0, &old, &new), pair(1, &new, &old)])
            .len(),
        2
    );
}

#[test]
fn only_differing_mitigations_are_named() {
    let base = [(fact::MITIGATIONS, "mds=Vulnerable | meltdown=Mitigation: PTI")];
    let change = [(fact::MITIGATIONS, "mds=Vulnerable | srbds=Vulnerable")];
    let found = undeclared_differences(&equal_subjects(), &[pair(0, &base, &change)]);
    let expected =
        "mitigations: base meltdown=Mitigation: PTI, change srbds=Vulnerable (1 of 1 pairs)";
    assert_eq!(found[0].to_string(), expected);
    let less = undeclared_differences(
        &equal_subjects(),
        &[pair(0, &base, &[(fact::MITIGATIONS, "mds=Vulnerable")])],
    );
    assert!(less[0].to_string().contains("base meltdown=Mitigation: PTI, change nothing"));
    let turned = [(fact::MITIGATIONS, "meltdown=Mitigation: PTI | mds=Vulnerable")];
    let found = undeclared_differences(&equal_subjects(), &[pair(0, &base, &turned)]);
    assert_eq!(found[0].change, turned[0].1);
}

/// Facts that are not declared, in a pair whose facts all differ.
fn undeclared_names(plan: &TimesPlan) -> Vec<&'static str> {
    let names = [
        fact::ACCELERATOR,
        fact::AFFINITY,
        fact::ASLR,
        fact::BOOT_LINE,
        fact::BUILD,
        fact::BUILD_ID,
        fact::CLOCK,
        fact::CPU,
        fact::CPUS,
        fact::GOVERNOR,
        fact::GUEST_MEMORY,
        fact::HYPERVISOR,
        fact::IGNORED,
        fact::ISOLATED,
        fact::KERNEL,
        fact::MICROCODE,
        fact::MITIGATIONS,
        fact::NOHZ_FULL,
        fact::QEMU,
        fact::SMT,
        fact::THP,
        fact::TURBO,
        fact::VCPUS,
        fact::VCPU_CPUS,
    ];
    let [base, change] = ["a", "b"].map(|value| names.map(|name| (name, value)));
    let found = undeclared_differences(plan, &[pair(0, &base, &change)]);
    names.into_iter().filter(|name| found.iter().any(|f| f.fact == *name)).collect()
}

#[test]
fn each_setting_declares_its_own_facts_and_no_others() {
    let all = undeclared_names(&equal_subjects());
    assert_eq!(all.len(), 24);
    let declares = |plan: TimesPlan, expected: &[&str]| {
        let undeclared = undeclared_names(&plan);
        let declared: Vec<&str> =
            all.iter().copied().filter(|name| !undeclared.contains(name)).collect();
        assert_eq!(declared, expected);
    };
    use fact::*;
    declares(
        plan_with_change(|s| s.kernel = Some("new".into())),
        &[BOOT_LINE, BUILD, BUILD_ID, IGNORED, KERNEL, MITIGATIONS],
    );
    declares(
        plan_with_change(|s| s.boot_line = "quiet".into()),
        &[BOOT_LINE, IGNORED, MITIGATIONS],
    );
    declares(
        plan_with_change(|s| s.boot_line = "nosmt isolcpus=1".into()),
        &[AFFINITY, BOOT_LINE, CPUS, IGNORED, ISOLATED, MITIGATIONS, SMT],
    );
    for cpus in ["nr_cpus=1", "maxcpus=1"] {
        let expected = [AFFINITY, BOOT_LINE, CPUS, IGNORED, MITIGATIONS, SMT];
        declares(plan_with_change(|s| s.boot_line = cpus.into()), &expected);
    }
    for pstate in ["amd_pstate=passive", "intel_pstate=disable"] {
        let expected = [BOOT_LINE, GOVERNOR, IGNORED, MITIGATIONS, TURBO];
        declares(plan_with_change(|s| s.boot_line = pstate.into()), &expected);
    }
    for smt in ["mitigations=auto,nosmt", "mds=full,nosmt", "l1tf=full,force", "nosmt=force"] {
        let expected = [BOOT_LINE, CPUS, IGNORED, MITIGATIONS, SMT];
        declares(plan_with_change(|s| s.boot_line = smt.into()), &expected);
    }
    // A quoted value is one parameter, whatever words it has.
    let quoted = "dyndbg=\"file a.c +p nosmt\"";
    for other in ["mitigations=off", "l1tf=full", "kvm.nx_huge_pages=force", quoted] {
        let expected = [BOOT_LINE, IGNORED, MITIGATIONS];
        declares(plan_with_change(|s| s.boot_line = other.into()), &expected);
    }
    declares(plan_with_change(|s| s.thp = Some("never".into())), &[THP]);
    declares(plan_with_change(|s| s.governor = Some("performance".into())), &[GOVERNOR]);
    declares(
        plan_with_change(|s| s.prefix = vec!["taskset".into(), "-c".into(), "1".into()]),
        &[AFFINITY],
    );
    declares(
        plan_with_change(|s| s.prefix = vec!["/usr/bin/setarch".into(), "-R".into()]),
        &[ASLR],
    );
    declares(plan_with_change(|s| s.prefix = vec!["chrt".into(), "1".into()]), &[]);
    let sysctl = |name: &str| plan_with_change(|s| drop(s.sysctl.insert(name.into(), "0".into())));
    declares(sysctl("kernel.randomize_va_space"), &[ASLR]);
    declares(sysctl("vm.swappiness"), &[]);
    // Both Sides have the setting, so they may not differ in its fact.
    let both = TimedSubject { governor: Some("performance".into()), ..TimedSubject::default() };
    declares(plan(both.clone(), both), &[]);
}

#[test]
fn boot_lines_of_different_kernels_declare_their_own_facts() {
    let facts_of_line = |line| [(fact::BOOT_LINE, line), (fact::THP, line), (fact::ISOLATED, line)];
    let pairs =
        [pair(0, &facts_of_line("quiet"), &facts_of_line("quiet transparent_hugepage=never"))];
    let compared = plan_with_change(|side| side.kernel = Some("new".into()));
    let found = undeclared_differences(&compared, &pairs);
    assert_eq!(found.iter().map(|f| f.fact.as_str()).collect::<Vec<_>>(), [fact::ISOLATED]);
}

proptest! {
    #[test]
    fn exactly_the_differing_facts_are_found(
        base in prop::collection::btree_map("[a-d]", "[a-c]{1,2}", 1..5),
        change in prop::collection::btree_map("[a-d]", "[a-c]{1,2}", 1..5),
    ) {
        let mut both = pair(0, &[], &[]);
        both.boots.base.facts = base.clone();
        both.boots.change.facts = change.clone();
        let names = base.keys().chain(change.keys());
        let mut differ: Vec<String> =
            names.filter(|name| base.get(*name) != change.get(*name)).cloned().collect();
        differ.sort();
        differ.dedup();
        let found = undeclared_differences(&equal_subjects(), &[both.clone()]);
        let found = found.into_iter().map(|found| found.fact);
        prop_assert_eq!(found.collect::<Vec<_>>(), differ);
        both.is_control = true;
        prop_assert_eq!(undeclared_differences(&equal_subjects(), &[both]), vec![]);
    }
}

#[test]
fn a_guest_is_compared_with_bare_metal_by_its_kernel_alone() {
    let mut bare = plan_with_change(|change| change.kernel = Some("debian:cloud-amd64".into()));
    bare.asked.subjects.base.bare_metal = true;
    assert_eq!(undeclared_names(&bare), [fact::KERNEL]);
}

/// Facts of warnings up to the first colon.
fn fact_heads(warnings: &[Warning]) -> Vec<&str> {
    assert!(warnings.iter().all(|w| !w.next_step.is_empty() && !w.fact.contains('\n')));
    warnings.iter().map(|w| w.fact.split(':').next().unwrap()).collect()
}

#[test]
fn each_noisy_setting_has_a_warning_with_its_next_step() {
    let cases = [
        (fact::GOVERNOR, "powersave", "the frequency governor is powersave", "-g performance"),
        (fact::GOVERNOR, "performance, schedutil", "the frequency governor is", "-g performance"),
        (fact::TURBO, "no_turbo=0", "turbo is on (no_turbo=0)", "echo 1 | sudo tee /sys"),
        (fact::TURBO, "boost=1", "turbo is on (boost=1)", "echo 0 | sudo tee /sys"),
        (fact::SMT, "on", "SMT is on", "smt/control"),
        (fact::CLOCK, "hpet", "the clock source is hpet", "tsc, arch_sys_counter, timebase"),
        (fact::ASLR, "2", "ASLR is on", "`setarch -R`"),
        (fact::ASLR, "1", "ASLR is on", "`setarch -R`"),
    ];
    for (name, value, fact, next_step) in cases {
        let warned = warnings(&equal_subjects(), &[pair(0, &[(name, value)], &[(name, value)])]);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].fact.starts_with(fact) && warned[0].next_step.contains(next_step));
    }
    for (name, value) in [(fact::TURBO, "boost=0"), (fact::CLOCK, "arch_sys_counter")] {
        assert_eq!(warnings(&equal_subjects(), &[pair(0, &[(name, value)], &[(name, value)])]), []);
    }
    let guests = in_guests(equal_subjects());
    // The machine that guests run on gets the same warnings as a running kernel.
    let host = [("host governor", "powersave"), ("host ASLR", "2")];
    let warned = warnings(&guests, &[pair(0, &host, &host)]);
    assert_eq!(fact_heads(&warned), ["the frequency governor is powersave"]);
    let aslr = [(fact::ASLR, "2")];
    let warned = warnings(&guests, &[pair(0, &aslr, &aslr)]);
    assert!(warned[0].next_step.contains("norandmaps"));
}

#[test]
fn boot_parameters_unknown_to_a_guests_kernel_are_named() {
    let guests = |base: &str, change: &str| {
        let side = |line: &str| TimedSubject { boot_line: line.into(), ..Default::default() };
        in_guests(plan(side(base), side(change)))
    };
    let facts_of_warnings = |plan: &TimesPlan, pairs: &[TimedPair]| {
        let warned = warnings(plan, pairs);
        assert!(warned.iter().all(|warning| warning.next_step.starts_with("check its spelling")));
        warned.into_iter().map(|warning| warning.fact).collect::<Vec<_>>()
    };
    let mistyped = guests("", "quiet mitigatons=off nopti");
    // Parameters that the engine adds are no mistake of the user; `nopti` works and is read early.
    let [base, change] = ["", "-- mitigatons=off nopti"].map(|words| [(fact::IGNORED, words)]);
    let pairs = [control(0, &base, &base), pair(1, &base, &change), pair(2, &base, &change)];
    let unknown = "the change's kernel does not know the boot parameter mitigatons=off (did you \
                   mean mitigations?)";
    assert_eq!(facts_of_warnings(&mistyped, &pairs), [unknown]);
    assert_eq!(facts_of_warnings(&guests("mitigatons=off", ""), &pairs), [""; 0]);
    // An A/A pair has the base in both places.
    let mistyped = guests("mitigatons=off", "");
    let unknown = "the base's kernel does not know the boot parameter mitigatons=off (did you \
                   mean mitigations?)";
    assert_eq!(facts_of_warnings(&mistyped, &[control(0, &change, &change)]), [unknown]);
}

#[test]
fn aslr_of_bare_metal_is_turned_off_by_a_sysctl() {
    let mut bare = plan_with_change(|guest| guest.boot_line = "norandmaps".into());
    bare.asked.runs_on = RunsOn::Guests;
    bare.asked.subjects.base.bare_metal = true;
    // A guest that has the setting already leaves the machine as it is.
    for guest in ["2", "0"] {
        let pairs = [pair(0, &[(fact::ASLR, "2")], &[(fact::ASLR, guest)])];
        let warned = warnings(&bare, &pairs);
        assert_eq!(fact_heads(&warned), ["ASLR is on"]);
        let next_step = &warned[0].next_step;
        let command = "sudo sysctl kernel.randomize_va_space=0";
        assert!(next_step.starts_with(command), "{next_step}");
        assert!(next_step.contains("the guest the boot line `norandmaps`"), "{next_step}");
    }
    let fixed = [pair(0, &[(fact::ASLR, "0")], &[(fact::ASLR, "0")])];
    assert_eq!(warnings(&bare, &fixed), []);
}

#[test]
fn guests_that_had_not_settled_have_warnings_and_stay_comparable() {
    let change = [(fact::BUSY, "ksmd kcryptd"), (fact::RANDOM_SEED, "none")];
    let pairs = [pair(0, &[], &change)];
    let warned = warnings(&equal_subjects(), &pairs);
    let expected = [
        "the change's kernel was not idle when the workloads began",
        "the change's kernel has no seed for its random numbers, which makes it slower",
    ];
    assert_eq!(fact_heads(&warned), expected);
    assert_eq!(undeclared_differences(&equal_subjects(), &pairs), []);
}

#[test]
fn settings_that_are_compared_have_no_warnings() {
    let pairs = [pair(0, &[(fact::GOVERNOR, "powersave")], &[(fact::GOVERNOR, "performance")])];
    let compared = plan_with_change(|side| side.governor = Some("performance".into()));
    assert_eq!(warnings(&compared, &pairs), []);
    assert_eq!(
        fact_heads(&warnings(&equal_subjects(), &pairs)),
        ["the frequency governor is powersave"]
    );
    let aslr = [pair(0, &[(fact::ASLR, "2")], &[(fact::ASLR, "0")])];
    let compared = plan_with_change(|side| {
        side.sysctl.insert("kernel/randomize_va_space".into(), "0".into());
    });
    assert_eq!(warnings(&compared, &aslr), []);
}

#[test]
fn setarch_turns_aslr_off_and_its_warning() {
    let aslr = [pair(0, &[(fact::ASLR, "2")], &[(fact::ASLR, "2")])];
    let warned = |base: &str, change: &str| {
        let side = |prefix: &str| {
            let prefix = prefix.split_whitespace().map(str::to_owned).collect();
            TimedSubject { prefix, ..TimedSubject::default() }
        };
        let fixed = warnings(&plan(side(base), side(change)), &aslr).is_empty();
        !fixed
    };
    for prefix in ["setarch -R", "taskset -c 1 /usr/bin/setarch x86_64 -LR", "setarch -R chrt 1"] {
        assert!(!warned(prefix, prefix), "{prefix}");
    }
    for prefix in ["", "setarch x86_64", "setarch -v chrt -R 1", "chrt -R 1", "setarch --3gb-RAM"] {
        assert!(warned(prefix, prefix), "{prefix}");
    }
    // The Subjects set ASLR differently, so it is compared.
    assert!(!warned("setarch -R", ""));
}

#[test]
fn load_steal_and_heat_above_their_limits_have_warnings() {
    let warned = |noise: TimedPair| {
        let warned = warnings(&equal_subjects(), &[noise]);
        fact_heads(&warned).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // 5 % of two CPUs is 10 % of one.
    assert!(warned(noisy(10.0, 2, 1.0, 5.0)).is_empty());
    let facts = warned(noisy(10.0, 2, 0.0, 5.1));
    assert_eq!(facts, ["other tasks and interrupts took 10.2 % of one CPU"]);
    let facts = warned(noisy(10.0, 2, 1.1, 0.0));
    assert_eq!(facts, ["a hypervisor ran something else for 1.1 % of the time"]);
    let mut hot = noisy(10.0, 2, 0.0, 0.0);
    hot.noise.throttled = 1;
    assert_eq!(warned(hot), ["CPUs were thermally throttled; times counted"]);
}

#[test]
fn a_fact_that_changed_on_a_side_has_one_warning() {
    let [old, new] = [[(fact::GOVERNOR, "performance")], [(fact::GOVERNOR, "powersave")]];
    let changes = |pairs: &[TimedPair]| {
        let mut warned =
            warnings(&plan_with_change(|side| side.governor = Some("x".into())), pairs);
        warned.retain(|warning| warning.fact.contains("changed during the run"));
        warned.into_iter().map(|warning| warning.fact).collect::<Vec<_>>()
    };
    // The pairs differ as declared, and both Boots of an A/A pair are the base's.
    assert!(
        changes(&[pair(0, &old, &new), control(1, &old, &old), pair(2, &old, &new)]).is_empty()
    );
    let change = "governor changed during the run: performance at first, powersave from pair 1 on";
    assert_eq!(
        changes(&[pair(0, &old, &new), control(1, &old, &new), pair(2, &old, &new)]),
        [change]
    );
    assert_eq!(changes(&[pair(0, &old, &old), pair(1, &new, &new), pair(2, &old, &new)]), [change]);
    // The order within a pair is the order in time.
    let first = TimedPair { change_first: true, ..control(0, &new, &old) };
    let within = "governor changed during the run: performance at first, powersave from pair 0 on";
    assert_eq!(changes(&[first]), [within]);
    // A Boot that failed has no facts.
    assert!(changes(&[pair(0, &old, &new), pair(1, &[], &[]), pair(2, &old, &new)]).is_empty());
    let smt = [(fact::SMT, "off")];
    let missing = changes(&[pair(0, &smt, &smt), pair(1, &old, &smt)]);
    assert_eq!(missing[0], "SMT changed during the run: off at first, nothing from pair 1 on");
    assert_eq!(missing.len(), 2);
}
