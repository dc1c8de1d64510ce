use std::collections::BTreeMap;

use super::WireError;
use super::lines::{Lines, WireLine, decimal, is_name};
use ktax_host::text::escape_bytes;
use ktax_model::Signature;

/// The most entries of one kind that an answer may have.
const ENTRIES: usize = 64;

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
    /// The work signature.
    pub signature: Signature,
    /// Measured values beside the work: times, page faults, context switches.
    pub values: Signature,
    /// Counters that could not be read, each with the escaped reason.
    pub uncounted: BTreeMap<String, String>,
    /// Time-stamp counts around the Region; only guests of the exact engine send them.
    pub tsc: Option<u64>,
}

/// Parses the answer to an order for `program`.
pub fn parse_answer(wire: &[u8], program: &str) -> Result<Answer, WireError> {
    let mut lines = match started(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Answer::Refused(reason)),
    };
    let mut done = Done::default();
    loop {
        let line = lines.next()?;
        // A reason may quote the kernel's own words; it is escaped, not refused.
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return Ok(Answer::Refused(refused(text, lines)?));
        }
        match line.split()? {
            ("sig", entry) => insert(&mut done.signature, number(entry), line)?,
            ("value", entry) => insert(&mut done.values, number(entry), line)?,
            ("uncounted", entry) => insert(&mut done.uncounted, reason(entry), line)?,
            ("tsc", value) if done.tsc.is_none() => {
                done.tsc = Some(decimal(value).ok_or_else(|| line.malformed())?);
            }
            // What the program printed: `printed.rs` reads it.
            ("stdout" | "stderr" | "cut", _) => {}
            ("end", "") => {
                lines.nothing_more()?;
                return Ok(Answer::Done(done));
            }
            _ => return Err(line.malformed()),
        }
    }
}

/// What follows the start of `program`; or the escaped reason why the order was refused.
pub(super) fn started<'a>(
    wire: &'a [u8],
    program: &str,
) -> Result<Result<Lines<'a>, String>, WireError> {
    let mut lines = Lines::after_version(wire)?;
    let first = lines.next()?;
    match first.split()? {
        ("start", name) if name == program => Ok(Ok(lines)),
        ("start", name) => {
            let (asked, found) = (program.to_owned(), escape_bytes(name.as_bytes()));
            Err(WireError::OtherWorkload { asked, found })
        }
        ("fail", text) => Ok(Err(refused(text.as_bytes(), lines)?)),
        _ => Err(first.malformed()),
    }
}

/// Inserts an entry; a second one of the same name is an error.
fn insert<T>(
    to: &mut BTreeMap<String, T>,
    entry: Option<(String, T)>,
    line: WireLine,
) -> Result<(), WireError> {
    let (name, value) = entry.ok_or_else(|| line.malformed())?;
    if to.insert(name, value).is_some() {
        return Err(line.malformed());
    }
    if to.len() > ENTRIES { Err(WireError::TooMany { limit: ENTRIES }) } else { Ok(()) }
}

/// Reads the reason. After it come only numbers that other threads and processes said in the same
/// moment.
pub(super) fn refused(text: &[u8], mut lines: Lines) -> Result<String, WireError> {
    while !lines.is_empty() {
        let line = lines.next()?;
        match line.split()? {
            ("sig" | "value", entry) if number(entry).is_some() => {}
            _ => return Err(line.malformed()),
        }
    }
    Ok(escape_bytes(text))
}

fn number(entry: &str) -> Option<(String, u64)> {
    let (name, value) = entry.split_once(' ')?;
    is_name(name).then_some(())?;
    Some((name.to_owned(), decimal(value)?))
}

fn reason(entry: &str) -> Option<(String, String)> {
    let (name, reason) = entry.split_once(' ')?;
    is_name(name).then(|| (name.to_owned(), reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &[u8] = b"ktax 1\nstart pipe\nsig calls 7\nsig failed 0\ntsc 900\nend\n";

    #[test]
    fn an_answer_has_a_signature_and_a_time_stamp() {
        let signature = [("calls".to_owned(), 7), ("failed".to_owned(), 0)].into();
        let done = Done { signature, tsc: Some(900), ..Done::default() };
        assert_eq!(parse_answer(DONE, "pipe"), Ok(Answer::Done(done)));
    }

    #[test]
    fn what_was_seen_is_no_signature() {
        let wire = b"ktax 1\nstart pipe\nvalue ns 5\nuncounted cycles No such file\nend\n";
        let Ok(Answer::Done(done)) = parse_answer(wire, "pipe") else { panic!("not done") };
        assert_eq!(done.values, [("ns".to_owned(), 5)].into());
        assert_eq!(done.uncounted, [("cycles".to_owned(), "No such file".to_owned())].into());
        assert!(done.signature.is_empty() && done.tsc.is_none());
    }

    #[test]
    fn an_answer_to_another_order_is_refused() {
        let error = parse_answer(DONE, "stat").unwrap_err();
        assert!(matches!(error, WireError::OtherWorkload { .. }));
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
        let with = |after: &str| format!("ktax 1\nstart pipe\nsig calls 7\nfail no\n{after}");
        let refused = Answer::Refused("no".to_owned());
        for after in ["", "sig fact-a 0\n", "value faults 3\nsig fact-a 0\n"] {
            assert_eq!(parse_answer(with(after).as_bytes(), "pipe"), Ok(refused.clone()));
        }
        for after in ["sig A 0\n", "sig a 0", "fail twice\n", "end\n", "tsc 9\n", "ktax 1\n", "\n"]
        {
            assert!(parse_answer(with(after).as_bytes(), "pipe").is_err(), "{after:?}");
        }
    }

    #[test]
    fn repeated_and_overlong_entries_are_refused() {
        for middle in
            ["sig a 1\nsig a 1\n", "sig A 1\n", "sig a -1\n", "sig a 1 2\n", "tsc 1\ntsc 1\n"]
        {
            let wire = format!("ktax 1\nstart pipe\n{middle}tsc 9\nend\n");
            assert!(parse_answer(wire.as_bytes(), "pipe").is_err(), "{middle}");
        }
        let many: String = (0..65).map(|n| format!("sig s{n} 1\n")).collect();
        let wire = format!("ktax 1\nstart pipe\n{many}tsc 9\nend\n");
        let error = parse_answer(wire.as_bytes(), "pipe").unwrap_err();
        assert_eq!(error, WireError::TooMany { limit: 64 });
    }
}
