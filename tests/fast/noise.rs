//! Load of other processes is detected, and work that ktax itself starts does not count as such. No
//! test asserts a time: shares are asserted, with room for a machine that is busy anyway.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

use crate::common::{self, Loops, Need, is_alone, may_use_all, require, run_alone, until};
use ktax::analyse::noise::{cannot_measure, warnings};
use ktax::engine;
use ktax::engine::noise::{Watch, facts};
use ktax::model::{Noise, Sides, TimedBoot, TimedPair, TimesPlan, fact};
use ktax::plan::{Experiment, TimesExperiment};

/// One at a time: what one keeps busy is noise to the others. Each in a process of its own: what a
/// process has waited for is not others' work.
fn alone(name: &str, test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    if is_alone() {
        return test();
    }
    let _one = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    run_alone(&[], &format!("noise::{name}"));
}

fn used(child: &Child) -> u64 {
    ticks(&child.id().to_string(), [11, 12])
}

/// Ticks that they have used so far.
fn used_by_all(loops: &Loops) -> u64 {
    loops.0.iter().map(used).sum()
}

fn ticks(pid: &str, fields: [usize; 2]) -> u64 {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap();
    common::ticks(&stat, fields)
}

fn pair(noise: Noise) -> TimedPair {
    let boot = || TimedBoot { facts: facts(), ..TimedBoot::default() };
    let boots = Sides { base: boot(), change: boot() };
    TimedPair { index: 0, is_control: false, change_first: false, boots, noise }
}

fn plan() -> TimesPlan {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["getppid".into()];
    experiment.asked.subjects.change.prefix = vec!["env".into()];
    let title = String::new();
    let experiment = Experiment { title, seed: 1, threshold_percent: 1.0, method: experiment };
    experiment.plan().unwrap().method
}

#[test]
fn a_machine_whose_cpus_are_all_busy_cannot_measure() {
    alone("a_machine_whose_cpus_are_all_busy_cannot_measure", || {
        let cpus = Watch::start_on(&[]).unwrap().end().unwrap().cpus as usize;
        if !may_use_all(cpus) {
            return;
        }
        let loops = Loops::start(2 * cpus);
        until("all loops run", || loops.0.iter().all(|child| used(child) > 0));
        let watch = Watch::start_on(&[]).unwrap();
        let before = used_by_all(&loops);
        until("the loops have run", || used_by_all(&loops) > before + 50 * cpus as u64);
        let noise = watch.end().unwrap();
        // They have not been waited for, and so are others'.
        assert!(noise.others_percent + noise.steal_percent > 70.0, "{noise:?}");
        assert!(noise.seconds > 0.0, "{noise:?}");
        let warned = warnings(&plan(), &[pair(noise.clone())]);
        assert!(warned.iter().any(|w| w.fact.starts_with("other tasks")), "{warned:?}");
        let taken = format!("a hypervisor took {} % of the CPUs", noise.steal_percent);
        if !require(Need::Quiet, noise.steal_percent <= 1.0, taken) {
            return;
        }
        let message = cannot_measure(&[pair(noise.clone())]).unwrap_or_else(|| panic!("{noise:?}"));
        assert!(message.starts_with("other tasks took"), "{message}");
        assert!(message.ends_with("stop other programs, and measure again"), "{message}");
    });
}

/// The bound holds whatever the machine does besides: a delay anywhere only makes it wider.
#[test]
fn what_own_children_did_is_not_of_others() {
    alone("what_own_children_did_is_not_of_others", || {
        let (outer, waited) = (all_cpus(), ticks("self", [13, 14]));
        let watch = Watch::start_on(&[]).unwrap();
        let inner = all_cpus();
        let loops = Loops::start(1);
        until("the loop has run", || used_by_all(&loops) > 100);
        drop(loops);
        let total = all_cpus().total - inner.total;
        let noise = watch.end().unwrap();
        let (busy, own_ticks) = (all_cpus().busy - outer.busy, ticks("self", [13, 14]) - waited);
        assert!(own_ticks > 100, "{own_ticks}");
        let others = noise.others_percent / 100.0 * total as f64;
        let most = busy.saturating_sub(own_ticks) as f64;
        assert!(others <= most + 2.0, "{others} of {busy} ticks, own {own_ticks}: {noise:?}");
    });
}

/// Ticks of all CPUs: of tasks and interrupts, and all but steal.
struct AllCpus {
    busy: u64,
    total: u64,
}

fn all_cpus() -> AllCpus {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let fields = text.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<u64> = fields.map(|field| field.parse().unwrap()).collect();
    let busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    AllCpus { busy, total: busy + ticks[3] + ticks[4] }
}

#[test]
fn this_machine_says_what_it_is() {
    let facts = facts();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(facts[fact::KERNEL], release.trim());
    assert_eq!(facts[fact::ASLR].len(), 1);
    for name in [fact::BUILD, fact::CPU, fact::CPUS, fact::AFFINITY] {
        assert!(!facts[name].is_empty(), "{facts:?}");
    }
    assert!(facts.values().all(|value| !value.contains(char::is_control)));
}
