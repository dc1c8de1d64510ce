use super::WireError;
use super::answer::{refused, started};
use super::lines::decimal;
use ktax_model::TracedCall;

/// Parses the answer to an order that traces `program`: its calls, or the escaped reason why there
/// are none.
///
/// # Errors
///
/// A line is malformed, or there are too many.
pub fn parse_trace(
    wire: &[u8],
    program: &str,
) -> Result<Result<Vec<TracedCall>, String>, WireError> {
    let mut lines = match started(wire, program)? {
        Ok(lines) => lines,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut calls = Vec::new();
    loop {
        let line = lines.next()?;
        if let Some(text) = line.bytes().strip_prefix(b"fail ") {
            return Ok(Err(refused(text, lines)?));
        }
        match line.split()? {
            ("call", fields) => calls.push(call(fields).ok_or_else(|| line.malformed())?),
            // Page faults and the like, of the program and of what traces it.
            ("value" | "stdout" | "stderr" | "cut", _) => {}
            ("end", "") => break,
            _ => return Err(line.malformed()),
        }
        if calls.len() > TracedCall::MOST {
            return Err(WireError::TooMany { limit: TracedCall::MOST });
        }
    }
    lines.nothing_more()?;
    Ok(Ok(calls))
}

fn call(fields: &str) -> Option<TracedCall> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(middle: &str) -> Result<Result<Vec<TracedCall>, String>, WireError> {
        parse_trace(format!("ktax 1\nstart program\n{middle}").as_bytes(), "program")
    }

    #[test]
    fn calls_are_in_their_order() {
        let calls = parse("call 0 96 7\nvalue page-faults 3\ncall 1 511 4294967295\nend\n");
        let calls = calls.unwrap().unwrap();
        let of = |task, number, given| TracedCall { task, number, given };
        assert_eq!(calls, [of(0, 96, 7), of(1, TracedCall::RDTSC, u32::MAX)]);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        assert_eq!(parse("call 0 96 7\nfail it \x1b[2J\n").unwrap(), Err("it \\x1b[2J".into()));
        assert_eq!(parse_trace(b"ktax 1\nfail order: x\n", "program"), Ok(Err("order: x".into())));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for line in ["call 0 96", "call 0 96 7 8", "call 0 -1 7", "call 65536 1 7", "sig a 1", ""] {
            assert!(parse(&format!("{line}\nend\n")).is_err(), "{line}");
        }
        assert!(parse("call 0 96 7\n").is_err());
        assert!(parse("end\nend\n").is_err());
        assert!(parse_trace(b"ktax 1\nstart pipe\nend\n", "program").is_err());
        let many = "call 0 1 2\n".repeat(TracedCall::MOST + 1);
        assert!(matches!(parse(&many), Err(WireError::TooMany { .. })));
    }
}
