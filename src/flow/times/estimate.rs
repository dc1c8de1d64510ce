//! Estimates how long the pairs of a Plan take, and computes rates from finished pairs.

use std::time::Duration;

use crate::flow::remaining::{Rates, estimate_basis, format_duration, format_short_duration};
use crate::model::{RunsOn, Side, TimedBoot, TimedPair, TimesPlan, Workload};
use crate::stats::timed::max_pairs_for;

/// Seconds of a loop of calibrated length, including the start of its process.
const LOOP_S: f64 = 0.025;

/// Seconds of a guest's boot without a stored rate.
const DEFAULT_BOOT_S: f64 = 6.0;

/// Upper bound of the time for all pairs, in words.
pub(in crate::flow) fn estimate(plan: &TimesPlan, rates: &Rates) -> Option<String> {
    if plan.asked.is_in_blocks() {
        return None;
    }
    let pair = pair_time(plan, rates);
    let max_pairs = plan.asked.pairs.unwrap_or(plan.asked.max_pairs);
    let total = format_duration(pair * max_pairs_for(max_pairs as usize) as u32);
    let (pair, basis) =
        (format_short_duration(pair), estimate_basis(rates.has_boots(&engine_key(plan))));
    Some(format!(
        "a pair takes about {pair}, and at most {max_pairs} pairs with their A/A pairs about \
         {total} ({basis})"
    ))
}

fn pair_time(plan: &TimesPlan, rates: &Rates) -> Duration {
    let name = engine_key(plan);
    let loop_s = |row: &str| rates.run_seconds(&name, row).unwrap_or(LOOP_S);
    let loops: f64 = plan.workloads().map(|workload| loop_s(&workload.row)).sum::<f64>()
        * f64::from(plan.asked.loops);
    let boot_s = rates.boots.get(&name).copied().unwrap_or(DEFAULT_BOOT_S);
    let boots = Side::BOTH.map(|side| if plan.asked.is_guest(side) { boot_s } else { 0.0 });
    Duration::try_from_secs_f64(2.0 * loops + boots.iter().sum::<f64>()).unwrap_or_default()
}

/// Rates of the pairs in which no row failed; `None` without such a pair. On the running kernel the
/// start of a process is part of its loop. In guests all time outside of the loops is part of the
/// boot.
pub(super) fn rates_of_pairs(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<Rates> {
    let has_no_failure = |pair: &&TimedPair| {
        let mut runs = boots_of(pair).into_iter().flat_map(|boot| boot.runs.values());
        runs.all(|run| run.failure.is_none())
    };
    let pairs: Vec<&TimedPair> = pairs.iter().filter(has_no_failure).collect();
    let boots = || pairs.iter().flat_map(|pair| boots_of(pair));
    let mut runs: Vec<(&Workload, f64, f64)> = Vec::new();
    for row in plan.workloads() {
        let loops: Vec<f64> = boots().flat_map(|boot| loop_seconds(boot, row)).collect();
        runs.push((row, loops.len() as f64, loops.iter().sum()));
    }
    let count: f64 = runs.iter().map(|(_, count, _)| count).sum();
    let total: f64 = pairs.iter().map(|pair| pair.noise.seconds).sum();
    let outside_s = (total - runs.iter().map(|(.., seconds)| seconds).sum::<f64>()).max(0.0);
    let guests: usize = pairs.iter().map(|pair| guests_of_pair(plan, pair)).sum();
    let (start_s, boot_s) = match plan.asked.runs_on {
        RunsOn::RunningKernel => (outside_s / count, 0.0),
        RunsOn::Guests => (0.0, outside_s / guests as f64),
    };
    let mut rates = Rates::default();
    for (row, count, seconds) in runs.into_iter().filter(|(_, count, _)| *count > 0.0) {
        rates.runs.insert(Rates::run_key(&engine_key(plan), &row.row), seconds / count + start_s);
    }
    rates.boots.insert(engine_key(plan), boot_s);
    (count > 0.0 && boot_s.is_finite()).then_some(rates)
}

/// Key of the engine in rates. Without the prefix, rates of timed guests would mix with those of
/// KVM hosts.
fn engine_key(plan: &TimesPlan) -> String {
    format!("timed-{}", plan.asked.engine)
}

fn boots_of(pair: &TimedPair) -> [&TimedBoot; 2] {
    pair.boots.both()
}

/// Seconds of each loop of a row.
fn loop_seconds(boot: &TimedBoot, row: &Workload) -> Vec<f64> {
    let ns = boot.runs.get(&row.row).map_or(&[][..], |run| &run.loops_ns);
    ns.iter().map(|ns| ns * row.ops as f64 / 1e9).collect()
}

fn guests_of_pair(plan: &TimesPlan, pair: &TimedPair) -> usize {
    let change = if pair.is_control { Side::Base } else { Side::Change };
    [Side::Base, change].into_iter().filter(|side| plan.asked.is_guest(*side)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{host, kvm};
    use crate::model::{Failure, Noise, Sides, TimedRun};
    use crate::plan::{Experiment, TimesExperiment};

    fn plan(mut method: TimesExperiment) -> TimesPlan {
        method.workloads = vec!["getppid".to_owned()];
        let title = "planned".to_owned();
        Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan().unwrap().method
    }

    fn on_host() -> TimesPlan {
        let mut method = TimesExperiment::new(&host::ENGINE);
        method.asked.subjects.change.thp = Some("never".to_owned());
        plan(method)
    }

    #[test]
    fn an_estimate_without_stored_rates_is_called_a_guess() {
        assert_eq!(
            estimate(&on_host(), &Rates::default()).unwrap(),
            "a pair takes about 0.25 s, and at most 200 pairs with their A/A pairs about 1 min 2 s \
             (a guess, because nothing was measured on this machine yet)"
        );
    }

    #[test]
    fn estimates_follow_earlier_runs() {
        let rates = Rates {
            boots: [("timed-host".to_owned(), 0.0)].into(),
            runs: [(Rates::run_key("timed-host", "getppid"), 0.5)].into(),
            ..Rates::default()
        };
        assert_eq!(
            estimate(&on_host(), &rates).unwrap(),
            "a pair takes about 5.0 s, and at most 200 pairs with their A/A pairs about 20 min \
             (based on earlier runs on this machine)"
        );
    }

    #[test]
    fn only_guests_have_boot_time() {
        let rates = Rates {
            boots: [("timed-kvm".to_owned(), 3.0)].into(),
            runs: [(Rates::run_key("timed-kvm", "getppid"), 0.1)].into(),
            ..Rates::default()
        };
        let mut method = TimesExperiment::new(&kvm::ENGINE);
        method.asked.subjects.base.bare_metal = true;
        method.asked.subjects.change.kernel = Some("debian:cloud-amd64".to_owned());
        let plan = plan(method);
        assert_eq!(pair_time(&plan, &rates), Duration::from_secs(4));
        assert_eq!(pair_time(&plan, &Rates::default()), Duration::from_millis(6250));
    }

    fn plan_of_getppid(mut method: TimesExperiment) -> TimesPlan {
        method.workloads = vec!["getppid".to_owned()];
        let title = "planned".to_owned();
        let planned = Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan();
        let mut plan = planned.unwrap().method;
        plan.headline[0].ops = 1000;
        plan
    }

    /// Pair of this length, with two loops of two seconds in each Boot.
    fn took(seconds: f64, is_control: bool) -> TimedPair {
        let run = TimedRun { loops_ns: vec![2e6, 2e6], ..TimedRun::default() };
        let runs = [("getppid".to_owned(), run)].into();
        let boot = TimedBoot { runs, ..TimedBoot::default() };
        let (boots, noise) = (Sides { base: boot.clone(), change: boot }, Noise::default());
        let noise = Noise { seconds, ..noise };
        TimedPair { index: 0, is_control, change_first: false, boots, noise }
    }

    #[test]
    fn time_outside_of_loops_is_part_of_processes_or_boots() {
        let mut method = TimesExperiment::new(&host::ENGINE);
        method.asked.subjects.change.thp = Some("never".to_owned());
        let host_rates =
            rates_of_pairs(&plan_of_getppid(method), &[took(10.0, false), took(9.0, true)])
                .unwrap();
        assert_eq!(host_rates.run_seconds("timed-host", "getppid"), Some(2.0 + 3.0 / 8.0));
        assert!(
            host_rates.has_boots("timed-host") && host_rates.boots["timed-host"] == 0.0,
            "{host_rates:?}"
        );
        let mut method = TimesExperiment::new(&kvm::ENGINE);
        method.asked.subjects.base.bare_metal = true;
        method.asked.subjects.change.kernel = Some("debian:cloud-amd64".to_owned());
        // Both boots of the A/A pair are bare metal.
        let kvm_rates =
            rates_of_pairs(&plan_of_getppid(method), &[took(12.0, false), took(8.0, true)])
                .unwrap();
        assert_eq!(kvm_rates.run_seconds("timed-kvm", "getppid"), Some(2.0));
        assert_eq!(kvm_rates.boots["timed-kvm"], 4.0);
    }

    #[test]
    fn pairs_without_loops_have_no_rates() {
        let mut method = TimesExperiment::new(&host::ENGINE);
        method.asked.subjects.change.thp = Some("never".to_owned());
        let plan = plan_of_getppid(method);
        let without = TimedPair { boots: Sides::default(), ..took(1.0, false) };
        assert_eq!((rates_of_pairs(&plan, &[]), rates_of_pairs(&plan, &[without])), (None, None));
        let mut failed = took(900.0, false);
        let failure = Some(Failure::Garbled { reason: "no time".to_owned() });
        failed.boots.change.runs.get_mut("getppid").unwrap().failure = failure;
        assert_eq!(
            rates_of_pairs(&plan, &[failed, took(8.0, false)]),
            rates_of_pairs(&plan, &[took(8.0, false)])
        );
    }
}
