//! Formats numbers for people.

/// Nanoseconds per microsecond. Times are kept in ns, and times of exits are printed in µs.
pub const US: f64 = 1000.0;

/// Divides a count of a region by the number of its operations; 0 operations count as 1.
pub fn per_op(count: u64, ops: u64) -> f64 {
    count as f64 / ops.max(1) as f64
}

/// Formats a count per operation, which is not negative: `9 178.25`. Only zero is `0`; smaller
/// counts than 0.001 are `<0.001`.
pub fn count(value: f64) -> String {
    let text = digits(value);
    if value != 0.0 && is_zero(&text) { "<0.001".to_owned() } else { text }
}

/// Formats a difference of counts: `+642.25`. Only zero is `0`; a difference that is rounded to
/// zero keeps its sign: `-0.000`.
pub fn delta(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{}{}", sign(value), digits(value.abs())) }
}

/// Formats a difference in percent, without `%`: `+1.05`. Only zero is `0`; a difference that is
/// rounded to zero keeps its sign: `-0.00`. `None`, from a base of 0, is `new`.
pub fn percent(value: Option<f64>) -> String {
    match value {
        None => "new".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if value.abs() >= 1000.0 => {
            format!("{}{}", sign(value), fixed(value.abs(), 0))
        }
        Some(value) => format!("{value:+.2}"),
    }
}

/// Formats a range in percent: `+1.02…1.09`, `-12.9…-12.7`; one number if both ends have the same
/// text. To keep the column narrow, a second `+` is omitted, and ends from 10 % on have one
/// decimal.
pub fn percent_range(low: Option<f64>, high: Option<f64>) -> String {
    let end = |value: Option<f64>| match value {
        Some(value) if (10.0..1000.0).contains(&value.abs()) => format!("{value:+.1}"),
        other => percent(other),
    };
    let both_positive = low.zip(high).is_some_and(|(low, high)| low > 0.0 && high > 0.0);
    let (low, high) = (end(low), end(high));
    if low == high {
        return low;
    }
    // `-0.00…+0.00` would look like no difference.
    if [&low, &high].iter().all(|end| is_zero(end)) {
        return "±<0.01".to_owned();
    }
    let high = high.strip_prefix('+').filter(|_| both_positive).unwrap_or(&high);
    format!("{low}…{high}")
}

/// Formats a limit above 0 in percent, never rounded down.
pub fn limit(value: f64) -> String {
    // 1e-6 less before rounding up: 0.1 % of a base may be computed as 0.10000000000000002 %.
    match value >= 1000.0 {
        // Such a limit means that nothing could be detected; its size does not matter.
        true => ">999".to_owned(),
        false => format!("{:.2}", ((value * 100.0 - 1e-6).ceil() / 100.0).max(0.01)),
    }
}

/// Formats a limit that a printed [`percent`] is not below, rounded in the same way.
pub fn reached(value: f64) -> String {
    match value >= 1000.0 {
        true => whole(value),
        false if value < 0.005 => "<0.01".to_owned(),
        false => format!("{value:.2}"),
    }
}

/// Formats an exponent: `0.28`; `0.00` has no sign.
pub fn power(value: f64) -> String {
    format!("{:.2}", (value * 100.0).round() / 100.0 + 0.0)
}

/// Formats a whole number: `1 957 153 827`.
pub fn whole(value: f64) -> String {
    fixed(value, 0)
}

/// Formats a number with a fixed number of decimals; if `is_delta`, a positive number begins with
/// `+`.
pub fn with_decimals(value: f64, decimals: usize, is_delta: bool) -> String {
    match is_delta {
        true => format!("{}{}", sign(value), fixed(value.abs(), decimals)),
        false => fixed(value, decimals),
    }
}

/// Formats the value of a clock or a counter: four significant digits, whole numbers from 1000 on.
pub fn measured(value: f64) -> String {
    let decimals = match value.abs() {
        m if m == 0.0 || m >= 1000.0 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 => 3,
        _ => 4,
    };
    fixed(value, decimals)
}

/// Formats a number with decimals that depend on its size: three below 0.1, two below 100 000, one
/// below a million, none above. Numbers of similar size have the same decimals.
fn digits(magnitude: f64) -> String {
    let decimals = match magnitude {
        m if m == 0.0 || m >= 1e6 => 0,
        m if m >= 1e5 => 1,
        m if m >= 0.1 => 2,
        _ => 3,
    };
    fixed(magnitude, decimals)
}

/// Formats a number with a fixed number of decimals and a space before each group of three digits.
fn fixed(value: f64, decimals: usize) -> String {
    let mut text = format!("{:.decimals$}", value.abs());
    let mut digits = text.find('.').unwrap_or(text.len());
    while digits > 3 {
        digits -= 3;
        text.insert(digits, ' ');
    }
    if value < 0.0 {
        text.insert(0, '-');
    }
    text
}

fn sign(value: f64) -> char {
    if value < 0.0 { '-' } else { '+' }
}

fn is_zero(text: &str) -> bool {
    !text.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lose_decimals_as_they_grow() {
        for (value, expected) in [
            (0.0, "0"),
            (0.0004, "<0.001"),
            (0.05, "0.050"),
            (98.0, "98.00"),
            (9178.25, "9 178.25"),
            (99_999.999, "100 000.00"),
            (123_456.78, "123 456.8"),
            (12_345_678.9, "12 345 679"),
        ] {
            assert_eq!(count(value), expected);
        }
    }

    #[test]
    fn differences_have_signs() {
        for (value, expected) in
            [(0.0, "0"), (642.25, "+642.25"), (-1642.25, "-1 642.25"), (-0.0001, "-0.000")]
        {
            assert_eq!(delta(value), expected);
        }
    }

    #[test]
    fn only_no_difference_is_zero_percent() {
        for (value, expected) in [
            (Some(0.0), "0"),
            (Some(0.004), "+0.00"),
            (Some(-0.004), "-0.00"),
            (Some(0.005_1), "+0.01"),
            (Some(-1.234), "-1.23"),
            (Some(123_456.0), "+123 456"),
            (None, "new"),
        ] {
            assert_eq!(percent(value), expected);
        }
        assert_eq!(percent_range(Some(1.021), Some(1.092)), "+1.02…1.09");
        assert_eq!(percent_range(Some(12.89), Some(13.03)), "+12.9…13.0");
        assert_eq!(percent_range(Some(-0.01), Some(0.02)), "-0.01…+0.02");
        assert_eq!(percent_range(Some(-13.03), Some(-12.89)), "-13.0…-12.9");
        assert_eq!(percent_range(Some(1.0), Some(1.0)), "+1.00");
        assert_eq!(percent_range(Some(-0.004), Some(0.01)), "-0.00…+0.01");
        assert_eq!(percent_range(Some(-0.004), Some(0.004)), "±<0.01");
        assert_eq!(percent_range(Some(0.0), Some(0.004)), "±<0.01");
        assert_eq!(percent_range(Some(0.001), Some(0.004)), "+0.00");
    }

    #[test]
    fn limits_are_rounded_up() {
        for (value, expected) in
            [(1e-9, "0.01"), (0.1, "0.10"), (0.100_000_000_000_000_02, "0.10"), (0.111, "0.12")]
        {
            assert_eq!(limit(value), expected);
        }
        assert_eq!((power(-0.004), power(0.278)), ("0.00".into(), "0.28".into()));
        assert_eq!(limit(1_234.01), ">999");
        for (value, expected) in [(0.004, "<0.01"), (0.224, "0.22"), (1_234.4, "1 234")] {
            assert_eq!(reached(value), expected);
        }
    }
}
