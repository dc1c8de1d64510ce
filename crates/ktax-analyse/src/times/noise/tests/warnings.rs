use super::*;
use ktax_model::Warning;

/// The words of warnings up to the first colon, or all of them.
fn heads(warnings: &[Warning]) -> Vec<&str> {
    assert!(warnings.iter().all(|w| !w.next_step.is_empty() && !w.fact.contains('\n')));
    warnings.iter().map(|w| w.fact.split(':').next().unwrap()).collect()
}

#[test]
fn each_setting_that_spoils_is_a_line_with_what_mends_it() {
    let cases = [
        (fact::GOVERNOR, "powersave", "the frequency governor is powersave", "-g performance"),
        (fact::GOVERNOR, "performance, schedutil", "the frequency governor is", "-g performance"),
        (fact::TURBO, "no_turbo=0", "turbo is on (no_turbo=0)", "echo 1 | sudo tee /sys"),
        (fact::TURBO, "boost=1", "turbo is on (boost=1)", "echo 0 | sudo tee /sys"),
        (fact::SMT, "on", "SMT is on", "smt/control"),
        (fact::CLOCK, "hpet", "the clock source is hpet", "current_clocksource"),
        (fact::ASLR, "2", "ASLR is on", "`setarch -R`"),
        (fact::ASLR, "1", "ASLR is on", "`setarch -R`"),
    ];
    for (name, value, fact, mend) in cases {
        let warned = warnings(&equals(), &[pair(0, &[(name, value)], &[(name, value)])]);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].fact.starts_with(fact) && warned[0].next_step.contains(mend));
    }
    for (name, value) in [(fact::TURBO, "boost=0"), (fact::CLOCK, "arch_sys_counter")] {
        assert_eq!(warnings(&equals(), &[pair(0, &[(name, value)], &[(name, value)])]), []);
    }
    let guests = TimesPlan { engine: "kvm".into(), runs_on: RunsOn::Guests, ..equals() };
    // The machine that guests run on is warned of as the running kernel is.
    let host = [("host governor", "powersave"), ("host ASLR", "2")];
    let warned = warnings(&guests, &[pair(0, &host, &host)]);
    assert_eq!(heads(&warned), ["the frequency governor is powersave"]);
    let aslr = [(fact::ASLR, "2")];
    let warned = warnings(&guests, &[pair(0, &aslr, &aslr)]);
    assert!(warned[0].next_step.contains("norandmaps"));
}

#[test]
fn boot_parameters_that_a_guests_kernel_does_not_know_are_named() {
    let guests = |base: &str, change: &str| {
        let side = |line: &str| TimedSubject { boot_line: line.into(), ..Default::default() };
        TimesPlan {
            engine: "kvm".into(),
            runs_on: RunsOn::Guests,
            ..plan(side(base), side(change))
        }
    };
    let said = |plan: &TimesPlan, pairs: &[TimedPair]| {
        let warned = warnings(plan, pairs);
        assert!(warned.iter().all(|warning| warning.next_step.starts_with("check its spelling")));
        warned.into_iter().map(|warning| warning.fact).collect::<Vec<_>>()
    };
    let mistyped = guests("", "quiet mitigatons=off nopti");
    // What the engine adds is no mistake of the user's; `nopti` works and is read early.
    let [base, change] = ["", "-- mitigatons=off nopti"].map(|words| [(fact::IGNORED, words)]);
    let pairs = [control(0, &base, &base), pair(1, &base, &change), pair(2, &base, &change)];
    let unknown = "the change's kernel does not know the boot parameter mitigatons=off (did you \
                   mean mitigations?)";
    assert_eq!(said(&mistyped, &pairs), [unknown]);
    assert_eq!(said(&guests("mitigatons=off", ""), &pairs), [""; 0]);
    // An A/A pair has the base in both places.
    let mistyped = guests("mitigatons=off", "");
    let unknown = "the base's kernel does not know the boot parameter mitigatons=off (did you \
                   mean mitigations?)";
    assert_eq!(said(&mistyped, &[control(0, &change, &change)]), [unknown]);
}

#[test]
fn addresses_on_bare_metal_are_fixed_by_a_sysctl() {
    let mut bare = planned(|guest| guest.boot_line = "norandmaps".into());
    bare.runs_on = RunsOn::Guests;
    bare.subjects.base.bare_metal = true;
    // A guest that has it already leaves the machine as it is.
    for guest in ["2", "0"] {
        let pairs = [pair(0, &[(fact::ASLR, "2")], &[(fact::ASLR, guest)])];
        let warned = warnings(&bare, &pairs);
        assert_eq!(heads(&warned), ["ASLR is on"]);
        let mend = &warned[0].next_step;
        assert!(mend.starts_with("sudo sysctl kernel.randomize_va_space=0"), "{mend}");
        assert!(mend.contains("the guest the boot line `norandmaps`"), "{mend}");
    }
    let fixed = [pair(0, &[(fact::ASLR, "0")], &[(fact::ASLR, "0")])];
    assert_eq!(warnings(&bare, &fixed), []);
}

#[test]
fn guests_that_had_not_settled_are_named_and_stay_comparable() {
    let change = [(fact::BUSY, "ksmd kcryptd"), (fact::RANDOM_SEED, "none")];
    let pairs = [pair(0, &[], &change)];
    let warned = warnings(&equals(), &pairs);
    let expected = [
        "the change's kernel was not idle when the workloads began",
        "the change's kernel has no seed for its random numbers, which makes it slower",
    ];
    assert_eq!(heads(&warned), expected);
    assert_eq!(undeclared(&equals(), &pairs), []);
}

#[test]
fn what_is_compared_is_not_warned_of() {
    let pairs = [pair(0, &[(fact::GOVERNOR, "powersave")], &[(fact::GOVERNOR, "performance")])];
    let compared = planned(|side| side.governor = Some("performance".into()));
    assert_eq!(warnings(&compared, &pairs), []);
    assert_eq!(heads(&warnings(&equals(), &pairs)), ["the frequency governor is powersave"]);
    let aslr = [pair(0, &[(fact::ASLR, "2")], &[(fact::ASLR, "0")])];
    let compared = planned(|side| {
        side.sysctl.insert("kernel/randomize_va_space".into(), "0".into());
    });
    assert_eq!(warnings(&compared, &aslr), []);
}

#[test]
fn loops_that_setarch_runs_have_fixed_addresses() {
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
    // The Subjects differ in it: that is what is compared.
    assert!(!warned("setarch -R", ""));
}

#[test]
fn load_steal_and_heat_are_warned_of_above_their_limits() {
    let warned = |noise: TimedPair| {
        let warned = warnings(&equals(), &[noise]);
        heads(&warned).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // 5 % of two CPUs is 10 % of one.
    assert!(warned(noisy(10.0, 2, 1.0, 5.0)).is_empty());
    let said = warned(noisy(10.0, 2, 0.0, 5.1));
    assert_eq!(said, ["other tasks and interrupts took 10.2 % of one CPU"]);
    let said = warned(noisy(10.0, 2, 1.1, 0.0));
    assert_eq!(said, ["a hypervisor ran something else for 1.1 % of the time"]);
    let mut hot = noisy(10.0, 2, 0.0, 0.0);
    hot.noise.throttled = 1;
    assert_eq!(warned(hot), ["heat slowed CPUs down; times counted"]);
}

#[test]
fn what_changed_on_a_side_is_said_once() {
    let [old, new] = [[(fact::GOVERNOR, "performance")], [(fact::GOVERNOR, "powersave")]];
    let said = |pairs: &[TimedPair]| {
        let mut warned = warnings(&planned(|side| side.governor = Some("x".into())), pairs);
        warned.retain(|warning| warning.fact.contains("changed during the run"));
        warned.into_iter().map(|warning| warning.fact).collect::<Vec<_>>()
    };
    // The factor is as declared in each pair, and an A/A pair has the base in both places.
    assert!(said(&[pair(0, &old, &new), control(1, &old, &old), pair(2, &old, &new)]).is_empty());
    let change = "governor changed during the run: performance, from pair 1 powersave";
    assert_eq!(said(&[pair(0, &old, &new), control(1, &old, &new), pair(2, &old, &new)]), [change]);
    assert_eq!(said(&[pair(0, &old, &old), pair(1, &new, &new), pair(2, &old, &new)]), [change]);
    // The order within a pair is the order in time.
    let first = TimedPair { change_first: true, ..control(0, &new, &old) };
    let within = "governor changed during the run: performance, from pair 0 powersave";
    assert_eq!(said(&[first]), [within]);
    // Of a Boot that failed nothing is known.
    assert!(said(&[pair(0, &old, &new), pair(1, &[], &[]), pair(2, &old, &new)]).is_empty());
    let gone = [(fact::SMT, "off")];
    let lost = said(&[pair(0, &gone, &gone), pair(1, &old, &gone)]);
    assert_eq!(lost[0], "SMT changed during the run: off, from pair 1 nothing");
    assert_eq!(lost.len(), 2);
}
