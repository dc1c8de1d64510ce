/// Text for a terminal that shows nothing but ASCII. What ktax itself prints has a spelling; what
/// came from outside is shown as in [`super::escape`].
pub fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '…' => plain.push_str(".."),
            '→' => plain.push_str("->"),
            '×' => plain.push('x'),
            '·' => plain.push('|'),
            '–' | '─' | '━' => plain.push('-'),
            '╸' => plain.push('>'),
            '├' => plain.push('+'),
            '└' => plain.push('`'),
            '│' => plain.push('|'),
            'µ' => plain.push('u'),
            // The bars of a sparkline.
            '▁' => plain.push('_'),
            '▂' => plain.push('.'),
            '▃' | '▄' => plain.push('-'),
            '▅' | '▆' => plain.push('='),
            '▇' | '█' => plain.push('#'),
            '∞' => plain.push_str("inf"),
            '≤' => plain.push_str("<="),
            '≥' => plain.push_str(">="),
            c if c.is_ascii() => plain.push(c),
            c => plain.extend(c.escape_unicode()),
        }
    }
    plain
}
