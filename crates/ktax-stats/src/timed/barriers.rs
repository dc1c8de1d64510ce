use super::control::Control;
use super::looks::Looks;
use super::rules::Rules;

/// The rules, with what is the same for every row.
#[derive(Debug, Clone)]
pub(super) struct Barriers {
    pub rules: Rules,
    pub looks: Looks,
    /// The barrier of one row's interval.
    pub one_row: f64,
}

impl Barriers {
    pub fn control(&self, controls: &[f64]) -> Option<Control> {
        Control::of(controls, self.rules.control_alpha)
    }
}
