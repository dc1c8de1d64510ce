//! The reason that a tool gave for its failure.

use ktax_host::text::escape;

/// The last line that a tool wrote to its stderr: at most 300 characters, escaped.
pub(super) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    escape(&line.unwrap_or("it gave no reason").trim().chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_tool_is_escaped() {
        assert_eq!(last_line(b"W: x\nE: a\x1b[2Jb\n\n"), "E: a\\u{1b}[2Jb");
        assert_eq!(last_line(b""), "it gave no reason");
    }
}
