//! What a field of a profile may be.

use ktax_model::Context;

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

/// Who executed it.
pub(super) fn context(text: &str) -> Option<Context> {
    Context::ALL.into_iter().find(|known| known.name() == text)
}

/// A number of at most so many hexadecimal digits, without a prefix.
pub(super) fn hexadecimal(text: &str, most_digits: usize) -> Option<u64> {
    let is_one = text.len() <= most_digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}
