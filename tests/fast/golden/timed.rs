//! Times: a sweep whose curves cross, a secondary row that fails, names from anywhere, a machine
//! with a warning, kernels that the user boots, and a guest beside bare metal.

use std::collections::BTreeMap;

use ktax::analyse;
use ktax::engine;
use ktax::model::{
    Comparison, Failure, Noise, Plan, Saved, Side, Sides, TimedBlock, TimedBoot, TimedPair,
    TimedRun, TimesPlan, fact,
};
use ktax::plan::{Experiment, ParamValue, TimesExperiment};
use ktax::report::Report;
use ktax::stats::timed::PairOrder;

fn experiment() -> TimesExperiment {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["messaging".into()];
    experiment.secondary = vec!["pipe".into(), "stat".into()];
    experiment.sweep =
        BTreeMap::from([("groups".into(), ["1", "4", "16"].map(ParamValue::parse).to_vec())]);
    experiment.asked.subjects.base.thp = Some("always".into());
    experiment.asked.subjects.change.thp = Some("never".into());
    experiment.asked.subjects.change.prefix = vec!["env".into(), "A=b c".into()];
    experiment
}

/// Times of a Boot: the change is faster with one group and slower with sixteen; `stat` cannot run.
fn boot(plan: &TimesPlan, is_change: bool, number: usize) -> TimedBoot {
    let release = if is_change && plan.asked.is_in_blocks() { "6.12.0" } else { "6.1.0" };
    let facts = [(fact::KERNEL, release), (fact::CPU, "A CPU of 2012"), (fact::CLOCK, "tsc")];
    let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut boot = TimedBoot { facts, ..TimedBoot::default() };
    for (index, workload) in plan.workloads().enumerate() {
        let loop_ns = |turn: usize| {
            let noise =
                1.0 + 0.004 * ((number * 7919 + turn * 104_729 + index * 31) % 101) as f64 / 50.0;
            let change = match index {
                0 if is_change => 0.94,
                2 if is_change => 1.07,
                _ => 1.0,
            };
            1000.0 * (index + 1) as f64 * noise * change
        };
        let mut run = TimedRun { loops_ns: (0..3).map(loop_ns).collect(), ..TimedRun::default() };
        if workload.program == "stat" && is_change {
            let message = "no such file: \u{1b}[31m/tmp".to_owned();
            run = TimedRun { failure: Some(Failure::Refused { message }), ..TimedRun::default() };
        }
        boot.runs.insert(workload.row.clone(), run);
    }
    boot
}

fn noise() -> Noise {
    Noise { seconds: 2.0, cpus: 4, others_percent: 11.5, ..Noise::default() }
}

fn planned(method: TimesExperiment) -> Plan<TimesPlan> {
    let title = "always against never".to_owned();
    Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan().unwrap()
}

fn compared_pairs(plan: &Plan<TimesPlan>) -> Comparison {
    let mut pairs: Vec<TimedPair> = Vec::new();
    for (slot, index) in PairOrder::new(plan.seed).zip(0..) {
        if !analyse::wants_more(plan, &pairs) {
            break;
        }
        let change = boot(&plan.method, !slot.is_control, 2 * index as usize + 1);
        let boots = Sides { base: boot(&plan.method, false, 2 * index as usize), change };
        let (is_control, change_first) = (slot.is_control, slot.change_first);
        pairs.push(TimedPair { index, is_control, change_first, boots, noise: noise() });
    }
    analyse::times(plan, &pairs)
}

fn swept() -> Comparison {
    compared_pairs(&planned(experiment()))
}

fn in_blocks() -> Comparison {
    let mut booted = experiment();
    booted.asked.subjects.base.kernel = Some("6.1".into());
    booted.asked.subjects.change.kernel = Some("6.12".into());
    let plan = planned(booted);
    let block = |side, index| TimedBlock {
        index,
        side,
        boot_id: format!("boot-{index}"),
        boots: (0..3).map(|turn| boot(&plan.method, side == Side::Change, turn)).collect(),
        noise: noise(),
    };
    analyse::compare_blocks(&plan, &[block(Side::Base, 0), block(Side::Change, 1)])
}

fn on_bare_metal() -> Comparison {
    let mut guest = experiment();
    guest.asked.engine = engine::kvm::ENGINE.name.into();
    guest.asked.runs_on = engine::kvm::ENGINE.runs_on;
    (guest.asked.subjects.base, guest.asked.subjects.change) = Default::default();
    guest.asked.subjects.base.bare_metal = true;
    guest.asked.subjects.change.kernel = Some("debian:cloud-amd64".into());
    compared_pairs(&planned(guest))
}

/// Every comparison of times by the name of its files.
pub fn all() -> Vec<(&'static str, Saved)> {
    let cases =
        [("timed", swept()), ("timed-blocks", in_blocks()), ("timed-bare-metal", on_bare_metal())];
    cases.map(|(name, comparison)| (name, comparison.saved())).into()
}
