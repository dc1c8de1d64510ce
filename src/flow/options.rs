use super::error::Error;

/// What the user may say of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Of times: whether estimates are shown.
    pub peek: bool,
    /// Of times: whether the Sides may differ in more than was declared.
    pub allow_differences: bool,
}

impl Options {
    /// Refuses what would do nothing.
    pub(super) fn only_for_times(self, uses: &'static str) -> Result<(), Error> {
        let option = match self {
            Options { peek: true, .. } => "--peek",
            Options { allow_differences: true, .. } => "--allow-differences",
            _ => return Ok(()),
        };
        Err(Error::OnlyForTimes { option, uses })
    }
}
