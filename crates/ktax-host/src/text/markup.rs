use super::terminal::escape;

/// HTML inside Markdown.
pub fn html(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Running text and table cells of Markdown: no markup, no HTML, no new cell or line.
pub fn markdown(text: &str) -> String {
    html(text).chars().fold(String::new(), |mut escaped, c| {
        if "\\`*_[]|~#!".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// Markdown code where the text allows it, as symbols, row names and most boot lines do;
/// otherwise running text.
pub fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.$[]-:=,/+ ".contains(c);
    if text.trim() == text && !text.is_empty() && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        markdown(text)
    }
}
