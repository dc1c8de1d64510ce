use super::dangerous::is_dangerous;

/// Pretty JSON that may be printed on a terminal. What JSON itself leaves raw and is dangerous is
/// written as JSON writes any character (`\u202e`), so that a reader gets the same strings back.
pub fn escape_json(json: &str) -> String {
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
    text
}
