//! From numbers to places on an axis.

/// The empty room at both ends of an axis, percent.
const MARGIN: f64 = 3.0;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// Evenly.
    Linear,
    /// By their logarithm; values are above 0.
    Log,
    /// Evenly up to this size, by their logarithm beyond, on both sides of 0.
    Symlog(f64),
}

/// An axis from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    spread: Spread,
    ends: (f64, f64),
}

impl Axis {
    /// An axis that has all of these values.
    pub fn of(spread: Spread, values: impl IntoIterator<Item = f64>) -> Axis {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let at = finite.map(|value| place(spread, value));
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let ends = at.fold(none, |(low, high), at| (low.min(at), high.max(at)));
        let ends = match ends {
            (low, high) if low > high => (0.0, 1.0),
            (low, high) if low == high => (low - 0.5, high + 0.5),
            ends => ends,
        };
        Axis { spread, ends }
    }

    /// Where a value is, from 0 to 100.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let share = (place(self.spread, value) - low) / (high - low);
        MARGIN + share.clamp(0.0, 1.0) * (100.0 - 2.0 * MARGIN)
    }

    /// The same as SVG has it: `12.34%`.
    pub fn percent(&self, value: f64) -> String {
        percent(self.at(value))
    }

    /// Round values, few enough to be labelled.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        match self.spread {
            Spread::Linear => linear(low, high),
            Spread::Log => powers(low, high),
            Spread::Symlog(limit) => {
                let is_on = |value: &f64| (low..=high).contains(&place(self.spread, *value));
                let of = |digits: &[f64]| symmetric(limit, digits).filter(is_on).collect();
                let powers: Vec<f64> = of(&[1.0]);
                let mut ticks = if powers.len() > 4 { powers } else { of(&[1.0, 2.0, 5.0]) };
                ticks.sort_by(f64::total_cmp);
                ticks
            }
        }
    }
}

/// A length across, for SVG.
pub fn percent(value: f64) -> String {
    let text = format!("{value:.2}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

fn place(spread: Spread, value: f64) -> f64 {
    match spread {
        Spread::Linear => value,
        Spread::Log => libm::log10(value.max(f64::MIN_POSITIVE)),
        Spread::Symlog(limit) => libm::log1p(value.abs() / limit).copysign(value),
    }
}

/// 0, and on both sides these digits times powers of ten, from about a limit on.
fn symmetric(limit: f64, digits: &[f64]) -> impl Iterator<Item = f64> {
    let start = libm::floor(libm::log10(limit)) as i32;
    let powers = (start..start + 12).map(|power| libm::pow(10.0, f64::from(power)));
    let sizes = powers.flat_map(move |power| digits.iter().map(move |digit| digit * power));
    sizes.flat_map(|size| [size, -size]).chain([0.0])
}

/// Steps of 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
    let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|it| *it >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(9).map(|at| at as f64 * step).collect()
}

fn powers(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.ceil() as i32, high.floor() as i32);
    let powers: Vec<f64> = (first..=last).take(9).map(|power| 10_f64.powi(power)).collect();
    match powers.len() {
        0 | 1 => vec![libm::pow(10.0, low), libm::pow(10.0, high)],
        _ => powers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_all_its_values_and_round_ticks() {
        let axis = Axis::of(Spread::Linear, [0.0, 100.0]);
        assert_eq!([0.0, 50.0, 100.0, 1e9].map(|it| axis.percent(it)), ["3%", "50%", "97%", "97%"]);
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0]);
        let axis = Axis::of(Spread::Log, [1.0, 10_000.0]);
        assert_eq!(axis.percent(100.0), "50%");
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        let axis = Axis::of(Spread::Symlog(0.1), [-1.0, 1.0, 24.0]);
        assert_eq!(axis.ticks(), [-1.0, -0.1, 0.0, 0.1, 1.0, 10.0]);
        assert!(axis.at(-0.5) < axis.at(0.0) && axis.at(0.01) > axis.at(0.0));
    }

    #[test]
    fn what_is_no_number_breaks_no_axis() {
        for values in [vec![], vec![f64::NAN], vec![5.0], vec![0.0, 0.0], vec![f64::INFINITY]] {
            for spread in [Spread::Linear, Spread::Log, Spread::Symlog(0.1)] {
                let axis = Axis::of(spread, values.clone());
                assert!((0.0..=100.0).contains(&axis.at(5.0)), "{values:?}");
                assert!(axis.ticks().len() < 30, "{values:?}");
            }
        }
    }
}
