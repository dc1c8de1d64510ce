//! Foreign text for the screen.

use std::path::Path;

/// Line and paragraph separators, bidirectional embeddings, overrides and isolates.
const REORDERING: [char; 13] = [
    '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// A path for the screen: what could move the cursor is escaped.
pub(super) fn printable(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// Foreign text for the screen: control characters are escaped, and what reorders a line.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_harmless = !c.is_control() && !REORDERING.contains(&c);
        if is_harmless { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// The last line of what a tool has said, for an error.
pub(super) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    escape(&line.unwrap_or("it does not say why").trim().chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_cannot_move_the_cursor() {
        assert_eq!(last_line(b"W: x\nE: a\x1b[2Jb\n\n"), "E: a\\u{1b}[2Jb");
        assert_eq!(last_line(b""), "it does not say why");
    }
}
