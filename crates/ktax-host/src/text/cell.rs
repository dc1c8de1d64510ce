use super::terminal::escape;

/// A CSV cell that no spreadsheet takes for a formula. The writer of the file adds the quotes.
pub fn csv_cell(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}
