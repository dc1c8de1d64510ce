//! The console is for people; the two things taken from it are messages for people.

/// The longest piece of console in a message, in bytes of the original.
const TAIL_BYTES: usize = 240;

/// Text from outside, safe for a terminal: printable ASCII as it is, all else as `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
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

/// Lines from outside, each escaped, for a file that someone will look at in a terminal.
pub fn escape_lines(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\n').map(|line| escape(line) + "\n").collect()
}

/// What follows `Kernel panic - not syncing: ` on the console, escaped.
pub fn panic_message(console: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"Kernel panic - not syncing: ";
    let at = console.windows(MARK.len()).position(|window| window == MARK)?;
    let message = &console[at + MARK.len()..];
    let end = message.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(message.len());
    Some(escape(&message[..end.min(TAIL_BYTES)]))
}

/// The last words on a console, escaped, on one line.
pub fn tail(console: &[u8]) -> String {
    escape(&console[console.len().saturating_sub(TAIL_BYTES)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        assert!(escape(&all).bytes().all(|byte| (0x20..0x7f).contains(&byte)));
    }

    #[test]
    fn a_panic_is_found_between_other_lines() {
        let console =
            b"[ 1.0] x\r\n[ 2.0] Kernel panic - not syncing: VFS: \x1b[31mno root\r\nmore";
        assert_eq!(panic_message(console).as_deref(), Some("VFS: \\x1b[31mno root"));
        assert_eq!(panic_message(b"all is well"), None);
    }
}
