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

/// The same for each line, for a file that someone will open in a terminal.
pub fn escape_byte_lines(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\n').map(|line| escape_bytes(line) + "\n").collect()
}
