use crate::number::{count, measured, percent_range, whole};
use ktax_model::{COUNTERS, Counter, ELAPSED, StatRow};

/// The counter of a row.
pub fn counter(row: &StatRow) -> &'static Counter {
    let known = |counter: &&Counter| counter.name == row.counter;
    COUNTERS.iter().find(known).unwrap_or(&ELAPSED)
}

/// Times in milliseconds, everything else as it is.
pub fn value(counter: &Counter, value: f64) -> String {
    match counter.unit {
        "ns" => count(value / 1e6),
        _ if value.fract() == 0.0 => whole(value),
        _ => measured(value),
    }
}

/// How far values lie apart, in percent.
pub fn spread(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2}") }
}

/// From the least to the most, in percent.
pub fn range([low, high]: [f64; 2]) -> String {
    percent_range(Some(low), Some(high))
}

/// In how many percent of the time something was counted that shared the CPU's counters.
pub fn share(row: &StatRow) -> Option<f64> {
    let least = row.repeats.iter().map(|seen| seen.counted_percent).fold(100.0, f64::min);
    (least < 99.95).then_some(least)
}
