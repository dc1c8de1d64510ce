/// No verdict on fewer pairs.
pub const MIN_PAIRS: usize = 10;

/// No verdict without so many A/A pairs: of seven, all on one side of zero, chance makes 2 / 2^7,
/// which is above [`Rules::control_alpha`].
pub const MIN_CONTROLS: usize = 8;

/// What the caller asks for. Shares and chances, not percent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The chance of one false verdict or more among the headline rows; and which share of
    /// secondary findings may be false. One less it is the level of the intervals.
    pub alpha: f64,
    /// How sure an effect of the size that would have been seen is to be seen.
    pub power: f64,
    /// The smallest ratio less one that matters; downwards `1 / (1 + threshold)`.
    pub threshold: f64,
    /// No more pairs than this.
    pub most_pairs: usize,
    /// So many pairs and one look, instead of a pilot and five.
    pub pairs: Option<usize>,
    /// The level at which a row's A/A pairs must not differ from zero.
    pub control_alpha: f64,
    /// The largest spread of A/A pairs, as a standard deviation of log-ratios.
    pub control_spread: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            alpha: 0.05,
            power: 0.9,
            threshold: 0.01,
            most_pairs: 200,
            pairs: None,
            control_alpha: 0.01,
            control_spread: 0.2,
        }
    }
}

/// One row's log-ratios so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pairs<'a> {
    /// `ln(change / base)`, one of each pair of Boots.
    pub pairs: &'a [f64],
    /// The same of the A/A pairs.
    pub controls: &'a [f64],
}
