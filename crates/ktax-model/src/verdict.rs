use serde::{Deserialize, Serialize};

/// What a row says, whatever the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The change costs more, beyond the noise and the threshold.
    Slower,
    /// The change costs less, beyond the noise and the threshold.
    Faster,
    /// The change differs from the base, by less than the threshold.
    BelowThreshold,
    /// No change was seen; the evidence says how small a change would have been.
    NoDetectedChange,
    /// Too few Boots of both Sides to decide.
    TooFewBoots,
    /// There is no answer; the row's reason says why.
    Inconclusive,
    /// The work signatures differ: the numbers do not compare.
    DifferentWork,
    /// A Side has no measurement.
    Failed,
    /// There is no change to compare the base with.
    OneSide,
}

impl Verdict {
    /// Whether it is slower or faster.
    pub fn is_change(self) -> bool {
        match self {
            Verdict::Slower | Verdict::Faster => true,
            Verdict::BelowThreshold | Verdict::NoDetectedChange | Verdict::OneSide => false,
            Verdict::TooFewBoots | Verdict::Inconclusive => false,
            Verdict::DifferentWork | Verdict::Failed => false,
        }
    }

    /// Whether it says how the Sides compare.
    pub fn is_answer(self) -> bool {
        match self {
            Verdict::Slower | Verdict::Faster => true,
            Verdict::BelowThreshold | Verdict::NoDetectedChange => true,
            Verdict::TooFewBoots | Verdict::Inconclusive | Verdict::OneSide => false,
            Verdict::DifferentWork | Verdict::Failed => false,
        }
    }

    /// As printed: `no detected change`.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::BelowThreshold => "below the threshold",
            Verdict::NoDetectedChange => "no detected change",
            Verdict::TooFewBoots => "too few boots",
            Verdict::Inconclusive => "inconclusive",
            Verdict::DifferentWork => "different work",
            Verdict::Failed => "failed",
            Verdict::OneSide => "one side",
        }
    }
}
