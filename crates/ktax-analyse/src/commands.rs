//! Runs of a command: the table of its Counters, and the differences between two traces.

use std::collections::{BTreeMap, BTreeSet};

use ktax_model::{
    Count, Counted, ELAPSED, MedianInterval, Repeats, STAT_COUNTERS, StatChange, StatCounter,
    StatRow, TracedCall,
};
use ktax_stats::repeats::{median_between, paired_change};
use ktax_stats::tables::{mean, median, spread_percent};

/// The table of one command's runs, or of base's and change's; one row for each counter. The first
/// run of base belongs to the first of change, and so on.
pub fn counters(commands: &[Vec<Counted>]) -> Vec<StatRow> {
    STAT_COUNTERS.iter().chain([&ELAPSED]).map(|counter| row(counter, commands)).collect()
}

fn row(counter: &StatCounter, commands: &[Vec<Counted>]) -> StatRow {
    let seen: Result<Vec<Repeats>, String> =
        commands.iter().map(|runs| repeats(counter, runs)).collect();
    let (repeats, uncounted) = match seen {
        Ok(repeats) => (repeats, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let change = match repeats.as_slice() {
        [base, change] => paired_change(&base.values, &change.values),
        _ => None,
    };
    let change = change
        .map(|paired| StatChange { percent: paired.percent, interval_percent: paired.between });
    let (counter, unit) = (counter.name.to_owned(), counter.unit.to_owned());
    StatRow { counter, unit, repeats, uncounted, change }
}

/// Values of one StatCounter in all runs of a command, or why a run has none.
fn repeats(counter: &StatCounter, runs: &[Counted]) -> Result<Repeats, String> {
    let (mut values, mut least_counted) = (Vec::new(), 100.0_f64);
    for run in runs {
        match run.get(counter.name) {
            Some(Count::Seen { value, counted_percent }) => {
                values.push(*value);
                least_counted = least_counted.min(*counted_percent);
            }
            Some(Count::Not(reason)) => return Err(reason.clone()),
            None => return Err("nobody asked for it; run `ktax doctor`".to_owned()),
        }
    }
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let interval = median_between(&sorted).map(|between| MedianInterval {
        low: between.low,
        high: between.high,
        level_percent: between.level * 100.0,
    });
    Ok(Repeats {
        mean: mean(&values).unwrap_or_default(),
        median: median(&values).unwrap_or_default(),
        spread_percent: spread_percent(&values).filter(|s| s.is_finite() && values.len() > 1),
        interval,
        counted_percent: least_counted,
        values,
        sorted,
    })
}

/// Differences between two runs, by the number of the system call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDifference {
    /// Number of calls that returned something else in the other run.
    pub given: BTreeMap<u16, u64>,
    /// Calls at which a thread or process took another way than in the other run.
    pub apart: BTreeSet<u16>,
    /// Set if one of the traces was cut off, so that its end is not known.
    pub is_cut: bool,
}

/// Compares each thread and process with its counterpart in the other run, up to the call at which
/// they go apart. The end of a trace that was cut off is no difference.
pub fn between_traces(one: &[TracedCall], other: &[TracedCall]) -> TraceDifference {
    let is_cut = one.len().max(other.len()) >= TracedCall::MOST;
    let (one, other) = (by_task(one), by_task(other));
    let mut difference = TraceDifference { is_cut, ..TraceDifference::default() };
    let tasks: BTreeSet<u16> = one.keys().chain(other.keys()).copied().collect();
    for task in tasks {
        let [one, other] = [&one, &other]
            .map(|tasks_of_run| tasks_of_run.get(&task).map_or(&[][..], Vec::as_slice));
        let together = one.iter().zip(other).take_while(|(a, b)| a.number == b.number);
        for (call, _) in together.clone().filter(|(a, b)| a.given != b.given) {
            *difference.given.entry(call.number).or_default() += 1;
        }
        let after = together.count();
        let has_gone_apart = !is_cut || (one.len() > after && other.len() > after);
        let next = one.get(after).or(other.get(after)).filter(|_| has_gone_apart);
        difference.apart.extend(next.map(|call| call.number));
    }
    difference
}

fn by_task(calls: &[TracedCall]) -> BTreeMap<u16, Vec<TracedCall>> {
    let mut tasks: BTreeMap<u16, Vec<TracedCall>> = BTreeMap::new();
    for call in calls {
        tasks.entry(call.task).or_default().push(*call);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ten cycle counts of 2009, in another order.
    const CYCLES: [f64; 10] = [
        3914423870.0,
        3906920196.0,
        3919907192.0,
        3907556124.0,
        3907902335.0,
        3915642464.0,
        3916134988.0,
        3916840093.0,
        3918777174.0,
        3918993251.0,
    ];

    fn runs(values: &[f64]) -> Vec<Counted> {
        let seen = |value: &f64| Count::Seen { value: *value, counted_percent: 90.0 };
        values.iter().map(|value| Counted::from([("cycles", seen(value))])).collect()
    }

    fn cycles(commands: &[Vec<Counted>]) -> StatRow {
        counters(commands).into_iter().find(|row| row.counter == "cycles").unwrap()
    }

    #[test]
    fn the_postscript_of_2009() {
        let row = cycles(&[runs(&CYCLES)]);
        let [seen] = row.repeats.as_slice() else { panic!("{row:?}") };
        assert_eq!(seen.values, CYCLES);
        assert_eq!((seen.sorted[0], seen.sorted[9]), (3906920196.0, 3919907192.0));
        // "The max/min spread of 10 runs is 0.3%".
        assert_eq!(format!("{:.2}", seen.spread_percent.unwrap()), "0.33");
        // "... so the precision of this measurement is in the 0.1% range."
        let interval = seen.interval.unwrap();
        assert_eq!((interval.low, interval.high), (3907556124.0, 3918993251.0));
        let half = (interval.high - interval.low) / 2.0 / seen.median * 100.0;
        assert_eq!(format!("{half:.2}"), "0.15");
        assert_eq!(seen.counted_percent, 90.0);
    }

    #[test]
    fn the_change_is_the_second_commands() {
        let more: Vec<f64> = CYCLES.iter().map(|value| value * 1.25).collect();
        let percent = |base: &[f64], change: &[f64]| {
            format!("{:+.6}", cycles(&[runs(base), runs(change)]).change.unwrap().percent)
        };
        assert_eq!(percent(&CYCLES, &more), "+25.000000");
        assert_eq!(percent(&more, &CYCLES), "-20.000000");
        assert_eq!(cycles(&[runs(&CYCLES)]).change, None);
    }

    #[test]
    fn what_one_run_did_not_count_is_not_counted() {
        let mut some = runs(&CYCLES);
        some[3].insert("cycles", Count::Not("why; what next".to_owned()));
        let row = cycles(&[runs(&CYCLES), some]);
        assert_eq!((row.repeats.len(), row.uncounted.as_deref()), (0, Some("why; what next")));
    }

    #[test]
    fn one_run_has_no_spread_and_zero_no_relative_one() {
        let spread = |values: &[f64]| cycles(&[runs(values)]).repeats[0].spread_percent;
        assert_eq!(spread(&[1.0]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
        assert_eq!(spread(&[0.0, 1.0]), None);
        assert_eq!(spread(&[1.0, 1.5]), Some(50.0));
    }

    fn calls(entries: &[(u16, u16, u32)]) -> Vec<TracedCall> {
        entries.iter().map(|&(task, number, given)| TracedCall { task, number, given }).collect()
    }

    #[test]
    fn tasks_are_compared_one_by_one_up_to_where_they_go_apart() {
        let one = calls(&[(0, 96, 1), (1, 39, 5), (0, 96, 2), (0, 1, 9), (0, 96, 3)]);
        let other = calls(&[(0, 96, 1), (0, 96, 7), (0, 0, 9), (0, 96, 4), (1, 39, 6)]);
        let difference = between_traces(&one, &other);
        assert_eq!(difference.given, [(96, 1), (39, 1)].into());
        assert_eq!(difference.apart, [1].into());
        assert_eq!(between_traces(&one, &one), TraceDifference::default());
    }

    #[test]
    fn a_run_that_ends_earlier_went_apart_there() {
        let one = calls(&[(0, 96, 1), (0, 24, 2), (1, 39, 1)]);
        assert_eq!(between_traces(&one, &one[..1]).apart, [24, 39].into());
        assert_eq!(between_traces(&[], &one[..2]).apart, [96].into());
        let cut = calls(&[(0, 96, 1); TracedCall::MOST]);
        let nothing = TraceDifference { is_cut: true, ..TraceDifference::default() };
        assert_eq!(between_traces(&cut, &cut[1..]), nothing);
    }
}
