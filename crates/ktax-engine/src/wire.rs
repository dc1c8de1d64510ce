//! The only parser of what the guest prints: `docs/wire.md`. Its input is untrusted.

mod answer;
mod hello;
mod trace;

use std::fmt::Write;

use ktax_host::text::escape_bytes;
use ktax_model::{Error, ErrorKind, Layout, Result, Workload};

pub use answer::{
    Answer, Done, Printed, PrintedText, is_finished, parse_answer, parse_printed, split_answers,
};
pub use hello::{Hello, parse_hello, parse_symbols, parse_variables};
pub use trace::{parse_files, parse_trace};

/// The first line of everything that the guest prints; it has the version of the format.
pub const VERSION: &str = "ktax 1";

/// The longest permitted line, in bytes.
const LINE_BYTES: usize = 4096;

/// The error of more lines of one kind than the format allows.
fn too_many(limit: usize) -> Error {
    Error::guest(format!("it has more than {limit} lines of one kind"))
}

/// The longest quotation in an error, in bytes before escaping.
const QUOTE_BYTES: usize = 80;

/// Lines with their numbers, which count from 1. A last line without a line feed is not a line.
#[derive(Debug)]
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

/// One line: a keyword and what follows it.
#[derive(Debug, Clone, Copy)]
struct WireLine<'a> {
    number: usize,
    bytes: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Reads the version line.
    pub fn after_version(bytes: &'a [u8]) -> Result<Lines<'a>> {
        if bytes.is_empty() {
            return Err(Error::guest("the guest printed nothing").kind(ErrorKind::Empty));
        }
        let mut lines = Lines { rest: bytes, number: 0 };
        let first = lines.next()?;
        if first.bytes == VERSION.as_bytes() { Ok(lines) } else { Err(first.malformed()) }
    }

    /// Reads the next line. Every format requires that there is one.
    pub fn next(&mut self) -> Result<WireLine<'a>> {
        let window = &self.rest[..self.rest.len().min(LINE_BYTES + 1)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return Err(match window.len() > LINE_BYTES {
                true => Error::guest(format!(
                    "line {} is longer than {LINE_BYTES} bytes",
                    self.number + 1
                )),
                false if window.is_empty() => {
                    Error::guest(format!("the output ends early, after line {}", self.number))
                        .kind(ErrorKind::Truncated)
                }
                false => WireLine { number: self.number + 1, bytes: window }.malformed(),
            });
        };
        self.number += 1;
        let bytes = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(WireLine { number: self.number, bytes })
    }

    /// Returns whether every line was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that nothing follows the end.
    pub fn nothing_more(&mut self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.next()?.malformed()) }
    }
}

impl<'a> WireLine<'a> {
    /// Splits the line into its keyword and the rest, both printable ASCII.
    pub fn split(self) -> Result<(&'a str, &'a str)> {
        let printable = self.bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
        let text = std::str::from_utf8(self.bytes).ok().filter(|_| printable);
        let text = text.ok_or_else(|| self.malformed())?;
        Ok(text.split_once(' ').unwrap_or((text, "")))
    }

    /// Returns the rest of the line after `keyword`.
    pub fn expect(self, keyword: &str) -> Result<&'a str> {
        let (found, rest) = self.split()?;
        if found == keyword { Ok(rest) } else { Err(self.malformed()) }
    }

    /// Returns the bytes of the line, unchecked.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Makes the error that quotes this line.
    pub fn malformed(self) -> Error {
        let quote = escape_bytes(&self.bytes[..self.bytes.len().min(QUOTE_BYTES)]);
        Error::guest(format!("line {} is malformed: {quote}", self.number))
    }
}

/// Parses an unsigned decimal number without a sign.
fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Checks the name of a Workload, a parameter or a signature entry: `[a-z0-9-]{1,32}`.
fn is_name(text: &str) -> bool {
    let is_name_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_name_byte)
}

/// The order that asks for the symbol table.
pub const SYMBOLS_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nend\n";

/// The order that asks for all other symbols of a kernel.
pub const VARIABLES_ORDER: &str = "ktax 1\nphase 0\nops 1\nrun symbols\nparam variables 1\nend\n";

/// Returns the arguments of the guest program when it runs as a plain process: as in an order.
pub fn arguments(workload: &Workload) -> Vec<String> {
    let params = workload.params.iter().map(|(name, value)| format!("{name}={value}"));
    [workload.program.clone(), format!("ops={}", workload.ops)].into_iter().chain(params).collect()
}

/// Returns the order for one Workload under one Layout.
pub fn order(workload: &Workload, layout: &Layout) -> String {
    let mut text = format!("{VERSION}\nphase {}\nops {}\n", layout.phase, workload.ops);
    text += &format!("run {}\n", workload.program);
    for (name, value) in &workload.params {
        writeln!(text, "param {name} {value}").expect("a String takes everything");
    }
    text + "end\n"
}

/// The longest part of the console in a message, in bytes before escaping.
const TAIL_BYTES: usize = 240;

/// Returns the text after `Kernel panic - not syncing: ` on the console, escaped.
pub fn panic_message(console: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"Kernel panic - not syncing: ";
    let start = console.windows(MARK.len()).position(|window| window == MARK)?;
    let message = &console[start + MARK.len()..];
    let end = message.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(message.len());
    Some(escape_bytes(&message[..end.min(TAIL_BYTES)]))
}

/// Returns the message of a panic once the kernel has printed all of it and only waits for a reset.
pub fn panic_that_stays(console: &[u8]) -> Option<String> {
    const LAST: &[u8] = b"---[ end Kernel panic - not syncing: ";
    let is_whole = console.windows(LAST.len()).any(|window| window == LAST);
    if is_whole { panic_message(console) } else { None }
}

/// Returns the end of a console, escaped, on one line.
pub fn tail(console: &[u8]) -> String {
    escape_bytes(&console[console.len().saturating_sub(TAIL_BYTES)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_between_other_lines() {
        let console =
            b"[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: \x1b[31mno root\r\nmore";
        assert_eq!(panic_message(console).as_deref(), Some("VFS: \\x1b[31mno root"));
        assert_eq!(panic_message(b"all is well"), None);
        assert_eq!(panic_that_stays(console), None);
        let end = b"\n[ 2.1] ---[ end Kernel panic - not syncing: VFS: \x1b[31mno root ]---\n";
        let console = [&console[..], end].concat();
        assert_eq!(panic_that_stays(&console).as_deref(), Some("VFS: \\x1b[31mno root"));
    }
}
