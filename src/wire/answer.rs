use super::lines::{Lines, decimal, is_name};
use super::{WireError, escape};
use crate::model::Signature;

/// The most signature entries that an answer may have.
const SIGNATURE_LINES: usize = 64;

/// What a guest says of a Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The Region ran to its end.
    Done {
        /// The work signature.
        signature: Signature,
        /// Time-stamp counts around the Region.
        tsc: u64,
    },
    /// The Workload could not run; the text is escaped.
    Refused(String),
}

/// Parses the answer to an order for `program`.
pub fn parse_answer(wire: &[u8], program: &str) -> Result<Answer, WireError> {
    let mut lines = Lines::after_version(wire)?;
    let first = lines.next()?;
    let found = match first.split()? {
        ("start", name) => name,
        ("fail", text) => return refused(text.as_bytes(), lines),
        _ => return Err(first.malformed()),
    };
    if found != program {
        let (asked, found) = (program.to_owned(), escape(found.as_bytes()));
        return Err(WireError::OtherWorkload { asked, found });
    }
    let (mut signature, mut tsc) = (Signature::new(), None);
    loop {
        let line = lines.next()?;
        // A reason may quote what the kernel said; it is escaped, not refused.
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return refused(text, lines);
        }
        match line.split()? {
            ("sig", entry) => {
                let (name, value) = signature_entry(entry).ok_or_else(|| line.malformed())?;
                if signature.insert(name, value).is_some() {
                    return Err(line.malformed());
                }
                if signature.len() > SIGNATURE_LINES {
                    return Err(WireError::TooMany { limit: SIGNATURE_LINES });
                }
            }
            ("tsc", value) if tsc.is_none() => {
                tsc = Some(decimal(value).ok_or_else(|| line.malformed())?);
            }
            ("end", "") => {
                let tsc = tsc.ok_or_else(|| line.malformed())?;
                lines.nothing_more()?;
                return Ok(Answer::Done { signature, tsc });
            }
            _ => return Err(line.malformed()),
        }
    }
}

/// The reason is the last line.
fn refused(text: &[u8], mut lines: Lines) -> Result<Answer, WireError> {
    lines.nothing_more()?;
    Ok(Answer::Refused(escape(text)))
}

fn signature_entry(entry: &str) -> Option<(String, u64)> {
    let (name, value) = entry.split_once(' ')?;
    is_name(name).then_some(())?;
    Some((name.to_owned(), decimal(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &[u8] = b"ktax 1\nstart pipe\nsig calls 7\nsig failed 0\ntsc 900\nend\n";

    #[test]
    fn an_answer_has_a_signature_and_a_time_stamp() {
        let signature = [("calls".to_owned(), 7), ("failed".to_owned(), 0)].into();
        assert_eq!(parse_answer(DONE, "pipe"), Ok(Answer::Done { signature, tsc: 900 }));
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
