//! What ktax takes from a console: messages for people.

use ktax_host::text::escape_bytes;

/// The longest part of the console in a message, in bytes before escaping.
const TAIL_BYTES: usize = 240;

/// The text after `Kernel panic - not syncing: ` on the console, escaped.
pub fn panic_message(console: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"Kernel panic - not syncing: ";
    let at = console.windows(MARK.len()).position(|window| window == MARK)?;
    let message = &console[at + MARK.len()..];
    let end = message.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(message.len());
    Some(escape_bytes(&message[..end.min(TAIL_BYTES)]))
}

/// The same, once the kernel has printed all of its panic and only waits for a reset.
pub fn panic_that_stays(console: &[u8]) -> Option<String> {
    const LAST: &[u8] = b"---[ end Kernel panic - not syncing: ";
    let is_whole = console.windows(LAST.len()).any(|window| window == LAST);
    if is_whole { panic_message(console) } else { None }
}

/// The end of a console, escaped, on one line.
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
