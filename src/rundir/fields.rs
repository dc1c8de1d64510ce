//! What a field of a profile may be.

/// A symbol, or `[user]`, `[kernel]`, or of a program or a library: `[git]cmd_status`.
pub(super) fn is_function_name(name: &str) -> bool {
    let is_of = |text: &str, more: &[u8]| {
        (0..=127).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((file, function)) => {
            !file.is_empty() && is_of(file, b"_.$+-") && is_of(function, b"_.$+-")
        }
        None => !name.is_empty() && is_of(name, b"_.$"),
    }
}

/// A number that is written as the plugin does.
pub(super) fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
