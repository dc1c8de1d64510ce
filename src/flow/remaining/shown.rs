use std::time::Duration;

/// The time left that was shown last, and when. From one to the next it grows by no more than the
/// time that passed in between: one slow boot does not turn minutes into hours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown(Option<(Duration, Duration)>);

impl Shown {
    /// What is shown where so much is left.
    pub fn next(&mut self, now: Duration, left: Duration) -> Duration {
        let most = self.0.map(|(then, shown)| shown + now.saturating_sub(then));
        let left = most.map_or(left, |most| left.min(most));
        self.0 = Some((now, left));
        left
    }
}
