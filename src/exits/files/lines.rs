use super::error::ExitsError;

/// The lines with their numbers from 1, as a serial line or a pipe may have brought them.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end_matches('\r')))
}

pub(super) fn damaged(line: usize, what: &str) -> ExitsError {
    ExitsError::Damaged { line, what: what.to_owned() }
}
