/// The lines with their numbers, from 1, without the carriage returns of a serial line.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end_matches('\r')))
}
