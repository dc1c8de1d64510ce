//! Times: a sweep whose curves cross, a secondary row that fails, names from anywhere, a machine
//! with a warning, kernels that the user boots, and a guest beside bare metal.

use std::collections::BTreeMap;

use ktax::analyse;
use ktax::model::{
    Failure, Noise, Side, Sides, TimedBlock, TimedBoot, TimedComparison, TimedEngine, TimedPair,
    TimedPlan, TimedRun, fact,
};
use ktax::plan::{TimedExperiment, Value};
use ktax::report::{self, Format, TextOptions};
use ktax::stats::timed::Order;

use super::check;

fn experiment() -> TimedExperiment {
    let mut experiment = TimedExperiment::of("always against never".into(), TimedEngine::Host);
    experiment.workloads = vec!["messaging".into()];
    experiment.secondary = vec!["pipe".into(), "stat".into()];
    experiment.sweep =
        BTreeMap::from([("groups".into(), ["1", "4", "16"].map(Value::of).to_vec())]);
    experiment.base.thp = Some("always".into());
    experiment.change.thp = Some("never".into());
    experiment.change.prefix = vec!["env".into(), "A=b c".into()];
    experiment
}

/// Times of a Boot: the change is faster with one group and slower with sixteen; `stat` cannot run.
fn boot(plan: &TimedPlan, is_change: bool, number: usize) -> TimedBoot {
    let release = if is_change && plan.is_in_blocks() { "6.12.0" } else { "6.1.0" };
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

fn of_pairs(plan: &TimedPlan) -> TimedComparison {
    let mut pairs: Vec<TimedPair> = Vec::new();
    for (slot, index) in Order::new(plan.seed).zip(0..) {
        if !analyse::wants_more(plan, &pairs) {
            break;
        }
        let change = boot(plan, !slot.is_control, 2 * index as usize + 1);
        let boots = Sides { base: boot(plan, false, 2 * index as usize), change };
        let (is_control, change_first) = (slot.is_control, slot.change_first);
        pairs.push(TimedPair { index, is_control, change_first, boots, noise: noise() });
    }
    analyse::timed(plan, &pairs)
}

fn show(comparison: &TimedComparison, format: Format) -> String {
    report::timed(comparison, &format).unwrap()
}

fn text(comparison: &TimedComparison, width: u16, colour: bool) -> String {
    show(comparison, Format::Text(TextOptions { width, colour }))
}

#[test]
fn comparisons_of_times_look_as_expected() {
    let swept = of_pairs(&experiment().plan().unwrap());
    for width in [80, 100] {
        let shown = text(&swept, width, false);
        assert!(shown.lines().all(|line| line.chars().count() <= width.into()), "{shown}");
        check(&format!("timed.{width}.txt"), &shown);
    }
    check("timed-colour.txt", &text(&swept, 80, true));
    for (format, extension) in
        [(Format::Markdown, "md"), (Format::Csv, "csv"), (Format::Json, "json")]
    {
        check(&format!("timed.{extension}"), &show(&swept, format));
    }
}

#[test]
fn blocks_say_what_they_cost_and_guests_what_they_keep() {
    let mut booted = experiment();
    booted.base.kernel = Some("6.1".into());
    booted.change.kernel = Some("6.12".into());
    let plan = booted.plan().unwrap();
    let block = |side, index| TimedBlock {
        index,
        side,
        boot_id: format!("boot-{index}"),
        boots: (0..3).map(|turn| boot(&plan, side == Side::Change, turn)).collect(),
        noise: noise(),
    };
    let blocks = [block(Side::Base, 0), block(Side::Change, 1)];
    let comparison = analyse::in_blocks(&plan, &blocks);
    check("timed-blocks.80.txt", &text(&comparison, 80, false));
    let mut guest = experiment();
    guest.engine = TimedEngine::Kvm;
    (guest.base, guest.change) = Default::default();
    guest.base.bare_metal = true;
    guest.change.kernel = Some("debian:cloud-amd64".into());
    check("timed-bare-metal.80.txt", &text(&of_pairs(&guest.plan().unwrap()), 80, false));
}
