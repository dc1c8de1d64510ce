//! Escapes untrusted text before it is shown. All escapers of ktax are here, and escape what
//! [`is_dangerous`]. Also formats counts and sizes with their units, and finds similar names.
//!
//! | For | Use |
//! |---|---|
//! | a line on a terminal | [`escape`] |
//! | a message of several lines | [`escape_lines`] |
//! | a path | [`escape_path`] |
//! | a shell command, a path or a word in one | [`shell_line`], [`shell_path`], [`shell_word`] |
//! | bytes from a guest or a program | [`escape_bytes`], [`escape_byte_lines`] |
//! | HTML, Markdown, Markdown code | [`html`], [`markdown`], [`code`] |
//! | a cell of CSV | [`csv_cell`] |
//! | JSON that may be printed on a terminal | [`escape_json`] |
//! | a terminal without UTF-8 | [`ascii()`], after one of the others |

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Escapes a line for a terminal. Dangerous characters become visible: `\n`, `\u{1b}`, `\u{202e}`.
pub fn escape(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        if is_dangerous(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
        escaped
    })
}

/// Escapes a message of several lines for a terminal: each line as [`escape`] does.
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// Escapes a path for a terminal. Bytes that are not UTF-8 become U+FFFD.
pub fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// Returns whether a terminal would act on `c` or print nothing, instead of printing it.
///
/// Such characters are C0, DEL, C1, line and paragraph separators, bidirectional controls, and
/// characters without width, which make two different texts look alike.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes bytes from a guest or a program as one line of printable ASCII. Line feeds and tabs
/// become spaces; carriage returns, and spaces at both ends, are removed; other bytes become
/// `\xNN`.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0x20..0x7f => text.push(char::from(*byte)),
            b'\n' | b'\t' => text.push(' '),
            b'\r' => {}
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text.trim().to_owned()
}

/// Escapes each line as [`escape_bytes`] does, for a file that a user may print on a terminal.
pub fn escape_byte_lines(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\n').map(|line| escape_bytes(line) + "\n").collect()
}

/// Formats sorted numbers as ranges, as `taskset -c` and Slurm read them: `0-3,6`.
pub fn number_ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Escapes text for HTML inside Markdown.
pub fn html(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Escapes text for running text and table cells of Markdown: it gets no markup, no HTML, and no
/// new cell or line.
pub fn markdown(text: &str) -> String {
    html(text).chars().fold(String::new(), |mut escaped, c| {
        if "\\`*_[]|~#!".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// Formats text as Markdown code if its characters allow that, such as those of symbols and row
/// names; otherwise escapes it as running text.
pub fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.$[]-:=,/+ ".contains(c);
    if text.trim() == text && !text.is_empty() && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        markdown(text)
    }
}

/// Escapes a cell of CSV, so that no spreadsheet takes it for a formula. The writer of the file
/// adds quotes.
pub fn csv_cell(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// Escapes pretty JSON for a terminal. Dangerous characters that JSON leaves as they are become
/// JSON escapes (`\u202e`), so a JSON parser reads the same strings.
pub fn escape_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    let mut units = [0; 2];
    for c in json.chars() {
        // In pretty JSON a line feed is never within a string.
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

/// Quotes a path as a word of a shell command, if it needs quotes. A path that begins with a hyphen
/// gets `./`, so that it is not an option.
pub fn shell_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let relative = Path::new(".").join(path);
    let path = if path.as_os_str().as_bytes().starts_with(b"-") { &relative } else { path };
    shell_bytes(path.as_os_str().as_bytes()).into_owned()
}

/// Quotes a word of a shell command, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    shell_bytes(word.as_bytes()).into_owned()
}

/// Words as the command that somebody can type.
pub fn shell_line(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line += &shell_bytes(word.as_ref().as_bytes());
    }
    line
}

fn shell_bytes(bytes: &[u8]) -> Cow<'_, str> {
    // shlex also quotes `=`, which only means something in front of a command.
    let is_plain = |byte: &u8| {
        matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'=' | b'@' | b'%' | b'+')
            || matches!(byte, b'.' | b',' | b'/' | b':' | b'-')
    };
    let text = std::str::from_utf8(bytes).ok();
    if let Some(text) = text.filter(|_| !bytes.is_empty() && bytes.iter().all(is_plain)) {
        return text.into();
    }
    let quoted = text
        .filter(|text| !text.contains(is_dangerous))
        .and_then(|text| shlex::try_quote(text).ok());
    quoted.unwrap_or_else(|| in_dollar_quotes(bytes).into())
}

/// Quotes bytes as `$'…'`, which bash, zsh and ksh read. Bytes that are not printable ASCII become
/// `\xNN`.
fn in_dollar_quotes(bytes: &[u8]) -> String {
    let mut quoted = "$'".to_owned();
    for byte in bytes {
        match byte {
            b'\n' => quoted.push_str("\\n"),
            b'\\' | b'\'' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => write!(quoted, "\\x{byte:02x}").expect("a string takes all"),
        }
    }
    quoted.push('\'');
    quoted
}

/// Converts text for a terminal that shows only ASCII. Characters that ktax itself prints have a
/// replacement; other characters become `\u{…}`.
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
            // Bars of a sparkline.
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

/// Number of hash digits that are shown.
const SHOWN_DIGITS: usize = 12;

/// The smallest number of hexadecimal digits that is taken for a hash. No other word has so many.
const MIN_HASH_DIGITS: usize = 32;

/// Cuts the hashes in a text, such as those in paths of the cache, to their first digits.
pub fn short_hashes(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut digits = 0;
    let mut rest = text.chars().peekable();
    let mut word = String::new();
    while let Some(c) = rest.next() {
        word.push(c);
        digits = if c.is_ascii_hexdigit() { digits + 1 } else { 0 };
        if digits == 0 || rest.peek().is_none_or(|next| !next.is_ascii_hexdigit()) {
            match digits >= MIN_HASH_DIGITS {
                true => short.push_str(&word[..SHOWN_DIGITS]),
                false => short.push_str(&word),
            }
            word.clear();
            digits = 0;
        }
    }
    short
}

/// Formats a count with its noun: `1 pair`, `2 pairs`.
pub fn counted(count: usize, singular: &str) -> String {
    counted_as(count, singular, &format!("{singular}s"))
}

/// Formats a count with a noun whose plural is irregular: `1 patch`, `2 patches`.
pub fn counted_as(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// Formats a size in the largest binary unit that is not larger, such as `20.0 GiB`, `41.2 MiB` or
/// `512 bytes`.
pub fn binary_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => counted(usize::try_from(bytes).unwrap_or_default(), "byte"),
    }
}

/// Jaro similarity above which a name is suggested: the value that clap uses for options.
const MIN_SIMILARITY: f64 = 0.7;

/// Returns the known name that is most similar to the typed name; `None` if no name is similar.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = known.into_iter().map(|name| (strsim::jaro(typed, name), name));
    let similar = rated.filter(|(similarity, _)| *similarity > MIN_SIMILARITY);
    similar.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Returns a clause that suggests the [`nearest`] name; empty for `None`.
pub fn did_you_mean(near: Option<impl Display>) -> String {
    near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}

/// Returns the clause of [`did_you_mean`] with the name in quotes.
pub fn did_you_mean_quoted(near: Option<&str>) -> String {
    did_you_mean(near.map(|near| format!("{near:?}")))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
