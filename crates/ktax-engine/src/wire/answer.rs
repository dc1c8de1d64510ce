//! Answers of guests: one answer, several answers in a row, and the output of programs in them.

use std::collections::BTreeMap;

use super::{Lines, VERSION, decimal, is_name, parse_body, too_many};
use ktax_host::text::escape_bytes;
use ktax_model::{Error, Result, Signature};

/// The largest number of entries of one kind in an answer.
const MAX_ENTRIES: usize = 64;

/// A guest's answer to one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The Region ran to its end.
    Done(Done),
    /// The Workload could not run; the text is escaped.
    Refused(String),
}

/// The answer of a Run that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    pub signature: Signature,
    /// Measured values that are not part of the work: times, page faults, context switches.
    pub values: Signature,
    /// Counters that could not be read, each with the escaped reason.
    pub uncounted: BTreeMap<String, String>,
    /// Time-stamp counts around the Region; only guests of the exact engine send them.
    pub tsc: Option<u64>,
}

/// Parses the answer to an order for `program`.
pub fn parse_answer(wire: &[u8], program: &str) -> Result<Answer> {
    let mut done = Done::default();
    let parsed = parse_body(wire, program, |keyword, rest| match keyword {
        "sig" => insert(&mut done.signature, parse_number(rest)),
        "value" => insert(&mut done.values, parse_number(rest)),
        "uncounted" => insert(&mut done.uncounted, parse_reason(rest)),
        "tsc" if done.tsc.is_none() => {
            done.tsc = decimal(rest);
            Ok(done.tsc.is_some())
        }
        // `parse_printed` reads the output of the program.
        "stdout" | "stderr" | "cut" => Ok(true),
        _ => Ok(false),
    })?;
    Ok(parsed.map_or_else(Answer::Refused, |()| Answer::Done(done)))
}

/// Parses the line `start PROGRAM`, and returns the lines after it. The inner error is the escaped
/// reason why the guest refused the order.
pub(super) fn parse_start<'a>(wire: &'a [u8], program: &str) -> Result<Result<Lines<'a>, String>> {
    let mut lines = Lines::after_version(wire)?;
    let first = lines.next()?;
    match first.split()? {
        ("start", name) if name == program => Ok(Ok(lines)),
        ("start", name) => {
            let found = escape_bytes(name.as_bytes());
            let message = format!("the answer is for {found:?}, but the order was for {program:?}");
            Err(Error::guest(message))
        }
        ("fail", text) => Ok(Err(parse_refusal(text.as_bytes(), lines)?)),
        _ => Err(first.malformed()),
    }
}

/// Inserts an entry. Returns false for `None`, which is a malformed entry, and for a name that is
/// already in the map.
fn insert<T>(map: &mut BTreeMap<String, T>, entry: Option<(String, T)>) -> Result<bool> {
    let Some((name, value)) = entry else { return Ok(false) };
    let is_new = map.insert(name, value).is_none();
    if map.len() > MAX_ENTRIES { Err(too_many(MAX_ENTRIES)) } else { Ok(is_new) }
}

/// Returns the escaped reason `text` of a `fail` line. Only numbers may follow in `lines`: other
/// threads and processes may have printed them at the same moment.
pub(super) fn parse_refusal(text: &[u8], mut lines: Lines) -> Result<String> {
    while !lines.is_empty() {
        let line = lines.next()?;
        match line.split()? {
            ("sig" | "value", entry) if parse_number(entry).is_some() => {}
            _ => return Err(line.malformed()),
        }
    }
    Ok(escape_bytes(text))
}

fn parse_number(entry: &str) -> Option<(String, u64)> {
    let (name, value) = entry.split_once(' ')?;
    is_name(name).then_some(())?;
    Some((name.to_owned(), decimal(value)?))
}

fn parse_reason(entry: &str) -> Option<(String, String)> {
    let (name, reason) = entry.split_once(' ')?;
    is_name(name).then(|| (name.to_owned(), reason.to_owned()))
}

/// Splits the output of a guest with several orders into its hello and one answer to each order. A
/// part begins with the version line. The last part may be cut off anywhere. The joined parts are
/// the whole output.
pub fn split_answers(wire: &[u8]) -> Vec<&[u8]> {
    let version = VERSION.as_bytes();
    let (mut parts, mut start, mut offset) = (Vec::new(), 0, 0);
    for line in wire.split_inclusive(|byte| *byte == b'\n') {
        let is_start = match line.strip_suffix(b"\n") {
            Some(line) => line == version,
            None => version.starts_with(line),
        };
        if is_start && offset > start {
            parts.push(&wire[start..offset]);
            start = offset;
        }
        offset += line.len();
    }
    if start < wire.len() {
        parts.push(&wire[start..]);
    }
    parts
}

/// Returns whether an answer is complete: its last line is `end`, or it has a `fail` line, after
/// which other threads may have printed numbers.
pub fn is_finished(answer: &[u8]) -> bool {
    let Some(lines) = answer.strip_suffix(b"\n") else { return false };
    let mut lines = lines.rsplit(|byte| *byte == b'\n').peekable();
    lines.peek() == Some(&&b"end"[..]) || lines.any(|line| line.starts_with(b"fail "))
}

/// The output of a user's program that the guest has sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    pub stdout: PrintedText,
    pub stderr: PrintedText,
}

/// The text of one stream. Of a long text the guest sends only the beginning and the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrintedText {
    /// All of the text, or its beginning.
    pub begin: Vec<u8>,
    /// Number of bytes between `begin` and `end` that the guest did not send.
    pub left_out: u64,
    /// The end of a text that was cut.
    pub end: Vec<u8>,
}

/// Collects the output of the program from the lines of an answer. Ignores all other lines;
/// [`parse_answer`] checks them.
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
        let text = if self.left_out == 0 { &mut self.begin } else { &mut self.end };
        let mut rest = escaped;
        while let Some((first, more)) = rest.split_first() {
            let escape = rest.get(..4).and_then(escaped_byte);
            text.push(escape.unwrap_or(*first));
            rest = if escape.is_some() { &rest[4..] } else { more };
        }
    }

    fn cut(&mut self, count: &[u8]) {
        let count = std::str::from_utf8(count).ok().and_then(decimal);
        self.left_out = self.left_out.saturating_add(count.unwrap_or(0));
    }

    pub fn is_empty(&self) -> bool {
        self.begin.is_empty() && self.end.is_empty()
    }

    /// Returns both parts as one text, with a line for the bytes that are left out.
    pub fn text(&self) -> Vec<u8> {
        let gap = match self.left_out {
            0 => String::new(),
            bytes => format!("\n[ktax left out {bytes} bytes here]\n"),
        };
        [&self.begin, gap.as_bytes(), &self.end].concat()
    }

    /// Returns the last lines that are not empty, escaped: at most `lines` lines, each of at most
    /// `bytes` bytes before escaping.
    pub fn last_lines(&self, lines: usize, bytes: usize) -> Vec<String> {
        let text = self.text();
        let escaped = text.split(|byte| *byte == b'\n').map(|line| {
            let cut = &line[..line.len().min(bytes)];
            let ellipsis = if cut.len() < line.len() { "..." } else { "" };
            escape_bytes(cut) + ellipsis
        });
        let mut escaped: Vec<String> = escaped.filter(|line| !line.is_empty()).collect();
        escaped.split_off(escaped.len().saturating_sub(lines))
    }
}

/// Decodes an escape such as `\x0a`; `None` for other text. The guest escapes each backslash.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text.strip_prefix(b"\\x")?).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DONE: &[u8] = b"ktax 1\nstart pipe\nsig calls 7\nsig failed 0\ntsc 900\nend\n";

    #[test]
    fn an_answer_has_a_signature_and_a_time_stamp() {
        let signature = [("calls".to_owned(), 7), ("failed".to_owned(), 0)].into();
        let done = Done { signature, tsc: Some(900), ..Done::default() };
        assert_eq!(parse_answer(DONE, "pipe"), Ok(Answer::Done(done)));
    }

    #[test]
    fn values_are_not_part_of_the_signature() {
        let wire = b"ktax 1\nstart pipe\nvalue ns 5\nuncounted cycles No such file\nend\n";
        let Ok(Answer::Done(done)) = parse_answer(wire, "pipe") else { panic!("not done") };
        assert_eq!(done.values, [("ns".to_owned(), 5)].into());
        assert_eq!(done.uncounted, [("cycles".to_owned(), "No such file".to_owned())].into());
        assert!(done.signature.is_empty() && done.tsc.is_none());
    }

    #[test]
    fn an_answer_to_another_order_is_refused() {
        let error = parse_answer(DONE, "stat").unwrap_err();
        assert!(error.message().starts_with("the answer is for \"pipe\","), "{error}");
    }

    #[test]
    fn every_truncation_is_refused() {
        for length in 0..DONE.len() {
            assert!(parse_answer(&DONE[..length], "pipe").is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_reason_is_escaped() {
        let wire = b"ktax 1\nstart pipe\nfail \x1b]0;evil\x07 no\n";
        let Ok(Answer::Refused(text)) = parse_answer(wire, "pipe") else { panic!("not refused") };
        assert_eq!(text, "\\x1b]0;evil\\x07 no");
    }

    #[test]
    fn only_numbers_follow_a_reason() {
        let wire = |after: &str| format!("ktax 1\nstart pipe\nsig calls 7\nfail no\n{after}");
        let refused = Answer::Refused("no".to_owned());
        for after in ["", "sig fact-a 0\n", "value faults 3\nsig fact-a 0\n"] {
            assert_eq!(parse_answer(wire(after).as_bytes(), "pipe"), Ok(refused.clone()));
        }
        for after in ["sig A 0\n", "sig a 0", "fail twice\n", "end\n", "tsc 9\n", "ktax 1\n", "\n"]
        {
            assert!(parse_answer(wire(after).as_bytes(), "pipe").is_err(), "{after:?}");
        }
    }

    #[test]
    fn repeated_malformed_and_too_many_entries_are_refused() {
        for middle in
            ["sig a 1\nsig a 1\n", "sig A 1\n", "sig a -1\n", "sig a 1 2\n", "tsc 1\ntsc 1\n"]
        {
            let wire = format!("ktax 1\nstart pipe\n{middle}tsc 9\nend\n");
            assert!(parse_answer(wire.as_bytes(), "pipe").is_err(), "{middle}");
        }
        let many: String = (0..65).map(|n| format!("sig s{n} 1\n")).collect();
        let wire = format!("ktax 1\nstart pipe\n{many}tsc 9\nend\n");
        let error = parse_answer(wire.as_bytes(), "pipe").unwrap_err();
        assert_eq!(error, too_many(64));
    }

    const HELLO: &str = "ktax 1\nrelease 6.12.0\nready\n";

    fn an_answer() -> impl Strategy<Value = String> {
        // Lines of any kind, except those that begin or end an answer.
        let line = "([ -jl-~][ -~]{0,12})?";
        let ends = |line: &String| line == "end" || line.starts_with("fail ");
        let line = line.prop_filter("the end of an answer", move |line| !ends(line));
        let lines = prop::collection::vec(line, 0..6);
        lines.prop_map(|lines| {
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            format!("{VERSION}\n{lines}end\n")
        })
    }

    proptest! {
        #[test]
        fn joined_answers_are_split_again(
            answers in prop::collection::vec(an_answer(), 0..6),
            torn in 0usize..40,
        ) {
            let wire = HELLO.to_owned() + &answers.concat();
            let parts = split_answers(wire.as_bytes());
            prop_assert_eq!(parts.len(), answers.len() + 1);
            prop_assert_eq!(parts[0], HELLO.as_bytes());
            for (part, answer) in parts[1..].iter().zip(&answers) {
                prop_assert_eq!(*part, answer.as_bytes());
                prop_assert!(is_finished(part));
            }
            // Wherever the last part is cut off, the parts before it stay the same.
            let complete = parts.len() - 1;
            let torn = torn.min(parts[complete].len() - 1);
            let left = split_answers(&wire.as_bytes()[..wire.len() - torn]);
            prop_assert_eq!(&left[..complete], &parts[..complete]);
            prop_assert_eq!(left.len(), parts.len());
            prop_assert_eq!(is_finished(left[complete]), torn == 0 && complete > 0);
        }

        #[test]
        fn splitting_keeps_every_byte(wire in prop::collection::vec(
            prop_oneof![Just(b"ktax 1\n".to_vec()), Just(b"end\n".to_vec()), any::<Vec<u8>>()],
            0..12,
        )) {
            let wire = wire.concat();
            let parts = split_answers(&wire);
            prop_assert_eq!(parts.concat(), &wire[..]);
            for (index, part) in parts.iter().enumerate().skip(1) {
                let is_last = index == parts.len() - 1;
                let torn = is_last && b"ktax 1".starts_with(part);
                prop_assert!(part.starts_with(b"ktax 1\n") || torn);
                prop_assert!(!part.windows(8).any(|window| window == b"\nktax 1\n"));
            }
        }
    }

    #[test]
    fn an_answer_is_finished_by_end_or_fail() {
        for (answer, finished) in [
            ("ktax 1\nstart pipe\nsig calls 7\nend\n", true),
            ("ktax 1\nstart pipe\nfail mmap: no\n", true),
            ("ktax 1\nfail order: no such workload in this guest\n", true),
            ("ktax 1\nstart pipe\nfail no\nsig calls 7\n", true),
            ("ktax 1\nstart pipe\nfail no\nsig ca", false),
            ("ktax 1\nstart pipe\nfail no", false),
            ("ktax 1\nstart pipe\nsig calls 7\nend", false),
            ("ktax 1\nstart pipe\nsig calls 7\n", false),
            ("ktax 1\nstart pipe\nsig calls 7\nbend\n", false),
            ("ktax 1\n", false),
            ("", false),
        ] {
            assert_eq!(is_finished(answer.as_bytes()), finished, "{answer:?}");
        }
    }

    /// Encodes text as `guest/rooted.c` does.
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
    fn both_outputs_are_decoded_and_a_cut_is_marked() {
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
        fn every_output_is_decoded(text in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let printed = parse_printed(sent("stderr", &text).as_bytes());
            prop_assert_eq!(printed.stderr.text(), text);
            prop_assert!(printed.stdout.is_empty());
        }

        #[test]
        fn no_wire_makes_the_parser_panic(wire in proptest::collection::vec(any::<u8>(), 0..300)) {
            let wire = [&b"stdout \\x4\ncut stdout "[..], &wire].concat();
            let printed = parse_printed(&wire);
            printed.stdout.last_lines(3, 10);
        }
    }
}
