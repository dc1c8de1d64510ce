//! Answers of the guest's tracer: the calls of a program, and the files that it named.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::answer::{parse_refusal, parse_start};
use super::{decimal, too_many};
use ktax_model::{NamedFiles, Result, TracedCall};

/// Parses the answer to an order that traces `program`: its calls, or the escaped reason why there
/// are none.
pub fn parse_trace(wire: &[u8], program: &str) -> Result<Result<Vec<TracedCall>, String>> {
    let mut lines = match parse_start(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut calls = Vec::new();
    loop {
        let line = lines.next()?;
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return Ok(Err(parse_refusal(text, lines)?));
        }
        match line.split()? {
            ("call", fields) => calls.push(parse_call(fields).ok_or_else(|| line.malformed())?),
            // The program and its tracer also send page faults and the like.
            ("value" | "stdout" | "stderr" | "cut", _) => {}
            ("end", "") => break,
            _ => return Err(line.malformed()),
        }
        if calls.len() > TracedCall::MOST {
            return Err(too_many(TracedCall::MOST));
        }
    }
    lines.nothing_more()?;
    Ok(Ok(calls))
}

fn parse_call(fields: &str) -> Option<TracedCall> {
    let mut numbers = fields.split(' ').map(decimal);
    let mut next = || numbers.next().flatten();
    let (task, number, given) = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(())?;
    Some(TracedCall {
        task: task.try_into().ok()?,
        number: number.try_into().ok()?,
        given: given.try_into().ok()?,
    })
}

/// Parses the answer to an order that traces the files of `program`; or the escaped reason why
/// there are none.
pub fn parse_files(wire: &[u8], program: &str) -> Result<Result<NamedFiles, String>> {
    let mut lines = match parse_start(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut files = NamedFiles::default();
    loop {
        let line = lines.next()?;
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return Ok(Err(parse_refusal(text, lines)?));
        }
        let (kind, rest) = line.split()?;
        let to = match (kind, rest) {
            ("opened", _) => &mut files.opened,
            ("executed", _) => &mut files.executed,
            ("missing", _) => &mut files.missing,
            ("value", entry) => {
                if let Some(status) = parse_status(entry) {
                    files.status = status;
                }
                continue;
            }
            ("end", "") => break,
            _ => return Err(line.malformed()),
        };
        to.push(parse_path(rest).ok_or_else(|| line.malformed())?);
        if to.len() > NamedFiles::MOST {
            return Err(too_many(NamedFiles::MOST));
        }
    }
    lines.nothing_more()?;
    Ok(Ok(files))
}

fn parse_status(entry: &str) -> Option<u64> {
    match entry.split_once(' ')? {
        ("status", status) => decimal(status),
        ("signal", signal) => decimal(signal)?.checked_add(128),
        _ => None,
    }
}

/// Parses an absolute path, in which `%XX` is a byte.
fn parse_path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b' ' => return None,
            plain => plain,
        };
        bytes.push(byte);
    }
    (bytes.starts_with(b"/") && !bytes.contains(&0)).then(|| OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_calls(middle: &str) -> Result<Result<Vec<TracedCall>, String>> {
        parse_trace(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn calls_are_in_their_order() {
        let calls = parse_calls("call 0 96 7\nvalue page-faults 3\ncall 1 511 4294967295\nend\n");
        let calls = calls.unwrap().unwrap();
        let traced = |task, number, given| TracedCall { task, number, given };
        assert_eq!(calls, [traced(0, 96, 7), traced(1, TracedCall::RDTSC, u32::MAX)]);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        assert_eq!(
            parse_calls("call 0 96 7\nfail it \x1b[2J\n").unwrap(),
            Err("it \\x1b[2J".into())
        );
        assert_eq!(parse_trace(b"ktax 1\nfail order: x\n", "program"), Ok(Err("order: x".into())));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for line in ["call 0 96", "call 0 96 7 8", "call 0 -1 7", "call 65536 1 7", "sig a 1", ""] {
            assert!(parse_calls(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse_calls("call 0 96 7\n").is_err());
        assert!(parse_calls("end\nend\n").is_err());
        assert!(parse_trace(b"ktax 1\nstart pipe\nend\n", "program").is_err());
        let many = "call 0 1 2\n".repeat(TracedCall::MOST + 1);
        assert_eq!(parse_calls(&many), Err(too_many(TracedCall::MOST)));
    }

    fn parse_names(middle: &str) -> Result<Result<NamedFiles, String>> {
        parse_files(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn files_are_sorted_by_what_became_of_them() {
        let text = "executed /bin/perl\nopened /a%20b%25\nmissing /x\nmissing /c\n\
            value page-faults 3\nvalue status 2\nend\n";
        let files = parse_names(text).unwrap().unwrap();
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let wanted = NamedFiles {
            opened: paths(&["/a b%"]),
            executed: paths(&["/bin/perl"]),
            missing: paths(&["/x", "/c"]),
            status: 2,
        };
        assert_eq!(files, wanted);
        assert_eq!(parse_names("value signal 11\nend\n").unwrap().unwrap().status, 139);
        assert_eq!(parse_names("fail mount: no\n").unwrap(), Err("mount: no".into()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for line in
            ["opened", "opened a", "opened /%2", "opened /%zz", "opened /%00", "opened /a b"]
        {
            assert!(parse_names(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse_names("opened /a\n").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let head = b"ktax 1\nstart program\n".to_vec();
            drop(parse_files(&[head, bytes].concat(), "program"));
        }
    }
}
