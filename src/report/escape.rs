//! Text from outside, made harmless.

/// Control characters and what reorders or hides text become visible: `\n`, `\u{1b}`, `\u{202e}`.
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

/// For messages of ours, which may have several lines: line feeds stay.
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// Whether a terminal may do something other than print it: C0, DEL, C1, line and paragraph
/// separators, bidirectional controls, and characters of no width that make two texts look alike.
pub(super) fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// For HTML inside Markdown, where backslashes would be seen.
pub(super) fn html(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// For running text and table cells of Markdown: no markup, no HTML, no new cell or line.
pub(super) fn markdown(text: &str) -> String {
    html(text).chars().fold(String::new(), |mut escaped, c| {
        if "\\`*_[]|~#!".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// As Markdown code where the text allows it, as symbols, row names and most boot lines do.
pub(super) fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.$[]-:=,/+ ".contains(c);
    if text.trim() == text && !text.is_empty() && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        markdown(text)
    }
}

/// A CSV cell that no spreadsheet takes for a formula.
pub(super) fn cell(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_becomes_what_is_read() {
        assert_eq!(escape("a\x1b[31mb\r\n\u{9b}c"), "a\\u{1b}[31mb\\r\\n\\u{9b}c");
        assert_eq!(escape("\u{202e}live\u{2066}"), "\\u{202e}live\\u{2066}");
        assert_eq!(escape("größer als 日本 …"), "größer als 日本 …");
    }

    #[test]
    fn messages_keep_their_lines_and_nothing_else_that_acts() {
        assert_eq!(escape_lines("a:\n  b\n"), "a:\n  b\n");
        assert_eq!(escape_lines("a\r\n\x1b]0;x\x07\n"), "a\\r\n\\u{1b}]0;x\\u{7}\n");
        // Once is as often.
        assert_eq!(escape_lines(&escape("\x1b")), escape("\x1b"));
    }

    #[test]
    fn markdown_has_no_markup_left() {
        assert_eq!(markdown("a|b`c<img>\n"), "a\\|b\\`c&lt;img&gt;\\\\n");
        assert_eq!(code("__x64_sys_read.cold"), "`__x64_sys_read.cold`");
        assert_eq!(code("a`b|c"), "a\\`b\\|c");
        assert_eq!(code(""), "");
    }

    #[test]
    fn no_cell_is_a_formula() {
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("\t=1"), "\\t=1");
        assert_eq!(cell("fork"), "fork");
    }

    proptest! {
        #[test]
        fn nothing_dangerous_is_left(text in any::<String>()) {
            prop_assert!(!escape(&text).chars().any(is_dangerous));
            prop_assert!(!markdown(&text).contains(['<', '\n', '\r']));
        }
    }
}
