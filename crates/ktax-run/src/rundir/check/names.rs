//! Texts of a plan that become file names, or are shown to people.

/// Whether a row's name can be a file name.
pub(super) fn is_row(row: &str) -> bool {
    let of_row =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-:=,".contains(&byte);
    (1..=100).contains(&row.len()) && row.bytes().all(of_row)
}

/// Whether it can be the name of a directory, and of no hidden one.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_usual) && !name.starts_with('.')
}

/// Whether it is a SHA-256.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a terminal shows it and does nothing else.
pub(super) fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
