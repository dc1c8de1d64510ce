use super::lines::decimal;
use ktax_host::text::escape_bytes;

/// What a program of the user's printed, as the guest sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// On its standard output.
    pub stdout: PrintedText,
    /// On its standard error.
    pub stderr: PrintedText,
}

/// One of both: of a long text the beginning and the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrintedText {
    /// All of it, or its beginning.
    pub begin: Vec<u8>,
    /// How many bytes are not here.
    pub left_out: u64,
    /// What is behind those.
    pub end: Vec<u8>,
}

/// The lines of an answer that have what the program printed. What is no such line says nothing
/// here: the parser of answers refuses what no guest sends.
pub fn parse_printed(wire: &[u8]) -> Printed {
    let mut printed = Printed::default();
    for line in wire.split(|byte| *byte == b'\n') {
        if let Some(text) = line.strip_prefix(b"stdout ") {
            printed.stdout.extend(text);
        } else if let Some(text) = line.strip_prefix(b"stderr ") {
            printed.stderr.extend(text);
        } else if let Some(count) = line.strip_prefix(b"cut stdout ") {
            printed.stdout.cut(count);
        } else if let Some(count) = line.strip_prefix(b"cut stderr ") {
            printed.stderr.cut(count);
        }
    }
    printed
}

impl PrintedText {
    fn extend(&mut self, escaped: &[u8]) {
        let to = if self.left_out == 0 { &mut self.begin } else { &mut self.end };
        let mut rest = escaped;
        while let Some((first, more)) = rest.split_first() {
            let escape = rest.get(..4).and_then(escaped_byte);
            to.push(escape.unwrap_or(*first));
            rest = if escape.is_some() { &rest[4..] } else { more };
        }
    }

    fn cut(&mut self, count: &[u8]) {
        let count = std::str::from_utf8(count).ok().and_then(decimal);
        self.left_out = self.left_out.saturating_add(count.unwrap_or(0));
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.begin.is_empty() && self.end.is_empty()
    }

    /// Both parts as one text, with a line that says what is not there.
    pub fn text(&self) -> Vec<u8> {
        let gap = match self.left_out {
            0 => String::new(),
            bytes => format!("\n[ktax left out {bytes} bytes here]\n"),
        };
        [&self.begin, gap.as_bytes(), &self.end].concat()
    }

    /// The last lines, escaped, without empty ones: at most `lines`, each of at most `bytes` bytes
    /// before they were escaped.
    pub fn last_lines(&self, lines: usize, bytes: usize) -> Vec<String> {
        let text = self.text();
        let all = text.split(|byte| *byte == b'\n').map(|line| {
            let cut = &line[..line.len().min(bytes)];
            let more = if cut.len() < line.len() { "..." } else { "" };
            escape_bytes(cut) + more
        });
        let mut all: Vec<String> = all.filter(|line| !line.is_empty()).collect();
        all.split_off(all.len().saturating_sub(lines))
    }
}

/// `\x0a` is one byte; a backslash is never sent as it is.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.strip_prefix(b"\\x")?).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `guest/rooted.c` sends it.
    fn sent(name: &str, text: &[u8]) -> String {
        let escape = |byte: &u8| match byte {
            b'\\' => "\\x5c".to_owned(),
            b' '..=b'~' => char::from(*byte).to_string(),
            other => format!("\\x{other:02x}"),
        };
        let lines = text.chunks(1000);
        let line =
            |part: &[u8]| format!("{name} {}\n", part.iter().map(escape).collect::<String>());
        lines.map(line).collect()
    }

    #[test]
    fn both_outputs_come_back_and_a_cut_is_said() {
        let wire =
            sent("stdout", b"one\n\\x41 \xff\n") + "sig a 1\n" + &sent("stderr", b"evil \x1b");
        let printed = parse_printed(wire.as_bytes());
        assert_eq!(printed.stdout.text(), b"one\n\\x41 \xff\n");
        assert_eq!(printed.stdout.last_lines(1, 100), ["\\x41 \\xff"]);
        assert_eq!(printed.stderr.last_lines(9, 6), ["evil \\x1b"]);
        assert_eq!(printed.stderr.last_lines(9, 3), ["evi..."]);
        let printed = parse_printed(b"stdout ab\ncut stdout 900\nstdout cd\ncut stdout x\n");
        assert_eq!(printed.stdout.text(), b"ab\n[ktax left out 900 bytes here]\ncd");
    }

    proptest! {
        #[test]
        fn every_output_comes_back(text in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let printed = parse_printed(sent("stderr", &text).as_bytes());
            prop_assert_eq!(printed.stderr.text(), text);
            prop_assert!(printed.stdout.is_empty());
        }

        #[test]
        fn any_wire_is_read(wire in proptest::collection::vec(any::<u8>(), 0..300)) {
            let wire = [&b"stdout \\x4\ncut stdout "[..], &wire].concat();
            let printed = parse_printed(&wire);
            printed.stdout.last_lines(3, 10);
        }
    }
}
