use std::path::Path;

use super::dangerous::is_dangerous;

/// One line for a terminal: dangerous characters become visible: `\n`, `\u{1b}`, `\u{202e}`.
pub fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        if is_dangerous(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
        escaped
    })
}

/// A message of several lines for a terminal: line feeds stay, the rest is as in [`escape`].
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// A path for a terminal. Bytes that are not UTF-8 become U+FFFD.
pub fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
