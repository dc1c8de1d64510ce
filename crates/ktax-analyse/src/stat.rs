//! Runs of commands become a table of Counters.

use ktax_model::{
    COUNTERS, Count, Counted, Counter, ELAPSED, MedianInterval, Repeats, StatChange, StatRow,
};
use ktax_stats::repeats::{median_between, paired_change};
use ktax_stats::tables::{mean, median, spread_percent};

/// One row for each Counter, of one command's runs, or of base's and change's; of these the first
/// belongs to the first, and so on.
pub fn counters(commands: &[Vec<Counted>]) -> Vec<StatRow> {
    COUNTERS.iter().chain([&ELAPSED]).map(|counter| row(counter, commands)).collect()
}

fn row(counter: &Counter, commands: &[Vec<Counted>]) -> StatRow {
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

/// What a command's runs counted, or why not all of them did.
fn repeats(counter: &Counter, runs: &[Counted]) -> Result<Repeats, String> {
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
        let of = |values: &[f64]| cycles(&[runs(values)]).repeats[0].spread_percent;
        assert_eq!(of(&[1.0]), None);
        assert_eq!(of(&[0.0, 0.0]), None);
        assert_eq!(of(&[0.0, 1.0]), None);
        assert_eq!(of(&[1.0, 1.5]), Some(50.0));
    }
}
