/// So many digits of a hash tell it from all others that one has.
const SHOWN: usize = 12;

/// No other word has so many hexadecimal digits.
const LONG: usize = 32;

/// Text with hashes, such as those in paths of the cache, cut to their first digits.
pub fn short_hashes(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut digits = 0;
    let mut rest = text.chars().peekable();
    let mut word = String::new();
    while let Some(c) = rest.next() {
        word.push(c);
        digits = if c.is_ascii_hexdigit() { digits + 1 } else { 0 };
        if digits == 0 || rest.peek().is_none_or(|next| !next.is_ascii_hexdigit()) {
            match digits >= LONG {
                true => short.push_str(&word[..SHOWN]),
                false => short.push_str(&word),
            }
            word.clear();
            digits = 0;
        }
    }
    short
}
