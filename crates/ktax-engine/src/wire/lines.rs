use super::{VERSION, WireError};
use ktax_host::text::escape_bytes;

/// The longest permitted line, in bytes.
const LINE_BYTES: usize = 4096;

/// The longest quotation in an error, in bytes before escaping.
const QUOTE_BYTES: usize = 80;

/// Lines with their numbers, which count from 1. A last line without a line feed is not a line.
#[derive(Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

/// One line: a keyword and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct WireLine<'a> {
    number: usize,
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Reads the version line.
    pub fn after_version(bytes: &'a [u8]) -> Result<Lines<'a>, WireError> {
        if bytes.is_empty() {
            return Err(WireError::Nothing);
        }
        let mut lines = Lines { rest: bytes, number: 0 };
        let first = lines.next()?;
        if first.bytes == VERSION.as_bytes() { Ok(lines) } else { Err(first.malformed()) }
    }

    /// The next line. Every format requires that there is one.
    pub fn next(&mut self) -> Result<WireLine<'a>, WireError> {
        let window = &self.rest[..self.rest.len().min(LINE_BYTES + 1)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return Err(match window.len() > LINE_BYTES {
                true => WireError::LongLine { line: self.number + 1, limit: LINE_BYTES },
                false if window.is_empty() => WireError::Truncated { line: self.number },
                false => WireLine { number: self.number + 1, bytes: window }.malformed(),
            });
        };
        self.number += 1;
        let bytes = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(WireLine { number: self.number, bytes })
    }

    /// Whether every line was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that nothing follows the end.
    pub fn nothing_more(&mut self) -> Result<(), WireError> {
        if self.is_empty() { Ok(()) } else { Err(self.next()?.malformed()) }
    }
}

impl<'a> WireLine<'a> {
    /// Splits the line into its keyword and the rest, both printable ASCII.
    pub fn split(self) -> Result<(&'a str, &'a str), WireError> {
        let printable = self.bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
        let text = std::str::from_utf8(self.bytes).ok().filter(|_| printable);
        let text = text.ok_or_else(|| self.malformed())?;
        Ok(text.split_once(' ').unwrap_or((text, "")))
    }

    /// The rest of the line after `keyword`.
    pub fn expect(self, keyword: &str) -> Result<&'a str, WireError> {
        let (found, rest) = self.split()?;
        if found == keyword { Ok(rest) } else { Err(self.malformed()) }
    }

    /// The bytes of the line, unchecked.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Makes the error that quotes this line.
    pub fn malformed(self) -> WireError {
        let quote = escape_bytes(&self.bytes[..self.bytes.len().min(QUOTE_BYTES)]);
        WireError::Line { line: self.number, quote }
    }
}

/// Parses an unsigned decimal number without a sign.
pub fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Checks the name of a Workload, a parameter or a signature entry: `[a-z0-9-]{1,32}`.
pub fn is_name(text: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(of_name)
}
