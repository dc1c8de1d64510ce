use super::average::{Average, busy_limit_percent};
use super::*;
use ktax_model::{
    Facts, Noise, RunsOn, Sides, TimedBoot, TimedMachine, TimedPair, TimedSubject, TimesPlan, fact,
};
use proptest::prelude::*;

mod declared;
mod warnings;

fn plan(base: TimedSubject, change: TimedSubject) -> TimesPlan {
    TimesPlan {
        programs: Vec::new(),
        packed: String::new(),
        programs_here: None,
        engine: "host".into(),
        runs_on: RunsOn::RunningKernel,
        pairs: None,
        most_pairs: 200,
        loops: 3,
        allow_differences: false,
        swept: Vec::new(),
        machine: TimedMachine::default(),
        kernels: Default::default(),
        subjects: Sides { base, change },
        headline: Vec::new(),
        secondary: Vec::new(),
    }
}

fn equals() -> TimesPlan {
    plan(TimedSubject::default(), TimedSubject::default())
}

/// Subjects of which the change has something more.
fn planned(differ: impl Fn(&mut TimedSubject)) -> TimesPlan {
    let mut plan = equals();
    differ(&mut plan.subjects.change);
    plan
}

fn facts(said: &[(&str, &str)]) -> Facts {
    said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn pair(index: u32, base: &[(&str, &str)], change: &[(&str, &str)]) -> TimedPair {
    let boot = |said| TimedBoot { facts: facts(said), ..TimedBoot::default() };
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
fn a_quiet_machine_is_not_warned_of_and_can_measure() {
    let pairs = [pair(0, &GOOD, &GOOD), control(1, &GOOD, &GOOD)];
    assert_eq!(warnings(&equals(), &pairs), []);
    assert_eq!(undeclared(&equals(), &pairs), []);
    assert_eq!(cannot_measure(&pairs), None);
    // A machine that says nothing, and no pair at all.
    assert_eq!(warnings(&equals(), &[pair(0, &[], &[])]), []);
    assert_eq!((warnings(&equals(), &[]), cannot_measure(&[])), (vec![], None));
}

#[test]
fn above_a_tenth_of_steal_nothing_is_measured() {
    assert_eq!(cannot_measure(&[noisy(10.0, 4, 10.0, 0.0)]), None);
    let said = cannot_measure(&[noisy(10.0, 4, 10.1, 0.0)]).unwrap();
    assert!(said.contains("10.1 %") && said.contains("measure on a machine"), "{said}");
    // By time: a long quiet pair and a short one that was robbed.
    assert_eq!(cannot_measure(&[noisy(90.0, 4, 1.0, 0.0), noisy(10.0, 4, 80.0, 0.0)]), None);
    let often = [noisy(50.0, 4, 1.0, 0.0), noisy(10.0, 4, 80.0, 0.0)];
    assert!(cannot_measure(&often).is_some());
    assert!(cannot_measure(&[noisy(0.0, 4, 90.0, 90.0)]).is_none());
}

#[test]
fn as_many_loops_as_cpus_are_too_many_and_one_less_is_not() {
    for cpus in [1, 2, 4, 64, 256] {
        let loops = |loops: f64, running: f64| {
            let others_percent = 100.0 * loops / running;
            cannot_measure(&[noisy(10.0, cpus, 0.0, others_percent)])
        };
        let n = f64::from(cpus);
        assert_eq!(loops(n - 1.0, n), None, "{cpus}");
        let said = loops(n, n + 1.0).unwrap();
        assert!(said.contains("end what else runs") && said.contains(&format!("({cpus})")));
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
    fn the_limit_lies_between_a_free_cpu_and_none(cpus in 1..100_000_u32) {
        let (n, limit) = (f64::from(cpus), busy_limit_percent(cpus));
        prop_assert!(100.0 * (n - 1.0) / n < limit && limit < 100.0 * n / (n + 1.0));
    }

    #[test]
    fn averages_lie_between_and_pairs_may_be_split(
        shares in prop::collection::vec(
            (0.1..100.0_f64, 1..64_u32, 0.0..50.0_f64, 0.0..50.0_f64),
            1..8,
        ),
    ) {
        let split = |parts: &[f64]| {
            let pairs = shares.iter().flat_map(|(seconds, cpus, steal, others)| {
                parts.iter().map(move |part| noisy(seconds * part, *cpus, *steal, *others))
            });
            Average::of(&pairs.collect::<Vec<_>>()).unwrap()
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
