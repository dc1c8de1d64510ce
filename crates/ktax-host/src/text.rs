//! Text from outside, made harmless before anyone sees it. Every escaper in ktax is here, and all
//! of them agree on [`is_dangerous`]. And counts and sizes with their units.
//!
//! | For | Use |
//! |---|---|
//! | a line on a terminal | [`escape`] |
//! | a message of several lines | [`escape_lines`] |
//! | a path | [`escape_path`] |
//! | a command to type, a path or a word in one | [`shell_line`], [`shell_path`], [`shell_word`] |
//! | bytes from a guest or a program | [`escape_bytes`], [`escape_byte_lines`] |
//! | HTML, Markdown, Markdown code | [`html`], [`markdown`], [`code`] |
//! | a cell of CSV | [`csv_cell`] |
//! | JSON that may be printed on a terminal | [`escape_json`] |
//! | a terminal without UTF-8 | [`ascii()`], behind one of the others |

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One line for a terminal: dangerous characters become visible: `\n`, `\u{1b}`, `\u{202e}`.
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

/// A message of several lines for a terminal: line feeds stay, the rest is as in [`escape`].
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// A path for a terminal. Bytes that are not UTF-8 become U+FFFD.
pub fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// Returns whether a terminal may do something other than print `c`, or print nothing.
///
/// That is: C0, DEL, C1, line and paragraph separators, bidirectional controls, and characters of
/// no width, which make two different texts look alike.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Bytes from a guest or a program, as one line of printable ASCII. Other bytes become `\xNN`, line
/// feeds and tabs become spaces, carriage returns and spaces at both ends go.
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

/// Escapes each line as [`escape_bytes`] does, for a file that someone will open in a terminal.
pub fn escape_byte_lines(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\n').map(|line| escape_bytes(line) + "\n").collect()
}

/// HTML inside Markdown.
pub fn html(text: &str) -> String {
    escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Running text and table cells of Markdown: no markup, no HTML, no new cell or line.
pub fn markdown(text: &str) -> String {
    html(text).chars().fold(String::new(), |mut escaped, c| {
        if "\\`*_[]|~#!".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// Markdown code where the text allows it, as symbols, row names and most boot lines do;
/// otherwise running text.
pub fn code(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.$[]-:=,/+ ".contains(c);
    if text.trim() == text && !text.is_empty() && text.chars().all(plain) {
        format!("`{text}`")
    } else {
        markdown(text)
    }
}

/// A CSV cell that no spreadsheet takes for a formula. The writer of the file adds the quotes.
pub fn csv_cell(text: &str) -> String {
    let text = escape(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

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

/// A path as a word of a command that somebody can type: quoted for the shell where it must be, and
/// no option where it begins with a hyphen.
pub fn shell_path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    let relative = Path::new(".").join(path);
    let path = if path.as_os_str().as_bytes().starts_with(b"-") { &relative } else { path };
    shell_bytes(path.as_os_str().as_bytes()).into_owned()
}

/// A word of a command that somebody can type, quoted for the shell where it must be.
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

/// `$'…'`, which bash, zsh and ksh read: bytes that a terminal would act on are spelled.
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

/// Text for a terminal that shows nothing but ASCII. What ktax itself prints has a spelling; what
/// came from outside is shown as in [`escape`].
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

/// Number of hash digits shown.
const SHOWN: usize = 12;

/// Fewest hexadecimal digits of a hash; no other word has so many.
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

/// Count with its noun: `1 pair`, `2 pairs`.
pub fn counted(count: usize, singular: &str) -> String {
    counted_as(count, singular, &format!("{singular}s"))
}

/// Count with a noun that has a plural of its own: `1 patch`, `2 patches`.
pub fn counted_as(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// A size in the largest binary unit that it fills: `20.0 GiB`, `41.2 MiB`, `512 bytes`.
pub fn binary_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => counted(usize::try_from(bytes).unwrap_or_default(), "byte"),
    }
}

/// Least likeness of a mistyped name: the value that clap uses for options.
const ALIKE: f64 = 0.7;

/// The known name that is most like what was typed; `None` if none is like it.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().map(|name| (strsim::jaro(typed, name), name));
    let alike = alike.filter(|(alike, _)| *alike > ALIKE);
    alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Clause of a message that suggests the [`nearest`] name; empty if there is none.
pub fn did_you_mean(near: Option<impl Display>) -> String {
    near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}

/// Clause of [`did_you_mean`] with the name in quotes.
pub fn did_you_mean_quoted(near: Option<&str>) -> String {
    did_you_mean(near.map(|near| format!("{near:?}")))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
