//! Printed figures, what they may stand for, and whether they recompute.

/// A printed number and the interval of what it may stand for.
#[derive(Debug, Clone)]
pub struct Figure {
    pub text: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Figure {
    /// Counted, or never shortened: it stands for itself.
    pub fn exact(text: &str) -> Figure {
        Figure::between(text, 0.0, 0.0)
    }

    /// Rounded to its last digit: half a unit of that digit either way.
    pub fn rounded(text: &str) -> Figure {
        Figure::between(text, -0.5, 0.5)
    }

    /// Cut after its last digit: up to the next one, and not that.
    pub fn truncated(text: &str) -> Figure {
        Figure::between(text, 0.0, 0.999_999)
    }

    /// What figures add up to.
    pub fn sum(figures: &[Figure]) -> Figure {
        let sum = |of: fn(&Figure) -> f64| figures.iter().map(of).sum::<f64>();
        let value = sum(|figure| figure.value);
        let (low, high) = (sum(|figure| figure.low), sum(|figure| figure.high));
        Figure { text: value.to_string(), value, low, high }
    }

    /// The number, and what it may stand for in units of its last digit.
    fn between(text: &str, low: f64, high: f64) -> Figure {
        let value: f64 = text.parse().unwrap_or_else(|_| panic!("{text:?} is no figure"));
        let unit = unit(text);
        Figure { text: text.to_owned(), value, low: value + low * unit, high: value + high * unit }
    }
}

fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

/// One of the last digit of a printed number.
fn unit(text: &str) -> f64 {
    10f64.powi(-i32::try_from(decimals(text)).unwrap())
}

/// How well a printed figure recomputes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// From the inputs as they are printed.
    Exact,
    /// From other inputs that would be printed the same.
    Rounding,
    /// From neither.
    Deviates,
}

/// One derived figure and what ktax makes of the figures beside it.
#[derive(Debug, Clone)]
pub struct Check {
    pub document: String,
    pub row: String,
    pub column: String,
    pub printed: Figure,
    /// From the printed inputs; not a number if one of them is missing.
    pub value: f64,
    /// The least and the most that inputs which are printed so can give.
    pub low: f64,
    pub high: f64,
}

impl Check {
    /// Recomputes `printed` by `formula`, which must be monotonic in each input: then its extremes
    /// over all that the inputs may stand for are at corners of that box.
    pub fn new(
        (document, row, column): (&str, &str, &str),
        printed: Figure,
        inputs: &[Figure],
        formula: impl Fn(&[f64]) -> f64,
    ) -> Check {
        let values: Vec<f64> = inputs.iter().map(|input| input.value).collect();
        let corners = 0..1_u32 << inputs.len();
        let results: Vec<f64> = corners
            .map(|corner| {
                let pick = |(i, input): (usize, &Figure)| {
                    if corner >> i & 1 == 0 { input.low } else { input.high }
                };
                formula(&inputs.iter().enumerate().map(pick).collect::<Vec<f64>>())
            })
            .collect();
        Check {
            document: document.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            printed,
            value: formula(&values),
            low: results.iter().copied().fold(f64::INFINITY, f64::min),
            high: results.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    pub fn agreement(&self) -> Agreement {
        // An end of an interval is in it, also where binary fractions miss it by a hair.
        let hair = (self.printed.high - self.printed.low) * 1e-8;
        let meets = |low: f64, high: f64| {
            low <= self.printed.high + hair && high >= self.printed.low - hair
        };
        if meets(self.value, self.value) {
            Agreement::Exact
        } else if meets(self.low, self.high) {
            Agreement::Rounding
        } else {
            Agreement::Deviates
        }
    }

    /// A copy whose printed figure is higher by so many of its last digit.
    pub fn moved(&self, digits: f64) -> Check {
        let (mut moved, by) = (self.clone(), digits * unit(&self.printed.text));
        moved.printed.low += by;
        moved.printed.high += by;
        moved
    }

    /// Line in a list: document, row, column, printed, recomputed, allowed, difference.
    pub fn cells(&self) -> [String; 7] {
        let digits = decimals(&self.printed.text) + 3;
        let show = |value: f64| {
            if value.is_nan() { "none".to_owned() } else { format!("{value:.digits$}") }
        };
        let range = if self.value.is_nan() || self.low == self.high {
            "-".to_owned()
        } else {
            format!("{}…{}", show(self.low), show(self.high))
        };
        let difference = show(self.printed.value - self.value);
        [
            self.document.clone(),
            self.row.clone(),
            self.column.clone(),
            self.printed.text.clone(),
            show(self.value),
            range,
            difference,
        ]
    }
}
