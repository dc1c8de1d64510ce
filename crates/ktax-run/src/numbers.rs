//! Numbers in what a program printed.

use std::collections::BTreeMap;

use regex::bytes::Regex;

use ktax_engine::wire::{Printed, PrintedText};
use ktax_model::Signature;

/// Beyond this the next digit could make more than the 63 bits that signatures have.
const MOST: u64 = 1 << 59;

/// The numbers that are asked for, by name: the first in the standard output, else in the standard
/// error.
///
/// # Errors
/// What is wrong with what the program printed.
pub(super) fn numbers(
    asked: &BTreeMap<String, String>,
    printed: &Printed,
) -> Result<Signature, String> {
    let number = |(name, text): (&String, &String)| -> Result<(String, u64), String> {
        Ok((name.clone(), number(text, printed)?))
    };
    asked.iter().map(number).collect()
}

fn number(asked: &str, printed: &Printed) -> Result<u64, String> {
    for PrintedText { begin, end, .. } in [&printed.stdout, &printed.stderr] {
        for text in [begin, end] {
            let found = match expression(asked) {
                Some(expression) => behind_expression(&expression, text),
                None => behind_text(asked, text),
            };
            if let Some(at) = found {
                return whole_number(asked, &text[at..]);
            }
        }
    }
    Err(format!("it printed no number behind {asked}"))
}

/// A text with a group of digits, such as `(\d+)` or `([0-9]+)`, is a regular expression.
fn expression(asked: &str) -> Option<Regex> {
    let has_digits = ["\\d", "[0-9", "[[:digit:]"].iter().any(|digits| asked.contains(digits));
    let expression = Regex::new(&format!("(?m){asked}")).ok().filter(|_| has_digits)?;
    (expression.captures_len() > 1).then_some(expression)
}

/// Where the first group begins.
fn behind_expression(expression: &Regex, text: &[u8]) -> Option<usize> {
    let groups = expression.captures(text)?;
    let group = groups.iter().skip(1).flatten().next()?;
    Some(group.start())
}

/// Where the number behind a text begins: behind blanks, tabs, `:` and `=`.
fn behind_text(asked: &str, text: &[u8]) -> Option<usize> {
    let asked = asked.as_bytes();
    let at = text.windows(asked.len().max(1)).position(|window| window == asked)? + asked.len();
    let is_between = |byte: &&u8| b" \t:=".contains(byte);
    let begin = at + text[at..].iter().take_while(is_between).count();
    text.get(begin).is_some_and(u8::is_ascii_digit).then_some(begin)
}

/// The number at the beginning, if its digits are all there is of it.
fn whole_number(asked: &str, text: &[u8]) -> Result<u64, String> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let no_number = || format!("it printed no whole number of plain digits behind {asked}");
    let mut found: u64 = 0;
    for digit in &text[..digits] {
        if found >= MOST {
            return Err(format!("it printed too large a number behind {asked}"));
        }
        found = found * 10 + u64::from(digit - b'0');
    }
    match digits == 0 || is_continued(&text[digits..]) {
        true => Err(no_number()),
        false => Ok(found),
    }
}

/// 1,024 and 0.25, 2e+9, 0x1f and 12k are more than their first digits; 1'024 in any writing.
fn is_continued(text: &[u8]) -> bool {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    match text.first() {
        Some(b'x' | b'X' | b'k' | b'K' | b'M' | b'G' | b'T' | 0x80..) => true,
        // Three digits and no more. A list such as 0,1024,0 has other numbers behind a comma.
        Some(b',' | b'\'' | b'_') => (1..4).all(is_digit) && !is_digit(4),
        Some(b'.') => is_digit(1),
        Some(b'e' | b'E') => is_digit(1 + usize::from(matches!(text.get(1), Some(b'+' | b'-')))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(stdout: &str, stderr: &str) -> Printed {
        let text = |text: &str| PrintedText { begin: text.into(), ..PrintedText::default() };
        Printed { stdout: text(stdout), stderr: text(stderr) }
    }

    #[test]
    fn a_number_stands_behind_a_text_or_in_a_group_of_an_expression() {
        for (asked, stdout, stderr, wanted) in [
            ("operations", "operations: 40, rows = 7\n", "", 40),
            ("rows", "operations: 40, rows = 7\n", "", 7),
            ("COUNT|", "", "COUNT|29616|1|lps\n", 29_616),
            (r"^COUNT\|(\d+)\|", "x\n", "y\nCOUNT|29616|1|lps\n", 29_616),
            ("done ([0-9]+) of", "done 12 of 40", "", 12),
            (r"(?:a|b)=(\d+)", "b=3 a=4", "", 3),
            // Brackets of a plain text are brackets.
            ("Total operations (all)", "Total operations (all): 9\n", "", 9),
            ("a.b", "axb 1\na.b 2\n", "", 2),
            ("issued rwts: total=0,", "issued rwts: total=0,1024,0,0", "", 1024),
            // The standard output comes first.
            ("n", "n 1", "n 2", 1),
        ] {
            assert_eq!(number(asked, &printed(stdout, stderr)), Ok(wanted), "{asked}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for text in ["n 1,024", "n 0.25", "n 2e9", "n 2e+9", "n 0x1f", "n 12k", "n 1'024"] {
            let refused = number("n", &printed(text, "")).unwrap_err();
            assert!(refused.contains("no whole number of plain digits"), "{text}: {refused}");
            let refused = number(r"n (\d+)", &printed(text, "")).unwrap_err();
            assert!(refused.contains("no whole number of plain digits"), "{text}: {refused}");
        }
        let refused = number("n", &printed("n 99999999999999999999", "")).unwrap_err();
        assert!(refused.contains("too large"), "{refused}");
        for asked in ["m", r"m (\d+)"] {
            let refused = number(asked, &printed("n 1", "n 1")).unwrap_err();
            assert_eq!(refused, format!("it printed no number behind {asked}"));
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read(
            asked in ".{0,20}",
            text in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let printed = Printed {
                stdout: PrintedText { begin: text, ..PrintedText::default() },
                stderr: PrintedText::default(),
            };
            drop(number(&asked, &printed));
        }
    }
}
