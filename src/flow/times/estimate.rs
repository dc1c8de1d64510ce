//! How long the pairs of a Plan take.

use std::time::Duration;

use super::rates::name;
use crate::flow::remaining::{Rates, basis, precisely, spoken};
use crate::model::{Side, TimesPlan};
use crate::stats::timed::drawn_for;

/// A loop is calibrated to this, beside what starting its process takes.
const LOOP_S: f64 = 0.025;

/// A guest's boot, where nothing is known.
const BOOT_S: f64 = 6.0;

/// How long the pairs take at most, in words.
pub(in crate::flow) fn estimate(plan: &TimesPlan, rates: &Rates) -> Option<String> {
    if plan.is_in_blocks() {
        return None;
    }
    let pair = pair(plan, rates);
    let most = plan.pairs.unwrap_or(plan.most_pairs);
    let all = spoken(pair * drawn_for(most as usize) as u32);
    let (pair, basis) = (precisely(pair), basis(rates.knows(&name(plan))));
    Some(format!(
        "a pair takes about {pair}, and at most {most} pairs with their A/A pairs about {all} \
         ({basis})"
    ))
}

/// A pair of both Sides.
fn pair(plan: &TimesPlan, rates: &Rates) -> Duration {
    let name = name(plan);
    let row = |row: &str| rates.learned(&name, row).unwrap_or(LOOP_S);
    let loops: f64 = plan.workloads().map(|it| row(&it.row)).sum::<f64>() * f64::from(plan.loops);
    let of_guest = rates.boots.get(&name).copied().unwrap_or(BOOT_S);
    let boots = Side::BOTH.map(|side| if plan.is_guest(side) { of_guest } else { 0.0 });
    Duration::try_from_secs_f64(2.0 * loops + boots.iter().sum::<f64>()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{host, kvm};
    use crate::plan::{Experiment, TimesExperiment};

    fn plan(mut method: TimesExperiment) -> TimesPlan {
        method.workloads = vec!["getppid".to_owned()];
        let title = "planned".to_owned();
        Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan().unwrap().method
    }

    fn on_host() -> TimesPlan {
        let mut method = TimesExperiment::new(&host::ENGINE);
        method.change.thp = Some("never".to_owned());
        plan(method)
    }

    #[test]
    fn the_whole_is_what_its_pairs_take_and_a_guess_is_called_one() {
        assert_eq!(
            estimate(&on_host(), &Rates::default()).unwrap(),
            "a pair takes about 0.25 s, and at most 200 pairs with their A/A pairs about 1 min 2 s \
             (a guess, because nothing was measured on this machine yet)"
        );
    }

    #[test]
    fn what_earlier_runs_took_is_what_is_expected() {
        let rates = Rates {
            boots: [("timed-host".to_owned(), 0.0)].into(),
            runs: [(Rates::row("timed-host", "getppid"), 0.5)].into(),
            ..Rates::default()
        };
        assert_eq!(
            estimate(&on_host(), &rates).unwrap(),
            "a pair takes about 5.0 s, and at most 200 pairs with their A/A pairs about 20 min (as \
             earlier runs on this machine took)"
        );
    }

    #[test]
    fn a_guest_boots_and_bare_metal_does_not() {
        let rates = Rates {
            boots: [("timed-kvm".to_owned(), 3.0)].into(),
            runs: [(Rates::row("timed-kvm", "getppid"), 0.1)].into(),
            ..Rates::default()
        };
        let mut method = TimesExperiment::new(&kvm::ENGINE);
        method.base.bare_metal = true;
        method.change.kernel = Some("debian:cloud-amd64".to_owned());
        let plan = plan(method);
        assert_eq!(pair(&plan, &rates), Duration::from_secs(4));
        assert_eq!(pair(&plan, &Rates::default()), Duration::from_millis(6250));
    }
}
