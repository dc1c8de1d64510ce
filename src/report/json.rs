//! Everything, for programs.

use serde::Serialize;

use super::ReportError;
use super::escape::is_dangerous;

/// Pretty JSON. It may be printed on a terminal, so what JSON itself leaves raw and [`escape`] does
/// not is written as JSON writes any character (`\u202e`); a reader gets the same strings back.
///
/// [`escape`]: super::escape()
pub fn json(value: &impl Serialize) -> Result<String, ReportError> {
    let json = serde_json::to_string_pretty(value)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_leaves_raw_is_escaped_and_read_back() {
        let text = json(&"a\u{202e}b\u{e0001}\u{9b}").unwrap();
        assert_eq!(text, "\"a\\u202eb\\udb40\\udc01\\u009b\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "a\u{202e}b\u{e0001}\u{9b}");
    }
}
