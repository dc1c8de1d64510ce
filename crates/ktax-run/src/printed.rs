//! Reads numbers in the output of programs, and recognises benchmark suites by their output.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ktax_engine::wire::{Printed, PrintedText};
use ktax_model::Signature;
use regex::bytes::Regex;

/// Limit from which another digit could exceed the 63 bits of a signature's values.
const MAX_BEFORE_DIGIT: u64 = 1 << 59;

/// Requested numbers by name: the first match of each pattern in the standard output, else in the
/// standard error. The error is a message about the output.
pub(super) fn printed_numbers(
    patterns: &BTreeMap<String, String>,
    printed: &Printed,
) -> Result<Signature, String> {
    let number = |(name, pattern): (&String, &String)| -> Result<(String, u64), String> {
        Ok((name.clone(), printed_number(pattern, printed)?))
    };
    patterns.iter().map(number).collect()
}

/// Number at the first match of a pattern: a text before the number, or a regular expression.
fn printed_number(pattern: &str, printed: &Printed) -> Result<u64, String> {
    for PrintedText { begin, end, .. } in [&printed.stdout, &printed.stderr] {
        for text in [begin, end] {
            let number_index = match expression(pattern) {
                Some(expression) => index_of_group(&expression, text),
                None => index_after_text(pattern, text),
            };
            if let Some(index) = number_index {
                return whole_number(pattern, &text[index..]);
            }
        }
    }
    Err(format!("it printed no number behind {pattern}"))
}

/// Parses a pattern as a regular expression; `None` for a plain text. An expression has a group of
/// digits, such as `(\d+)` or `([0-9]+)`.
fn expression(pattern: &str) -> Option<Regex> {
    let has_digits = ["\\d", "[0-9", "[[:digit:]"].iter().any(|digits| pattern.contains(digits));
    let expression = Regex::new(&format!("(?m){pattern}")).ok().filter(|_| has_digits)?;
    (expression.captures_len() > 1).then_some(expression)
}

/// Index at which the first group of the first match begins.
fn index_of_group(expression: &Regex, text: &[u8]) -> Option<usize> {
    let groups = expression.captures(text)?;
    let group = groups.iter().skip(1).flatten().next()?;
    Some(group.start())
}

/// Index of the number after a plain text, blanks, tabs, `:` and `=`.
fn index_after_text(pattern: &str, text: &[u8]) -> Option<usize> {
    let pattern = pattern.as_bytes();
    let position = text.windows(pattern.len().max(1)).position(|window| window == pattern)?;
    let end = position + pattern.len();
    let is_separator = |byte: &&u8| b" \t:=".contains(byte);
    let begin = end + text[end..].iter().take_while(is_separator).count();
    text.get(begin).is_some_and(u8::is_ascii_digit).then_some(begin)
}

/// Whole number at the beginning of a text; an error if the number has more than plain digits.
fn whole_number(pattern: &str, text: &[u8]) -> Result<u64, String> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut number: u64 = 0;
    for digit in &text[..digits] {
        if number >= MAX_BEFORE_DIGIT {
            return Err(format!("it printed too large a number behind {pattern}"));
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    match digits == 0 || is_continued(&text[digits..]) {
        true => Err(format!("it printed no whole number of plain digits behind {pattern}")),
        false => Ok(number),
    }
}

/// Returns true if a number continues after its first digits, as in 1,024 and 0.25, 2e+9, 0x1f, 12k
/// and 1'024.
fn is_continued(text: &[u8]) -> bool {
    let is_digit = |index: usize| text.get(index).is_some_and(u8::is_ascii_digit);
    match text.first() {
        Some(b'x' | b'X' | b'k' | b'K' | b'M' | b'G' | b'T' | 0x80..) => true,
        // Exactly three digits. A list such as 0,1024,0 has separate numbers after its commas.
        Some(b',' | b'\'' | b'_') => (1..4).all(is_digit) && !is_digit(4),
        Some(b'.') => is_digit(1),
        Some(b'e' | b'E') => is_digit(1 + usize::from(matches!(text.get(1), Some(b'+' | b'-')))),
        _ => false,
    }
}

/// A benchmark suite that prints its number of operations.
struct Suite {
    name: &'static str,
    /// Text by which the suite is recognised.
    marker: Regex,
    /// Numbers of operations, in the first group of each match; they are added up.
    operations: Regex,
}

fn suite_expression(text: &str) -> Regex {
    Regex::new(text).expect("a test compiles every expression")
}

static SUITES: LazyLock<[Suite; 3]> = LazyLock::new(|| {
    [
        // Each parallel copy prints a line.
        Suite {
            name: "unixbench",
            marker: suite_expression(r"(?m)^COUNT\|\d+\|\d+\|\w+\s*$"),
            operations: suite_expression(r"(?m)^COUNT\|(\d+)\|\d+\|\w+\s*$"),
        },
        // It prints a line for each second.
        Suite {
            name: "will-it-scale",
            marker: suite_expression(r"(?m)^testcase:.+$"),
            operations: suite_expression(r"(?m)^min:\d+ max:\d+ total:(\d+)\s*$"),
        },
        // It prints a line for each stressor.
        Suite {
            name: "stress-ng",
            marker: suite_expression(r"(?m)^stress-ng: \w+:\s+\[\d+\] stressor\s+bogo ops"),
            operations: suite_expression(
                r"(?m)^stress-ng: \w+:\s+\[\d+\] [a-z0-9_-]+\s+(\d+)\s+\d+\.\d+\s+\d+\.\d+\s",
            ),
        },
    ]
});

/// Suite that printed this, and its number of operations; `None` for other programs.
pub(super) fn recognised_suite(printed: &Printed) -> Option<(&'static str, u64)> {
    let texts = [printed.stdout.text(), printed.stderr.text()];
    SUITES.iter().find_map(|suite| {
        let has_marker = |text: &&Vec<u8>| suite.marker.is_match(text);
        let text = texts.iter().find(has_marker)?;
        let numbers = suite.operations.captures_iter(text).filter_map(|groups| {
            std::str::from_utf8(groups.get(1)?.as_bytes()).ok()?.parse::<u64>().ok()
        });
        let sum = numbers.fold(0, u64::saturating_add);
        (sum > 0).then_some((suite.name, sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(stdout: &str, stderr: &str) -> Printed {
        let text = |text: &str| PrintedText { begin: text.into(), ..PrintedText::default() };
        Printed { stdout: text(stdout), stderr: text(stderr) }
    }

    #[test]
    fn a_number_follows_a_text_or_is_a_group_of_an_expression() {
        for (pattern, stdout, stderr, expected) in [
            ("operations", "operations: 40, rows = 7\n", "", 40),
            ("rows", "operations: 40, rows = 7\n", "", 7),
            ("COUNT|", "", "COUNT|29616|1|lps\n", 29_616),
            (r"^COUNT\|(\d+)\|", "x\n", "y\nCOUNT|29616|1|lps\n", 29_616),
            ("done ([0-9]+) of", "done 12 of 40", "", 12),
            (r"(?:a|b)=(\d+)", "b=3 a=4", "", 3),
            // Brackets without digits are plain characters.
            ("Total operations (all)", "Total operations (all): 9\n", "", 9),
            ("a.b", "axb 1\na.b 2\n", "", 2),
            ("issued rwts: total=0,", "issued rwts: total=0,1024,0,0", "", 1024),
            // The standard output is searched first.
            ("n", "n 1", "n 2", 1),
        ] {
            assert_eq!(
                printed_number(pattern, &printed(stdout, stderr)),
                Ok(expected),
                "{pattern}"
            );
        }
    }

    #[test]
    fn numbers_that_are_not_whole_are_refused() {
        for text in ["n 1,024", "n 0.25", "n 2e9", "n 2e+9", "n 0x1f", "n 12k", "n 1'024"] {
            let refused = printed_number("n", &printed(text, "")).unwrap_err();
            assert!(refused.contains("no whole number of plain digits"), "{text}: {refused}");
            let refused = printed_number(r"n (\d+)", &printed(text, "")).unwrap_err();
            assert!(refused.contains("no whole number of plain digits"), "{text}: {refused}");
        }
        let refused = printed_number("n", &printed("n 99999999999999999999", "")).unwrap_err();
        assert!(refused.contains("too large"), "{refused}");
        for pattern in ["m", r"m (\d+)"] {
            let refused = printed_number(pattern, &printed("n 1", "n 1")).unwrap_err();
            assert_eq!(refused, format!("it printed no number behind {pattern}"));
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read_without_a_panic(
            pattern in ".{0,20}",
            text in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let printed = Printed {
                stdout: PrintedText { begin: text, ..PrintedText::default() },
                stderr: PrintedText::default(),
            };
            drop(printed_number(&pattern, &printed));
        }
    }

    #[test]
    fn suites_are_recognised_by_their_output() {
        let on_stderr = |text: &str| {
            let stderr = PrintedText { begin: text.into(), ..PrintedText::default() };
            recognised_suite(&Printed { stderr, ..Printed::default() })
        };
        assert_eq!(on_stderr("COUNT|29616|1|lps\n"), Some(("unixbench", 29_616)));
        assert_eq!(on_stderr("COUNT|10|1|lps\nCOUNT|7|1|lps\n"), Some(("unixbench", 17)));
        assert_eq!(
            on_stderr(
                "testcase:getppid()\nwarmup\nmin:900 max:900 total:900\nmeasurement\n\
                 min:1000 max:1000 total:1000\naverage:1000\n"
            ),
            Some(("will-it-scale", 1900))
        );
        assert_eq!(
            on_stderr(
                "stress-ng: info:  [7] dispatching hogs: 1 getdent\n\
                 stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   \
                 bogo ops/s     bogo ops/s\n\
                 stress-ng: metrc: [7]                           (secs)    (secs)    (secs)   \
                 (real time) (usr+sys time)\n\
                 stress-ng: metrc: [7] getdent             200      0.02      0.01      0.01     \
                 9876.54       10000.00\n"
            ),
            Some(("stress-ng", 200))
        );
        for other in ["COUNT|x|1|lps\n", "min:1 max:1 total:1\n", "200 0.02 0.01\n", ""] {
            assert_eq!(on_stderr(other), None, "{other}");
        }
    }
}
