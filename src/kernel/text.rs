//! Makes text that ktax did not write safe to print.

use std::path::Path;

/// Line and paragraph separators, bidirectional embeddings, overrides and isolates.
const REORDERING: [char; 13] = [
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// A path, escaped as by [`escape`].
pub(super) fn printable(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// `text` with control characters, and characters that reorder a line, escaped as `\u{..}`.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_harmless = !c.is_control() && !REORDERING.contains(&c);
        if is_harmless { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

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
