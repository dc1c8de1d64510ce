//! Everything, for programs.

use crate::model::Comparison;

use super::ReportError;
use super::escape::is_dangerous;

/// Pretty JSON. It may be printed on a terminal, so what JSON itself leaves raw and [`escape`] does
/// not is written as `\uXXXX`; a reader gets the same strings back.
///
/// [`escape`]: super::escape()
pub(super) fn render(comparison: &Comparison) -> Result<String, ReportError> {
    let json = serde_json::to_string_pretty(comparison)?;
    let mut text = String::with_capacity(json.len() + 1);
    let mut units = [0; 2];
    for c in json.chars() {
        // Outside of strings, pretty JSON has no control character but the newline.
        if c != '\n' && is_dangerous(c) {
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    Ok(text)
}
