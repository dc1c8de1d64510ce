use std::time::Duration;

use super::*;
use crate::model::{Side, Step};
use crate::run::Event;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn work(boots: usize, jobs: usize) -> Work {
    let rows = ["fast", "slow"].map(str::to_owned).to_vec();
    Work { engine: "exact".into(), boots, rows, jobs }
}

fn rates() -> Rates {
    let runs = [("exact/fast".to_owned(), 1.0), ("exact/slow".to_owned(), 9.0)].into();
    Rates { boots: [("exact".to_owned(), 5.0)].into(), runs, ..Rates::default() }
}

fn step(index: u32) -> Step {
    Step { index, side: Side::Base, layout: 0 }
}

/// Runs one boot after the other with these lengths, and calls `observe` each second.
fn run_boots(
    remaining: &mut RemainingRuns,
    boots: usize,
    [boot, fast, slow]: [f64; 3],
    mut observe: impl FnMut(&mut RemainingRuns, Duration),
) -> Duration {
    let mut now = Duration::ZERO;
    let mut next = Duration::ZERO;
    let mut advance = |remaining: &mut RemainingRuns, now: &mut Duration, length: f64| {
        let end = *now + seconds(length);
        while next < end {
            observe(remaining, next);
            next += seconds(1.0);
        }
        *now = end;
    };
    for index in 0..boots {
        let step = step(index as u32);
        remaining.event(now, &Event::Found(&step, 0));
        remaining.event(now, &Event::Booting(&step));
        advance(remaining, &mut now, boot);
        for (row, length) in [("fast", fast), ("slow", slow)] {
            remaining.event(now, &Event::Running(&step, row));
            advance(remaining, &mut now, length);
            remaining.event(now, &Event::Done(&step, 1));
        }
    }
    now
}

#[test]
fn boots_and_runs_have_separate_rates() {
    let mut remaining = RemainingRuns::new(rates());
    remaining.begin(work(4, 1));
    assert_eq!(remaining.left(Duration::ZERO), seconds(60.0));
    // With the known rates the estimate is a countdown.
    let end = run_boots(&mut remaining, 4, [5.0, 1.0, 9.0], |remaining, now| {
        let left = remaining.left(now);
        assert!(left.abs_diff(seconds(60.0) - now) < seconds(0.001), "{left:?} at {now:?}");
    });
    assert_eq!((end, remaining.left(end)), (seconds(60.0), Duration::ZERO));
    assert_eq!(remaining.run_counts(), (8, 8));
}

/// Runs that are slower or faster than known, and runs without known rates.
#[test]
fn time_left_grows_by_at_most_the_time_passed_and_ends_at_zero() {
    for (known, lengths) in [
        (rates(), [50.0, 10.0, 1.0]),
        (rates(), [0.1, 0.1, 0.1]),
        (Rates::default(), [5.0, 1.0, 9.0]),
        (Rates::default(), [100.0, 0.0, 300.0]),
    ] {
        let mut remaining = RemainingRuns::new(known);
        remaining.begin(work(10, 1));
        let mut last: Option<(Duration, Duration)> = None;
        let end = run_boots(&mut remaining, 10, lengths, |remaining, now| {
            let left = remaining.left(now);
            if let Some((then, before)) = last {
                assert!(left <= before + (now - then), "{before:?} became {left:?} at {now:?}");
            }
            last = Some((now, left));
        });
        assert_eq!(remaining.left(end), Duration::ZERO, "{lengths:?}");
    }
}

/// After 60 % of the run the estimate is within 20 % of the time left.
#[test]
fn this_run_soon_outweighs_learned_rates() {
    let mut remaining = RemainingRuns::new(rates());
    remaining.begin(work(50, 1));
    let lengths = [10.0, 2.0, 18.0];
    let total = 50.0 * 30.0;
    run_boots(&mut remaining, 50, lengths, |remaining, now| {
        let (left, truth) = (remaining.left(now).as_secs_f64(), total - now.as_secs_f64());
        if now >= seconds(total * 0.6) {
            assert!((left / truth - 1.0).abs() < 0.2 || truth < 60.0, "{left} for {truth}");
        }
    });
    assert_eq!(remaining.rates().boots["exact"], 10.0);
    assert_eq!(remaining.rates().runs["exact/slow"], 18.0);
}

#[test]
fn found_results_take_no_time_and_vms_share_the_rest() {
    let mut remaining = RemainingRuns::new(rates());
    remaining.begin(work(4, 2));
    assert_eq!(remaining.left(Duration::ZERO), seconds(30.0));
    remaining.event(Duration::ZERO, &Event::Found(&step(0), 2));
    remaining.event(Duration::ZERO, &Event::Found(&step(1), 1));
    assert_eq!(remaining.run_counts(), (3, 8));
    // Two whole boots, and one without its last row: 15 + 15 + 14 s on two VMs.
    assert_eq!(remaining.left(Duration::ZERO), seconds(22.0));
    remaining.event(Duration::ZERO, &Event::Booting(&step(2)));
    remaining.event(seconds(1.0), &Event::Done(&step(2), 2));
    assert_eq!(remaining.run_counts(), (5, 8));
}

#[test]
fn estimates_cover_all_parts() {
    let mut remaining = RemainingRuns::new(rates());
    let part = |index, count| Part { index, count, shares_base: false };
    remaining.part(part(0, 3));
    remaining.begin(work(2, 1));
    assert_eq!(remaining.left(Duration::ZERO), seconds(90.0));
    run_boots(&mut remaining, 2, [5.0, 1.0, 9.0], |_, _| ());
    remaining.part(part(1, 3));
    remaining.begin(work(2, 1));
    assert_eq!((remaining.left(seconds(30.0)), remaining.run_counts()), (seconds(60.0), (4, 12)));
    // A search may find more places, and its estimate then jumps.
    remaining.part(part(1, 4));
    assert_eq!(remaining.left(seconds(30.0)), seconds(90.0));
}

#[test]
fn a_base_that_all_parts_share_is_measured_once() {
    let mut remaining = RemainingRuns::new(rates());
    remaining.part(Part { index: 0, count: 3, shares_base: true });
    remaining.begin(work(2, 1));
    // Base and change take 15 s each; then come two changes.
    assert_eq!(remaining.left(Duration::ZERO), seconds(60.0));
}

/// The first run takes an hour, and each pair of the second a second.
#[test]
fn only_pairs_of_the_same_run_give_the_pace() {
    let mut pairs = RemainingPairs::default();
    let part = |index| Part { index, count: 3, shares_base: false };
    pairs.part(part(0));
    assert_eq!(pairs.left(seconds(0.0), 0, Some(10)), None);
    // Nine pairs of this run, and ten of each later one.
    assert_eq!(pairs.left(seconds(360.0), 1, Some(10)), Some(seconds(360.0 * 29.0)));
    assert_eq!(pairs.left(seconds(3600.0), 10, Some(10)), Some(seconds(3600.0 * 2.0)));
    pairs.part(part(1));
    assert_eq!(pairs.left(seconds(3600.0), 0, Some(10)), None);
    assert_eq!(pairs.left(seconds(3601.0), 1, Some(10)), Some(seconds(19.0)));
    // After a slow pair the estimate grows by the time that has passed.
    assert_eq!(pairs.left(seconds(3651.0), 2, Some(10)), Some(seconds(69.0)));
    // With more pairs the estimate jumps.
    assert_eq!(pairs.left(seconds(3651.0), 2, Some(20)), Some(seconds(51.0 / 2.0 * 38.0)));
}

#[test]
fn a_resumed_run_counts_only_its_own_pairs() {
    let mut pairs = RemainingPairs::default();
    assert_eq!(pairs.left(seconds(5.0), 6, Some(10)), None);
    assert_eq!(pairs.left(seconds(8.0), 7, Some(10)), Some(seconds(9.0)));
    // Before the pilot has ended the number of pairs is unknown.
    assert_eq!(pairs.left(seconds(11.0), 8, None), None);
}

#[test]
fn short_durations_have_two_digits() {
    for (time, shown) in [
        (0.0, "0.000 s"),
        (0.0123, "0.012 s"),
        (0.25, "0.25 s"),
        (0.999, "1.0 s"),
        (1.25, "1.2 s"),
        (9.96, "10 s"),
        (12.5, "13 s"),
        (200.0, "3 min 20 s"),
    ] {
        assert_eq!(format_short_duration(seconds(time)), shown);
    }
}

#[test]
fn durations_have_at_most_two_units() {
    for (time, shown) in [
        (0.0, "0 s"),
        (0.2, "1 s"),
        (59.0, "59 s"),
        (200.0, "3 min 20 s"),
        (1500.0, "25 min"),
        (3900.0, "1 h 5 min"),
    ] {
        assert_eq!(format_duration(seconds(time)), shown);
    }
}

fn task(done: u64, total: Option<u64>) -> KernelTask {
    KernelTask { kind: TaskKind::Compile, what: "src:linux".into(), done, total, is_over: false }
}

#[test]
fn a_build_is_estimated_by_default_rates_and_then_by_its_pace() {
    let mut remaining = RemainingTask::new(Rates::default(), 2);
    let text = remaining.update(seconds(10.0), &task(0, Some(1000))).unwrap();
    assert!(text.starts_with("compiling src:linux takes about 5 min 50 s (a guess"), "{text}");
    // The estimate is announced once.
    assert_eq!(remaining.update(seconds(11.0), &task(1, Some(1000))), None);
    let line = remaining.line(seconds(30.0), &task(50, Some(1000)));
    assert_eq!(line, "compiling src:linux: 50 of 1000 files, about 5 min 33 s left");
    let line = remaining.line(seconds(210.0), &task(500, Some(1000)));
    assert_eq!(line, "compiling src:linux: 500 of 1000 files, about 3 min 20 s left");
    assert_eq!(remaining.line(seconds(9.0), &task(7, None)), "compiling src:linux: 7 files");
}

#[test]
fn the_rate_of_a_build_predicts_the_next_build() {
    let mut remaining = RemainingTask::new(Rates::default(), 2);
    remaining.update(seconds(0.0), &task(0, Some(1000)));
    remaining.update(seconds(800.0), &KernelTask { is_over: true, ..task(800, Some(1000)) });
    let learned = remaining.measured_rates();
    assert_eq!(learned.tasks["compile"], 1.0);
    let mut next = RemainingTask::new(learned, 2);
    let text = next.update(seconds(0.0), &task(0, Some(600))).unwrap();
    assert!(text.ends_with("takes about 10 min (based on earlier runs on this machine)"), "{text}");
    // Short builds give no rate, and are not announced.
    next.update(seconds(1.0), &KernelTask { is_over: true, ..task(5, Some(600)) });
    assert_eq!(next.measured_rates().tasks.len(), 0);
    assert_eq!(next.update(seconds(1.0), &task(0, Some(3))), None);
}

#[test]
fn a_download_is_shown_in_mebibytes() {
    let download = |done| {
        let (kind, what) = (TaskKind::Download, "linux-source-6.1".into());
        KernelTask { kind, what, done, total: Some(133 << 20), is_over: false }
    };
    let mut remaining = RemainingTask::new(Rates::default(), 2);
    remaining.update(seconds(0.0), &download(0));
    let line = remaining.line(seconds(10.0), &download(66 << 20));
    assert_eq!(line, "downloading linux-source-6.1: 66 of 133 MiB, about 11 s left");
}
